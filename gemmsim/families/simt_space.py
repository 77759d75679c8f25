"""The configurations of kernels/simt.cu that `rank` searches: structurally valid, and no two that say the same.

Of what the model cannot tell apart and 9,372 rows of an H200 do not either, one stands for all: one way to lay a warp's
lanes, thread tiles no taller than wide, one cap by number for 128 results a thread, two or three buffers. Ties would
fill the first ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gemmsim.config import Config
from gemmsim.families.combinations import Columns, grid, times, where
from gemmsim.families.simt_resources import threads_of
from gemmsim.families.traits import Parameter
from gemmsim.families.wavefronts import LANES

THREADS = (64, 512)
#: lanes of a warp along one side of its tile: fewer read more fragments for the same results
LEAST_LANES = 4
#: the rows and columns of lanes that stand for both ways to lay a warp, where they fit: on an H200 neither wins
LANES_M, LANES_N = 4, 8
#: how much longer than wide a tile may be: longer ones ask for more of A and B for the same results
ASPECT = 4
#: registers that a thread needs at the least: so many a result and beside them (fewer, and it spills); and beside its
#: results, what none of them would take
EACH, BESIDE, PLENTY = 1.27, 34, 90
#: results a thread that want a cap by number instead of none: half of what a thread may have
CAPPED_RESULTS = 128
#: depth of a k-step that two buffers suffice for
LONG_STEP = 16
#: slices of the tiles past the last whole wave
TAIL_SLICES = (2, 3, 4, 8)
#: registers of an SM (every architecture here)
REGISTERS = 65536


def space(parameters: Sequence[Parameter]) -> Config:
    """All combinations, in the order of the parameters' choices."""
    choices = {p.name: p.choices for p in parameters}
    columns = _tiles(choices)
    columns = times(columns, grid(choices, "bk", "vec", "order"))
    columns = _piped(times(columns, _pipelines(choices)))
    columns = _capped(times(columns, _caps(choices)), choices)
    columns = times(columns, _splits(choices))
    return Config("simt", {p.name: columns[p.name] for p in parameters})


def _tiles(choices: Mapping[str, Sequence[int]]) -> Columns:
    warp = grid(choices, "wm", "wn", "tm", "tn")
    lm, ln = warp["wm"] // warp["tm"], warp["wn"] // warp["tn"]
    whole = (warp["wm"] % warp["tm"] == 0) & (warp["wn"] % warp["tn"] == 0)
    warp = where(warp, whole & (lm * ln == LANES) & (np.minimum(lm, ln) >= LEAST_LANES))
    warp = where(warp, warp["tm"] <= warp["tn"])  # the other way round is alike, and not faster on the whole
    both = times(grid(choices, "bm", "bn"), warp)
    threads = threads_of(both)
    whole = (both["bm"] % both["wm"] == 0) & (both["bn"] % both["wn"] == 0)
    compact = _compact(both["bm"], both["bn"]) & _compact(both["tm"], both["tn"])
    usual = (both["wm"] // both["tm"] == LANES_M) | ~_lays(both, choices)
    return where(
        both, whole & compact & usual & (threads >= THREADS[0]) & (threads <= THREADS[1]) & (threads % 64 == 0)
    )


def _lays(c: Columns, choices: Mapping[str, Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Whether the usual rows and columns of lanes fit the block tile, and their warp tile is a choice."""
    wm, wn = LANES_M * c["tm"], LANES_N * c["tn"]
    known = np.isin(wm, choices["wm"]) & np.isin(wn, choices["wn"])
    return np.asarray(known & (c["bm"] % wm == 0) & (c["bn"] % wn == 0))


def _compact(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.maximum(a, b) <= ASPECT * np.minimum(a, b)


def _pipelines(choices: Mapping[str, Sequence[int]]) -> Columns:
    """Through registers with 1 or 2 stages, asynchronous with 2 or more."""
    both = grid(choices, "stages", "async_copy")
    return where(both, np.where(both["async_copy"] == 1, both["stages"] >= 2, both["stages"] <= 2))


def _piped(columns: Columns) -> Columns:
    """Of two and three buffers, which have as many k-steps in flight: two where a k-step is long, else three."""
    long, stages = columns["bk"] >= LONG_STEP, columns["stages"]
    keep = np.where(long, stages != 3, stages != 2)
    return where(columns, keep | (columns["async_copy"] == 0))


def _caps(choices: Mapping[str, Sequence[int]]) -> Columns:
    """Either cap, not both."""
    both = grid(choices, "blocks", "regs")
    return where(both, (both["blocks"] == 1) | (both["regs"] == 0))


def _capped(columns: Columns, choices: Mapping[str, Sequence[int]]) -> Columns:
    """Without caps that leave too little for the accumulators, or that are no cap."""
    threads = threads_of(columns)
    results, regs = columns["tm"] * columns["tn"], columns["regs"]
    left = np.minimum(REGISTERS // (threads * columns["blocks"]) // 8 * 8, 255)
    capped = (results == CAPPED_RESULTS) & (max(choices["regs"]) * threads <= REGISTERS) & (columns["blocks"] == 1)
    fits = np.where(capped, regs > 0, (regs == 0) & (left >= EACH * results + BESIDE))
    return where(columns, fits & ((columns["blocks"] == 1) | (left < results + PLENTY)))


def _splits(choices: Mapping[str, Sequence[int]]) -> Columns:
    """Unsplit; all tiles split, or the tail; or stream-K."""
    both = grid(choices, "group_m", "split_k", "split_tail", "stream_k")
    split, stream = both["split_k"] > 1, both["stream_k"] == 1
    fits = ~(split & stream) & ((both["split_tail"] == 0) | np.isin(both["split_k"], TAIL_SLICES))
    return where(both, fits)
