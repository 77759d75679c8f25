"""Blocks per SM, exactly as NVIDIA's calculator (cuda_occupancy.h, CUDA 13.0) gives them, for arrays of launches.

Each resource allows so many blocks; the least of them is what an SM holds:

    warps           max_warps_per_sm / warps of a block
    registers       given out a warp at a time in units, and each sub-partition holds whole warps only:
                    floor(floor(regs_per_sm / sub_partitions / regs of a warp) x sub_partitions / warps of a block);
                    none if the block, its warps rounded up to the sub-partitions, takes more than regs_per_block
    shared_memory   smem_per_sm / (the block's bytes + the reserved ones, rounded up to the unit)
    blocks          max_blocks_per_sm
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.hardware import Arch
from gemmsim.problem import IntArray

#: what may limit, in the order in which a tie is named; `limited_by` holds positions in it
LIMITERS = ("warps", "registers", "shared_memory", "blocks")
#: the limit of a resource that a block takes none of, as the calculator prints it
NO_LIMIT = 2**31 - 1
WARP_THREADS = 32


@dataclass(frozen=True)
class Occupancy:
    """Blocks an SM holds at once, and what each resource would allow: int64 arrays of one shape; 0: cannot launch."""

    blocks_per_sm: IntArray
    limit_warps: IntArray
    limit_registers: IntArray
    limit_shared_memory: IntArray
    limit_blocks: IntArray

    @property
    def limits(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The four limits in the order of LIMITERS."""
        return self.limit_warps, self.limit_registers, self.limit_shared_memory, self.limit_blocks

    @property
    def limited_by(self) -> IntArray:
        """Position in LIMITERS of the resource that limits; of several that do, the first."""
        code = np.full(self.blocks_per_sm.shape, len(LIMITERS) - 1, np.int64)
        for position in reversed(range(len(LIMITERS) - 1)):
            code[self.limits[position] == self.blocks_per_sm] = position
        return code

    @property
    def limiting_mask(self) -> IntArray:
        """Every resource that limits, as bits: 1 warps, 2 registers, 4 shared memory, 8 blocks."""
        ties = [(limit == self.blocks_per_sm).astype(np.int64) << bit for bit, limit in enumerate(self.limits)]
        return np.asarray(sum(ties), np.int64)


def blocks_per_sm(
    arch: Arch, threads: npt.ArrayLike, regs_per_thread: npt.ArrayLike, smem_bytes: npt.ArrayLike
) -> Occupancy:
    """Blocks per SM of blocks of `threads`, registers a thread, and shared memory a block (static + dynamic, in bytes).

    The three broadcast together; the result has their common shape, at least one entry. A launch that no SM takes (more
    threads, registers or shared memory than a block may have; no thread) has 0 blocks.
    Source: cuda_occupancy.h of CUDA 13.0, cc 7.0 to 12.1.
    """
    asked = (np.atleast_1d(np.asarray(x, np.int64)) for x in (threads, regs_per_thread, smem_bytes))
    t, r, s = np.broadcast_arrays(*asked)
    warps = np.maximum(t + WARP_THREADS - 1, WARP_THREADS) // WARP_THREADS
    by_warps = np.where((t > 0) & (t <= arch.max_threads_per_block), arch.max_warps_per_sm // warps, 0)
    by_registers, by_memory = _register_limit(arch, warps, r), _memory_limit(arch, s)
    by_blocks = np.full(t.shape, arch.max_blocks_per_sm, np.int64)
    least = np.minimum(np.minimum(by_warps, by_registers), np.minimum(by_memory, by_blocks))
    return Occupancy(least, by_warps, by_registers, by_memory, by_blocks)


def _register_limit(arch: Arch, warps: IntArray, regs_per_thread: IntArray) -> IntArray:
    """Blocks that the register file holds."""
    regs = np.maximum(np.arange(arch.regs_per_thread + 1), 1)
    regs_per_warp = _round_up(regs * WARP_THREADS, arch.reg_alloc_unit_per_warp)
    warps_held = arch.regs_per_sm // arch.sub_partitions // regs_per_warp * arch.sub_partitions
    row = np.clip(regs_per_thread, 0, arch.regs_per_thread)
    blocks = warps_held[row] // warps
    taken = regs_per_warp[row] * _round_up(warps, arch.sub_partitions)
    fits = (taken <= arch.regs_per_block) & (regs_per_thread <= arch.regs_per_thread)
    return np.asarray(np.where(fits, blocks, 0), np.int64)


def _memory_limit(arch: Arch, smem_bytes: IntArray) -> IntArray:
    """Blocks that shared memory holds, at its largest carve-out."""
    taken = _round_up(smem_bytes + arch.smem_reserved_per_block_bytes, arch.smem_alloc_unit_bytes)
    blocks = np.where(taken > 0, arch.smem_per_sm_bytes // np.maximum(taken, 1), NO_LIMIT)
    return np.asarray(np.where(smem_bytes <= arch.smem_per_block_bytes, blocks, 0), np.int64)


def _round_up(x: IntArray, unit: int) -> IntArray:
    return (x + unit - 1) // unit * unit
