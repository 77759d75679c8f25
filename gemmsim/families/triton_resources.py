"""Registers, spills and shared memory that Triton 3.6 gives a plain pointer `tl.dot` GEMM, from tile parameters alone.

The kernel: A and B row-major, masked `tl.load` through pointers, `num_stages` pipelining by cp.async, no TMA, fp32
accumulator, C in the operands' type (16 bits for 8-bit operands). Every tile side is a power of two. sm_90 with
`wgmma_allowed`; without it sm_80, where only mma.sync exists and C goes through shared memory without stmatrix.

Shared memory and the warps' layout follow Triton's own rules and are exact on every compiled row: on sm_90 whatever the
dtype and the alignment; on sm_80 for aligned 16-bit operands (others were not compiled there). Registers and spills
come from ptxas, which has no closed form: what a thread wants to keep alive is counted (`Demand`), once as ptxas takes
it when registers are free (`COMFORT_*`, fitted on rows without spills) and once as what it cannot do without
(`TIGHT_*`, fitted on spilled words).

Constants: fitted on 859 bf16 configurations compiled by Triton 3.6.0 for sm_90a, SPILL_BENT and COLLAPSE_BYTES also on
54 with 512 accumulators a thread and 2 with 1024; other versions give other registers. Scored on configurations drawn
uniformly from the launchable space, on whose rows no constant was fitted (though 19 of those of sm_80 and 8 of fp16
were among the fitted ones, as bf16 of sm_90a):

                                  sm_90 bf16     sm_80 bf16    sm_90 fp16
    configurations                   122             62            19
    shared memory exact              100 %          100 %         100 %
    registers off, median, p90       3, 15          2, 13          2, 8
    blocks per SM right               89 %           87 %          95 %
    spills found                    22 of 22       7 of 7        3 of 3
    of those said to spill, do      22 of 24       7 of 8        3 of 3
    spilled bytes, factor, median     1.3            1.2           1.2

9 of the drawn were left out, minutes of compiling each: 1024 accumulators or more, or 512 at bk 256. sm_80's rule of
C's share was found on the 62 and on 115 made for it; it is exact on 60 more. With more than 256 accumulators spilled
bytes are within a factor 1.2 in the median (wgmma 1.03; mma.sync 1.3, more often too many) and 1.5 at worst, except in
collapsed blocks: 1.6 and 2.7. On all rows fitted on, 6 % of spills are missed, all of 8 to 32 bytes. The constants of
collapse, unaligned rows and other dtypes were set on all of their few rows, without any held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Numbers = Ints | Floats | int | float
Flags = Bools | bool

WARP = 32  # threads
REGS_PER_BLOCK = 65536  # 32-bit registers
REGS_PER_THREAD = 255  # most that an instruction can name
COPY_BYTES = 16  # one cp.async or one vector load of a thread
MIN_COPY_BYTES = 4  # the smallest cp.async
MMA_M, MMA_N = 16, 8  # rows and columns of C in one mma.sync tile, and in one warp's slice of a wgmma
MMA_K_BYTES = 32  # of a row of A in one mma.sync
WGMMA_M, WGMMA_WARPS = 64, 4


@dataclass(frozen=True)
class Resources:
    """What the compiler gives one configuration; arrays of one shape."""

    wgmma: Bools  # Hopper's warp-group instruction, else mma.sync
    warps_m: Ints  # warps along the rows of the tile
    warps_n: Ints  # and along its columns
    regs_per_thread: Ints
    spill_bytes: Floats  # local memory a thread: ptxas's stack frame, 4 x Triton's n_spills
    smem_bytes: Ints  # dynamic shared memory a block
    compiles: Bools  # false where ptxas fails


@dataclass(frozen=True)
class Demand:
    """32-bit registers a thread asks for, by use."""

    base: float  # loop counter, kernel arguments, rows and columns of C
    accumulator: float  # an fp32 accumulator
    copy_a: float  # a 16-byte copy of A in an iteration: a 64-bit pointer, part of a predicate
    copy_b: float  # of B: every row of B has its own mask, so a predicate more
    load_a: float  # further, at one stage: A waits in registers on its way to shared memory
    load_b: float  # B goes later and a few at a time, and needs less than pipelined
    fragment: float  # a register of matrix operand kept for two k steps (mma.sync)
    k_doubling: float  # each doubling of bk over 16 (mma.sync): addresses of fragments
    many: float  # an accumulator over MANY
    loose_a: float  # further, an element of A with unaligned rows: loaded alone, with its own address and predicate
    loose_b: float  # (fitted on 113 bf16 rows with K or N not a multiple of 16)


COMFORT_WGMMA = Demand(18.6, 1.09, 2.65, 3.54, 2.90, -1.67, 0.0, 0.0, 0.0, 2.6, 2.6)
COMFORT_MMA = Demand(19.1, 1.17, 2.73, 3.39, 1.69, -1.36, 1.32, 1.95, 0.0, 1.2, 2.6)
TIGHT_WGMMA = Demand(17.6, 1.20, 2.03, 1.38, 2.41, 0.0, 0.0, 0.0, 1.20, 3.1, 3.3)
TIGHT_MMA = Demand(22.0, 1.015, 1.89, 2.62, 2.35, -1.95, 1.37, 0.0, 0.0, 0.9, 3.2)
#: Operands that are not 16-bit (59 rows each of fp8 and tf32): wgmma wants their B K-major, through registers.
TRANSPOSE_BASE, TRANSPOSE_COPY_PER_BYTE = 12.0, 1.5  # registers; registers a copy of B and byte of an element
WIDEN = 24.0  # registers: mma.sync widens 8-bit operands to 16 bits
MANY = 192  # accumulators: with 256 no register is left to keep the others moving

#: share of its registers ptxas gives up if one more warp then resides (wgmma, mma.sync), and the counts where it does
SQUEEZE_WGMMA, SQUEEZE_MMA = 0.045, 0.109
STEPS = np.array([0, 24, 32, 40, 48, 56, 64, 72, 80, 96, 128, 168, REGS_PER_THREAD], np.float64)

#: words spilled = gain * excess * (1 + min(excess, SPILL_BENT) / 256)^1.04: first more and more for each register that
#: does not fit, then in proportion; near the limit the excess is soft, a few registers wide
SPILL_GAIN_WGMMA, SPILL_GAIN_MMA, SPILL_BEND, SPILL_SOFTNESS = 0.634, 0.947, 1.04, 5.0
SPILL_BENT = 130.0  # registers
SPILL_LEAST_WORDS = 0.5  # less is no spill
SPILL_LEAST_BYTES = 8.0  # what ptxas spills at least

#: Collapse: an mma.sync block whose loads go through registers (one stage, or unaligned rows) can overwhelm ptxas,
#: which then keeps nearly all in local memory (a dozen rows of one stage, 15 of unaligned rows).
COLLAPSE_TIGHT, COLLAPSE_DATA = 460.0, 1000.0  # registers; one stage: demand with over MANY accumulators; loads alone
COLLAPSE_LOOSE_TIGHT, COLLAPSE_LOOSE_ELEMENTS = 415.0, 32.0  # unaligned: demand, and elements of B (of A: half)
COLLAPSE_REGS = 64  # registers a thread with one warp, half with more
COLLAPSE_BYTES = 9.0  # of local memory a register of accumulators and loads with one warp, half as much again with more
COPY_REGS, LOOSE_COPY_REGS = 4.0, 11.0  # registers that 16 bytes on their way take: packed, and element by element


class _Tile(NamedTuple):
    """One configuration's geometry; float arrays of one shape."""

    bm: Floats
    bn: Floats
    bk: Floats
    warps: Floats
    stages: Floats
    loose_a: Bools
    loose_b: Bools
    size: int  # bytes of an operand's element
    wgmma: Bools
    warps_m: Floats
    warps_n: Floats
    stmatrix: bool


def layout(bm: Floats, bn: Floats, warps: Floats, wgmma_allowed: bool = True) -> tuple[Bools, Floats, Floats]:
    """Whether wgmma is used, warps along M, warps along N: Triton's own rules, exact for powers of two.

    mma.sync doubles the warps along the side that has more instruction tiles a warp, M if equal, N no further than
    its tiles. wgmma's warp groups go down M first.
    """
    wgmma = (bm >= WGMMA_M) & (warps % WGMMA_WARPS == 0) & wgmma_allowed
    tiles_n = np.log2(bn / MMA_N)
    doublings = np.log2(warps)
    even = np.floor((doublings + np.log2(bm / MMA_M) - tiles_n + 1) / 2)
    down = np.exp2(np.clip(np.maximum(even, doublings - tiles_n), 0, doublings))
    warps_m = np.where(wgmma, np.minimum(warps, bm / MMA_M), down)
    return wgmma, warps_m, warps / warps_m


def _operand_bytes(t: _Tile) -> Floats:
    """Buffers of A and B. A wgmma in flight still reads its buffer, so it needs one more than mma.sync."""
    a, b, threads = t.bm * t.bk * t.size, t.bk * t.bn * t.size, WARP * t.warps
    buffers = np.where(t.wgmma, t.stages, np.maximum(t.stages - 1, 1))
    # only cp.async pipelines: at least 4 bytes a thread, aligned rows
    na = np.where((a < MIN_COPY_BYTES * threads) | t.loose_a, 1, buffers)
    nb = np.where((b < MIN_COPY_BYTES * threads) | t.loose_b, 1, buffers)
    if t.size > 1:
        return a * na + b * nb
    nb = np.where(t.wgmma, 1, nb)  # 8-bit B becomes K-major on its way, through registers
    # B's row is one copy and each thread has one: two buffers whatever the stages (seen on 2 of 2 rows)
    nb = np.where(~t.wgmma & (t.bn == COPY_BYTES) & (b == COPY_BYTES * threads), np.minimum(nb, 2), nb)
    return np.where(~t.wgmma & (t.stages == 1), np.maximum(a, b), a * na + b * nb)


def _epilogue_bytes(t: _Tile) -> Floats:
    """C on its way from the accumulators' layout to that of coalesced stores.

    Rows that a thread holds in both layouts go through the same buffer in turn. Where neither stmatrix (sm_90: 16-bit
    C, no scalar stores of several rows at once) nor ldmatrix serves, such rows first fill a 16-byte vector, and only
    what is left goes in turn.
    """
    size = max(t.size, 2)
    vector = np.where(t.loose_b, 1, COPY_BYTES // size)  # elements a store
    rows = vector * (WARP * t.warps) / t.bn  # stored by one instruction of the block
    turns = t.bm / np.maximum(rows, np.minimum(MMA_M * t.warps_m, t.bm))
    turns = np.maximum(turns, 1) * np.where(rows <= MMA_N, 2, 1) * np.maximum(1 / rows, 1)
    vectors = COPY_BYTES // size // 2  # an accumulator's neighbour is the other half
    # ldmatrix, or transposed: one thread holds what a matrix row of 16 bytes takes, whose columns lie 8 or 32 apart
    ldmatrix = (t.warps_n == 1) & (t.bn >= 4 * MMA_N) | (t.bn == WARP * MMA_N) & (t.warps_n <= 4)
    aligned = np.where((size == 2) & (t.stmatrix | ldmatrix), 1, vectors)
    filled = np.where(t.loose_b, np.where((rows <= 1) & (size == 2), 1, COPY_BYTES // size), aligned)
    return t.bm * t.bn * size / np.maximum(turns / filled, 1)


def _uses(t: _Tile) -> tuple[Floats, ...]:
    """Accumulators, 16-byte copies of A and of B, and registers of matrix fragments, of one thread."""
    tiles_m = np.maximum(t.bm / MMA_M / t.warps_m, 1)
    tiles_n = np.maximum(t.bn / MMA_N / t.warps_n, 1)
    share = t.bk * (t.size / COPY_BYTES / WARP) / t.warps
    # the smaller side's fragments are kept (A: 4 registers a tile, B: 2), for two k steps
    fragments = np.minimum(4 * tiles_m, 2 * tiles_n) * np.minimum(t.bk * t.size / MMA_K_BYTES, 2)
    return 4 * tiles_m * tiles_n, t.bm * share, t.bn * share, fragments


def _demand(t: _Tile, uses: tuple[Floats, ...], wgmma: Demand, mma: Demand, least_copy: float) -> Floats:
    """Registers a thread asks for before any limit. A thread with less than a copy still holds `least_copy`."""
    kind = 2 * t.wgmma + (t.stages == 1)

    def pick(name: str, at_one_stage: str = "") -> Floats:
        table = [getattr(d, name) + one * getattr(d, at_one_stage, 0.0) for d in (mma, wgmma) for one in (0, 1)]
        column: Floats = np.array(table)[kind]
        return column

    acc, a, b, fragments = uses
    need = pick("base") + pick("accumulator") * acc + pick("fragment") * fragments
    need += pick("k_doubling") * np.log2(t.bk * (t.size / MMA_K_BYTES)) + pick("many") * np.maximum(acc - MANY, 0)
    need += np.maximum(a, least_copy) * pick("copy_a", "load_a") + np.maximum(b, least_copy) * pick("copy_b", "load_b")
    if np.any(t.loose_a | t.loose_b):
        need += COPY_BYTES / t.size * (pick("loose_a") * a * t.loose_a + pick("loose_b") * b * t.loose_b)
    return need


def _conversion(t: _Tile, copies_b: Floats) -> Floats:
    """Registers a thread takes, if free, to bring operands that are not 16-bit into the form the instruction wants."""
    if t.size == 2:
        return np.zeros_like(copies_b)
    transpose = TRANSPOSE_BASE + TRANSPOSE_COPY_PER_BYTE * t.size * copies_b
    return np.where(t.wgmma, transpose, WIDEN if t.size == 1 else 0.0)


def _registers(t: _Tile, need: Floats, limit: Floats) -> Floats:
    """Registers a thread without spills: what it asks for, or a little less if one more warp fits then."""
    regs = np.minimum(np.round(need), limit)
    step = STEPS[np.searchsorted(STEPS, regs, side="right") - 1]
    kept = 1 - np.where(t.wgmma, SQUEEZE_WGMMA, SQUEEZE_MMA)
    return np.where(regs * kept <= step, step, regs)


def _spilled_bytes(t: _Tile, tight: Floats, limit: Floats) -> Floats:
    """Local memory a thread, bytes, 0 where all stays in registers."""
    excess = SPILL_SOFTNESS * np.logaddexp(0, (tight - limit) / SPILL_SOFTNESS)
    gain = np.where(t.wgmma, SPILL_GAIN_WGMMA, SPILL_GAIN_MMA)
    words = gain * excess * (1 + np.minimum(excess, SPILL_BENT) / 256) ** SPILL_BEND
    return np.where(words > SPILL_LEAST_WORDS, np.maximum(4 * words, SPILL_LEAST_BYTES), 0.0)


def _allocate(t: _Tile, uses: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """Registers a thread, and bytes it spills."""
    limit = np.minimum(REGS_PER_THREAD, REGS_PER_BLOCK / WARP / t.warps)
    tight = _demand(t, uses, TIGHT_WGMMA, TIGHT_MMA, 0.0)
    spill = _spilled_bytes(t, tight, limit)
    comfort = _demand(t, uses, COMFORT_WGMMA, COMFORT_MMA, 1.0) + _conversion(t, uses[2])
    regs = _registers(t, comfort, limit)
    regs = np.where(spill > 0, limit, regs)
    lost, local = _collapse(t, uses, tight)
    kept = np.where(t.warps == 1, COLLAPSE_REGS, COLLAPSE_REGS // 2)
    return np.where(lost, kept, regs), np.where(lost, local, spill)


def _collapse(t: _Tile, uses: tuple[Floats, ...], tight: Floats) -> tuple[Bools, Floats]:
    """Where ptxas gives up, and the local memory a thread then has, bytes."""
    acc, a, b, _ = uses
    data = a * np.where(t.loose_a, LOOSE_COPY_REGS, COPY_REGS) + b * np.where(t.loose_b, LOOSE_COPY_REGS, COPY_REGS)
    one = (t.stages == 1) & (((tight > COLLAPSE_TIGHT) & (acc > MANY)) | (data > COLLAPSE_DATA))
    elements = COPY_BYTES / t.size * (b * t.loose_b + a * t.loose_a / 2)
    loose = (t.stages > 1) & (tight > COLLAPSE_LOOSE_TIGHT) & (elements >= COLLAPSE_LOOSE_ELEMENTS)
    return ~t.wgmma & (one | loose), COLLAPSE_BYTES * np.where(t.warps == 1, 1.0, 1.5) * (acc + data)


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
    flags = (np.logical_not(a_aligned), np.logical_not(b_aligned))
    given = np.broadcast_arrays(bm, bn, bk, num_warps, num_stages, *flags)
    m, n, k, warps, stages = (np.asarray(x, np.float64) for x in given[:5])
    loose_a, loose_b = (np.asarray(x, np.bool_) for x in given[5:])
    t = _Tile(
        m, n, k, warps, stages, loose_a, loose_b, element_bytes, *layout(m, n, warps, wgmma_allowed), wgmma_allowed
    )
    uses = _uses(t)
    regs, spill = _allocate(t, uses)
    smem = np.maximum(_operand_bytes(t), _epilogue_bytes(t))
    # accumulators alone fill what 16 warps may have: ptxas fails (fewer warps: it spills)
    compiles = np.logical_not(t.wgmma & (warps > 8) & (uses[0] * warps * WARP >= REGS_PER_BLOCK))
    w_m, w_n, r, s = (np.asarray(x, np.int64) for x in (t.warps_m, t.warps_n, regs, smem))
    return Resources(t.wgmma, w_m, w_n, r, spill, s, compiles)
