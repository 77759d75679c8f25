"""What a kernel family asks of the chip: counts a block and a k-step. The model reads these, never a name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]
#: `Traits.path`: which unit does the multiplications
FMA, MMA_SYNC, WGMMA = 0, 1, 2


#: FMA instructions lose this to register bank conflicts (read off SASS of the register-tile kernel, nvcc 13.0)
FMA_BANK_CONFLICTS = 1.04


def _ones() -> FloatArray:
    return np.ones(1)


def _zeros() -> FloatArray:
    return np.zeros(1)


def _no() -> BoolArray:
    return np.zeros(1, bool)


@dataclass(frozen=True)
class Traits:
    """Counts of one block, all its warps together, a k-step where nothing else is said.

    Every entry is an array with one value a row, or a single value that holds for all rows.
    """

    path: npt.NDArray[np.int64]  # FMA, MMA_SYNC or WGMMA
    warps: FloatArray  # of a block
    fmas: FloatArray  # multiply-adds done, the repeats of idle warps included
    wgmma_count: FloatArray  # wgmma instructions
    smem_reads: FloatArray  # wavefronts (passes of up to 128 B) that feed the math
    smem_writes: FloatArray  # wavefronts that fill the tiles
    loops: FloatArray  # warp iterations, each with the loop's fixed overhead
    operations: FloatArray  # warp instructions of the body that are known: copies, fragment loads, mma
    instructions: FloatArray  # warp instructions counted one by one instead (0 where loops and operations tell)
    integer_instructions: FloatArray  # those of them on the half-rate integer pipe
    chain_instructions: FloatArray  # instructions of one warp, math aside, that it waits for in turn
    global_sectors: FloatArray  # 32 B sectors that global loads pass through L1 (0: cp.async or TMA, L1 bypassed)
    loads: FloatArray  # global loads or copies a thread
    rounds_a: FloatArray  # rounds of global loads of A, each waiting for the one before; 1/2 if A and B go together
    rounds_b: FloatArray
    barrier_warps: FloatArray  # warps that meet at the barriers of a k-step
    step_clk: FloatArray  # fixed clocks of a k-step that nothing hides: barrier, first fragment, branch
    depth: FloatArray  # k-steps whose loads are in flight together
    asynchronous: BoolArray  # loads overlap the block's own math; false: load, wait, compute in turn
    through_registers: BoolArray  # copies pass registers on their way to shared memory
    fill_steps: FloatArray  # load latencies before the first multiplication, beyond the first
    prologue_loads: FloatArray  # global loads a thread before the main loop
    accumulators: FloatArray  # a thread stores them at the end
    store_sectors: FloatArray  # 32 B sectors a block stores at the end, all warps, if L1 sees them one by one (else 0)
    a_row_bytes: FloatArray  # contiguous bytes of a tile row of A, of B
    b_row_bytes: FloatArray
    a_copy_bytes: FloatArray  # bytes a thread copies at once
    b_copy_bytes: FloatArray
    scalar_loads: FloatArray  # loads a thread makes one element at a time, because a row stride is unaligned
    repeats_rows: BoolArray  # rows past M are read again (wrapped), not skipped
    #: lines of 128 B that loads of single elements look up for one lane each: the lanes of a warp lie rows apart
    scattered_lines: FloatArray = field(default_factory=_zeros)
    #: rows of A past M are the last row again: requests of all blocks for the same few lines
    repeats_last: BoolArray = field(default_factory=_no)
    #: lines of 128 B that a request crosses since rows of A (of B) begin anywhere on them, mean
    a_crossings: FloatArray = field(default_factory=_zeros)
    b_crossings: FloatArray = field(default_factory=_zeros)
    #: parts of a block that each wait for their own loads: its warps where no barrier joins them
    parts: FloatArray = field(default_factory=_ones)
    #: clocks of an FMA instruction against a free run of the unit: operands that meet in a register bank
    bank_conflicts: FloatArray = field(default_factory=lambda: np.full(1, FMA_BANK_CONFLICTS))
    #: math and all other instructions are issued in turn, so their clocks add up; `instructions` are the others alone
    joint_issue: BoolArray = field(default_factory=_no)
    #: loads of a later k-step are in flight while this one is multiplied: a k-step waits for the longer of the two
    prefetched: BoolArray = field(default_factory=_no)
    #: clocks a k-step that a lone block cannot hide, however many k-steps are in flight: first fragments
    exposed_clk: FloatArray = field(default_factory=_zeros)
    #: warps that meet at barriers no other k-step hides, times the barriers
    exposed_barriers: FloatArray = field(default_factory=_zeros)
    #: machine code of the main loop, and all that a launch runs through (0: small)
    loop_bytes: FloatArray = field(default_factory=_zeros)
    code_bytes: FloatArray = field(default_factory=_zeros)
    #: times a k-step that a spilled word goes out and comes back
    spill_repeats: FloatArray = field(default_factory=_ones)
    #: slices along K of a tile that is split; only tiles past the last whole wave are; one wave shares out all k-steps
    split_k: FloatArray = field(default_factory=_ones)
    split_tail: BoolArray = field(default_factory=_no)
    stream_k: BoolArray = field(default_factory=_no)
    #: slices differ by a k-step at most (17 shared out to 16), so that in many waves of them the mean counts
    uneven_slices: BoolArray = field(default_factory=_no)
    partial_bytes: float = 4.0  # of an element of a slice's part of C, in the workspace
    #: mma.sync: the fragments of the next step along K are read while this one is multiplied
    fragments_ahead: BoolArray = field(default_factory=_no)
    #: slices are summed by the block with the last of them, which waits for the others, not by a second kernel
    sums_slices: BoolArray = field(default_factory=_no)
    #: blocks of a cluster along M and N: they start together, on SMs of one GPC, and each tile of B (of A) that they
    #: share leaves L2 once, to all of them (multicast)
    cluster_m: FloatArray = field(default_factory=_ones)
    cluster_n: FloatArray = field(default_factory=_ones)
    #: blocks stay and compute one tile after another: the next tile's loads run while a result is stored
    persistent: BoolArray = field(default_factory=_no)
    #: tiles of a persistent block that take turns: one's math runs while another's result is stored
    tiles_under_way: FloatArray = field(default_factory=_ones)
    #: times that a warpgroup fills its buffers with results and waits until the copy engine has read them
    store_rounds: FloatArray = field(default_factory=_zeros)
    #: rows and columns of a tile past the edge of C are asked for and come as zeros
    fills_edges: BoolArray = field(default_factory=_no)
    #: what L2 reads for boxes beside a tile of A, of B, as a share of it: columns of the next one, ends of sectors
    a_padded: FloatArray = field(default_factory=_zeros)
    b_padded: FloatArray = field(default_factory=_zeros)
    #: what L2 reads of A and B beyond what is asked for, a share of it: whole pieces of memory under short, askew rows
    a_extra: FloatArray = field(default_factory=_zeros)
    b_extra: FloatArray = field(default_factory=_zeros)
    #: boxes that the copy engine is asked for by the warp that loads, those of them that go to all of a cluster, and
    #: their rows (0: no warp does nothing but load)
    boxes: FloatArray = field(default_factory=_zeros)
    shared_boxes: FloatArray = field(default_factory=_zeros)
    box_rows: FloatArray = field(default_factory=_zeros)


@dataclass(frozen=True)
class Prior:
    """Where a family's coefficient starts and how far a fit may move it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Parameter:
    """One free choice of a family: the values `rank` searches, the default, the value allowed at all."""

    name: str
    choices: tuple[int, ...]
    default: int
    low: int
    high: int
    power_of_two: bool
    meaning: str


def inside(extent: IntArray, tile: FloatArray) -> FloatArray:
    """The share of the tiles along one dimension of C that lies inside C."""
    return np.asarray(extent / (np.ceil(extent / tile) * tile))
