"""Tensor-core kernels against cuBLAS: `tensor_versus.py draw BATCH`, `gemmsim measure --batch BATCH --against cublas`,
`tensor_versus.py show ROWS`.

draw: for each shape of the bars the fastest wgmma configurations of the campaign (wgmma_bf16.csv.gz) and a few found by
hand, and 20 of Triton; at 4096 and 8192 cubed fp8 and tf32; mma at 4096 cubed. show: the fastest of each against
cuBLAS, each timed in turn with it, and the geometric means. The picks come from another run, on another machine, than
the times.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from verbs import run

from gemmsim import families
from gemmsim.config import config_key
from gemmsim.measured import read_measured
from gemmsim.rows import Table, read_csv, write_csv

HERE = Path(__file__).resolve().parent
Shape = tuple[int, int, int]
LARGE: tuple[Shape, ...] = (
    (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 4096, 4096), (2048, 11008, 4096),
    (2048, 4096, 11008), (4096, 14336, 4096), (4096, 4096, 14336), (1536, 1536, 4096), (4097, 4096, 4096),
)  # fmt: skip
SMALL: tuple[Shape, ...] = (
    (512, 6144, 4096), (1024, 1024, 1024), (256, 4096, 14336), (128, 11008, 4096), (64, 4096, 4096), (16, 11008, 4096),
)  # fmt: skip
CUBES: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192))
FIRST = 4  # of a shape in the campaign


def wgmma(bm: int, bn: int, bk: int, stages: int, **more: int) -> dict[str, int]:
    """A configuration, what is not said as one block with two consumers has it."""
    return {"bm": bm, "bn": bn, "bk": bk, "stages": stages, "cluster_m": 1, **more}


PAIR = {"cluster_m": 2}
ACROSS = {"cluster_n": 2}
#: of large shapes
USUAL = (
    wgmma(128, 256, 64, 4), wgmma(128, 256, 64, 4, **PAIR), wgmma(128, 256, 64, 4, **PAIR, group_m=16),
    wgmma(128, 256, 64, 4, group_m=16), wgmma(256, 128, 64, 4, **ACROSS), wgmma(256, 128, 64, 4, **ACROSS, swap=1),
    wgmma(128, 192, 64, 4, **PAIR, pingpong=1),
)  # fmt: skip
FOUND: dict[Shape, tuple[dict[str, int], ...]] = {
    (2048, 11008, 4096): (wgmma(128, 192, 64, 4, **PAIR, pingpong=1, stream_k=1),
                          wgmma(176, 128, 64, 5, **PAIR, swap=1, pingpong=1)),
    (1536, 1536, 4096): (wgmma(144, 128, 64, 5, **ACROSS, swap=1),),
    (512, 6144, 4096): (wgmma(128, 192, 64, 4), wgmma(128, 192, 64, 4, **PAIR)),
    (1024, 1024, 1024): (wgmma(64, 128, 64, 8, swap=1), wgmma(64, 128, 64, 8, consumers=1),
                         wgmma(64, 128, 128, 4, swap=1)),
    (256, 4096, 14336): (wgmma(128, 128, 64, 6, **PAIR, split_k=2), wgmma(128, 128, 64, 6, **PAIR, split_k=2, swap=1)),
    (128, 11008, 4096): (wgmma(128, 96, 64, 6, cluster_n=4), wgmma(128, 128, 64, 5, swap=1)),
    (64, 4096, 4096): (wgmma(32, 64, 128, 9, **PAIR, consumers=1, swap=1), wgmma(64, 64, 64, 12, consumers=1)),
    (16, 11008, 4096): (wgmma(16, 128, 64, 5, swap=1, blocks=2), wgmma(24, 64, 128, 8, swap=1, pingpong=1)),
}  # fmt: skip
#: bm, bn, bk, num_warps, num_stages
TRITON = (
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4), (128, 128, 64, 4, 4),
    (128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 128, 8, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4),
    (64, 256, 64, 4, 4), (256, 64, 64, 4, 4), (64, 64, 64, 4, 5), (64, 64, 128, 4, 4), (128, 64, 128, 4, 3),
    (64, 128, 128, 4, 3), (32, 64, 128, 4, 4), (16, 64, 128, 4, 5), (16, 128, 128, 4, 4), (128, 32, 64, 4, 5),
)  # fmt: skip
MMA = ({"bm": 256, "bn": 128, "bk": 32, "stages": 5}, {"bm": 128, "bn": 256, "bk": 64, "stages": 4})


def row(family: str, dtype: str, shape: Shape, config: dict[str, int], **more: str) -> dict[str, Any]:
    """A row of the batch."""
    m, n, k = shape
    full = {p.name: p.default for p in families.family(family).PARAMETERS} | config
    return {"family": family, "dtype": dtype, "m": m, "n": n, "k": k, "layout": "NN", "epilogue": "", **more} | full


def rows(measured: str) -> Iterator[dict[str, Any]]:
    """All of the batch."""
    found = read_measured(measured)
    p = found.problem
    for shape in (*LARGE, *SMALL):
        here = np.flatnonzero((p.m == shape[0]) & (p.n == shape[1]) & (p.k == shape[2]))
        best = [found.config.row(int(i)) for i in here[np.argsort(found.time_s[here])][:FIRST]]
        for config in (*best, *(USUAL if shape in LARGE else ()), *FOUND.get(shape, ())):
            yield row("wgmma", "bf16", shape, config)
        for bm, bn, bk, warps, stages in TRITON:
            tile = {"bm": bm, "bn": bn, "bk": bk, "num_warps": warps, "num_stages": stages}
            yield row("triton", "bf16", shape, tile)
    yield from (row("mma", "bf16", CUBES[0], c) for c in MMA)
    for shape in CUBES:
        for dtype, bk in (("fp8", 128), ("tf32", 32)):
            yield from (row("wgmma", dtype, shape, c | {"bk": bk}, layout="NT") for c in USUAL)


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure; what is in it twice once."""
    every = list({tuple(one.items()): one for one in rows(args.measured)}.values())
    names = list(dict.fromkeys(name for one in every for name in one))
    write_csv(args.out, {name: [str(one.get(name, "")) for one in every] for name in names})
    print(f"{args.out}: {len(every)} rows")


def key(table: Table, i: int) -> str:
    """The configuration of a row."""
    names = [p.name for p in families.family(table.text("family")[i]).PARAMETERS]
    return config_key({name: int(table.text(name)[i]) for name in names})


def fastest(table: Table, shape: Shape, **wanted: str) -> int | None:
    """The row of that shape and kind whose time is the shortest share of cuBLAS's beside it."""
    sizes = np.stack([table.whole(d) for d in "mnk"], 1)
    right = (sizes == shape).all(1) & np.asarray([s == "ok" for s in table.text("status")])
    for name, value in wanted.items():
        right &= np.asarray([x == value for x in table.text(name)])
    here = np.flatnonzero(right)
    return int(here[np.argmax(table.number("ratio")[here])]) if len(here) else None


def line(table: Table, shape: Shape, name: str, **wanted: str) -> float:
    """Print the fastest of a kind; its ratio."""
    i = fastest(table, shape, epilogue="", **wanted)
    if i is None:
        return float("nan")
    work, ratio = 2e-12 * float(np.prod(shape)), float(table.number("ratio")[i])
    mine, other = (work / table.number(column)[i] for column in ("time_s", "cublas_time_s"))
    t = fastest(table, shape, family="triton")
    triton = f"{table.number('ratio')[t]:.3f}" if t is not None and wanted.get("dtype") == "bf16" else ""
    size = "x".join(map(str, shape))
    print(f"| {name}{size} | {mine:.0f} | {other:.0f} | {ratio:.3f} | {triton} | {key(table, i)} |")
    return ratio


def show(args: argparse.Namespace) -> None:
    """Print the fastest of each shape and the means."""
    table = read_csv(args.rows)
    print("| shape | TFLOP/s | cuBLAS | ratio | Triton's | configuration |\n|---|---|---|---|---|---|")
    for shapes in (LARGE, SMALL):
        ratios = [line(table, shape, "", family="wgmma", dtype="bf16") for shape in shapes]
        others = [table.number("ratio")[i] for s in shapes if (i := fastest(table, s, family="triton")) is not None]
        means = [np.exp(np.nanmean(np.log(x))) for x in (ratios, others)]
        print(f"| geomean of {len(ratios)} | | | {means[0]:.3f} | {means[1]:.3f} | least {np.nanmin(ratios):.3f} |")
    for shape in CUBES:
        line(table, shape, "fp8 ", family="wgmma", dtype="fp8")
        line(table, shape, "tf32 ", family="wgmma", dtype="tf32")
    line(table, CUBES[0], "mma ", family="mma", dtype="bf16")


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measured", default=str(HERE / "wgmma_bf16.csv.gz"))


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_drawing)
