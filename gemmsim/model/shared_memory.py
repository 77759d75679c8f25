"""The data pipe of an SM that shared memory and L1 have in common: wavefronts a k-step, and what spills add.

Wavefronts of single requests, bank conflicts and sectors are counted from lane addresses (`counted`): those that a
family's `access_patterns` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmsim.families.accesses import Access
from gemmsim.families.traits import WGMMA
from gemmsim.families.wavefronts import IDLE, LANES, distinct_runs, passes
from gemmsim.model.demand import Case
from gemmsim.problem import FloatArray, IntArray

#: bytes of one wavefront, and of one 32-bit word of all lanes
WAVEFRONT_BYTES = 128
WORD_BYTES, SECTOR_BYTES, LINE_BYTES = 4, 32, 128
#: bytes a lane of a cp.async that passes L1 by
ASYNC_BYTES = 16


def shared_clk(x: Case) -> FloatArray:
    """Clocks of the shared-memory and L1 pipe a block and k-step: fragment reads, tile writes, global loads through L1.

    reads + write cost x writes, in wavefronts of 128 B at smem_bytes_per_clk, + sectors x sector_clk, + lines that L1
    looks up for one lane each x line_clk.
    The counts agree with the wavefront counters of 21 register-tile launches to 2 %; the cost of a write is fitted.
    Without it Triton rows drawn from the whole space are off by 12.1 instead of 9.2 % (`--without shared`, as
    in model/latency.py).
    """
    t, c = x.traits, x.c
    write = np.where(t.through_registers, c["register_write"], c["async_write"])
    passes = (t.smem_reads + write * t.smem_writes) * (WAVEFRONT_BYTES / x.gpu.arch.smem_bytes_per_clk_per_sm)
    loaded = c["sector_clk"] * t.global_sectors + c["line_clk"] * t.scattered_lines
    return np.maximum(passes + loaded, c["box_row_clk"] * t.box_rows)


def spill_clk(x: Case, resident: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Clocks a k-step of spilled words, for a busy SM and for a lone block; resident: blocks that share the SM's L1.

    Each spilled word goes out and comes back once a k-step: spill_clk a warp and word. A lone block waits for it:
    spill_lone_clk a word. More if the words of the resident blocks miss L1, or if register allocation collapsed (over
    eight words a register), and the loads come one by one. Without it Triton rows drawn from the whole space are off by
    14.8 instead of 9.2 %, and the first pick is four times too slow (`--without spill`, likewise).
    """
    if not x.spill_bytes.any():
        zero = np.zeros(1)
        return zero, zero
    c, words, warps = x.c, x.spill_bytes / 4, x.traits.warps
    collapsed = words > 8 * x.regs_per_thread
    missed = _l1_miss(x, resident * words * WAVEFRONT_BYTES * warps) * (x.traits.path != WGMMA)
    words = words * x.traits.spill_repeats
    busy = warps * words * c["spill_clk"] * (1 + c["spill_miss"] * collapsed)
    lone = words * c["spill_lone_clk"] * (1 + c["spill_miss"] * np.maximum(missed, collapsed))
    return busy, np.maximum(busy, lone)


def _l1_miss(x: Case, footprint: FloatArray) -> FloatArray:
    """Share of local-memory words that miss L1: what shared memory leaves of the common array against the footprint."""
    arch = x.gpu.arch
    carveouts = np.asarray(arch.smem_carveouts_bytes, np.float64)
    asked = x.blocks_per_sm * (x.smem_bytes + arch.smem_reserved_per_block_bytes)
    taken = carveouts[np.searchsorted(carveouts, np.minimum(asked, carveouts[-1]))]
    room = np.maximum(arch.l1_smem_bytes - taken, 1024)
    return np.asarray(1 / (1 + np.square(np.square(room / np.maximum(footprint, 1)))))


@dataclass(frozen=True)
class Counts:
    """Of one request, a mean over those that an Access shows.

    wavefronts of the shared-memory data pipe, those of them that bank conflicts add, and 32 B sectors of global memory.
    """

    wavefronts: FloatArray
    conflicts: FloatArray
    sectors: FloatArray


def counted(access: Access) -> Counts:
    """Counts of an Access, from its lanes' addresses alone."""
    shape = (access.shared if access.shared is not None else access.memory).shape  # type: ignore[union-attr]
    found = np.zeros((3, shape[0], shape[1]))
    for width in np.unique(access.width):
        rows = np.nonzero(access.width == width)[0]
        shared, memory = (None if x is None else x[rows].reshape(-1, LANES) for x in (access.shared, access.memory))
        found[:, rows] = np.stack(_requests(shared, memory, int(width))).reshape(3, len(rows), -1)
    return Counts(*found.mean(axis=2))


def wavefronts(accesses: Sequence[Access], steps: FloatArray, walks: FloatArray) -> FloatArray:
    """Shared-memory wavefronts of a launch whose blocks walk so many k-steps in all, in so many walks along K."""
    return _total(accesses, [counted(a).wavefronts for a in accesses], steps, walks)


def conflicts(accesses: Sequence[Access], steps: FloatArray, walks: FloatArray) -> FloatArray:
    """Those of them that bank conflicts add."""
    return _total(accesses, [counted(a).conflicts for a in accesses], steps, walks)


def _total(accesses: Sequence[Access], each: Sequence[FloatArray], steps: FloatArray, walks: FloatArray) -> FloatArray:
    parts = [(a.steps * steps + a.ends * walks) * one for a, one in zip(accesses, each, strict=True)]
    return np.asarray(sum(parts))


def _requests(shared: IntArray | None, memory: IntArray | None, width: int) -> tuple[FloatArray, ...]:
    """Wavefronts, conflicts and sectors of each request, (requests, 32) addresses."""
    one = shared if shared is not None else memory
    zero = np.zeros(len(one))  # type: ignore[arg-type]
    touched = zero if memory is None else sectors(memory, width)
    if shared is None:
        return zero, zero, touched
    if memory is not None:
        return (*copied(shared, memory, width), touched)
    found, least = passes(_words(shared), width // WORD_BYTES)
    return found, found - least, touched


def sectors(memory: IntArray, width: int) -> FloatArray:
    """32 B sectors under each request: (requests, 32) first bytes of the lanes, width bytes each."""
    pieces = memory[:, :, None] + np.arange(0, width, min(width, SECTOR_BYTES))
    within = np.where(memory[:, :, None] < 0, IDLE, pieces // SECTOR_BYTES)
    return distinct_runs(within.reshape(len(memory), -1))


def copied(shared: IntArray, memory: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Wavefronts and conflicts of each cp.async.

    Through L1 (4 or 8 bytes a lane) a request takes as many passes as its words' banks ask for, and one more for each
    line of memory beyond the first. Where lines do not begin on a sector, so that the request has more sectors than
    its bytes fill, a pass brings one sector. With 16 bytes a lane L1 is passed by, and what arrives takes a pass a
    half-warp, none of which the counters expect: all count as conflicts. Source: counters of 44 simt launches on an
    H200 (docs/shared_memory.md); why what passes L1 by takes two passes for 512 bytes is not known.
    """
    active = shared >= 0
    if width == ASYNC_BYTES:
        halves = active.reshape(len(shared), 2, -1).any(2).sum(1) * 1.0
        return np.maximum(halves, 1), np.where(halves > 0, halves, 0)
    banks, _ = passes(_words(shared), width // WORD_BYTES)
    touched, lines = sectors(memory, width), distinct_runs(np.where(active, memory // LINE_BYTES, IDLE))
    own = np.where(active, memory, IDLE)
    bytes_moved = width * distinct_runs(own)
    banks = np.where(touched * SECTOR_BYTES > bytes_moved, np.maximum(banks, touched), banks)
    found = banks + np.maximum(lines - 1, 0)
    return found, found - 1


def _words(address: IntArray) -> IntArray:
    return np.where(address < 0, IDLE, address // WORD_BYTES)
