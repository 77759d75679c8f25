"""The first tiled fp32 GEMM on CUDA cores: square tiles in shared memory, one thread an element of C, padded or not.

The kernel is kernels/smem_tile.cu; bm = bn = bk is its TILE. Instruction counts were read off its disassembly (nvcc
13.0, sm_90), shared-memory wavefronts follow from the lanes' addresses: A is stored transposed, and with pad 0 the
lanes of such a store fall into one bank.
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

NAME = "smem_tile"
SOURCE = "smem_tile.cu"
MACROS = {"bm": "TILE", "pad": "PAD"}
DTYPES = ("fp32",)
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN",)
EPILOGUES = False
BATCH = False
PARAMETERS = (
    Parameter("bm", (8, 16, 32), 32, 8, 32, False, "rows of the block tile, one a thread"),
    Parameter("bn", (8, 16, 32), 32, 8, 32, False, "columns of the block tile: bm"),
    Parameter("bk", (8, 16, 32), 32, 8, 32, False, "depth of a k-step: bm"),
    Parameter("pad", (0, 1, 4), 1, 0, 32, False, "columns of padding of both shared tiles"),
)
PRIORS: Mapping[str, Prior] = {
    "dram_latency": Prior(0.8, 0.2, 3.0),
    "barrier_clk": Prior(5.0, 0.5, 30),
    "chain_clk": Prior(2.5, 0.8, 6.0),
    "store_clk": Prior(1.0, 0.2, 5.0),
    "start": Prior(4.0, 0.5, 15),
    "queue_noise": Prior(0.6, 0.1, 1.0),
}
#: as in register_tile
FIXED: Mapping[str, float] = {
    "load_latency": 1.0,
    "sector_clk": 0.25,  # 128 B a clock
    "shared_near": 0.6,
    "shared_far": 1.0,
}
WIDTH = 4  # bytes of an element
REGISTERS = 31  # 30 to 32, whatever the tile, on sm_80 and sm_90
#: warp instructions of a k-step: copies, loop, barriers; more where a warp holds several rows of a tile
STEP_INSTRUCTIONS, ROWS_INSTRUCTIONS = 25.0, 8.0
STEP_INTEGER, ROWS_INTEGER = 17.0, 6.0  # those of them on the half-rate pipe
STEP_CLK = 200.0  # barrier, first shared-memory read, branch, as in register_tile
WARPS_READ = 3  # of a block, whose addresses are looked at: they differ if the tile is no power of two


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes; shared memory is exact."""
    bm, bn, bk, pad = (config[p.name] for p in PARAMETERS)
    regs, zero = np.full(len(config), REGISTERS), np.zeros(len(config))
    return Launch(bm * bn, regs, zero, WIDTH * bk * (bm + bn + 2 * pad), zero > 0)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    bm, bn, bk = (config[p] for p in ("bm", "bn", "bk"))
    r = Refusals(len(config))
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    r.when("square_tile", (bm != bn) | (bm != bk), "bm, bn and bk are one TILE: they must be equal")
    r.over("threads_per_block", launch.threads, arch.max_threads_per_block, "threads a block")
    r.when("whole_warps", launch.threads % LANES != 0, f"threads a block are not a multiple of {LANES}")
    r.over("static_smem", launch.smem_bytes, STATIC_SMEM_BYTES, "B of static shared memory a block")
    r.over("grid_y", np.ceil(problem.m / bm), MAX_GRID_Y, "blocks in grid.y")
    return r


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits). Loads are scalar, so alignment does not matter.

    A global load passes L1 once for each line its lanes touch, beside the sectors that fill it.
    """
    bm, bn, bk = (config[p].astype(np.float64) for p in ("bm", "bn", "bk"))
    warps, zero, half = np.ceil(launch.threads / LANES), np.zeros(1), np.full(1, 0.5)
    reads, writes, lines, stores = per_unique({p.name: config[p.name] for p in PARAMETERS}, len(config), _lanes)
    several = bn < LANES  # rows of a tile in one warp
    chain = STEP_INSTRUCTIONS + ROWS_INSTRUCTIONS * several + 2 * bk
    live_m, live_n = inside(problem.m, bm), inside(problem.n, bn)
    return Traits(
        path=np.full(1, FMA),
        warps=warps,
        fmas=bm * bn * bk,
        wgmma_count=zero,
        smem_reads=warps * (bk * reads + lines),
        smem_writes=warps * writes,
        loops=zero,
        operations=zero,
        instructions=warps * (chain + bk),
        integer_instructions=warps * (STEP_INTEGER + ROWS_INTEGER * several),
        chain_instructions=chain,
        global_sectors=bk * (bm * live_m + bn * live_n) / 8,
        loads=zero,
        rounds_a=half,  # one load of each, in flight together
        rounds_b=half,
        barrier_warps=warps,
        step_clk=np.full(1, STEP_CLK),
        depth=np.ones(1),
        asynchronous=np.zeros(1, bool),
        through_registers=np.ones(1, bool),
        fill_steps=zero,
        prologue_loads=zero,
        accumulators=zero,
        store_sectors=warps * stores * live_m * live_n,
        a_row_bytes=WIDTH * bk,
        b_row_bytes=WIDTH * bn,
        a_copy_bytes=np.full(1, 16.0),
        b_copy_bytes=np.full(1, 16.0),
        scalar_loads=zero,
        repeats_rows=np.zeros(1, bool),
    )


def _lanes(u: Mapping[str, IntArray]) -> tuple[FloatArray, ...]:
    """Of one warp, means over warps.

    Wavefronts of both reads for one k, of both stores of a k-step; lines under both global loads, sectors of C.
    """
    tile, pad = (np.repeat(u[p], WARPS_READ)[:, None] for p in ("bm", "pad"))
    warps = np.maximum(tile * tile // LANES, 1)
    warp = np.tile(np.arange(WARPS_READ), len(u["bm"]))[:, None] % warps
    thread = warp * LANES + np.arange(LANES)
    row, column = thread // tile, thread % tile
    reads = wavefronts(row, 1) + wavefronts(column, 1)  # sa[k][row], sb[k][column]
    writes = wavefronts(column * (tile + pad) + row, 1) + wavefronts(row * (tile + pad) + column, 1)
    lines = 2 * distinct_runs(row)  # each row of a tile lies in a line of its own
    sectors = distinct_runs(row * 1024 + column // 8)
    return tuple(x.reshape(-1, WARPS_READ).mean(1) for x in (reads, writes, lines, sectors))


def access_patterns(problem: Gemm, config: Config) -> tuple[Access, ...]:
    """Requests of a block (see Access): one element a lane."""
    tile, pitch = column(config["bm"]), column(config["bm"] + config["pad"])
    row, place = across(threads(len(config)) % (tile * tile), tile)
    warps = config["bm"] ** 2 / LANES
    result = row * column(problem.n) + place
    return (
        access("A: load", warps, WIDTH, memory=WIDTH * (row * column(problem.k) + place)),
        access("A: store", warps, WIDTH, shared=WIDTH * (place * pitch + row)),
        access("B: load", warps, WIDTH, memory=WIDTH * result),
        access("B: store", warps, WIDTH, shared=WIDTH * (row * pitch + place)),
        access("A: read", warps * config["bk"], WIDTH, shared=WIDTH * row),
        access("B: read", warps * config["bk"], WIDTH, shared=WIDTH * place),
        access("C: store", 0.0, WIDTH, memory=WIDTH * result, ends=warps),
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
