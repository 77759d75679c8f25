"""What a block of kernels/simt.cu asks of an SM: copies, fragment reads, instructions and stores of its lanes.

Through registers (async_copy 0) NVRTC moves the loads of the next tile behind the multiply-adds of this one, right
before their stores, so a block waits for them (`prefetched` is false).

What each buys on held-out rows of the H200 campaign, MAPE of rows without spills and with aligned strides, 5.6 % with
all (`gemmsim validate --rows studies/h200/simt_fp32.csv.gz --split config,shape --seeds 5 --without X`): waves 18.0,
latency 8.6 (barriers and first fragments included), issue 7.2 (long main loops included), split 6.3, fill 5.7. Spill:
10.3 instead of 7.6 % of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families import simt_resources
from gemmsim.families.simt_resources import (
    ACCESS_BYTES,
    COLUMNS,
    PAD_BYTES,
    copies,
    lanes_across,
    threads_of,
    turned,
    vector,
)
from gemmsim.families.traits import FMA, Traits, inside
from gemmsim.families.unique import per_unique, unique_rows
from gemmsim.families.wavefronts import LANES, wavefronts
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm, IntArray

SECTOR_BYTES, WAVEFRONT_BYTES, LINE_SECTORS = 32, 128, 4
#: warp instructions of a k-step beside math, fragment reads, copies and their stores: loop, barrier, buffers' pointers;
#: and for each copy of A and of B, asynchronous or through registers (read off SASS; against
#: counters of 58 launches without spills 1.7 % off on average: tests/families/test_simt.py)
STEP_INSTRUCTIONS = 39.0
COPY_INSTRUCTIONS, STRAIGHT_INSTRUCTIONS, THROUGH_INSTRUCTIONS = 0.75, 2.2, (0.3, 5.1)
#: clocks from a fragment's read to its first use, and from a store into shared memory to the barrier behind it
FRAGMENT_CLK, STORE_CLK = 33.0, 40.0
#: clocks of an FFMA: operands that meet in a register bank
BANK_CONFLICTS = 1.12
INSTRUCTION_BYTES = 16.0
#: instructions before and after the main loop, beside those for each copy and result
ENDS_INSTRUCTIONS = 300.0
#: times that a spilled word goes out and comes back a k-step: SPILL_REPEATS words ** SPILL_POWER (counted on an H200:
#: 17 launches, 8 to 1560 B a thread, from none to five times)
SPILL_REPEATS, SPILL_POWER = 0.04, 0.785


@dataclass(frozen=True)
class _Operand:
    """How one operand gets into shared memory: turned (element by element on the way) or straight (vectors)."""

    copies: FloatArray  # a thread and k-step
    instructions: FloatArray  # a warp and k-step: copies, their addresses, stores of what came through registers
    stores: FloatArray  # wavefronts of a block and k-step
    sectors: FloatArray  # 32 B sectors that pass L1, a block and k-step
    row_bytes: FloatArray
    copy_bytes: FloatArray


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits). align: as if row strides and addresses allowed the widest copies."""
    fitted = config["vec"] if align else simt_resources.fitted(problem, config)
    columns = {p: config[p] for p in COLUMNS} | {"fitted": fitted}
    for side, stride in (("bm", problem.a_stride), ("bn", problem.b_stride)):
        whole = np.ones(1, np.int64) if align else (stride * problem.a_bytes % SECTOR_BYTES == 0).astype(np.int64)
        columns[f"{side}_aligned"] = np.broadcast_to(whole, len(config))

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _counts(u, problem)

    c = dict(zip(_NAMES, per_unique(columns, len(config), compute), strict=True))
    live = inside(problem.m, config["bm"].astype(np.float64)) * inside(problem.n, config["bn"].astype(np.float64))
    zero, no = np.zeros(1), np.zeros(1, bool)
    stages, asynchronous = config["stages"], config["async_copy"] == 1
    depth = np.maximum(1, np.where(asynchronous, stages - 2, 1)).astype(np.float64)
    return Traits(
        path=np.full(1, FMA),
        warps=c["warps"],
        fmas=c["fmas"],
        wgmma_count=zero,
        smem_reads=c["reads"],
        smem_writes=c["writes"],
        loops=zero,
        operations=zero,
        instructions=c["instructions"],
        integer_instructions=c["integer"],
        chain_instructions=zero,
        global_sectors=c["sectors"],
        loads=c["loads"],
        rounds_a=np.full(1, 0.5),
        rounds_b=np.full(1, 0.5),
        barrier_warps=zero,
        step_clk=zero,
        depth=depth,
        asynchronous=asynchronous,
        through_registers=~asynchronous,
        fill_steps=depth,
        prologue_loads=c["loads"],
        accumulators=c["accumulators"],
        store_sectors=c["store_sectors"] * live,
        a_row_bytes=c["a_row_bytes"],
        b_row_bytes=c["b_row_bytes"],
        a_copy_bytes=c["a_copy_bytes"],
        b_copy_bytes=c["b_copy_bytes"],
        scalar_loads=c["scalar_loads"],
        repeats_rows=no,
        bank_conflicts=np.full(1, BANK_CONFLICTS),
        joint_issue=np.ones(1, bool),
        prefetched=asynchronous,
        exposed_clk=c["exposed"],
        exposed_barriers=c["warps"] * np.where(stages == 1, 2, 1),
        loop_bytes=c["loop_bytes"],
        code_bytes=c["code_bytes"],
        spill_repeats=SPILL_REPEATS * np.power(launch.spill_bytes / 4, SPILL_POWER),
        split_k=config["split_k"].astype(np.float64),
        split_tail=config["split_tail"] == 1,
        stream_k=config["stream_k"] == 1,
        partial_bytes=float(problem.a_bytes),
    )


_NAMES = (
    "warps", "fmas", "reads", "writes", "instructions", "integer", "sectors", "loads", "accumulators", "store_sectors",
    "a_row_bytes", "b_row_bytes", "a_copy_bytes", "b_copy_bytes", "scalar_loads", "exposed", "loop_bytes", "code_bytes",
)  # fmt: skip


def _counts(u: Mapping[str, IntArray], problem: Gemm) -> tuple[np.ndarray, ...]:
    width = problem.a_bytes
    f = {p: u[p].astype(np.float64) for p in ("bm", "bn", "bk", "tm", "tn")}
    threads = threads_of(u)
    warps = threads / LANES
    vec = np.minimum(u["fitted"], vector(u, width))
    scalar = (vec < vector(u, width)) | (u["bm_aligned"] == 0) | (u["bn_aligned"] == 0)
    a, b = (_operand(u, side, problem.layout, vec, width, threads) for side in ("bm", "bn"))
    reads, loads = _fragments(u, width)
    each = a.copies + b.copies
    copying = a.instructions + b.instructions
    step = STEP_INSTRUCTIONS + copying + f["bk"] * loads
    per_scheduler = np.maximum(warps / 4, 1)
    column = per_scheduler * (f["tm"] * f["tn"] + loads)
    exposed = f["bk"] * np.maximum(0, FRAGMENT_CLK - column)
    exposed = exposed + np.where(u["async_copy"] == 1, 0, STORE_CLK + a.stores + b.stores)
    loop = INSTRUCTION_BYTES * (step + f["bk"] * f["tm"] * f["tn"])
    code = loop + INSTRUCTION_BYTES * (ENDS_INSTRUCTIONS + 4 * f["tm"] * f["tn"] + 10 * each)
    out = (
        warps, threads * f["bk"] * f["tm"] * f["tn"], warps * f["bk"] * reads, a.stores + b.stores, warps * step,
        warps * (copying - each), a.sectors + b.sectors, each, f["tm"] * f["tn"],
        _store_sectors(u, width, vec) * warps, a.row_bytes, b.row_bytes, a.copy_bytes, b.copy_bytes,
        np.where(scalar, each, 0.0), exposed, loop, code,
    )  # fmt: skip
    return tuple(np.broadcast_to(np.asarray(x, np.float64), warps.shape) for x in out)


def _operand(
    u: Mapping[str, IntArray], side: str, layout: str, vec: IntArray, width: int, threads: IntArray
) -> _Operand:
    """How a tile of A (side bm) or B (bn) gets into shared memory."""
    size, bk = u[side], u["bk"]
    count, wide = copies(u, side, layout, vec, threads)
    if turned(side, layout):
        columns = {"size": size, "bk": bk, "wide": wide}
        first, inverse = unique_rows(columns)
        once = _scattered(size[first], bk[first], wide[first], width)[inverse]
        once = np.maximum(once, np.where(u["async_copy"] == 1, _rows_touched(u, side, bk, wide, width), 1))
        stores = once * wide * np.ceil(size * bk / wide / LANES)
        row = bk * width
    else:
        stores, row = np.ceil(bk * size * width / WAVEFRONT_BYTES), size * width
        stores = np.where((u["async_copy"] == 1) & (u[f"{side}_aligned"] == 0), (1 + LINE_SECTORS) * stores, stores)
    copy = wide * width
    through_l1 = (copy < ACCESS_BYTES) | (u["async_copy"] == 0)
    sectors = np.where(through_l1, bk * size * width / SECTOR_BYTES, 0.0)
    asynchronous = u["async_copy"] == 1
    each = COPY_INSTRUCTIONS if turned(side, layout) else STRAIGHT_INSTRUCTIONS
    stored = (wide if turned(side, layout) else 1) + THROUGH_INSTRUCTIONS[side == "bn"]
    instructions = count * (1 + np.where(asynchronous, each, stored))
    return _Operand(*(np.asarray(x, np.float64) for x in (count, instructions, stores, sectors, row, copy)))


def _rows_touched(u: Mapping[str, IntArray], side: str, bk: IntArray, wide: IntArray, width: int) -> FloatArray:
    """Wavefronts that cp.async takes for the rows of memory under a warp: one each, or one a sector if unaligned."""
    across = lanes_across(bk, wide)
    sectors = across * wide * width / SECTOR_BYTES + 1
    return np.asarray(LANES / across * np.where(u[f"{side}_aligned"] == 1, 1, sectors))


def groups(count: IntArray, width: int) -> IntArray:
    """Neighbouring results of a thread that one access of up to 16 B moves."""
    four = np.where(count % 4 == 0, 4, np.where(count % 2 == 0, 2, 1))
    return np.minimum(four, ACCESS_BYTES // width)


def lane_map(lm: IntArray, ln: IntArray) -> tuple[IntArray, IntArray]:
    """Row and column of each lane in a warp's lm x ln thread tiles, as the kernel lays them: (rows, 32) each."""
    lm, ln, lane = lm[:, None], ln[:, None], np.arange(LANES)
    column = np.where(ln == 1, 0, np.where(lm == 1, lane, (lane & 1) | ((lane >> 2) & (ln // 2 - 1)) << 1))
    row = np.where(lm == 1, 0, np.where(ln == 1, lane, ((lane >> 1) & 1) | (lane // (2 * ln)) << 1))
    return row, column


def _fragments(u: Mapping[str, IntArray], width: int) -> tuple[FloatArray, FloatArray]:
    """Wavefronts and instructions of a warp that reads its fragments of A and B for one column of K."""
    lm, ln = (np.maximum(u[whole] // u[part], 1) for whole, part in (("wm", "tm"), ("wn", "tn")))
    passes, loads = np.zeros(len(lm)), np.zeros(len(lm))
    for side, count in enumerate((u["tm"], u["tn"])):
        group = groups(count, width)
        lanes = {"lm": lm, "ln": ln, "words": group * (width // 4)}
        first, inverse = unique_rows(lanes)
        once = _passes(side, *(column[first] for column in lanes.values()))[inverse]
        loads += count / group
        passes += count / group * once
    return passes, loads


def _passes(side: int, lm: IntArray, ln: IntArray, words: IntArray) -> FloatArray:
    """Wavefronts of one fragment read of A (side 0) or B (1) in which each lane takes so many words."""
    lanes, passes = lane_map(lm, ln)[side], np.zeros(len(lm))
    for wide in (1, 2, 4):
        mine = words == wide
        if mine.any():
            passes[mine] = wavefronts(lanes[mine] * wide, wide)
    return passes


def _scattered(size: IntArray, bk: IntArray, wide: IntArray, width: int) -> FloatArray:
    """Wavefronts of a warp's copies into the tile of an operand whose rows of K run on in memory."""
    across, lane = lanes_across(bk, wide)[:, None], np.arange(LANES)
    pitch = (size + PAD_BYTES // width)[:, None]
    return wavefronts((lane % across * wide[:, None] * pitch + lane // across) * (width // 4), width // 4)


def _store_sectors(u: Mapping[str, IntArray], width: int, vec: IntArray) -> FloatArray:
    """Sectors that the stores of a warp's results touch, request by request: groups at once where vec allows."""
    group = groups(u["tn"], width)
    lm, ln = u["wm"] // u["tm"], u["wn"] // u["tn"]
    touched = np.maximum(lm, 1) * np.maximum(1, ln * group * width / SECTOR_BYTES)
    requests = u["tm"] * u["tn"] / np.where(vec >= group, group, 1)
    return np.asarray(touched * requests)
