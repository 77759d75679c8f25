"""What a block of kernels/wgmma.cu asks of an SM: operands of wgmma, boxes of the copy engine, sums that are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.simt_resources import form
from gemmsim.families.traits import WGMMA, Traits
from gemmsim.families.wgmma_resources import (
    ROW_BYTES,
    ROWS,
    STORED_BYTES,
    along_k,
    chunk,
    loaded_bytes,
    sharers,
    stored_columns,
    sums,
    x_side,
    y_side,
)
from gemmsim.problem import FloatArray, Form, Gemm

WAVEFRONT_BYTES, SECTOR_BYTES, LINE_BYTES, PIECE_BYTES = 128, 32, 128, 64
#: bytes of K that one wgmma multiplies
MMA_BYTES = 32
#: bytes of L2 that one request of the copy engine is worth: it asks for whole rows of a box
COPY_BYTES = 16.0
BUFFERS = 2  # of results that a warpgroup fills
#: warp instructions of a consumer's k-step beside its wgmma: barriers, descriptors, loop; and of the producer's
STEP_INSTRUCTIONS, PRODUCER_INSTRUCTIONS = 25.0, 30.0
WARPS = 4  # of a warpgroup


def traits(problem: Gemm, config: Config, launch: Launch) -> Traits:
    """Counts of a block (see Traits). Loads are the producer's: they cost consumers no issue slot and no register.

    An instruction reads 64 rows of X and all of Y from shared memory, 32 bytes of K of each: (64 + Y) / 4 wavefronts,
    against Y/2 clocks of the four tensor cores. With Y of 64 both take 32 clocks; with less the operands are what
    bounds (Y = 32: 24 of 16 clocks, 67 % at most, measured 63 % by Luo et al. 2024), and every consumer reads Y anew.
    """
    shape = form(problem)
    x, y, e = x_side(config).astype(np.float64), y_side(config).astype(np.float64), problem.a_bytes
    bk, consumers = config["bk"].astype(np.float64), sharers(config).astype(np.float64)
    count = x / ROWS * bk * e / MMA_BYTES
    warps, zero, no = WARPS * consumers, np.zeros(1), np.zeros(1, bool)
    half = np.full(1, 0.5)
    depth = np.maximum(1.0, config["stages"] - 1.0)
    a, b = (_Boxes.of(problem, name, config) for name in "ab")
    boxed = np.asarray(problem.n * problem.c_bytes % COPY_BYTES == 0) & (problem.c_bytes == STORED_BYTES)
    row_a, row_b = (_row_bytes(shape, name, config, side, e) for side, name in (("bm", "a"), ("bn", "b")))
    return Traits(
        path=np.full(1, WGMMA),
        warps=warps,
        fmas=x * y * bk,
        wgmma_count=count,
        smem_reads=count * (ROWS + y) * MMA_BYTES / WAVEFRONT_BYTES,
        smem_writes=loaded_bytes(config, shape) / WAVEFRONT_BYTES,
        loops=zero,
        operations=zero,
        instructions=warps * (STEP_INSTRUCTIONS + count / consumers) + PRODUCER_INSTRUCTIONS,
        integer_instructions=zero,
        chain_instructions=zero,
        global_sectors=zero,
        loads=zero,
        rounds_a=half,
        rounds_b=half,
        barrier_warps=zero,
        step_clk=zero,
        depth=depth,
        asynchronous=np.ones(1, bool),
        through_registers=no,
        fill_steps=depth,
        prologue_loads=zero,
        accumulators=sums(config).astype(np.float64),
        store_sectors=np.where(boxed, 0, x * y * problem.c_bytes / SECTOR_BYTES),
        a_row_bytes=row_a,
        b_row_bytes=row_b,
        a_copy_bytes=np.full(1, COPY_BYTES),
        b_copy_bytes=np.full(1, COPY_BYTES),
        scalar_loads=zero,
        repeats_rows=no,
        split_k=config["split_k"].astype(np.float64),
        split_tail=config["split_tail"] == 1,
        stream_k=config["stream_k"] == 1,
        sums_slices=np.ones(1, bool),
        cluster_m=config["cluster_m"].astype(np.float64),
        cluster_n=config["cluster_n"].astype(np.float64),
        persistent=np.ones(1, bool),
        store_rounds=np.where(boxed, np.ceil(x * y / (ROWS * consumers * stored_columns(config)) / BUFFERS), 0),
        fills_edges=np.ones(1, bool),
        a_padded=_padded(row_a, "a", problem, config),
        b_padded=_padded(row_b, "b", problem, config),
        a_extra=a.extra,
        b_extra=b.extra,
        boxes=a.count + b.count,
        shared_boxes=a.shared + b.shared,
        box_rows=a.rows + b.rows,
        tiles_under_way=np.where(config["pingpong"] == 1, config["consumers"], 1).astype(np.float64),
    )


def _row_bytes(shape: Form, operand: str, config: Config, side: str, width: int) -> FloatArray:
    """Bytes of a row of a box, which the copy engine asks for at once: of K, or of a chunk of the tile's side."""
    row = np.minimum(config["bk"] * width, ROW_BYTES) if along_k(shape, operand) else chunk(config[side]) * width
    return np.asarray(row, np.float64)


def _padded(row_bytes: FloatArray, operand: str, problem: Gemm, config: Config) -> FloatArray:
    """What L2 reads for boxes beside a tile, as a share of it: columns that chunks cover, ends of sectors.

    A row of r bytes whose start is a multiple of g bytes, g less than a sector, lies in r + 32 - g bytes of sectors.
    """
    side, stride = ("bm", problem.a_stride) if operand == "a" else ("bn", problem.b_stride)
    width, runs = problem.a_bytes, along_k(form(problem), operand)
    covered = 1.0 if runs else -(-config[side] // chunk(config[side])) * chunk(config[side]) / config[side]
    start = np.gcd(np.gcd(stride * width, 0 if runs else config[side] * width), SECTOR_BYTES)
    return np.asarray(covered * (1 + (SECTOR_BYTES - start) / row_bytes) - 1)


@dataclass(frozen=True)
class _Boxes:
    """Boxes that a block asks for to load its part of an operand's tile; those that go to all of a cluster; rows.

    Rows: lines of memory under them, more than one each where they lie askew: of r bytes whose start is a multiple of g
    bytes 1 + (r - g) / 128 in the mean; tiles of 176 columns begin at multiples of 32. Extra: L2 reads pieces of 64 B,
    r + 64 - g bytes of a row where g is less than that.
    """

    count: FloatArray
    shared: FloatArray
    rows: FloatArray
    extra: FloatArray

    @staticmethod
    def of(problem: Gemm, operand: str, config: Config) -> _Boxes:
        """Those of operand "a" or "b"."""
        shape, width = form(problem), problem.a_bytes
        side, sharing, stride = ("bm", "cluster_n", problem.a_stride)
        if operand == "b":
            side, sharing, stride = ("bn", "cluster_m", problem.b_stride)
        runs, blocks = along_k(shape, operand), config[sharing]
        row = _row_bytes(shape, operand, config, side, width)
        count = config["bk"] * width / row if runs else -(-config[side] // chunk(config[side])) * 1.0
        tile = 0 if runs else config[side] * width  # along M or N a tile may begin amid a line
        start = np.gcd(np.gcd(stride * width, row.astype(np.int64)), tile)
        lines = 1 + (row - start) / LINE_BYTES
        rows = (config[side] if runs else config["bk"]) / blocks * count
        return _Boxes(
            np.asarray(count),
            np.where(blocks > 1, count, 0),
            np.asarray(rows * lines),
            np.maximum(0, PIECE_BYTES - start) / row,
        )
