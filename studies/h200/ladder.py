"""The ladder of kernels, fp32 on CUDA cores, then bf16 on tensor cores: `ladder.py draw BATCH`, `gemmsim measure
--against cublas`, `ladder.py show ROWS ...`.

draw: every stage at 1024, 4096 and 8192 cubed and three shapes of Llama-2-7B; `--dtype` one type's alone. show: a table
of TFLOP/s and the share of cuBLAS' time in the same type, interleaved sample by sample; `--picture FILE.svg` draws it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from verbs import run

from gemmsim import families
from gemmsim.rows import Table, read_csv, write_csv

SHAPES = (
    (1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192),
    (2048, 4096, 4096), (2048, 11008, 4096), (2048, 4096, 11008),
)  # fmt: skip
#: 0.3 s a launch at 4096 cubed: not at every size
SLOW = {"naive, uncoalesced": ((1024, 1024, 1024), (4096, 4096, 4096))}
WARP = {"bm": 64, "bn": 128, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "regs": 0, "group_m": 8}
WIDE = {"bm": 64, "bn": 256, "bk": 8, "wm": 32, "wn": 128, "tm": 8, "tn": 16, "regs": 232, "group_m": 8}
LAST = {"bm": 96, "bn": 128, "bk": 16, "wm": 48, "wn": 64, "tm": 12, "tn": 8, "blocks": 3, "regs": 0, "group_m": 8}
PAIR = {"bm": 128, "bn": 256, "bk": 64, "stages": 4}
#: stage -> family, its parameters, the share of cuBLAS that is often quoted for it; those on tensor cores are bf16
STAGES: Mapping[str, tuple[str, Mapping[str, int], str]] = {
    "naive, uncoalesced": ("naive", {"bm": 32, "bn": 32, "bk": 8, "coalesced": 0}, ""),
    "naive, coalesced": ("naive", {"bm": 32, "bn": 32, "bk": 8, "coalesced": 1}, "2"),
    "shared-memory tile": ("smem_tile", {"bm": 32, "bn": 32, "bk": 32, "pad": 1}, "25"),
    "register tile": ("register_tile", {"bm": 128, "bn": 128, "bk": 16, "tm": 8, "tn": 8}, "65"),
    "warp tile, one buffer": ("simt", WARP | {"bk": 8, "stages": 1, "async_copy": 0, "blocks": 4}, "80"),
    "double buffer, cp.async": ("simt", WARP | {"bk": 16, "stages": 2, "blocks": 3}, ""),
    "three buffers, 8x16 a thread": ("simt", WIDE | {"stages": 3}, ""),
    "stream-K, 12x8 a thread": ("simt", LAST | {"stages": 3, "order": 0, "stream_k": 1}, ""),
    "wmma": ("wmma", {}, ""),
    "mma.sync, cp.async, swizzled": ("mma", {"bm": 256, "bn": 128, "bk": 32, "stages": 5}, ""),
    "wgmma and TMA, 64x128, one consumer": ("wgmma", {"bm": 64, "bn": 128, "consumers": 1, "cluster_m": 1}, ""),
    "128x256, two consumers": ("wgmma", PAIR | {"cluster_m": 1}, ""),
    "clusters of two, multicast": ("wgmma", PAIR | {"cluster_m": 2}, ""),
    "consumers take turns, 128x192": ("wgmma", PAIR | {"bn": 192, "cluster_m": 2, "pingpong": 1}, ""),
}
TENSOR = ("wmma", "mma", "wgmma")
LEFT = 0.1  # TFLOP/s, where the axis begins
Row = dict[str, object]


def dtype_of(family: str) -> str:
    """The type of a stage."""
    return "bf16" if family in TENSOR else "fp32"


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure."""
    rows: list[Row] = [
        {"stage": stage, "family": family, "dtype": dtype_of(family), "m": m, "n": n, "k": k}
        | families.config(family, config).row(0)
        for m, n, k in SHAPES
        for stage, (family, config, _) in STAGES.items()
        if (m, n, k) in SLOW.get(stage, SHAPES) and args.dtype in ("", dtype_of(family))
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_csv(args.out, {name: [str(row.get(name, "")) for row in rows] for name in names})
    print(f"{args.out}: {len(rows)} rows")


def table(rows: Table) -> list[Row]:
    """One entry a measured row: stage, shape, TFLOP/s, cuBLAS' TFLOP/s, share."""
    out: list[Row] = []
    stages, sizes = rows.text("stage"), np.stack([rows.whole(d) for d in "mnk"], 1)
    time_s, cublas_s = (rows.number(c, blank_ok=True) for c in ("time_s", "cublas_time_s"))
    for stage, size, own, other in zip(stages, sizes.tolist(), time_s, cublas_s, strict=True):
        work = 2.0 * np.prod(size) / 1e12
        shape = "x".join(map(str, size))
        dtype = dtype_of(STAGES[stage][0])
        share = {"tflops": work / own, "cublas": work / other, "share": other / own}
        out.append({"stage": stage, "shape": shape, "dtype": dtype} | share)
    return out


def show(args: argparse.Namespace) -> None:
    """Print the table and draw the picture."""
    rows = [row for path in (args.rows, *args.more) for row in table(read_csv(path))]
    shapes = list(dict.fromkeys(str(row["shape"]) for row in rows))
    print(f"| stage | often quoted | {' | '.join(shapes)} |\n|---|---|{'---|' * len(shapes)}")
    for stage, (_, _, quoted) in STAGES.items():
        cells = {str(r["shape"]): f"{r['tflops']:.1f} ({r['share']:.0%})" for r in rows if r["stage"] == stage}
        print(f"| {stage} | {quoted and quoted + ' %'} | {' | '.join(cells.get(s, '') for s in shapes)} |")
    for dtype in dict.fromkeys(str(r["dtype"]) for r in rows):
        every = [[float(str(r["cublas"])) for r in rows if (r["shape"], r["dtype"]) == (s, dtype)] for s in shapes]
        print(f"| cuBLAS {dtype} | 100 % | {' | '.join(f'{np.median(c):.1f}' for c in every)} |")
    if args.picture:
        chart(rows, args.shape).save(args.picture)


def chart(rows: list[Row], shape: str) -> Any:
    """Bars of one shape, each named with its TFLOP/s and share of cuBLAS."""
    import altair as alt

    here = [
        r | {"label": f"{float(str(r['tflops'])):.3g} TFLOP/s, {r['share']:.0%}"} for r in rows if r["shape"] == shape
    ]
    fastest = max(float(str(r["cublas"])) for r in here)
    base = alt.Chart(alt.Data(values=here)).encode(
        y=alt.Y("stage:N", sort=[str(r["stage"]) for r in here], title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X("tflops:Q", title="TFLOP/s", scale=alt.Scale(type="log", domain=[LEFT, 12 * fastest], nice=False),
                axis=alt.Axis(grid=False, values=[0.1, 1, 10, 100, 1000])),
    )  # fmt: skip
    colour = alt.Color("dtype:N", title=None, scale=alt.Scale(domain=["fp32", "bf16"], range=["#2f7ebc", "#d95f02"]))
    lines = base.mark_rule(strokeDash=[4, 3], opacity=0.6).encode(x="median(cublas):Q", y=alt.Y(), color=colour)
    bars = base.mark_bar().encode(color=colour, x2=alt.X2Datum(LEFT))
    text = base.mark_text(align="left", dx=6).encode(text="label:N")
    title = alt.Title(f"GEMM {shape} on an H200", subtitle="dashed: cuBLAS, interleaved, L2 cold_clean; log scale")
    return (lines + bars + text).properties(width=560, height=24 * len(here), title=title)


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", default="", choices=["", "fp32", "bf16"])


def _showing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("more", nargs="*", help="rows of further files")
    parser.add_argument("--picture")
    parser.add_argument("--shape", default="4096x4096x4096")


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_drawing, showing=_showing)
