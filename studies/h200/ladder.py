"""The ladder of kernels, fp32 on CUDA cores, then bf16 on tensor cores: `ladder.py draw BATCH`, `gemmsim measure
--against cublas`, `ladder.py show ROWS ...`.

draw: every stage at 1024, 4096 and 8192 cubed and three shapes of Llama-2-7B; `--dtype` one type's alone. show: a table
of TFLOP/s and the share of cuBLAS' time in the same type, interleaved sample by sample. `gemmsim study run ladder`
draws these rows, predictions beside.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from verbs import run

from gemmsim import families
from gemmsim.rows import read_csv, write_csv
from gemmsim.study import find_study
from gemmsim.study.document import checked
from gemmsim.study.ladder import Document, LadderStudy, read
from gemmsim.yamlfile import read_yaml

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
#: stage -> family and its parameters; those on tensor cores are bf16. studies/ladder.yaml has their order
STAGES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "naive, uncoalesced": ("naive", {"bm": 32, "bn": 32, "bk": 8, "coalesced": 0}),
    "naive, coalesced": ("naive", {"bm": 32, "bn": 32, "bk": 8, "coalesced": 1}),
    "shared-memory tile": ("smem_tile", {"bm": 32, "bn": 32, "bk": 32, "pad": 1}),
    "register tile": ("register_tile", {"bm": 128, "bn": 128, "bk": 16, "tm": 8, "tn": 8}),
    "warp tile, one buffer": ("simt", WARP | {"bk": 8, "stages": 1, "async_copy": 0, "blocks": 4}),
    "double buffer, cp.async": ("simt", WARP | {"bk": 16, "stages": 2, "blocks": 3}),
    "three buffers, 8x16 a thread": ("simt", WIDE | {"stages": 3}),
    "stream-K, 12x8 a thread": ("simt", LAST | {"stages": 3, "order": 0, "stream_k": 1}),
    "wmma": ("wmma", {}),
    "mma.sync, cp.async, swizzled": ("mma", {"bm": 256, "bn": 128, "bk": 32, "stages": 5}),
    "wgmma and TMA, 64x128, one consumer": ("wgmma", {"bm": 64, "bn": 128, "consumers": 1, "cluster_m": 1}),
    "128x256, two consumers": ("wgmma", PAIR | {"cluster_m": 1}),
    "clusters of two, multicast": ("wgmma", PAIR | {"cluster_m": 2}),
    "consumers take turns, 128x192": ("wgmma", PAIR | {"bn": 192, "cluster_m": 2, "pingpong": 1}),
}
TENSOR = ("wmma", "mma", "wgmma")
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
        for stage, (family, config) in STAGES.items()
        if (m, n, k) in SLOW.get(stage, SHAPES) and args.dtype in ("", dtype_of(family))
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_csv(args.out, {name: [str(row.get(name, "")) for row in rows] for name in names})
    print(f"{args.out}: {len(rows)} rows")


def show(args: argparse.Namespace) -> None:
    """Print the table."""
    study = asked([args.rows, *args.more])
    rows = study.timed
    shapes = list(dict.fromkeys(t.shape for t in rows))
    print(f"| stage | often quoted | {' | '.join(map(_short, shapes))} |\n|---|---|{'---|' * len(shapes)}")
    for stage in study.stages:
        cells = {
            t.shape: f"{t.flops / t.time_s / 1e12:.1f} ({t.library_s / t.time_s:.0%})" for t in rows if t.stage == stage
        }
        quoted = f"{study.quoted[stage]:.0%}".replace("%", " %") if stage in study.quoted else ""
        print(f"| {stage} | {quoted} | {' | '.join(cells.get(s, '') for s in shapes)} |")
    for dtype in dict.fromkeys(t.dtype for t in rows):
        every = [[t.flops / t.library_s / 1e12 for t in rows if (t.shape, t.dtype) == (s, dtype)] for s in shapes]
        print(f"| cuBLAS {dtype} | 100 % | {' | '.join(f'{np.median(c):.1f}' for c in every)} |")


def asked(files: Sequence[str]) -> LadderStudy:
    """studies/ladder.yaml of these rows."""
    path = find_study("ladder")
    document = checked(path, read_yaml(path), Document)
    there = {stage for file in files for stage in read_csv(file).text("stage")}
    rows = {"rows": [str(Path(file).resolve()) for file in files]}
    stages = {"stages": [stage for stage in document.stages or () if stage in there]}
    quoted = {"quoted": {stage: share for stage, share in document.quoted.items() if stage in there}}
    return read(path, document.model_copy(update=rows | stages | quoted))


def _short(shape: str) -> str:
    return shape.replace(" ", "")


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", default="", choices=["", "fp32", "bf16"])


def _showing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("more", nargs="*", help="rows of further files")


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_drawing, showing=_showing)
