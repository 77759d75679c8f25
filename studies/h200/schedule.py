"""Waves of the closed form against blocks placed one by one, on measured rows: `python studies/h200/schedule.py`.

Prints, in Markdown, for classes of rows the mean absolute error of the solver's time, of the schedule's makespan (and
its bias, the median of predicted / measured - 1), of the same schedule with memory shared moment by moment (while few
blocks run, few bytes are asked for), and of the schedule with the DRAM bytes that gemmsim.simulate.cache walks. Then,
of launches that share tiles out along K, how often and by how much each picks the wrong way. Shipped calibrations,
compiler facts. Takes some minutes; `--sample N` looks at N rows of each family drawn at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gemmsim.cli.tables import progress
from gemmsim.measured import Measured, groups, joined, read_measured
from gemmsim.model import solver
from gemmsim.model.geometry import useful_share
from gemmsim.model.pnorm import soft_max
from gemmsim.model.predict import Prediction, predict
from gemmsim.simulate.launch import asked, walked
from gemmsim.simulate.schedule import Schedule, schedule, solved
from gemmsim.simulate.splits import WAYS

HERE = Path(__file__).resolve().parent
FILES = {
    "simt": ("simt_fp32",),
    "triton": ("triton_bf16", "triton_bf16_uniform", "triton_bf16_more"),
}
#: all that is no SM's time
BESIDE = frozenset({"l2", "dram", "writeback", "power", "launch", "split"})
#: fewer results than this make a small tile; more than this of the SMs' time without a block, of the tiles outside C
SMALL, TAIL = 64 * 64, 0.2


def moment_by_moment(p: Prediction, row: int, s: Schedule) -> float:
    """The makespan if L2 and DRAM limit each stretch of the timeline by what the blocks in it ask for, s."""
    x, d = solved(p, row)
    sm_s = float(solver.total_s(x, d, np.full(1, s.busiest_clk), BESIDE)[0])
    together_s = float(solver.total_s(x, d, np.full(1, s.busiest_clk), frozenset({"power", "launch"}))[0]) - s.second_s
    bounds, place = np.unique(np.concatenate([s.start_s, s.end_s]), return_inverse=True)
    rate = np.zeros(len(bounds))
    asked = s.steps / s.steps.sum() / (s.end_s - s.start_s)
    np.add.at(rate, place, np.concatenate([asked, -asked]))
    lasts = np.diff(bounds)
    share = np.maximum(np.cumsum(rate)[:-1] * lasts, 0)
    l2_s = float(np.max(d.l2_weighted_bytes + d.workspace_bytes)) / d.l2_bytes_per_s
    dram_s = float(np.max(d.dram_read_bytes + d.dram_write_bytes + d.writeback_bytes)) / d.dram_bytes_per_s
    sharp = x.c["memory_sharpness_lone" if x.blocks_per_sm[0] <= 1 else "memory_sharpness"]
    parts = soft_max(np.full(1, sharp), sm_s * lasts / lasts.sum(), l2_s * share, dram_s * share)
    beside_s = s.launch_s + s.second_s
    return (s.makespan_s - beside_s) * float(parts.sum()) / together_s + beside_s


def looked_at(rows: Measured, name: str) -> tuple[np.ndarray, ...]:
    """Times by the solver, the schedule, the schedule moment by moment, and with bytes walked; waves, idle share; which
    are simulated.
    """
    q = rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.dtype, family=name, config=rows.config, facts=rows.facts,
                l2=rows.l2)  # fmt: skip
    found = []
    with progress(len(p), f"{name} rows") as step:
        for row in range(len(p)):
            s = schedule(p, row)
            local = moment_by_moment(p, row, s) if s.simulated else s.makespan_s
            walk, _ = walked(p, row)
            bytes_s = schedule(p, row, traffic=asked(*walk)).makespan_s if walk else s.makespan_s
            found.append((s.closed_form_s, s.makespan_s, local, bytes_s, s.waves, s.idle_share, s.simulated))
            step(1)
    return tuple(np.asarray(found, np.float64).T)


def classes(rows: Measured, waves: np.ndarray, idle: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Rows without spills by what a schedule could matter for."""
    plain, config = ~rows.spills, rows.config
    yield "all", plain
    yield "one wave", plain & (waves == 1)
    yield "two waves", plain & (waves == 2)
    yield "3 or 4 waves", plain & (waves > 2) & (waves < 5)
    yield "more waves", plain & (waves > 4)
    yield "SMs idle over 20 %", plain & (idle > TAIL)
    q = rows.problem
    outside = 1 - useful_share(q.m, q.n, config["bm"], config["bn"])
    yield "over 20 % of the tiles' area outside C", plain & (outside > TAIL)
    yield "tiles under 64 x 64", plain & (config["bm"] * config["bn"] < SMALL)
    yield "row by row, N of 8192 and more", plain & (config["group_m"] == 1) & (q.n >= 8192)
    if "split_k" in config.values:
        split, tail, stream = (config[way] > least for way, least in zip(WAYS, (1, 0, 0), strict=True))
        yield "whole tiles", plain & ~split & ~stream
        yield "split-K", plain & split & ~tail
        yield "split-K of the tail", plain & split & tail
        yield "stream-K", plain & stream


def ways_picked(rows: Measured, times: dict[str, np.ndarray]) -> Iterator[str]:
    """Launches that differ in their way along K alone: how often each time picks the fastest, and what it loses."""
    kept = [column for name, column in rows.config.values.items() if name not in WAYS]
    group = groups([rows.problem.m, rows.problem.n, rows.problem.k, *kept])
    several = [np.flatnonzero(group == g) for g in np.flatnonzero(np.bincount(group) > 1)]
    count = sum(map(len, several))
    yield f"\n{len(several)} groups of launches that differ in their way along K alone ({count} rows)\n"
    yield "| time | picks the fastest | loses on average | at worst |\n|---|---|---|---|"
    for name, time_s in times.items():
        lost = np.asarray([rows.time_s[g[np.argmin(time_s[g])]] / rows.time_s[g].min() - 1 for g in several])
        yield f"| {name} | {np.mean(lost == 0):.1%} | {lost.mean():.2%} | {lost.max():.1%} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="look at N rows of each family")
    sample = parser.parse_args().sample
    for name, files in FILES.items():
        rows = joined([read_measured(str(HERE / f"{file}.csv.gz")) for file in files])
        if sample and sample < len(rows):
            rows = rows.take(np.sort(np.random.default_rng(0).choice(len(rows), sample, replace=False)))
        closed, makespan, local, walks, waves, idle, simulated = looked_at(rows, name)
        print(f"\n{name}, {rows.gpu.name}: {len(rows)} rows, {int(simulated.sum())} of them simulated\n")
        heads = ("closed form", "schedule", "its bias", "memory moment by moment", "bytes walked")
        print(f"| rows without spills | rows | {' | '.join(heads)} |")
        print("|---|---|---|---|---|---|---|")
        for what, mask in classes(rows, waves, idle):
            ours, theirs, moment, walk = (
                f"{np.abs(t / rows.time_s - 1)[mask].mean():.2%}" for t in (makespan, closed, local, walks)
            )
            bias = np.median((makespan / rows.time_s - 1)[mask])
            print(f"| {what} | {int(mask.sum())} | {theirs} | {ours} | {bias:+.2%} | {moment} | {walk} |", flush=True)
        if "split_k" in rows.config.values:
            print("\n".join(ways_picked(rows, {"closed form": closed, "schedule": makespan})), flush=True)


if __name__ == "__main__":
    main()
