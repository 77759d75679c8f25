"""The simulator and the closed form beside hardware counters of the same launches, a term at a time.

Nsight Compute empties the L2 before every kernel, so a second kernel that sums slices finds it cold: both models say
what happens then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gemmsim.errors import GemmsimError
from gemmsim.model import effects, split
from gemmsim.model.predict import Prediction
from gemmsim.problem import FloatArray
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.launched import case_of, launched

#: operands are read again where DRAM reads are more than this many times A and B
READ_AGAIN = 1.1
#: DRAM writes below this are mostly what others left in the L2
WRITTEN_BYTES = 10e6
#: tiles of fewer elements are named apart
SMALL_TILE = 64 * 64
#: spilled words that a launch moves, against what its loads ask of L2, from which it counts as one that spills
SPILLED = 0.01

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bytes:
    """Traffic of launches, an entry each; NaN where unknown."""

    dram_read_bytes: FloatArray
    dram_write_bytes: FloatArray
    l2_read_bytes: FloatArray  # that leave L2 for the SMs
    l2_bytes: FloatArray  # the same and what the SMs store
    l2_hit_rate: FloatArray


@dataclass(frozen=True)
class Launches:
    """Counted launches and what both models say of them."""

    counted: Bytes
    simulated: Bytes
    closed: Bytes
    operand_bytes: FloatArray  # A and B
    small: Mask
    summed: Mask  # slices that a second kernel sums
    spills: Mask


def together(parts: Sequence[Bytes]) -> Bytes:
    """Traffic of all of them, one after another."""
    return Bytes(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Bytes)))


def joined(parts: Sequence[Launches]) -> Launches:
    """All launches, one after another."""
    counted, said, closed_form = (
        together([getattr(p, side) for p in parts]) for side in ("counted", "simulated", "closed")
    )
    rest = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("operand_bytes", "small", "summed", "spills")
    )
    return Launches(counted, said, closed_form, *rest)


def simulated(p: Prediction) -> Iterator[Bytes]:
    """Each row of a prediction, simulated; NaN for a launch that cannot be (refused, or too large to be walked)."""
    for row in range(len(p)):
        try:
            t = traffic(launched(p, row), cold_second=True)
        except GemmsimError:
            yield Bytes(*(np.full(1, np.nan) for _ in fields(Bytes)))
            continue
        found = (t.dram_read_bytes, t.dram_write_bytes, t.l2_read_bytes, t.l2_read_bytes + t.l2_write_bytes)
        yield Bytes(*(np.asarray([v]) for v in (*found, t.l2_hit_rate)))


def closed(p: Prediction, *, profiled: bool = True) -> Bytes:
    """The closed form of all rows of a prediction, as Nsight Compute counts them; or in the prediction's L2 condition,
    with a second kernel that finds what the first left in L2. NaN for what is refused.
    """
    x = case_of(p) if profiled else case_of(p, l2=p.l2)
    d = effects.fill(x)
    result = x.batch * x.m * x.n * x.c_bytes
    cold = d.dram_read_bytes + (d.second_asked_bytes if profiled else d.second_read_bytes)
    parts = np.where(x.traits.sums_slices, d.workspace_bytes, 0)  # that the launch itself reads again
    read = d.l2_read_bytes + parts + d.second_asked_bytes + x.result_reads * result
    sectors = np.maximum(32 * x.traits.store_sectors * d.units.whole - result, 0)  # stored one part at a time
    stored = split.stored_bytes(x, d.tiles, d.k_steps) + result * d.units.summed / d.tiles + sectors
    hit = 1 - np.minimum(1, cold / (read + stored))
    columns = (cold, d.dram_write_bytes + d.second_write_bytes, read, read + stored, hit)
    return Bytes(*(np.where(p.feasible, v, np.nan) for v in columns))


def scores(x: Launches) -> list[dict[str, object]]:
    """A row a term and cut: launches, and of each model the mean, median, 90th percentile and worst error, per cent."""
    again = x.counted.dram_read_bytes > READ_AGAIN * x.operand_bytes
    written = x.counted.dram_write_bytes > WRITTEN_BYTES
    usual, every = ~x.spills, np.ones(len(x.small), bool)
    cuts: dict[str, tuple[str, Mask]] = {
        "DRAM read, over 1.1 x A and B": ("dram_read_bytes", usual & again),
        "  tiles of 64 x 64 and more": ("dram_read_bytes", usual & again & ~x.small),
        "  smaller tiles": ("dram_read_bytes", usual & again & x.small),
        "  no second kernel": ("dram_read_bytes", usual & again & ~x.summed),
        "  the rest": ("dram_read_bytes", usual & ~again),
        "  launches that spill": ("dram_read_bytes", x.spills & every),
        "DRAM written, over 10 MB": ("dram_write_bytes", usual & written),
        "L2 -> SM": ("l2_read_bytes", usual),
        "L2 <-> SM, stores too": ("l2_bytes", usual),
        "L2 hit rate (points)": ("l2_hit_rate", usual),
    }
    table = (_score(what, term, cut, x) for what, (term, cut) in cuts.items())
    return [row for row in table if row["rows"]]


def _score(what: str, term: str, cut: Mask, x: Launches) -> dict[str, object]:
    counted = getattr(x.counted, term)
    cut = cut & np.isfinite(counted) & np.isfinite(getattr(x.closed, term))
    cut &= (counted > 0) | (term == "l2_hit_rate")
    row: dict[str, object] = {"term": what, "rows": int(cut.sum())}
    if not cut.any():
        return row
    for model, said in (("simulator", x.simulated), ("closed", x.closed)):
        off = getattr(said, term)[cut] - counted[cut]
        error = 100 * np.abs(off if term == "l2_hit_rate" else off / counted[cut])
        error = error[np.isfinite(error)]
        if not len(error):
            continue
        figures = {
            "mean": error.mean(),
            "median": np.median(error),
            "p90": np.quantile(error, 0.9),
            "worst": error.max(),
        }
        row |= {f"{model}_{name}_pct": round(float(v), 2) for name, v in figures.items()}
    return row


def is_summed(p: Prediction) -> Mask:
    """Rows whose slices a second kernel sums."""
    return np.broadcast_to(effects.fill(case_of(p)).units.summed > 0, len(p))


def is_small(p: Prediction) -> Mask:
    """Rows whose tiles are named apart."""
    return np.asarray(p.config["bm"] * p.config["bn"] < SMALL_TILE)


def operand_bytes(p: Prediction) -> FloatArray:
    """Bytes of A and B."""
    q = p.problem
    return np.asarray(q.batch * (q.a_bytes * q.m * q.k + q.b_bytes * q.k * q.n), np.float64)


def spilling(moved_bytes: FloatArray, counted: Bytes) -> Mask:
    """Launches that move spilled words in earnest; NaN: they do not."""
    return np.nan_to_num(moved_bytes) > SPILLED * np.nan_to_num(counted.l2_bytes, nan=np.inf)


def each(x: Launches) -> Mapping[str, FloatArray]:
    """Columns of a table with a row a launch: what was counted, simulated, and said by the closed form."""
    sources = {"counted": x.counted, "simulated": x.simulated, "closed": x.closed}
    return {f"{f.name}_{who}": getattr(said, f.name) for f in fields(Bytes) for who, said in sources.items()}
