"""DRAM and L2 traffic of a launch, walked block by block: what `gemmsim.model.traffic` says in a closed form.

launched.launched(prediction, row)     what is launched
    -> blocks.parts                    what each block computes of which tile
    -> progress.walk                   when: residents of an SM share it
    -> blocks.visits, blocks.stores    which pieces of A and B are read when, what is stored
    -> distance.find                   which of the visits L2 does not hold
    -> traffic                         bytes by operand

Whoever knows better when blocks run (a scheduler) passes its own Progress.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.model.traffic import C_SHARE, kept_of_stream, miss_share
from gemmsim.simulate import blocks, distance, progress
from gemmsim.simulate.launched import Launched

SECTOR_BYTES = 32


@dataclass(frozen=True)
class Operand:
    """Traffic of A, of B, or of C with partial results; bytes."""

    dram_read_bytes: float
    dram_write_bytes: float
    l2_read_bytes: float  # that leave L2 for the SMs
    l2_write_bytes: float  # that the SMs store


@dataclass(frozen=True)
class Traffic:
    """Traffic of a launch that finds nothing of its own in L2, with the second kernel that sums slices."""

    a: Operand
    b: Operand
    c: Operand
    l2_hit_rate: float  # of the sectors that SMs read and store

    @property
    def dram_read_bytes(self) -> float:
        """Bytes that DRAM brings."""
        return sum(o.dram_read_bytes for o in (self.a, self.b, self.c))

    @property
    def dram_write_bytes(self) -> float:
        """Bytes that DRAM takes before the launch ends; what L2 still holds then is not among them."""
        return sum(o.dram_write_bytes for o in (self.a, self.b, self.c))

    @property
    def l2_read_bytes(self) -> float:
        """Bytes that leave L2 for the SMs."""
        return sum(o.l2_read_bytes for o in (self.a, self.b, self.c))

    @property
    def l2_write_bytes(self) -> float:
        """Bytes that the SMs store."""
        return sum(o.l2_write_bytes for o in (self.a, self.b, self.c))


def traffic(x: Launched, *, cold_second: bool = False, when: progress.Progress | None = None) -> Traffic:
    """Bytes by operand. cold_second: a second kernel finds an empty L2, as under Nsight Compute.

    when: progress of the gangs, else that of progress.walk. Raises GemmsimError for an L2 of no capacity, and for a
    launch that is too large to be walked.
    """
    if x.side_bytes <= 0:
        raise GemmsimError(f"an L2 partition of {x.side_bytes:g} bytes: expected a capacity above 0")
    parts = blocks.parts(x)
    when = when or progress.walk(x, blocks.work_of_gangs(parts))
    visits, stores = blocks.visits(x, parts, when), blocks.stores(x, parts, when)
    found = distance.find(x, visits, stores, when.end)
    read, asked = visits.size_bytes * found.cold, visits.asked_bytes * visits.seen(found.cold)
    missed = float((visits.size_bytes * found.missed).sum())
    a, b = (
        Operand(float(read[side].sum()), 0.0, float(asked[side].sum()), 0.0) for side in (visits.of_a, ~visits.of_a)
    )
    c, missed_c = _result(x, stores, found, when.end, cold_second)
    accesses = a.l2_read_bytes + b.l2_read_bytes + c.l2_read_bytes + c.l2_write_bytes
    return Traffic(a, b, c, 1 - min(1.0, (missed + missed_c) / accesses))


def _result(
    x: Launched, s: blocks.Stores, found: distance.Found, end: float, cold_second: bool
) -> tuple[Operand, float]:
    """Traffic of C and of partial results, and what of it is missed."""
    c_bytes, whole = x.c_bytes * x.m * x.n * x.batch, x.whole / x.tiles if x.second else 1.0
    added = x.result_reads * c_bytes + x.bias * x.c_bytes * x.n * x.batch
    taken_up, again = _taken_up(x, s, found)
    second = _second(x, s, found, end, cold_second)
    further = 0.0 if cold_second else second.new_bytes
    kept = float(distance.kept_dirty(x, s, found, end, further).sum())
    stored = float(s.size_bytes.sum())
    l2_write = stored + second.result_bytes + max(0.0, SECTOR_BYTES * x.store_sectors * x.tiles - c_bytes) * whole
    missed = added + taken_up + second.cold_bytes
    reads = added + again + second.read_bytes
    return Operand(missed, stored - kept + second.written_bytes, reads, l2_write), missed


def _taken_up(x: Launched, s: blocks.Stores, found: distance.Found) -> tuple[float, float]:
    """Of the partial results that other blocks take up: bytes that DRAM brings, bytes."""
    again = ~np.isnan(s.read_again)
    if not again.any():
        return 0.0, 0.0
    size = s.size_bytes[again]
    since = found.window.since(s.time[again] * found.scale, s.read_again[again] * found.scale)
    return float((size * miss_share(since, x.side_bytes)).sum()), float(size.sum())


@dataclass(frozen=True)
class _Second:
    """What the kernel that sums slices does; bytes."""

    read_bytes: float = 0.0
    cold_bytes: float = 0.0
    result_bytes: float = 0.0
    written_bytes: float = 0.0
    new_bytes: float = 0.0  # that a side of L2 has not seen before


def _second(x: Launched, s: blocks.Stores, found: distance.Found, end: float, cold: bool) -> _Second:
    """It reads the slices of every tile, inside C alone, and stores the tile."""
    if not x.second:
        return _Second()
    result = float(blocks.tile_bytes(x)[x.whole :].sum())
    read = result / x.c_bytes * x.partial_bytes * x.slices
    share = C_SHARE if x.partitions > 1 else 1.0
    missed = read
    if not cold:
        since = found.window.since(s.time * found.scale, np.full(len(s.time), end * found.scale))
        partial = s.size_bytes * (np.arange(len(s.time)) >= x.whole)
        gone = miss_share(since + 0.5 * share * result, x.side_bytes)
        missed = read * float((gone * partial).sum() / partial.sum())
    new = share * (result + missed)
    kept = float(kept_of_stream(np.asarray(result), np.asarray(result + missed), x.side_bytes))
    return _Second(read, missed, result, result - kept, new)
