"""The data pipe of an SM that shared memory and L1 have in common: wavefronts a k-step, and what spills add."""

from __future__ import annotations

import numpy as np

from gemmsim.families.traits import WGMMA
from gemmsim.model.demand import Case
from gemmsim.problem import FloatArray

#: bytes of one wavefront, and of one 32-bit word of all lanes
WAVEFRONT_BYTES = 128


def shared_clk(x: Case) -> FloatArray:
    """Clocks of the shared-memory and L1 pipe a block and k-step: fragment reads, tile writes, global loads through L1.

    reads + write cost x writes, in wavefronts of 128 B at smem_bytes_per_clk, + sectors x sector_clk.
    The counts agree with the wavefront counters of 21 register-tile launches to 2 %; the cost of a write is fitted.
    Without it Triton rows drawn from the whole space are off by 12.2 instead of 9.4 % (`validate --without shared`).
    """
    t, c = x.traits, x.c
    write = np.where(t.through_registers, c["register_write"], c["async_write"])
    passes = (t.smem_reads + write * t.smem_writes) * (WAVEFRONT_BYTES / x.gpu.arch.smem_bytes_per_clk_per_sm)
    return np.asarray(passes + c["sector_clk"] * t.global_sectors)


def spill_clk(x: Case, resident: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Clocks a k-step of spilled words, for a busy SM and for a lone block; resident: blocks that share the SM's L1.

    Each spilled word goes out and comes back once a k-step: spill_clk a warp and word. A lone block waits for it:
    spill_lone_clk a word. More if the words of the resident blocks miss L1, or if register allocation collapsed (over
    eight words a register), and the loads come one by one. Without it Triton rows drawn from the whole space are off by
    14.8 instead of 9.4 %, and the first pick is four times too slow (`gemmsim validate --without spill`).
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
