"""What a fused bias and GELU costs: `fused.py draw BATCH [--family F]`, `gemmsim measure --batch BATCH --against
cublas`, `fused.py show ROWS`.

draw: fast configurations of the family (simt, wgmma), each plain and with the epilogue. show: of each shape the
configuration that is fastest fused, what it adds to its own plain time and to the fastest plain one, and cuBLAS with a
kernel for the epilogue. Where a launch was measured several times (`--again`, the files one below the other) its median
counts.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from verbs import run

from gemmsim.config import config_key
from gemmsim.families import family
from gemmsim.rows import read_csv, write_csv

EPILOGUE = "bias,gelu"
LARGE, FLAT, SHALLOW = (4096, 4096, 4096), (128, 11008, 4096), (4096, 4096, 1024)
NAMES = ("bm", "bn", "bk", "wm", "wn", "tm", "tn", "stages", "blocks", "regs")
TILES = (
    (64, 256, 8, 32, 128, 8, 16, 3, 1, 232), (64, 256, 8, 32, 128, 8, 16, 3, 1, 224),
    (64, 256, 8, 32, 128, 8, 16, 3, 1, 240), (64, 256, 16, 32, 128, 8, 16, 4, 1, 224),
    (64, 128, 16, 64, 32, 8, 8, 2, 3, 0), (64, 128, 16, 32, 64, 8, 8, 2, 3, 0), (64, 128, 16, 64, 32, 8, 8, 3, 3, 0),
    (64, 128, 16, 64, 32, 8, 8, 3, 4, 0), (128, 256, 16, 64, 64, 8, 16, 4, 1, 232),
    (128, 256, 16, 32, 128, 8, 16, 4, 1, 240), (128, 96, 16, 32, 96, 8, 12, 2, 2, 0),
    (96, 128, 16, 48, 64, 12, 8, 3, 3, 0), (64, 128, 8, 32, 64, 8, 8, 3, 4, 0),
)  # fmt: skip
#: split_k, split_tail, stream_k, for a large and for a flat result
WAYS = {LARGE: ((1, 0, 0), (1, 0, 1), (3, 1, 0)), FLAT: ((1, 0, 0), (1, 0, 1), (3, 0, 0))}
#: bm, bn, bk, stages, cluster_m, cluster_n, swap, pingpong
WGMMA_NAMES = ("bm", "bn", "bk", "stages", "cluster_m", "cluster_n", "swap", "pingpong")
WGMMA = (
    (128, 256, 64, 4, 2, 1, 0, 0), (128, 256, 64, 4, 1, 1, 0, 0), (256, 128, 64, 4, 1, 2, 0, 0),
    (256, 128, 64, 4, 1, 2, 1, 0), (128, 128, 64, 6, 2, 1, 0, 1),
)  # fmt: skip


def simt() -> Iterator[dict[str, Any]]:
    """Shapes and configurations."""
    for m, n, k in WAYS:
        for tile in TILES:
            for way in WAYS[m, n, k]:
                for order in (1, 0):
                    config = {"async_copy": 1, "vec": 4, "order": order, "group_m": 8}
                    split = dict(zip(("split_k", "split_tail", "stream_k"), way, strict=True))
                    yield {"m": m, "n": n, "k": k} | dict(zip(NAMES, tile, strict=True)) | config | split


def wgmma() -> Iterator[dict[str, Any]]:
    """Shapes and configurations."""
    for m, n, k in (LARGE, SHALLOW):
        for tile in WGMMA:
            for group_m in (8, 16):
                yield {"m": m, "n": n, "k": k} | dict(zip(WGMMA_NAMES, tile, strict=True)) | {"group_m": group_m}


DRAWN = {"simt": ("fp32", simt), "wgmma": ("bf16", wgmma)}


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure."""
    dtype, configurations = DRAWN[args.family]
    same = {"family": args.family, "dtype": dtype}
    rows = [same | {"epilogue": steps} | row for row in configurations() for steps in ("", EPILOGUE)]
    write_csv(args.out, {name: [str(row[name]) for row in rows] for name in rows[0]})
    print(f"{args.out}: {len(rows)} rows")


def show(args: argparse.Namespace) -> None:
    """Print a line a shape."""
    table = read_csv(args.rows)
    parameters = family(table.text("family")[0]).PARAMETERS
    columns = {p.name: table.whole(p.name, low=0) for p in parameters}
    sizes = np.stack([table.whole(d) for d in "mnk"], 1).tolist()
    times = np.stack([table.number("time_s"), table.number("cublas_time_s")], 1)
    rows: dict[tuple[int, ...], dict[str, dict[str, list[int]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for i, epilogue in enumerate(table.text("epilogue")):
        key = config_key({name: int(column[i]) for name, column in columns.items()})
        rows[tuple(sizes[i])][key][epilogue].append(i)
    print("| shape | fused | over its own plain | over the fastest plain | cuBLAS and a kernel | cuBLAS alone | by |")
    print("|---|---|---|---|---|---|---|")
    for shape, pairs in rows.items():
        found = {key: {steps: np.median(times[i], axis=0) for steps, i in of.items()} for key, of in pairs.items()}
        key = min(found, key=lambda name: found[name][EPILOGUE][0])
        (fused, fused_other), (plain, plain_other) = found[key][EPILOGUE], found[key][""]
        fastest = min(pair[""][0] for pair in found.values())
        over = f"{fused / plain - 1:+.1%} | {fused / fastest - 1:+.1%}"
        others = f"{fused_other * 1e3:.4f} ms | {plain_other * 1e3:.4f} ms"
        print(f"| {'x'.join(map(str, shape))} | {fused * 1e3:.4f} ms | {over} | {others} | {key} |")


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--family", choices=DRAWN, default="simt")


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_drawing)
