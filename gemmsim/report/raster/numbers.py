"""The tables of a study of raster orders: what the best group_m buys, how far both models are off, every launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np

from gemmsim.report.table import Column, Table, table
from gemmsim.report.units import percent, span
from gemmsim.simulate.score import WRITTEN_BYTES
from gemmsim.study.raster import QUOTED, Launch, RasterStudy, Sweep

#: rank correlation of DRAM bytes and clock from which the one is said to fall with the other
CLOCK_FALLS = -0.5
MODELS = {"simulated": "simulator", "closed": "closed form"}
_GAINS = (
    Column("problem", "problem"),
    Column("tile", "tile"),
    Column("group_m", "best group_m"),
    Column("reads_fewer", "fewer reads", "x"),
    Column("simulated_fewer", "simulated", "x"),
    Column("time_gain", "faster", "1"),
    Column("clocks_gain", "in clocks", "1"),
    Column("clock_gain", "clock", "1"),
    Column("predicted_gain", "predicted", "1"),
    Column("predicted_group_m", "at group_m"),
    Column("regret", "loses", "1"),
)
_LAUNCH = (
    Column("problem", "problem"),
    Column("tile", "tile"),
    Column("group_m", "group_m"),
    Column("read_bytes", "MB read, counted", "MB"),
    Column("simulated_read_bytes", "simulator", "MB"),
    Column("closed_read_bytes", "closed form", "MB"),
    Column("kernel_time_s", "time, counted", "s"),
    Column("clock_hz", "MHz, counted", "MHz"),
    Column("time_gain", "faster", "1"),
    Column("clocks_gain", "in clocks", "1"),
    Column("predicted_s", "time, predicted", "s"),
    Column("predicted_gain", "faster, predicted", "1"),
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
    notes = (
        "Against group_m 1, row by row. Fewer reads: DRAM bytes counted, and simulated, both at the best group_m.",
        "Faster: in the kernel time that Nsight Compute counted; in SM clocks; how much higher the clock was.",
        "Predicted: how much faster the group_m is that is predicted to be best; what it loses on the best counted.",
    )
    return table("gains", "What the best group_m buys", _GAINS, rows, *notes)


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
    for what, title in {"read_bytes": "DRAM read", "write_bytes": "DRAM written, over 10 MB"}.items():
        some = [x for x in every if what == "read_bytes" or x.write_bytes > WRITTEN_BYTES]
        counted = np.asarray([getattr(x, what) for x in some])
        for model, name in MODELS.items() if some else ():
            off = np.abs(np.asarray([getattr(x, f"{model}_{what}") for x in some]) / counted - 1)
            figures = {"mean": off.mean(), "median": np.median(off), "p90": np.quantile(off, 0.9), "worst": off.max()}
            rows.append({"what": title, "model": name, "launches": len(some),
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
        f"The best group_m is {span(time)} faster than row by row, {percent(np.median(time))} in the median: "
        f"{reached} of {len(time)} problems and tiles reach the {100 * low:.0f} to {100 * high:.0f} % that are often "
        "quoted."
    )
    fewer, clocks, clock = (np.asarray(found[key]) for key in ("reads_fewer", "clocks_gain", "clock_gain"))
    yield (
        f"Row by row reads {fewer.min():.2f} to {fewer.max():.2f} times its DRAM bytes. In SM clocks it gains "
        f"{span(clocks)}; the rest is the clock itself, by {span(clock)}.{_clock_falls(sweeps)}"
    )
    regret = np.asarray(found["regret"])
    yield (
        f"Predicted: {span(said)} faster; the group_m that is predicted to be best loses {percent(regret.max())} at "
        "most on the best that was counted."
    )
    yield from _unstable(sweeps)


def _clock_falls(sweeps: Sequence[Sweep]) -> str:
    """Whether the clock falls as DRAM bytes grow: their rank correlation, both counted, in the median over sweeps."""
    from scipy.stats import spearmanr

    pairs = [([x.read_bytes for x in s.launches], [x.clock_hz for x in s.launches]) for s in sweeps]
    found = [spearmanr(*pair).statistic for pair in pairs if all(len(set(values)) > 2 for values in pair)]
    if not found or np.median(found) > CLOCK_FALLS:
        return ""
    return (
        f" Of one problem and tile the clock falls as the bytes grow (rank correlation {np.median(found):.2f} in the "
        "median): under the power cap, bytes that DRAM need not move seem to leave power to the SMs. The predicted "
        "times have no such term."
    )


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


def asked(study: RasterStudy) -> Table:
    """A row a problem and tile, with the orders that were counted."""
    found: dict[tuple[str, str], list[int]] = {}
    for i, group in enumerate(study.groups()):
        found.setdefault(group, []).append(int(study.rows.config["group_m"][i]))
    shown = (Column("problem", "problem"), Column("tile", "tile"), Column("group_m", "group_m"))
    rows = [
        {"problem": problem, "tile": tile, "group_m": ", ".join(map(str, sorted(orders)))}
        for (problem, tile), orders in found.items()
    ]
    return table("launches", "Launches", shown, rows)
