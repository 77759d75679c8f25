"""simt against cuBLAS fp32: `versus.py draw BATCH`, `gemmsim measure --against cublas`, `versus.py show ROWS`.

draw: for each shape of the bar the fastest configurations of the campaign (simt_fp32.csv.gz), each with its products
written down row by row too. show: the fastest of each shape against cuBLAS, timed in turn with it, and the geometric
mean. The picks come from another run, on another machine, than the times.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from verbs import run

from gemmsim.config import config_key
from gemmsim.measured import read_measured
from gemmsim.rows import read_csv, write_csv

HERE = Path(__file__).resolve().parent
SHAPES = (
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 4096, 4096),
    (2048, 11008, 4096), (4096, 4096, 11008), (512, 6144, 4096), (1536, 1536, 4096), (4097, 4096, 4096),
    (128, 11008, 4096), (512, 512, 32768),
)  # fmt: skip
FIRST = 4  # of a shape


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure."""
    rows = read_measured(args.measured)
    p, found = rows.problem, []
    for m, n, k in SHAPES:
        here = np.flatnonzero((p.m == m) & (p.n == n) & (p.k == k))
        for i in here[np.argsort(rows.time_s[here])][:FIRST]:
            config = rows.config.row(int(i))
            found += [
                {"family": "simt", "dtype": "fp32", "m": m, "n": n, "k": k} | config | {"order": o} for o in (1, 0)
            ]
    write_csv(args.out, {name: [str(row[name]) for row in found] for name in found[0]})
    print(f"{args.out}: {len(found)} rows")


def show(args: argparse.Namespace) -> None:
    """Print the fastest of each shape and the mean."""
    table = read_csv(args.rows)
    sizes = np.stack([table.whole(d) for d in "mnk"], 1)
    time_s, cublas_s = table.number("time_s"), table.number("cublas_time_s")
    rows, ratios = read_measured(args.rows), []
    print("| shape | TFLOP/s | cuBLAS | ratio | configuration |\n|---|---|---|---|---|")
    for shape in dict.fromkeys(map(tuple, sizes.tolist())):
        here = np.flatnonzero((sizes == shape).all(1))
        best = int(here[np.argmin(time_s[here])])
        work = 2e-12 * float(np.prod(shape))
        ratios.append(cublas_s[best] / time_s[best])
        rates = f"{work / time_s[best]:.1f} | {work / cublas_s[best]:.1f} | {ratios[-1]:.3f}"
        print(f"| {'x'.join(map(str, shape))} | {rates} | {config_key(rows.config.row(best))} |")
    print(f"| geomean | | | {np.exp(np.log(ratios).mean()):.3f} | |")


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measured", default=str(HERE / "simt_fp32.csv.gz"))


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_drawing)
