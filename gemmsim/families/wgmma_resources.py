"""Threads, registers, spills and shared memory of a block of kernels/wgmma.cu, and how its tiles lie in shared memory.

X is the operand on wgmma's M side, Y that on its N side: A and B, or B and A with swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gemmsim.config import Config, Launch
from gemmsim.families.simt_resources import form
from gemmsim.families.unique import per_unique
from gemmsim.hardware import Arch
from gemmsim.problem import DTYPE_BYTES, Form, Gemm, IntArray, form_of

Columns = Mapping[str, IntArray] | Config
Whole = TypeVar("Whole", int, IntArray)
#: what decides registers, shared memory and a block's counts
COLUMNS = ("bm", "bn", "bk", "stages", "consumers", "pingpong", "cluster_m", "cluster_n", "swap", "blocks", "stream_k")
WARPGROUP = 128  # threads
#: rows that one wgmma multiplies; its columns, in steps of
ROWS, COLUMNS_STEP, MOST_COLUMNS = 64, 8, 256
ALIGNMENT_BYTES, BARRIER_BYTES = 1024, 16
ROW_BYTES = 128  # of a tile in shared memory, swizzled among themselves
#: elements of such a row, of operands that lie along M or N
CHUNKS = (64, 32, 16)
#: bytes of a consumer's epilogue, for each column of Y that is stored at a time: two buffers, 64 results of 2 B each
EPILOGUE_BYTES, MOST_EIGHTS = 2 * 64 * 2, 8
#: bytes of C's element that the copy engine stores
STORED_BYTES = 2
REGISTERS, MOST_AT_ENTRY, MOST_CONSUMER = 65536, 256, 240
#: registers of a producer's thread; fewer with three consumers, or where a thread begins with less than LARGE
PRODUCER, SMALL_PRODUCER, LARGE = 40, 32, 128
#: registers of a consumer's thread beside its sums, and of one instruction beside those of its own
OWN_REGS, INSTRUCTION_REGS = 32, 26


def threads(consumers: Whole) -> Whole:
    """Threads of a block: its consumer warpgroups, and the producer."""
    return WARPGROUP * (consumers + 1)


def entry_regs(consumers: IntArray, blocks: IntArray) -> IntArray:
    """Registers a thread when a block starts: what is left for each, in whole eights."""
    return np.asarray(np.minimum(REGISTERS // blocks // threads(consumers) // 8 * 8, MOST_AT_ENTRY))


def consumer_regs(consumers: IntArray, blocks: IntArray) -> IntArray:
    """Registers a thread that consumers have: theirs and what the producer gives up, whole eights, 240 at most."""
    entry = entry_regs(consumers, blocks)
    producer = np.where((consumers == 3) | (entry < LARGE), SMALL_PRODUCER, PRODUCER)
    return np.asarray(np.minimum((entry * (consumers + 1) - producer) // consumers // 8 * 8, MOST_CONSUMER))


def x_side(u: Columns) -> IntArray:
    """Elements of a block's tile of X."""
    return np.where(u["swap"] == 1, u["bn"], u["bm"])


def y_side(u: Columns) -> IntArray:
    """Elements of a block's tile of Y."""
    return np.where(u["swap"] == 1, u["bm"], u["bn"])


def sharers(u: Columns) -> IntArray:
    """Consumers that share a tile."""
    return np.where(u["pingpong"] == 1, 1, u["consumers"])


def sums(u: Columns) -> IntArray:
    """Sums a thread of a consumer holds."""
    return np.asarray(x_side(u) // ROWS * y_side(u) // (2 * sharers(u)))


def along_k(shape: Form, operand: str) -> bool:
    """Whether an operand ("a", "b") runs along K in memory."""
    return shape.layout[0] == "N" if operand == "a" else shape.layout[1] == "T"


def chunk(side: IntArray) -> IntArray:
    """Elements (16-bit) of a chunk in which a tile is loaded that lies along M or N: a swizzled row of shared memory.

    The widest of 128, 64 and 32 bytes that pads the side by an eighth at most.
    """
    wide, narrow = (8 * (-(-side // row) * row) <= 9 * side for row in CHUNKS[:2])
    return np.where(wide, CHUNKS[0], np.where(narrow, CHUNKS[1], CHUNKS[2]))


def padded(side: IntArray, runs_along_k: bool) -> IntArray:
    """Elements of a tile's side as it lies in shared memory: whole chunks where it lies along M or N."""
    return side if runs_along_k else np.asarray(-(-side // chunk(side)) * chunk(side))


def stage_bytes(u: Columns, shape: Form) -> IntArray:
    """Shared memory of one buffer of both tiles."""
    return np.asarray(-(-loaded_bytes(u, shape) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)


def loaded_bytes(u: Columns, shape: Form) -> IntArray:
    """Bytes of both tiles as they are loaded."""
    bm, bn = (padded(u[side], along_k(shape, name)) for side, name in (("bm", "a"), ("bn", "b")))
    return np.asarray((bm + bn) * u["bk"] * DTYPE_BYTES[shape.dtype])


def dynamic_smem_bytes(u: Columns, shape: Form) -> IntArray:
    """Shared memory of a block, all of it dynamic: buffers and a pair of barriers a stage, the epilogue, alignment."""
    stored = DTYPE_BYTES[str(form_of(shape).dtype_c)] == STORED_BYTES
    return np.asarray(ends_bytes(u, stored) + u["stages"] * (stage_bytes(u, shape) + BARRIER_BYTES))


def ends_bytes(u: Columns, stored: bool) -> IntArray:
    """Shared memory beside the stages; stored: C leaves through it."""
    epilogue = EPILOGUE_BYTES * stored_columns(u) * u["consumers"]
    return np.asarray(ALIGNMENT_BYTES + epilogue * stored)


def stored_columns(u: Columns) -> IntArray:
    """Columns of Y that are stored at a time: the most that divide it, of any eights up to 64 where they are rows of
    C (swap), of 64, 32, 16 and 8 where they are a swizzled row."""
    eights = y_side(u) // COLUMNS_STEP
    most = np.ones_like(eights)
    for count in range(2, MOST_EIGHTS + 1):
        whole = (eights % count == 0) & ((u["swap"] == 1) | (count & (count - 1) == 0))
        most = np.where(whole, count, most)
    return np.asarray(most * COLUMNS_STEP)


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, exactly. What would spill is refused: see `lacking`."""

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        regs = np.minimum(entry_regs(u["consumers"], u["blocks"]), MOST_CONSUMER)
        return threads(u["consumers"]), regs, dynamic_smem_bytes(u, form(problem))

    columns = {p: config[p] for p in COLUMNS}
    threads_, regs, smem = per_unique(columns, len(config), compute)
    return Launch(threads_, regs, np.zeros(len(config)), smem, np.zeros(len(config), bool))


def lacking(u: Columns) -> IntArray:
    """Registers that a consumer's thread lacks for its sums and what it needs beside them; none: 0.

    With one too few ptxas keeps all sums in local memory and waits for each wgmma (C7512), which fails the build.
    Together with `starts` this tells which of 226 configurations NVRTC 13.5 compiles for sm_90a.
    """
    return np.asarray(np.maximum(0, sums(u) + OWN_REGS - consumer_regs(u["consumers"], u["blocks"])))


def starts(u: Columns) -> npt.NDArray[np.bool_]:
    """Whether the registers that a thread begins with hold what one instruction names (else ptxas says C7602)."""
    return np.asarray(y_side(u) // 2 + INSTRUCTION_REGS <= entry_regs(u["consumers"], u["blocks"]))
