"""What the warps of a launch execute beside hardware counters: shared-memory wavefronts, and instructions.

Wavefronts come from the lane addresses that a family's `access_patterns` gives; instructions from the main loop's count
in the disassembly, and from what the family says of its tile. A family's `second_instructions` are those of the kernel
that sums slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.families.wavefronts import LANES
from gemmsim.model import effects, shared_memory
from gemmsim.model.demand import Demand
from gemmsim.model.predict import Prediction
from gemmsim.problem import FloatArray
from gemmsim.simulate.launched import case_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Executed:
    """Of launches, an entry each; NaN where unknown."""

    shared_wavefronts: FloatArray
    shared_conflicts: FloatArray  # those of them that bank conflicts add
    instructions: FloatArray  # of warps
    sass_instructions: FloatArray  # the same, with the main loop's from the disassembly


@dataclass(frozen=True)
class Warps:
    """Counted launches and what is predicted of them."""

    counted: Executed
    predicted: Executed
    asynchronous: Mask  # tiles pass by cp.async
    spills: Mask


def executed(p: Prediction, step: FloatArray) -> Executed:
    """What is predicted of the rows of a prediction. step: instructions of a k-step of one warp, NaN: unknown."""
    x = case_of(p)
    d = effects.fill(x)
    steps, walks = d.tiles * d.k_steps, d.units.whole + d.units.parts * d.units.begun
    module: Any = families.family(p.config.family)
    patterns: Callable[..., Any] | None = getattr(module, "access_patterns", None)
    unknown = np.full(len(p), np.nan)
    shared = [unknown, unknown]
    if patterns is not None:
        accesses = patterns(p.problem, p.config)
        shared = [f(accesses, steps, walks) for f in (shared_memory.wavefronts, shared_memory.conflicts)]
    own = 1.0 if patterns is not None else np.nan  # where a compiler chooses the code, issue slots are fitted to times
    t, c = x.traits, x.c
    ends = c["start_slots"] + c["prologue_slots"] * t.prologue_loads + c["epilogue_slots"] * t.accumulators
    ends = t.warps * ends * walks + x.epilogue_slots * x.bm * x.bn / LANES * d.tiles + _second(module, p, d)
    tile = d.issue_clk * x.gpu.arch.sub_partitions + np.where(t.joint_issue, t.fmas / LANES, 0)
    columns = (*shared, own * (tile * steps + ends), t.warps * step * steps + ends)
    return Executed(*(np.where(p.feasible, v, np.nan) for v in columns))


def _second(module: Any, p: Prediction, d: Demand) -> FloatArray:
    """Instructions of the kernel that sums slices."""
    if not d.units.summed.any():
        return np.zeros(1)
    return np.asarray(d.units.summed * module.second_instructions(p.config))


def asynchronous(p: Prediction) -> Mask:
    """Rows whose tiles pass by cp.async."""
    return np.broadcast_to(case_of(p).traits.asynchronous, len(p))


def joined(parts: Sequence[Warps]) -> Warps:
    """All launches, one after another."""
    counted, predicted = (_together([getattr(p, side) for p in parts]) for side in ("counted", "predicted"))
    cuts = (np.concatenate([getattr(p, name) for p in parts]) for name in ("asynchronous", "spills"))
    return Warps(counted, predicted, *cuts)


def _together(parts: Sequence[Executed]) -> Executed:
    return Executed(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Executed)))


def scores(x: Warps) -> list[dict[str, object]]:
    """A row a term and cut: launches, and the mean, median, 90th percentile and worst error, per cent."""
    every = np.ones(len(x.spills), bool)
    cuts = (
        ("shared-memory wavefronts", "shared_wavefronts", every),
        ("  no spills, through registers", "shared_wavefronts", ~x.spills & ~x.asynchronous),
        ("  no spills, cp.async", "shared_wavefronts", ~x.spills & x.asynchronous),
        ("  launches that spill", "shared_wavefronts", x.spills),
        ("bank conflicts, of wavefronts (points)", "shared_conflicts", every),
        ("instructions, from the tile alone", "instructions", ~x.spills),
        ("instructions, main loop from SASS", "sass_instructions", every),
        ("  no spills", "sass_instructions", ~x.spills),
    )
    table = (_score(what, term, cut, x) for what, term, cut in cuts)
    return [row for row in table if row["rows"]]


def _score(what: str, term: str, cut: Mask, x: Warps) -> dict[str, object]:
    counted, predicted = getattr(x.counted, term), getattr(x.predicted, term)
    whole = x.counted.shared_wavefronts if term == "shared_conflicts" else counted
    with np.errstate(invalid="ignore", divide="ignore"):
        error = 100 * np.abs((predicted - counted) / whole)
    error = error[cut & np.isfinite(error)]
    row: dict[str, object] = {"term": what, "rows": len(error)}
    if not len(error):
        return row
    figures = {"mean": error.mean(), "median": np.median(error), "p90": np.quantile(error, 0.9), "worst": error.max()}
    return row | {f"closed_{name}_pct": round(float(v), 2) for name, v in figures.items()}


def each(x: Warps) -> Mapping[str, FloatArray]:
    """Columns of a table with a row a launch: what was counted and what is predicted."""
    sources = {"counted": x.counted, "closed": x.predicted}
    return {f"{f.name}_{who}": getattr(said, f.name) for f in fields(Executed) for who, said in sources.items()}
