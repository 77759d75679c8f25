"""The tables of a study of raster orders: what the best group_m buys, how far both models are off, every launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gemmsim.report.numbers import Column, Table, table
from gemmsim.study.orders import QUOTED, Launch, Sweep

_GAINS = (
    Column("problem", "problem"),
    Column("tile", "tile"),
    Column("group_m", "best group_m"),
    Column("reads_fewer", "DRAM reads, fewer", "x"),
    Column("simulated_fewer", "simulated", "x"),
    Column("time_gain", "faster", "1"),
    Column("clocks_gain", "in SM clocks", "1"),
    Column("clock_gain", "clock higher", "1"),
    Column("predicted_gain", "predicted", "1"),
    Column("predicted_group_m", "predicted best"),
    Column("regret", "which loses", "1"),
)
_LAUNCH = (
    Column("problem", "problem"),
    Column("tile", "tile"),
    Column("group_m", "group_m"),
    Column("read_bytes", "DRAM read, counted", "MB"),
    Column("simulated_read_bytes", "simulator", "MB"),
    Column("closed_read_bytes", "closed form", "MB"),
    Column("kernel_time_s", "kernel time, counted", "s"),
    Column("clock_hz", "clock, counted", "MHz"),
    Column("time_gain", "faster", "1"),
    Column("clocks_gain", "in SM clocks", "1"),
    Column("predicted_s", "time, predicted", "s"),
    Column("predicted_gain", "faster", "1"),
    Column("event_time_s", "time by events", "s"),
    Column("unstable", "marked unstable"),
)


def gains(sweeps: Sequence[Sweep]) -> Table:
    """A row a problem and tile: the fastest counted group_m against row by row."""
    rows = []
    for sweep in sweeps:
        best, said = sweep.least("kernel_time_s"), sweep.least("predicted_s")
        rows.append({
            "problem": best.problem, "tile": best.tile, "group_m": best.group_m,
            "reads_fewer": 1 + sweep.gain("read_bytes", best),
            "simulated_fewer": 1 + sweep.gain("simulated_read_bytes", best), **_gained(sweep, best),
            "clock_gain": best.clock_hz / sweep.rowwise.clock_hz - 1, "predicted_gain": sweep.gain("predicted_s", said),
            "predicted_group_m": said.group_m, "regret": said.kernel_time_s / best.kernel_time_s - 1,
        })  # fmt: skip
    note = "Against group_m 1, row by row. faster: by the kernel time that Nsight Compute counted."
    return table("gains", "What the best group_m buys", _GAINS, rows, note)


def _gained(sweep: Sweep, at: Launch) -> dict[str, float]:
    return {"time_gain": sweep.gain("kernel_time_s", at), "clocks_gain": sweep.gain("clocks", at)}


def errors(sweeps: Sequence[Sweep]) -> Table:
    """How far simulator and closed form are off the counted bytes."""
    shown = (
        Column("what", "bytes"), Column("model", "model"), Column("launches", "launches"), Column("mean", "mean", "1"),
        Column("median", "median", "1"), Column("p90", "p90", "1"), Column("worst", "worst", "1"),
    )  # fmt: skip
    every = [launch for sweep in sweeps for launch in sweep.launches]
    rows = []
    for what, title in {"read_bytes": "DRAM read", "write_bytes": "DRAM written"}.items():
        counted = np.asarray([getattr(x, what) for x in every])
        for model, name in {"simulated": "simulator", "closed": "closed form"}.items():
            off = np.abs(np.asarray([getattr(x, f"{model}_{what}") for x in every]) / counted - 1)
            figures = {"mean": off.mean(), "median": np.median(off), "p90": np.quantile(off, 0.9), "worst": off.max()}
            rows.append({"what": title, "model": name, "launches": len(every),
                         **{key: float(value) for key, value in figures.items()}})  # fmt: skip
    return table("errors", "Bytes against counters, absolute error", shown, rows)


def launches(sweeps: Sequence[Sweep]) -> Table:
    """Every launch: counted, simulated, by the closed form, predicted and timed."""
    rows = []
    for sweep in sweeps:
        for x in sweep.launches:
            rows.append({
                "problem": x.problem, **asdict(x), **_gained(sweep, x), "predicted_gain": sweep.gain("predicted_s", x),
            })  # fmt: skip
    return table("launches", "All launches", _LAUNCH, rows)


def verdict(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """What the rows say, in sentences: of the quoted gain, of what makes it, of the models, of the times by events."""
    found = gains(sweeps).data
    low, high = QUOTED
    time, said = np.asarray(found["time_gain"]), np.asarray(found["predicted_gain"])
    reached = int((time >= low).sum())
    yield (
        f"The best group_m is {_span(time)} faster than row by row, {np.median(time):.1%} in the median: "
        f"{reached} of {len(time)} problems and tiles reach the {low:.0%} to {high:.0%} that are often quoted."
    )
    fewer, clocks, clock = (np.asarray(found[key]) for key in ("reads_fewer", "clocks_gain", "clock_gain"))
    yield (
        f"It reads {fewer.min():.1f} to {fewer.max():.1f} times fewer bytes from DRAM. In SM clocks it gains "
        f"{_span(clocks)}; the rest is the clock itself, {_span(clock)} higher: under the power cap, bytes that DRAM "
        "need not move leave power to the SMs. The predicted times have no such term."
    )
    regret = np.asarray(found["regret"])
    yield (
        f"Predicted: {_span(said)} faster; the group_m that is predicted to be best loses {regret.max():.1%} at most "
        "on the best that was counted."
    )
    yield from _unstable(sweeps)


def _unstable(sweeps: Sequence[Sweep]) -> Iterator[str]:
    every = [x for sweep in sweeps for x in sweep.launches]
    marked = [x for x in every if x.unstable]
    if not marked:
        return
    words = [word for x in marked for word in x.unstable.split()]
    why = ", ".join(f"{word} {words.count(word)}" for word in sorted(set(words), key=lambda w: -words.count(w)))
    yield (
        f"{len(marked)} of the {len(every)} rows timed by events are marked unstable ({why}): launches in a row keep "
        "the card at its power cap, and the driver moves the clock from row to row by more than the order changes the "
        "time. They are listed, and decide nothing here; counted times come with the clock they were taken at."
    )


def _span(values: Any) -> str:
    return f"{values.min():.1%} to {values.max():.1%}"
