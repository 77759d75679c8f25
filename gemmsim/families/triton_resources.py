"""Registers, spills and shared memory that Triton 3.6 gives a plain pointer `tl.dot` GEMM, from tile parameters alone.

The kernel: A and B row-major, masked `tl.load` through pointers, `num_stages` pipelining by cp.async, no TMA, fp32
accumulator, C in the operands' type (16 bits for 8-bit operands). Every tile side is a power of two. sm_90 with
`wgmma_allowed`; without it the same rules give sm_80, where only mma.sync exists.

Shared memory follows Triton's own rules and is exact. Registers and spills come from ptxas, which nobody can write
down in closed form: what a thread wants to keep alive is counted, and a few constants turn it into what ptxas gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64] | int | float
Flags = Bools | bool

WARP = 32  # threads
REGS_PER_BLOCK = 65536  # 32-bit registers
REGS_PER_THREAD = 255  # most that an instruction can name
COPY_BYTES = 16  # one cp.async or one vector load of a thread
MIN_COPY_BYTES = 4  # the smallest cp.async
MMA_M, MMA_N = 16, 8  # rows and columns of C in one mma.sync tile, and in one warp's slice of a wgmma


@dataclass(frozen=True)
class Resources:
    """What the compiler gives one configuration; arrays of one shape."""

    wgmma: Bools  # Hopper's warp-group instruction, else mma.sync
    warps_m: Ints  # warps along the rows of the tile
    warps_n: Ints  # and along its columns
    regs_per_thread: Ints
    spill_bytes: Floats  # local memory a thread, bytes: 4 x Triton's n_spills, ptxas's stack frame
    smem_bytes: Ints  # dynamic shared memory a block
    compiles: Bools  # false where ptxas is known to fail


@dataclass(frozen=True)
class Demand:
    """Registers a thread would like, by use, for one kind of matrix instruction.

    Fitted on the 965 bf16 rows of Triton 3.6.0, sm_90a.
    """

    base: float  # registers: pointers, masks, loop counters
    accumulator: float  # registers an fp32 accumulator
    copy_a: float  # registers a 16-byte copy of A a thread, pipelined: its pointer and predicate
    copy_b: float
    load_a: float  # the same at one stage: the data too wait in registers
    load_b: float
    fragment: float  # registers a register of matrix fragment kept for two k steps
    squeeze: float  # share of its registers ptxas gives up for one more resident warp


WGMMA = Demand(23.7, 1.07, 2.3, 3.3, 4.9, 2.1, 0.0, 0.08)
MMA = Demand(22.4, 1.08, 3.1, 3.4, 3.9, 2.3, 1.9, 0.10)
LOOSE_ELEMENT = 2.2  # registers an element of an unaligned row: it is loaded alone, with its own predicate
COMPRESSIBLE = 1.22  # ptxas shortens live ranges by this factor before it spills
# registers at which one more warp fits on a sub-core (16384 registers), by ptxas's granularity of 8
STEPS = (24, 32, 40, 48, 56, 64, 72, 80, 96, 128, 168, 255)


def layout(bm: Floats, bn: Floats, warps: Floats, wgmma_allowed: bool = True) -> tuple[Bools, Floats, Floats]:
    """Whether wgmma is used, warps along M, warps along N: Triton's own rules, exact."""
    wgmma = (bm >= 64) & (warps % 4 == 0) & wgmma_allowed
    wm, wn = np.ones_like(warps), np.ones_like(warps)
    for _ in range(5):  # mma.sync: double along the side with more instruction tiles a warp
        grow = wm * wn < warps
        down = (bm * MMA_N * wn >= bn * MMA_M * wm) | (wn * MMA_N >= bn)
        wm, wn = np.where(grow & down, 2 * wm, wm), np.where(grow & ~down, 2 * wn, wn)
    wm = np.where(wgmma, np.minimum(warps, bm / MMA_M), wm)  # warp groups go down M first
    return wgmma, wm, warps / wm


def _operand_bytes(
    a: Floats,
    b: Floats,
    bn: Floats,
    threads: Floats,
    stages: Floats,
    wgmma: Bools,
    size: int,
    loose: tuple[Flags, Flags],
) -> Floats:
    """Buffers of A and B. A wgmma in flight still reads its buffer, so it needs one more than mma.sync."""
    buffers = np.where(wgmma, stages, np.maximum(stages - 1, 1))
    # only cp.async pipelines: at least 4 bytes a thread, aligned rows
    na = np.where((a < MIN_COPY_BYTES * threads) | loose[0], 1, buffers)
    nb = np.where((b < MIN_COPY_BYTES * threads) | loose[1], 1, buffers)
    if size > 1:
        return a * na + b * nb
    nb = np.where(wgmma, 1, nb)  # 8-bit B becomes K-major on its way, through registers
    # rows of one copy, one a thread: two buffers whatever the stages (seen on 2 of 2 rows)
    nb = np.where(~wgmma & (bn == COPY_BYTES) & (b == COPY_BYTES * threads), np.minimum(nb, 2), nb)
    return np.where(~wgmma & (stages == 1), np.maximum(a, b), a * na + b * nb)


def _epilogue_bytes(bm: Floats, bn: Floats, wm: Floats, threads: Floats, size: int, loose: Flags) -> Floats:
    """C on its way from the accumulators' layout to that of coalesced stores.

    Rows that are registers in both layouts go through the same buffer one after the other. Without stmatrix (32-bit
    C, or stores that do not go by 16 bytes) such rows first fill a 16-byte vector.
    """
    vector = np.where(loose, 1.0, COPY_BYTES / size)  # elements a store
    rows = vector * threads / bn  # stored by one instruction of the block
    turns = np.where(rows <= 8, 2, 1) * np.maximum(1, bm / np.maximum(rows, np.minimum(MMA_M * wm, bm)))
    turns = turns * np.maximum(1, 1 / rows)
    free = np.where(rows <= 1, 1.0, 8.0) if size == 2 else np.full_like(rows, 4.0)
    free = np.where(loose, free, 1.0 if size == 2 else 2.0)
    total: Floats = bm * bn * size / np.maximum(turns / free, 1)
    return total


def _smem_bytes(
    bm: Floats,
    bn: Floats,
    bk: Floats,
    wm: Floats,
    threads: Floats,
    stages: Floats,
    wgmma: Bools,
    size: int,
    loose: tuple[Flags, Flags],
) -> Floats:
    operands = _operand_bytes(bm * bk * size, bk * bn * size, bn, threads, stages, wgmma, size, loose)
    total: Floats = np.maximum(operands, _epilogue_bytes(bm, bn, wm, threads, max(size, 2), loose[1]))
    return total


def _need(
    acc: Floats,
    bm: Floats,
    bn: Floats,
    bk: Floats,
    wm: Floats,
    wn: Floats,
    stages: Floats,
    wgmma: Bools,
    size: int,
    loose: tuple[Flags, Flags],
) -> Floats:
    """Registers a thread wants before any limit."""
    threads = WARP * wm * wn
    copies_a, copies_b = bm * bk * size / COPY_BYTES / threads, bk * bn * size / COPY_BYTES / threads
    # mma.sync keeps the smaller side's fragments (A: 4 registers a 16-row tile, B: 2 an 8-column tile)
    frag = np.minimum(bm / wm / 4, bn / wn / 4) * np.minimum(bk * size / 32, 2)
    one = stages == 1

    def pick(name: str) -> Floats:
        return np.asarray(np.where(wgmma, getattr(WGMMA, name), getattr(MMA, name)))

    need = pick("base") + pick("accumulator") * acc + pick("fragment") * frag
    need = need + copies_a * np.where(one, pick("load_a"), pick("copy_a"))
    need = need + copies_b * np.where(one, pick("load_b"), pick("copy_b"))
    return need + LOOSE_ELEMENT * COPY_BYTES / size * (copies_a * loose[0] + copies_b * loose[1])


def resources(
    bm: Numbers,
    bn: Numbers,
    bk: Numbers,
    num_warps: Numbers,
    num_stages: Numbers,
    *,
    element_bytes: int = 2,
    wgmma_allowed: bool = True,
    a_aligned: Flags = True,
    b_aligned: Flags = True,
) -> Resources:
    """What Triton 3.6 and ptxas give each configuration; arguments broadcast.

    `element_bytes` is that of A and B: 1, 2 or 4 (tf32). `a_aligned`: K is a multiple of 16; `b_aligned`: N is; without
    it Triton compiles another kernel, which loads that operand element by element.
    """
    given = np.broadcast_arrays(bm, bn, bk, num_warps, num_stages, ~np.asarray(a_aligned), ~np.asarray(b_aligned))
    m, n, k, warps, stages = (np.asarray(x, np.float64) for x in given[:5])
    loose = (np.asarray(given[5], np.bool_), np.asarray(given[6], np.bool_))
    wgmma, wm, wn = layout(m, n, warps, wgmma_allowed)
    acc = 4 * np.maximum(m / MMA_M / wm, 1) * np.maximum(n / MMA_N / wn, 1)
    need = _need(acc, m, n, k, wm, wn, stages, wgmma, element_bytes, loose)
    regs, spill = _allocate(need, acc, warps, stages, wgmma, loose)
    smem = _smem_bytes(m, n, k, wm, WARP * warps, stages, wgmma, element_bytes, loose)
    compiles = ~(wgmma & (acc * warps * WARP >= REGS_PER_BLOCK))  # the accumulators alone fill the register file
    ints = (x.astype(np.int64) for x in (wm, wn, regs, smem))
    w_m, w_n, r, s = ints
    return Resources(wgmma, w_m, w_n, r, spill, s, compiles)


def _allocate(
    need: Floats, acc: Floats, warps: Floats, stages: Floats, wgmma: Bools, loose: tuple[Flags, Flags]
) -> tuple[Floats, Floats]:
    """Registers a thread and bytes it spills."""
    cap = np.minimum(REGS_PER_THREAD, REGS_PER_BLOCK / (WARP * warps))
    kept = 1 - np.where(wgmma, WGMMA.squeeze, MMA.squeeze)
    regs = np.minimum(need, cap)
    steps = np.asarray(STEPS, np.float64)
    below = steps[np.maximum(np.searchsorted(steps, regs, side="right") - 1, 0)]  # ptxas squeezes down to a step
    regs = np.where((regs * kept <= below) & (regs >= below), below, regs)
    regs = np.minimum(np.round(regs), cap)
    spills = (need > COMPRESSIBLE * cap) | (acc >= 255)
    excess = np.maximum(need - cap - 0.15 * (need - acc), 0)
    spill = np.where(spills, np.maximum(3.5 * excess, 16) + np.where(wgmma & (acc >= 255), 470, 0), 0.0)
    lost = (need > 490) & ((stages == 1) | loose[0] | loose[1])  # ptxas gives up: nearly all on the stack
    return np.where(lost, np.where(warps == 1, 64, 32), regs), np.where(lost, 13 * need, spill)
