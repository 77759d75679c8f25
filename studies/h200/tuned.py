"""`gemmsim tune` on the shapes of a campaign: `tuned.py draw SHAPES`, `gemmsim tune --shapes`, `tuned.py show ROWS`.

draw: the shapes of the campaign's rows, one a line. show: what tuning found of each shape, timed in turn, beside the
fastest row of the campaign, which was measured at another time on another machine: differences under 1 % say nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from verbs import run

from gemmsim.measured import joined, read_measured
from gemmsim.problem import FloatArray
from gemmsim.rows import read_csv, write_csv

HERE = Path(__file__).resolve().parent
GAINS = ("default", "first_pick", "cublas")


def draw(args: argparse.Namespace) -> None:
    """Write the shapes to tune."""
    p = joined([read_measured(path) for path in args.measured]).problem
    shapes = dict.fromkeys(zip(p.m.tolist(), p.n.tolist(), p.k.tolist(), strict=True))
    write_csv(args.out, dict(zip("mnk", map(np.asarray, zip(*shapes, strict=True)), strict=True)))
    print(f"{args.out}: {len(shapes)} shapes")


def best_recorded(paths: list[str]) -> dict[tuple[int, ...], float]:
    """Shape -> time of its fastest row, s."""
    rows = joined([read_measured(path) for path in paths])
    p, found = rows.problem, dict[tuple[int, ...], float]()
    for m, n, k, time_s in zip(p.m.tolist(), p.n.tolist(), p.k.tolist(), rows.time_s.tolist(), strict=True):
        found[m, n, k] = min(time_s, found.get((m, n, k), np.inf))
    return found


def show(args: argparse.Namespace) -> None:
    """Print a line a shape, and geometric means."""
    table, recorded = read_csv(args.rows), best_recorded(args.measured)
    shapes = list(zip(*(table.whole(d).tolist() for d in "mnk"), strict=True))
    time_s, wall_s = table.number("time_s"), table.number("wall_s")
    over = np.asarray([recorded.get(shape, np.nan) for shape in shapes]) / time_s
    gains = [1 + table.number(f"gain_over_{name}") for name in GAINS]
    print("| shape | tuned, us | best recorded | default | first pick | cuBLAS | s |\n|---|---|---|---|---|---|---|")
    for i, shape in enumerate(shapes):
        ratios = " | ".join(_ratio(column[i]) for column in (over, *gains))
        print(f"| {'x'.join(map(str, shape))} | {1e6 * time_s[i]:.2f} | {ratios} | {wall_s[i]:.1f} |")
    means = " | ".join(_ratio(_geomean(column)) for column in (over, *gains))
    print(f"| {len(shapes)}, geomean | | {means} | {wall_s.sum():.0f} |")
    print(f"least of best recorded over tuned: {np.nanmin(over):.3f}; within 1 %: {np.sum(over >= 0.99)} of "
          f"{np.sum(np.isfinite(over))}")  # fmt: skip


def _ratio(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else ""


def _geomean(values: FloatArray) -> float:
    return float(np.exp(np.nanmean(np.log(values))))


def _measured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measured", nargs="+", default=[str(HERE / "simt_fp32.csv.gz")])


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_measured, showing=_measured)
