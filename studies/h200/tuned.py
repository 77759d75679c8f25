"""`gemmsim tune` on the shapes of a campaign: `tuned.py draw SHAPES`, `gemmsim tune --shapes`, `tuned.py show ROWS`.

draw: the shapes of the campaign's rows, one a line. show: what tuning found of each shape, timed in turn, beside the
fastest row of the campaign, which was measured at another time on another machine: differences under 1 % say nothing.
`--trials` adds how far from the best of both the search was after so many trials, in the order they were measured in.
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
TRIALS, NEAR = 30, 0.01
OTHERS = ("default", "first_pick", "cublas")


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
    gains = [table.number(f"{name}_time_s", blank_ok=True) / time_s for name in OTHERS]
    print("| shape | tuned, us | best recorded | default | first pick | cuBLAS | s |\n|---|---|---|---|---|---|---|")
    for i, shape in enumerate(shapes):
        ratios = " | ".join(_ratio(column[i]) for column in (over, *gains))
        print(f"| {'x'.join(map(str, shape))} | {1e6 * time_s[i]:.2f} | {ratios} | {wall_s[i]:.1f} |")
    means = " | ".join(_ratio(_geomean(column)) for column in (over, *gains))
    print(f"| {len(shapes)}, geomean | | {means} | {wall_s.sum():.0f} |")
    print(f"least of best recorded over tuned: {np.nanmin(over):.3f}; within 1 %: {np.sum(over >= 0.99)} of "
          f"{np.sum(np.isfinite(over))}")  # fmt: skip

    if args.trials:
        show_trials(args.trials, recorded)


def show_trials(path: str, recorded: dict[tuple[int, ...], float]) -> None:
    """Print mean regret against trials, and the trials it takes to come within 1 %."""
    table = read_csv(path)
    alone = np.flatnonzero(np.asarray(table.columns["against"]) == "")
    time_s, sizes = table.number("time_s"), np.stack([table.whole(d) for d in "mnk"], 1)
    curves = []
    for shape in dict.fromkeys(map(tuple, sizes.tolist())):
        found = np.minimum.accumulate(time_s[[i for i in alone if tuple(sizes[i]) == shape]])
        curves.append(found[:TRIALS] / min(found[-1], recorded.get(shape, np.inf)) - 1)
    curve = np.stack(curves)
    first = np.where((curve <= NEAR).any(1), (curve <= NEAR).argmax(1) + 1, TRIALS + 1)
    means = ", ".join(f"{curve[:, n - 1].mean():.2%} after {n}" for n in (5, 10, 20, TRIALS))
    print(f"mean regret {means} trials; trials to 1 %: median {np.median(first):.0f}, 90th percentile "
          f"{np.quantile(first, 0.9, method='higher'):.0f}")  # fmt: skip


def _ratio(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else ""


def _geomean(values: FloatArray) -> float:
    return float(np.exp(np.nanmean(np.log(values))))


def _measured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measured", nargs="+", default=[str(HERE / "simt_fp32.csv.gz")])


def _shown(parser: argparse.ArgumentParser) -> None:
    _measured(parser)
    parser.add_argument("--trials", metavar="ROWS", help="the rows of the trials")


if __name__ == "__main__":
    run(__doc__, draw, show, drawing=_measured, showing=_shown)
