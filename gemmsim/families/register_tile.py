"""The classic fp32 GEMM on CUDA cores: block tile in shared memory, tm x tn results a thread, scalar loads.

The kernel is kernels/register_tile.cu. Counts below are of its code as nvcc 13.0 compiles it for sm_90: instruction
counts were read off the disassembly of 534 configurations, shared-memory wavefronts follow from the lanes' addresses.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.accesses import Access, access, across, column, threads
from gemmsim.families.cuda import Plan, plan_by_tile, tile_macros
from gemmsim.families.refuse import MAX_GRID_Y, STATIC_SMEM_BYTES, Refusals
from gemmsim.families.traits import FMA, Parameter, Prior, Traits, inside
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES, distinct_runs, wavefronts
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Form, Gemm, IntArray

NAME = "register_tile"
SOURCE = "register_tile.cu"
MACROS = {"bm": "BM", "bn": "BN", "bk": "BK", "tm": "TM", "tn": "TN"}
DTYPES = ("fp32",)
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN",)
EPILOGUES = False
BATCH = False
PARAMETERS = (
    Parameter("bm", (16, 32, 64, 128, 256), 64, 1, 1024, False, "rows of the block tile"),
    Parameter("bn", (16, 32, 64, 128, 256), 64, 1, 1024, False, "columns of the block tile"),
    Parameter("bk", (8, 16, 32), 16, 1, 256, False, "depth of a k-step"),
    Parameter("tm", (1, 2, 4, 8, 16), 4, 1, 64, False, "rows of a thread's results"),
    Parameter("tn", (1, 2, 4, 8, 16), 4, 1, 64, False, "columns of a thread's results"),
)
PRIORS: Mapping[str, Prior] = {
    "dram_latency": Prior(0.8, 0.2, 3.0),
    "barrier_clk": Prior(5.0, 0.5, 30),
    "chain_clk": Prior(2.5, 0.8, 6.0),
    "store_clk": Prior(1.0, 0.2, 5.0),
    "start": Prior(4.0, 0.5, 15),
    "queue_noise": Prior(0.6, 0.1, 1.0),
    "spill_clk": Prior(4.0, 1.5, 12),
}
#: not seen by fp32 rows, which are far from the L2 and DRAM roofs, or read off the code and kept
FIXED: Mapping[str, float] = {
    "load_latency": 1.0,  # left free it is 0.97 +- 0.10
    "sector_clk": 0.25,  # 128 B a clock
    "shared_near": 0.6,  # counters: 0.72 to 0.88 of the bytes of A and B together are left
    "shared_far": 1.0,
    "spill_lone_clk": 8.0,
}
WIDTH = 4  # bytes of an element
#: warp instructions of a k-step, read off the disassembly
STEP_INSTRUCTIONS = 33.0  # loop, barriers, first addresses
COPY_INSTRUCTIONS = 25.0  # each element a thread copies: LDG, STS, guards, addresses (98 to 104 for four)
COPY_INTEGER = 23.0  # those of them on the half-rate pipe: 16 ALU, 7 IMAD
STEP_CLK = 200.0  # barrier, first shared-memory read, branch
#: loads are unrolled by four; with fewer than FULL registers beyond the accumulators ptxas serialises them
UNROLLED = 4
FULL_SLACK, SLACK_A_ROUND = 40.0, 7.0
#: warps whose addresses are looked at: they differ only if bn / tn is not a power of two
WARPS_READ = 3


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, estimated from the tile; shared memory is exact."""

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _resources(u, arch)

    columns = {p.name: config[p.name] for p in PARAMETERS}
    threads, regs, spills, smem = per_unique(columns, len(config), compute)
    return Launch(threads, regs, spills, smem, np.zeros(len(config), bool))


def _resources(u: Mapping[str, IntArray], arch: Arch) -> tuple[np.ndarray, ...]:
    """Threads, registers a thread, spilled bytes a thread, shared memory.

    A thread wants 28 registers, its accumulators, its fragments and the smaller one once more (prefetched), 16 more
    from 64 accumulators on; ptxas gives up to four back if one more block then resides. Accumulators that fill the
    whole budget collapse the allocation. On 1,573 configurations compiled by nvcc 13.0 for sm_90: registers within
    15 % or 8 on 85 %, blocks per SM right on 74 %: which step ptxas lands on does not show in the tile.
    """
    bm, bn, bk, tm, tn = (u[p].astype(np.float64) for p in ("bm", "bn", "bk", "tm", "tn"))
    threads, results = np.maximum(np.floor(bm / tm) * np.floor(bn / tn), 1), tm * tn
    warps = np.ceil(threads / LANES)
    limit = np.minimum(arch.regs_per_thread, np.maximum(np.floor(arch.regs_per_block / threads / 8) * 8, 16))
    branchy = (bm * bk < threads) | (bn * bk < threads)
    wanted = np.clip(28 + results + tm + tn + np.minimum(tm, tn) + 4 * branchy + 16 * (results >= 64), 32, limit)
    file = arch.regs_per_sm // arch.sub_partitions
    blocks = np.maximum(1, np.floor(np.floor(file / (np.ceil(wanted / 8) * 8 * LANES)) * arch.sub_partitions / warps))
    fewer = np.floor(file / np.ceil((blocks + 1) * warps / arch.sub_partitions) / 256) * 8
    squeezed = (wanted - fewer <= 4) & (fewer >= 32) & (results + 16 <= fewer)
    regs = np.where(squeezed, fewer, wanted)
    collapse = (results >= limit) & (limit < arch.regs_per_thread)
    words = np.where(collapse, 1.25 * bk * results, np.maximum(0, results + tm + tn + 4 - limit) * (9 + 1.2 * bk))
    regs = np.maximum(np.where(collapse, 32, regs), 16)
    smem = WIDTH * bk * (bm + 4 + bn)
    return threads.astype(np.int64), regs.astype(np.int64), WIDTH * words, smem.astype(np.int64)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    bm, bn, bk, tm, tn = (config[p] for p in ("bm", "bn", "bk", "tm", "tn"))
    r = Refusals(len(config))
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    r.when("tm_divides_bm", bm % tm != 0, "bm is not a multiple of tm")
    r.when("tn_divides_bn", bn % tn != 0, "bn is not a multiple of tn")
    r.over("threads_per_block", (bm // tm) * (bn // tn), arch.max_threads_per_block, "threads a block")
    r.when("whole_warps", launch.threads % LANES != 0, f"threads a block are not a multiple of {LANES}")
    r.over("static_smem", WIDTH * bk * (bm + 4 + bn), STATIC_SMEM_BYTES, "B of static shared memory a block")
    r.over("grid_y", np.ceil(problem.m / bm), MAX_GRID_Y, "blocks in grid.y")
    return r


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits). Loads are scalar, so alignment does not matter."""
    bm, bn, bk, tm, tn = (config[p].astype(np.float64) for p in ("bm", "bn", "bk", "tm", "tn"))
    threads = launch.threads.astype(np.float64)
    warps, zero, no = np.ceil(threads / LANES), np.zeros(1), np.zeros(1, bool)
    copy_a, copy_b = bm * bk / threads, bn * bk / threads  # elements a thread copies
    reads, reads_per_warp, store_a, store_sectors = per_unique(
        {p.name: config[p.name] for p in PARAMETERS}, len(config), _lanes
    )
    chain = STEP_INSTRUCTIONS + COPY_INSTRUCTIONS * (copy_a + copy_b) + bk * reads_per_warp
    live_a, live_b = inside(problem.m, bm), inside(problem.n, bn)
    rounds_a, rounds_b = _rounds(copy_a, launch, tm * tn), _rounds(copy_b, launch, tm * tn)
    present = np.minimum(1, problem.m / bm)  # a tile taller than M skips rounds that hold no row
    return Traits(
        path=np.full(1, FMA),
        warps=warps,
        fmas=threads * bk * tm * tn,
        wgmma_count=zero,
        smem_reads=warps * bk * reads,
        smem_writes=warps * (copy_a * store_a + copy_b),
        loops=zero,
        operations=zero,
        instructions=warps * (chain + bk * tm * tn),
        integer_instructions=warps * COPY_INTEGER * (copy_a + copy_b),
        chain_instructions=chain,
        global_sectors=4 * warps * (copy_a * live_a + copy_b * live_b),
        loads=zero,
        rounds_a=np.minimum(rounds_a, np.maximum(1, np.ceil(rounds_a * present - 1e-6))),
        rounds_b=rounds_b,
        barrier_warps=warps,
        step_clk=np.full(1, STEP_CLK),
        depth=np.ones(1),
        asynchronous=no,
        through_registers=np.ones(1, bool),
        fill_steps=zero,
        prologue_loads=zero,
        accumulators=zero,
        store_sectors=warps * tm * tn * store_sectors * live_a * live_b,
        a_row_bytes=np.full(1, 128.0),
        b_row_bytes=np.full(1, 128.0),
        a_copy_bytes=np.full(1, 16.0),
        b_copy_bytes=np.full(1, 16.0),
        scalar_loads=zero,
        repeats_rows=no,
    )


def _rounds(copies: FloatArray, launch: Launch, results: FloatArray) -> FloatArray:
    """Rounds of loads that wait for each other: unrolled by four, the tail one by one; more if registers are short."""
    slack = launch.regs_per_thread - results
    batches = np.clip(1 + (FULL_SLACK - slack) / SLACK_A_ROUND, 1, UNROLLED)
    whole = np.ceil(copies)
    return np.asarray(whole % UNROLLED + np.floor(whole / UNROLLED) * batches)


def _lanes(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
    """Means over warps, from the lanes' addresses.

    Fragment-read wavefronts and instructions a warp and column of K, wavefronts of one store into A's tile, sectors of
    one store of C.
    """
    bm, bn, bk, tm, tn = (np.repeat(u[p], WARPS_READ) for p in ("bm", "bn", "bk", "tm", "tn"))
    across = np.maximum(bn // tn, 1)[:, None]
    threads = np.maximum((bm // tm) * (bn // tn), 1)
    warp = np.tile(np.arange(WARPS_READ), len(u["bm"]))[:, None]
    lane = (warp * LANES + np.arange(LANES)) % threads[:, None]
    row, column = lane // across, lane % across
    reads_a, loads_a = _fragment(row, tm)
    reads_b, loads_b = _fragment(column, tn)
    store_a = wavefronts(lane % bk[:, None] * (bm + 4)[:, None] + lane // bk[:, None], 1)  # A's tile is transposed
    sectors = distinct_runs(row * 8192 + column * tn[:, None] // 8)
    return tuple(x.reshape(-1, WARPS_READ).mean(1) for x in (reads_a + reads_b, loads_a + loads_b, store_a, sectors))


def _fragment(index: IntArray, count: IntArray) -> tuple[FloatArray, FloatArray]:
    """Wavefronts and instructions of one warp whose lanes each read `count` consecutive words from index x count."""
    passes, instructions = np.zeros(len(count)), np.zeros(len(count))
    for width in (4, 2, 1):
        chosen = _widest(count) == width
        if chosen.any():
            instructions[chosen] = count[chosen] / width
            passes[chosen] = instructions[chosen] * wavefronts(index[chosen] * count[chosen, None], width)
    return passes, instructions


def access_patterns(problem: Gemm, config: Config) -> tuple[Access, ...]:
    """Requests of a block (see Access): every load and store of a tile and of C moves one element a lane."""
    bm, bn, bk, tm, tn = (column(config[p.name]) for p in PARAMETERS)
    warps = config["bm"] // config["tm"] * (config["bn"] // config["tn"]) / LANES
    row, k = across(threads(len(config)) % (bm * bk), bk)
    copies = np.ceil(config["bm"] * config["bk"] / LANES)
    a = _copied("A", copies, k * (bm + 4) + row, row * column(problem.k) + k)
    k, place = across(threads(len(config), bn // LANES + 1) % (bn * bk), bn)
    copies = np.ceil(config["bn"] * config["bk"] / LANES)
    b = _copied("B", copies, k * bn + place, k * column(problem.n) + place)
    row, place = across(threads(len(config)) % np.maximum(bm // tm * (bn // tn), 1), np.maximum(bn // tn, 1))
    fragments = (
        _read("A", row, config["tm"], warps * config["bk"]),
        _read("B", place, config["tn"], warps * config["bk"]),
    )
    result = row * tm * column(problem.n) + place * tn
    stores = warps * config["tm"] * config["tn"]
    return (*a, *b, *fragments, access("C: store", 0.0, WIDTH, memory=WIDTH * result, ends=stores))


def _copied(name: str, requests: FloatArray, shared: IntArray, memory: IntArray) -> tuple[Access, Access]:
    """A tile's elements, by way of registers."""
    load = access(f"{name}: load", requests, WIDTH, memory=WIDTH * memory)
    return load, access(f"{name}: store", requests, WIDTH, shared=WIDTH * shared)


def _read(name: str, index: IntArray, count: IntArray, columns: FloatArray) -> Access:
    """`count` neighbours a lane, for each column of K of each warp."""
    wide = _widest(count)
    return access(f"{name}: fragments", columns * count / wide, WIDTH * wide, shared=WIDTH * index * column(count))


def _widest(count: IntArray) -> IntArray:
    """Words of the widest loads that so many neighbours go in."""
    return np.asarray(np.where(count % 4 == 0, 4, np.where(count % 2 == 0, 2, 1)), np.int64)


def loops_within(config: Mapping[str, int]) -> tuple[float, float]:
    """How often the loops within the main loop go round, a mean over threads: copies of A, then of B."""
    threads = config["bm"] // config["tm"] * (config["bn"] // config["tn"])
    return config["bm"] * config["bk"] / threads, config["bn"] * config["bk"] / threads


def group_m(config: Config) -> FloatArray:
    """Row-major: blockIdx.x walks N."""
    return np.ones(len(config))


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for a type without a kernel."""
    return tile_macros(form, config, MACROS)


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch: a block a tile, whatever `slots`, the blocks that reside on the GPU at once."""
    return plan_by_tile(m, n, config["bm"], config["bn"], config["bm"] // config["tm"] * (config["bn"] // config["tn"]))
