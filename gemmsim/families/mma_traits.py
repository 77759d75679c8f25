"""What a block of kernels/mma.cu asks of an SM: copies, fragment reads, mma.sync, stores of its lanes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config
from gemmsim.families.copies import LEAST_ASYNC, WIDEST, fitted_columns
from gemmsim.families.mma_accesses import along_k, by_words
from gemmsim.families.mma_resources import COLUMNS, STEP_BYTES, copies, results
from gemmsim.families.simt_resources import threads_of
from gemmsim.families.traits import MMA_SYNC, Traits, inside
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES
from gemmsim.problem import FloatArray, Gemm, IntArray

SECTOR_BYTES, WAVEFRONT_BYTES, LINE_BYTES = 32, 128, 128
#: warp instructions of a k-step beside mma.sync, fragment reads and copies: loop, barrier, buffers; of each 32 bytes of
#: K; and of a copy (read off the SASS of 80 configurations for sm_90a: studies/facts)
LOOP_INSTRUCTIONS, STEP_INSTRUCTIONS, COPY_INSTRUCTIONS = 26.0, 2.7, 2.9
INSTRUCTION_BYTES = 16.0
#: instructions before and behind the main loop, and of them for each result
ENDS_INSTRUCTIONS, RESULT_INSTRUCTIONS = 400.0, 5.0
#: elements that a thread loads one by one before it waits for them (common/swizzle.cuh)
BATCH = 8.0
#: side of the tile of A, of B, and the parameter that says how it is copied
SIDES = (("bm", "copy_a"), ("bn", "copy_b"))
#: rows of C that a store of one warp touches
STORED_ROWS = 8


def traits(problem: Gemm, config: Config, align: bool = False) -> Traits:
    """Counts of a block (see Traits). align: as if row strides and addresses allowed the widest copies.

    Copies under 16 bytes count as scalar loads: an unaligned stride costs their number.
    """
    columns = {p: config[p] for p in COLUMNS} | fitted_columns(problem, config, align)

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _counts(u, problem)

    c = dict(zip(_NAMES, per_unique(columns, len(config), compute), strict=True))
    live_m, live_n = (inside(size, config[p].astype(np.float64)) for size, p in ((problem.m, "bm"), (problem.n, "bn")))
    zero = np.zeros(1)
    one_by_one = {side: columns[copy] < LEAST_ASYNC for side, copy in SIDES}
    alone = one_by_one["bm"] | one_by_one["bn"]
    depth = np.where(alone, 1.0, np.maximum(1, config["stages"] - 1.0))
    row_a, row_b = (_row_bytes(problem, config, side) for side in ("bm", "bn"))
    return Traits(
        path=np.full(1, MMA_SYNC),
        warps=c["warps"],
        fmas=c["fmas"],
        wgmma_count=zero,
        smem_reads=c["reads"],
        smem_writes=c["writes"],
        loops=zero,
        operations=zero,
        instructions=c["instructions"],
        integer_instructions=zero,
        chain_instructions=zero,
        global_sectors=c["sectors"],
        loads=c["loads"],
        # what is read again past M or N is in L1
        rounds_a=np.where(one_by_one["bm"], c["batches_a"] * live_m, 0.5),
        rounds_b=np.where(one_by_one["bn"], c["batches_b"] * live_n, 0.5),
        barrier_warps=zero,
        step_clk=zero,
        depth=depth,
        asynchronous=~alone,
        through_registers=alone,
        fill_steps=depth,
        prologue_loads=c["loads"] * (config["stages"] - 1),
        accumulators=c["results"],
        store_sectors=c["stored"] * live_m * live_n,
        a_row_bytes=row_a,
        b_row_bytes=row_b,
        a_copy_bytes=np.asarray(columns["copy_a"], np.float64),
        b_copy_bytes=np.asarray(columns["copy_b"], np.float64),
        scalar_loads=c["scalar_loads"],
        a_crossings=crossings(row_a, problem.a_stride * problem.a_bytes, columns["copy_a"]),
        b_crossings=crossings(row_b, problem.b_stride * problem.b_bytes, columns["copy_b"]),
        repeats_rows=np.zeros(1, bool),
        repeats_last=np.full(1, along_k(problem.layout, "bm")),
        prefetched=~alone,
        exposed_barriers=c["warps"],
        loop_bytes=c["loop_bytes"],
        code_bytes=c["code_bytes"],
        fragments_ahead=np.ones(1, bool),
        split_k=config["split_k"].astype(np.float64),
        uneven_slices=np.ones(1, bool),
    )


_NAMES = (
    "warps", "fmas", "reads", "writes", "instructions", "sectors", "loads", "results", "stored", "scalar_loads",
    "loop_bytes", "code_bytes", "batches_a", "batches_b",
)  # fmt: skip


def _counts(u: Mapping[str, IntArray], problem: Gemm) -> tuple[np.ndarray, ...]:
    width, layout = problem.a_bytes, problem.layout
    f = {p: u[p].astype(np.float64) for p in ("bm", "bn", "bk", "wm", "wn")}
    warps, steps = threads_of(u) / LANES, f["bk"] * width / STEP_BYTES
    multiplied = f["wm"] / 16 * f["wn"] / 8 * steps
    words_a, words_b = (by_words(layout, side, width) for side in ("bm", "bn"))
    reads = f["wm"] / 16 * (4 if words_a else 1) + f["wn"] / 16 * (4 if words_b else 1)
    loads, narrow, sectors, filled = (np.zeros(len(warps)) for _ in range(4))
    for side, name in SIDES:
        count = copies(u, side, width)
        loads = loads + count
        whole = f[side] * f["bk"] * width / WAVEFRONT_BYTES
        filled = filled + np.where(u[name] < LEAST_ASYNC, count * warps, whole)  # 32 elements a request
        narrow = narrow + np.where(u[name] < WIDEST, count, 0)
        sectors = sectors + np.where(u[name] < WIDEST, f[side] * f["bk"] * width / SECTOR_BYTES, 0)
    one = LOOP_INSTRUCTIONS + multiplied + (STEP_INSTRUCTIONS + reads) * steps + COPY_INSTRUCTIONS * loads
    fed = (f["wm"] + f["wn"]) * f["bk"] * width / WAVEFRONT_BYTES
    code = INSTRUCTION_BYTES * (one + ENDS_INSTRUCTIONS + RESULT_INSTRUCTIONS * results(u) + 4 * loads * u["stages"])
    out = (
        warps, f["bm"] * f["bn"] * f["bk"], warps * fed, filled, warps * one, sectors, loads, results(u),
        warps * _stored(u, problem), narrow, INSTRUCTION_BYTES * one, code,
        *(np.ceil(copies(u, side, width) / BATCH) for side, _ in SIDES),
    )  # fmt: skip
    return tuple(np.broadcast_to(np.asarray(x, np.float64), warps.shape) for x in out)


def _stored(u: Mapping[str, IntArray], problem: Gemm) -> FloatArray:
    """Sectors that the stores of a warp's results touch, request by request."""
    together = np.clip(u["copy_c"] // problem.c_bytes, 1, 4)
    return np.asarray(results(u) / together * STORED_ROWS * np.maximum(1, 16 * problem.c_bytes / SECTOR_BYTES))


def crossings(row_bytes: FloatArray, stride: IntArray, copy_bytes: IntArray) -> FloatArray:
    """Mean lines that a request of up to 128 B crosses, of rows that begin at any multiple of what divides the stride.

    With 2,000 bytes from row to row 7 of 8 requests of 128 B cross a line, of 32 B one of 8; with 2,048 none does.
    """
    begins = np.minimum(stride & -stride, LINE_BYTES)
    asked = np.minimum(row_bytes, np.minimum(copy_bytes * LANES, LINE_BYTES))
    return np.asarray(np.maximum(asked - begins, 0) / LINE_BYTES)


def _row_bytes(problem: Gemm, config: Config, side: str) -> FloatArray:
    """Contiguous bytes of a tile row in memory: along K a whole k-step, else the tile's side."""
    return np.asarray(config["bk" if along_k(problem.layout, side) else side] * float(problem.a_bytes))
