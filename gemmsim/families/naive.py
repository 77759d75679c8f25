"""The naive fp32 GEMM on CUDA cores: one thread an element of C, operands straight from global memory through L1.

The kernel is kernels/naive.cu. Instruction counts were read off its disassembly (nvcc 13.0, sm_90), L1 passes and
sectors follow from the lanes' addresses. A k-step is bk columns, whose loads are unrolled together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gemmsim.config import Config, Launch
from gemmsim.families.accesses import Access, access, column, threads
from gemmsim.families.cuda import Plan, plan_by_tile, tile_macros
from gemmsim.families.refuse import MAX_GRID_Y, Refusals
from gemmsim.families.traits import FMA, Parameter, Prior, Traits, inside
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES, distinct_runs
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Form, Gemm, IntArray

NAME = "naive"
SOURCE = "naive.cu"
MACROS = {"bm": "BM", "bn": "BN", "bk": "BK", "coalesced": "COALESCED"}
DTYPES = ("fp32",)
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN",)
EPILOGUES = False
BATCH = False
PARAMETERS = (
    Parameter("bm", (1, 2, 4, 8, 16, 32), 8, 1, 1024, False, "rows of the block tile, one a thread"),
    Parameter("bn", (8, 16, 32, 64, 128, 256), 32, 1, 1024, False, "columns of the block tile, one a thread"),
    Parameter("bk", (1, 4, 8), 4, 1, 16, False, "columns of K whose loads are unrolled together"),
    Parameter("coalesced", (0, 1), 1, 0, 1, False, "1: the lanes of a warp lie along N; 0: along M"),
)
PRIORS: Mapping[str, Prior] = {
    "dram_latency": Prior(1.0, 0.2, 6.0),
    "load_batch_clk": Prior(10, 1, 60),
    "chain_clk": Prior(0.5, 0.1, 6.0),
    "store_clk": Prior(1.0, 0.2, 5.0),
    "shared_far": Prior(0.7, 0.3, 1.0),  # blocks of one SM that share columns of B find them in L1
    "start": Prior(4.0, 0.5, 15),
    "queue_noise": Prior(0.6, 0.1, 1.0),
}
FIXED: Mapping[str, float] = {
    "load_latency": 1.0,
    "shared_near": 0.6,
    "sector_clk": 0.25,  # 128 B a clock
}
#: registers a thread from so many unrolled columns on (the usual figure of nvcc 13.0 for sm_90; sm_80: up to 2 fewer)
REGISTERS = ((1, 20), (2, 24), (4, 27), (8, 32))
#: warp instructions of a k-step and of each of its columns: two loads, FFMA and B's address (29 for four columns)
STEP_INSTRUCTIONS, COLUMN_INSTRUCTIONS = 9.0, 5.0
#: those of them on the half-rate pipe: loop and A's address, B's address
STEP_INTEGER, COLUMN_INTEGER = 4.0, 2.0
WIDTH = 4  # bytes of an element
#: elements of a 128 B line and of a 32 B sector
LINE, SECTOR = 32, 8
#: warps whose addresses are looked at: they differ only if the tile's sides are not powers of two
WARPS_READ = 3


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes. No shared memory; registers follow from the columns unrolled."""
    regs = np.zeros(len(config), np.int64)
    for least, count in REGISTERS:
        regs = np.where(config["bk"] >= least, count, regs)
    zero = np.zeros(len(config), np.int64)
    return Launch(config["bm"] * config["bn"], regs, zero.astype(np.float64), zero, zero > 0)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    r = Refusals(len(config))
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    r.over("threads_per_block", launch.threads, arch.max_threads_per_block, "threads a block")
    r.over("grid_y", np.ceil(problem.m / config["bm"]), MAX_GRID_Y, "blocks in grid.y")
    return r


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits); align does not matter, as loads are scalar.

    Warps that lie wholly outside C end at once: counts are means over the blocks. What misses L1 fills it in sectors,
    each element once a block.
    """
    bm, bn, bk = (config[p].astype(np.float64) for p in ("bm", "bn", "bk"))
    zero, no = np.zeros(1), np.zeros(1, bool)
    columns = {p: config[p] for p in ("bm", "bn", "coalesced")}
    rows, width, stores = per_unique(columns, len(config), _lanes)
    warps = np.maximum(np.ceil(launch.threads / LANES) * _live(problem, config, rows, width), 1)
    rows = problem.m / np.ceil(problem.m / rows)  # of those, inside C
    passes = _passes(rows, np.ceil(rows * np.gcd(problem.k, LINE) / LINE)) + _passes(_touched(problem.n, width), 1.0)
    rounds_a = 0.5 * np.minimum(1, bk / SECTOR)  # a sector of A lasts eight columns; every column is a new row of B
    step = STEP_INSTRUCTIONS + COLUMN_INSTRUCTIONS * bk
    return Traits(
        path=np.full(1, FMA),
        warps=warps,
        fmas=warps * LANES * bk,
        wgmma_count=zero,
        smem_reads=warps * bk * passes,
        smem_writes=zero,
        loops=zero,
        operations=zero,
        instructions=warps * step,
        integer_instructions=warps * (STEP_INTEGER + COLUMN_INTEGER * bk),
        chain_instructions=step - bk,
        global_sectors=bk * (bm * inside(problem.m, bm) + bn * inside(problem.n, bn)) / SECTOR,
        loads=2 * bk,
        rounds_a=rounds_a,
        rounds_b=1 - rounds_a,
        barrier_warps=zero,
        step_clk=zero,
        depth=np.ones(1),
        asynchronous=no,
        through_registers=no,
        fill_steps=zero,
        prologue_loads=zero,
        accumulators=zero,
        store_sectors=warps * stores,
        a_row_bytes=np.full(1, 128.0),
        b_row_bytes=4 * bn,
        a_copy_bytes=np.full(1, 16.0),
        b_copy_bytes=np.full(1, 16.0),
        scalar_loads=zero,
        repeats_rows=no,
        parts=warps,
    )


def _lanes(u: Mapping[str, IntArray]) -> tuple[FloatArray, ...]:
    """Of one warp, means over warps: distinct rows of C, columns of C, sectors of a store of C."""
    bm, bn, coalesced = (np.repeat(u[p], WARPS_READ)[:, None] for p in ("bm", "bn", "coalesced"))
    warps = -(-bm * bn // LANES)
    warp = np.tile(np.arange(WARPS_READ), len(u["bm"]))[:, None] % warps
    thread = np.minimum(warp * LANES + np.arange(LANES), bm * bn - 1)
    row = np.where(coalesced == 1, thread // bn, thread % bm)
    column = np.where(coalesced == 1, thread % bn, thread // bm)
    found = (row, column, row * 1024 + column // SECTOR)
    rows, columns, sectors = (distinct_runs(x).reshape(-1, WARPS_READ).mean(1) for x in found)
    return rows, columns, sectors


def _passes(lines: FloatArray, conflicts: FloatArray | float) -> FloatArray:
    """Passes of a global load through L1: the fullest of 32 data banks, or the fullest of four banks of line tags.

    Rows of A a multiple of 128 B apart fall into one data bank: as many passes as rows. Tags are spread by a hash: n
    lines put n/4 + sqrt(n)/2 of them in the fullest of four banks, on average. Read off uncoalesced rows of an H200:
    32 lines take 32 passes at K = 4096, 11 at K = 500 (data banks would give 4) and 9 at K = 513 (1).
    """
    return np.asarray(np.maximum(conflicts, lines / 4 + np.sqrt(lines) / 2))


def _touched(n: IntArray, width: FloatArray) -> FloatArray:
    """Lines under a run of `width` columns of B, whose rows begin anywhere N allows."""
    step = np.gcd(np.gcd(n, LINE), np.maximum(width.astype(np.int64), 1))
    return np.asarray(1 + np.maximum(width - step, 0) / LINE)


def _live(problem: Gemm, config: Config, rows: FloatArray, width: FloatArray) -> FloatArray:
    """Share of a block's warps that hold an element of C."""

    def share(size: IntArray, tile: npt.NDArray[np.int64], warp: FloatArray) -> FloatArray:
        return np.minimum(1, np.ceil(size / warp) * warp / (np.ceil(size / tile) * tile))

    return np.asarray(share(problem.m, config["bm"], rows) * share(problem.n, config["bn"], width))


def access_patterns(problem: Gemm, config: Config) -> tuple[Access, ...]:
    """Requests of a block (see Access), for one element a lane: to global memory alone."""
    bm, bn = column(config["bm"]), column(config["bn"])
    thread = threads(len(config)) % (bm * bn)
    along = column(config["coalesced"]) == 1
    row, place = np.where(along, thread // bn, thread % bm), np.where(along, thread % bn, thread // bm)
    warps = config["bm"] * config["bn"] / LANES
    return (
        access("A: load", warps * config["bk"], WIDTH, memory=WIDTH * row * column(problem.k)),
        access("B: load", warps * config["bk"], WIDTH, memory=WIDTH * place),
        access("C: store", 0.0, WIDTH, memory=WIDTH * (row * column(problem.n) + place), ends=warps),
    )


def group_m(config: Config) -> FloatArray:
    """Row-major: blockIdx.x walks N."""
    return np.ones(len(config))


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for a type without a kernel."""
    return tile_macros(form, config, MACROS)


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch: a block a tile, whatever `slots`, the blocks that reside on the GPU at once."""
    return plan_by_tile(m, n, config["bm"], config["bn"], config["bm"] * config["bn"])
