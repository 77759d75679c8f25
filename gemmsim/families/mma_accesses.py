"""Addresses that the lanes of kernels/mma.cu ask for: copies of both tiles, fragment reads, stores of C.

`place` and `fragments` are kernels/common/swizzle.cuh and mma.cuh again, in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemmsim.config import Config
from gemmsim.families.accesses import SAMPLE, Access, access, across, column, idle, threads
from gemmsim.families.copies import LEAST_ASYNC, fitted_columns
from gemmsim.families.mma_resources import STEP_BYTES, copies, piece
from gemmsim.families.simt_resources import threads_of
from gemmsim.families.wavefronts import LANES
from gemmsim.problem import FloatArray, Gemm, IntArray

#: bytes of a piece that changes place
PIECE_BYTES = 16
#: LDS with a false predicate that ptxas puts before each tile's cp.async (sm_90a, NVRTC 13.5): no lane takes part
PLACEHOLDERS = 3


def along_k(layout: str, side: str) -> bool:
    """Whether K runs on in memory for the operand whose tile's side is bm (A) or bn (B)."""
    return layout[0] == "N" if side == "bm" else layout[1] == "T"


def by_words(layout: str, side: str, width: int) -> bool:
    """Whether fragments are read word by word: ldmatrix turns 16-bit elements alone."""
    return width == 4 and not along_k(layout, side)


def turn(row: IntArray, row_bytes: IntArray, words: bool) -> IntArray:
    """What is XORed into the place of a 16-byte piece of this row of a tile."""
    pieces = row_bytes // PIECE_BYTES
    turns = np.where(pieces % 8 == 0, 8, np.where(pieces % 4 == 0, 4, 2))
    return np.asarray(row // (8 // turns) * (2 if words else 1) % turns)


def place(row: IntArray, byte: IntArray, row_bytes: IntArray, words: bool) -> IntArray:
    """Where a byte of a row of a tile lies in shared memory."""
    piece = byte // PIECE_BYTES ^ turn(row, row_bytes, words)
    return np.asarray(row * row_bytes + piece * PIECE_BYTES + byte % PIECE_BYTES)


def fragments(layout: str, side: str, width: int, block: IntArray, step: IntArray) -> tuple[IntArray, IntArray]:
    """Row of the tile, and byte in it, that each lane gives to the read of one block of 16 rows of A or columns of B.

    ldmatrix: lane i gives row i % 8 of matrix i / 8. Word by word: the first of four reads.
    """
    lane = np.arange(LANES)
    if by_words(layout, side, width):
        return step * 8 + lane % 4, (block * 16 + lane // 4) * width
    low, high = lane // 8 % 2, lane // 16
    straight = (side == "bm") == along_k(layout, side)
    line, half = lane % 8 + (low if straight else high) * 8, high if straight else low
    if along_k(layout, side):
        return block * 16 + line, step * STEP_BYTES + half * PIECE_BYTES
    return step * 16 + line, block * STEP_BYTES + half * PIECE_BYTES


def row_bytes(config: Config, layout: str, side: str, width: int) -> IntArray:
    """Bytes of a row of a tile: along K a whole k-step, else the tile's side."""
    return np.asarray(config["bk" if along_k(layout, side) else side] * width)


def access_patterns(problem: Gemm, config: Config) -> tuple[Access, ...]:
    """Requests of a block (see Access). Those of the second kernel, that sums slices, touch global memory alone."""
    warps = threads_of(config) / LANES
    placeholders = idle("placeholders", PLACEHOLDERS * warps, PLACEHOLDERS * warps * (config["stages"] - 1))
    copying = [x for side in ("bm", "bn") for x in _copies(problem, config, side)]
    reading = [_fragments(problem, config, side, warps) for side in ("bm", "bn")]
    return (*copying, placeholders, *reading, _stores(problem, config, warps))


def _copies(problem: Gemm, config: Config, side: str) -> Iterator[Access]:
    """How a tile of A (side bm) or B (bn) gets into shared memory, as if all of it lay inside the matrix."""
    width, layout = problem.a_bytes, problem.layout
    name = "A" if side == "bm" else "B"
    fitted = dict(config.values) | fitted_columns(problem, config)
    size = piece(fitted, side, width)
    total = config[side] * config["bk"] * width // size
    each = row_bytes(config, layout, side, width)
    row, number = across(threads(len(config), 1) % column(total), column(each // size))
    byte = number * column(size)
    shared = place(row, byte, column(each), by_words(layout, side, width))
    stride = column((problem.a_stride if side == "bm" else problem.b_stride) * width)
    requests = np.ceil(total / LANES)
    asynchronous = size >= LEAST_ASYNC
    least = np.maximum(size, LEAST_ASYNC)
    yield access(f"{name}: cp.async", requests * asynchronous, least, shared=shared, memory=row * stride + byte)
    yield access(f"{name}: load", requests * ~asynchronous, size, memory=row * stride + byte)
    yield access(f"{name}: store", requests * ~asynchronous, least, shared=shared)
    rounds = copies(fitted, side, width) * threads_of(config) / LANES
    yield idle(f"{name}, no lane", np.where(asynchronous, 0.0, rounds - requests))


def _fragments(problem: Gemm, config: Config, side: str, warps: FloatArray) -> Access:
    """Reads for each 32 bytes of K, a step ahead: so many blocks of 16 for each warp."""
    width, layout = problem.a_bytes, problem.layout
    words = by_words(layout, side, width)
    reads = warps * config["wm" if side == "bm" else "wn"] / 16 * (4 if words else 1)
    block = column(np.zeros(len(config), np.int64))
    step = np.arange(SAMPLE)[:, None] % column(np.maximum(config["bk"] * width // STEP_BYTES, 1))
    row, byte = np.broadcast_arrays(*fragments(layout, side, width, block, step))
    shared = place(row, byte, column(row_bytes(config, layout, side, width)), words)
    name = "A" if side == "bm" else "B"
    steps = config["bk"] * width / STEP_BYTES
    return access(f"{name}: fragments", reads * steps, LEAST_ASYNC if words else PIECE_BYTES, shared=shared, ends=reads)


def _stores(problem: Gemm, config: Config, warps: FloatArray) -> Access:
    """Eight rows of 16 results, four neighbours a lane: at once where the strides allow."""
    width = problem.c_bytes
    together = np.clip(fitted_columns(problem, config)["copy_c"] // width, 1, 4)
    lane = np.arange(LANES)
    first = lane % 2 * 8 + lane % 4 // 2 * 4
    memory = (lane // 4 * problem.n[:, None] + first) * width
    requests = warps * config["wm"] * config["wn"] / LANES / together
    shape = (len(config), LANES)
    return access("C: store", 0.0, together * width, memory=np.broadcast_to(memory, shape)[:, None, :], ends=requests)
