"""Triton's plain `tl.dot` GEMM: pointers and masks, cp.async pipelining, grouped raster, fp32 accumulation.

The kernel is that of Triton's matmul tutorial, masked along K, rows wrapped (kernels/triton_gemm.py).
On sm_90 a tile of 64 rows or more with whole warp groups uses wgmma, every other one mma.sync.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.refuse import Refusals
from gemmsim.families.traits import MMA_SYNC, WGMMA, BoolArray, Parameter, Prior, Traits
from gemmsim.families.triton_resources import layout, resources
from gemmsim.families.unique import per_unique
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm

NAME = "triton"
DTYPES = ("bf16", "fp16", "tf32", "fp8", "int8")
WEIGHT_DTYPES = ("fp8", "int8")  # of B alone, widened to A's
LAYOUTS = ("NN", "NT", "TN", "TT")
EPILOGUES = True
BATCH = True
#: loads are masked along K and wrapped at M and N: Triton widens them only where it knows those sizes, too, to be
#: multiples of 16, so that a padded row stride alone changes nothing
MASKS_BY_SIZE = True
PARAMETERS = (
    Parameter("bm", (16, 32, 64, 128, 256), 128, 16, 256, True, "rows of the block tile (BLOCK_SIZE_M)"),
    Parameter("bn", (16, 32, 64, 128, 256), 128, 16, 256, True, "columns of the block tile (BLOCK_SIZE_N)"),
    Parameter("bk", (16, 32, 64, 128, 256), 64, 16, 256, True, "depth of a k-step (BLOCK_SIZE_K)"),
    Parameter("num_warps", (1, 2, 4, 8, 16), 8, 1, 16, True, "warps of a block"),
    Parameter("num_stages", (1, 2, 3, 4, 5, 6), 3, 1, 8, False, "buffers of the software pipeline"),
    Parameter("group_m", (1, 2, 4, 8, 16), 8, 1, 1024, False, "tile rows walked together (GROUP_SIZE_M)"),
)
#: element counts of a row stride that Triton vectorises: others are loaded one element at a time
STRIDE_UNIT = 16
COPY_BYTES = 16
#: instructions an element of B that is widened or turned K-major in registers (packed by two)
REWORK_INSTRUCTIONS = 1.5
#: wgmma takes 8- and 32-bit B only K-major: row-major B is turned through registers, and its stores meet in few banks.
#: Wavefronts of a warp's store = first + second x rows of B's tile it spreads over, by element bytes (read off 8 shapes
#: x 56 tiles each of fp8 and tf32 on an H200: 1.0 to 1.9 elements a clock with tf32, 1.5 to 5 with fp8)
TURN_WAVEFRONTS = {1: (4.0, 0.8), 4: (14.0, 0.4)}
#: instructions a pair of fp8 elements of a fragment that mma.sync of sm_90 widens to 16 bits
CONVERT_INSTRUCTIONS = 1.0
#: a byte's load, and its place in a register
GATHER_INSTRUCTIONS = 2.0
PRIORS: Mapping[str, Prior] = {
    "load_latency": Prior(2.0, 1.0, 5.0),  # cp.async, its wait and a barrier
    "dram_latency": Prior(2.0, 0.3, 6.0),
    "arrival": Prior(1.0, 0.4, 2.0),
    "load_batch_clk": Prior(50, 5, 300),  # ptxas loads in short batches, not all at once
    "async_write": Prior(0.5, 0.05, 1.5),
    "register_write": Prior(1.9, 0.5, 6.0),
    "loop_slots": Prior(65, 20, 200),
    "operation_slots": Prior(2.0, 0.5, 20),
    "start": Prior(3.2, 0.7, 17),
    "prologue_slots": Prior(17, 1, 100),
    "epilogue_slots": Prior(10, 0.5, 60),
    "scalar_slots": Prior(6, 4, 9),  # in SASS 5.2 to 8: load, PRMT, store, address, mask
    "scalar_clk": Prior(6, 0.2, 60),
    "line_clk": Prior(0.3, 0.1, 1.0),
    "scattered_latency": Prior(3.0, 0.5, 12.0),
    "spill_clk": Prior(8, 5, 12),
    "spill_lone_clk": Prior(12, 5, 30),
    "spill_miss": Prior(3, 1, 8),
    "shared_near": Prior(0.5, 0.4, 0.7),  # counters: 0.54 to 0.77 of the bytes of A and B together are left
    "shared_far": Prior(0.8, 0.5, 1.0),
    "l2_rate": Prior(1.0, 0.8, 1.4),
    "rows_64b": Prior(0.25, 0.02, 1.0),
    "rows_32b": Prior(0.8, 0.05, 4.0),
    "narrow_copies": Prior(0.15, 0.01, 1.5),
    "repeated_rows": Prior(1.0, 0.05, 4.0),
    "hot_lines": Prior(0.05, 0.002, 1.0),
    "memory_sharpness": Prior(4, 1.5, 10),
    "power": Prior(0.8, 0.05, 4.0),
}
#: not fitted: read once and kept
FIXED: Mapping[str, float] = {
    "start_slots": 140.0,
    "async_load_clk": 20.0,
    "power_onset": 0.617,
    "queue_noise": 0.1,
    "memory_sharpness_lone": 4.0,
}


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot: rules of Triton and limits of the chip, written here once."""
    bm, bn, bk, warps = (config[p] for p in ("bm", "bn", "bk", "num_warps"))
    r = Refusals(len(config))
    r.over("threads_per_block", launch.threads, arch.max_threads_per_block, "threads a block")
    r.over("smem_capacity", launch.smem_bytes, arch.smem_per_block_bytes, "B of shared memory a block")
    spent = launch.threads * np.minimum(-(-launch.regs_per_thread // 8) * 8, 256)
    r.over("register_file", spent, arch.regs_per_block, "registers a block")
    r.over("grid_x", _tiles(problem, config), 2**31 - 1, "blocks in grid.x")
    ptxas = ("wgmma" in arch.matrix_instructions) & (warps == 16) & (bm == 256) & (bn == 256) & ~launch.from_facts
    r.when("ptxas", ptxas, "a 256x256 tile on 16 warps needs 128 accumulators of 128 registers: ptxas fails")
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    r.when(
        "dot_depth", bk * problem.a_bytes < 32 if problem.a_bytes == 1 else False, "8-bit tl.dot needs bk of 32 or more"
    )
    r.over("tile_elements", np.maximum(bm * bk, np.maximum(bn * bk, bm * bn)), 1 << 20, "elements in one tensor")
    return r


def _tiles(problem: Gemm, config: Config) -> FloatArray:
    tiles = np.ceil(problem.m / config["bm"]) * np.ceil(problem.n / config["bn"])
    return np.asarray(tiles * problem.batch, np.float64)


def aligned(problem: Gemm) -> tuple[BoolArray, BoolArray]:
    """Whether rows of A and of B in memory have a stride that Triton loads 16 bytes at a time."""
    return problem.a_stride % STRIDE_UNIT == 0, problem.b_stride % STRIDE_UNIT == 0


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, estimated from the tile (families/triton_resources.py)."""
    a, b = aligned(problem)
    columns = {p.name: config[p.name] for p in PARAMETERS if p.name != "group_m"}
    columns |= {"a": a.astype(np.int64), "b": b.astype(np.int64)}

    def compute(u: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        r = resources(
            u["bm"],
            u["bn"],
            u["bk"],
            u["num_warps"],
            u["num_stages"],
            element_bytes=problem.a_bytes,
            wgmma_allowed="wgmma" in arch.matrix_instructions,
            a_aligned=u["a"] == 1,
            b_aligned=u["b"] == 1,
        )
        return r.regs_per_thread, r.spill_bytes, r.smem_bytes

    regs, spills, smem = per_unique(columns, len(config), compute)
    return Launch(32 * config["num_warps"], regs, spills, smem, np.zeros(len(config), bool))


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits). align: as if every row stride were aligned."""
    bm, bn, bk, w, s = (config[p].astype(np.float64) for p in ("bm", "bn", "bk", "num_warps", "num_stages"))
    e, eb, zero, half = problem.a_bytes, problem.b_bytes, np.zeros(1), np.full(1, 0.5)
    wgmma, down, across = layout(bm, bn, w, "wgmma" in arch.matrix_instructions)
    # wgmma: four warps hold 64 rows; warps beyond bm/16 split the columns
    split = np.maximum(1, 16 * w / bm)
    count, width = bm / 64 * split * (bk * e / 32), np.clip(bn / split, 8, 256)
    # mma.sync: every warp reads its own fragments; warps without a tile of their own repeat one
    rows, columns = np.maximum(bm, 16 * down), np.maximum(bn, 8 * across)
    fragment_bytes = (rows * across + columns * down) * bk * e
    copies_a, copies_b = bm * bk * e / (32 * w), bn * bk * eb / (32 * w)  # bytes a thread
    loads = np.ceil(copies_a / COPY_BYTES) + np.ceil(copies_b / COPY_BYTES)
    mma = np.where(wgmma, 0, (rows * columns * bk * e / 4096 + fragment_bytes / 512) / w)
    a_ok, b_ok = (np.ones(1, bool),) * 2 if align else aligned(problem)
    scalar_a, scalar_b = np.where(a_ok, 0, copies_a / e), np.where(b_ok, 0, copies_b / eb)
    # B that is widened, or that wgmma wants K-major and 8- or 32-bit memory does not hold so, goes through registers
    turned = wgmma & (e != 2) & (problem.layout[1] == "N")
    reworked = turned | (eb != e)
    first, second = TURN_WAVEFRONTS.get(e, (0.0, 0.0))
    conflicts = np.where(turned, bn * bk / 32 * (first + second * np.minimum(32, bn * e / 16)), 0)
    # sm_90 has no fp8 mma.sync: fragments are widened and multiplied as 16-bit ones
    widened = ~wgmma & (problem.dtype == "fp8") & ("wgmma" in arch.matrix_instructions)
    convert = np.where(widened, fragment_bytes / 64 * CONVERT_INSTRUCTIONS / w, 0)
    # ldmatrix turns 16-bit elements only: a warp gathers row-major bytes of B one by one
    gathered = np.where(~wgmma & (eb == 1) & (problem.layout[1] == "N"), columns * down * bk / 32, 0)
    rework = np.where(reworked, bn * bk / (32 * w) * REWORK_INSTRUCTIONS, 0)
    # a copy under 4 bytes cannot be cp.async, nor can elements loaded one by one: that operand is not pipelined
    serial = (s == 1) | (np.minimum(copies_a, copies_b) < 4) | ~a_ok | ~b_ok | (turned & (e == 1))
    return Traits(
        path=np.where(wgmma, WGMMA, MMA_SYNC),
        warps=w,
        fmas=np.where(wgmma, count * 64 * width * (32 / e), rows * columns * bk * np.where(widened, 2, 1)),
        wgmma_count=np.where(wgmma, count, 0),
        smem_reads=(np.where(wgmma, count * (64 + width) * 32, fragment_bytes) + reworked * bn * bk * eb) / 128
        + conflicts
        + gathered,
        smem_writes=(bm * e + bn * eb + reworked * bn * e) * bk / 128,
        loops=w * np.where(serial, 0.5, 1),
        operations=w * (loads + mma),
        instructions=w * (rework + convert) + GATHER_INSTRUCTIONS * gathered,
        integer_instructions=zero,
        chain_instructions=zero,
        global_sectors=zero,
        loads=loads,
        rounds_a=half,
        rounds_b=half,
        barrier_warps=zero,
        step_clk=zero,
        depth=np.where(serial, 1, np.maximum(s - 1, 1)),
        asynchronous=~serial,
        through_registers=s == 1,
        fill_steps=np.where(serial & (s > 1), 0, np.maximum(s - 2, 0)),
        prologue_loads=loads * (s - 1),
        accumulators=bm * bn / (32 * w),
        store_sectors=zero,
        a_row_bytes=(bm if problem.layout[0] == "T" else bk) * e,
        b_row_bytes=(bk if problem.layout[1] == "T" else bn) * eb,
        a_copy_bytes=np.minimum(COPY_BYTES, copies_a),
        b_copy_bytes=np.minimum(COPY_BYTES, copies_b),
        scalar_loads=scalar_a + scalar_b,
        scattered_lines=scalar_b * 32 * w if problem.layout[1] == "N" else zero,  # lanes run down B's rows
        repeats_rows=np.ones(1, bool),
    )


def group_m(config: Config) -> FloatArray:
    """Tile rows that the raster walks together."""
    return np.asarray(config["group_m"], np.float64)
