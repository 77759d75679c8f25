"""The GEMM by mma.sync, from sm_80 on: cp.async pipeline, swizzled shared memory, ldmatrix, split-K; any M, N, K.

The kernel is kernels/mma.cu. What it takes is in mma_resources, what it does in mma_traits and mma_accesses, what
`rank` searches in mma_space, how it is launched in mma_launch; here stand its parameters, its rules, its coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families import mma_resources, mma_space, mma_traits
from gemmsim.families.copies import COPIES, fitted
from gemmsim.families.mma_accesses import access_patterns
from gemmsim.families.mma_launch import DTYPES, LAYOUT_RULE, LAYOUTS, LAYOUTS_OF, SOURCE, able, macros, plan
from gemmsim.families.mma_resources import STEP_BYTES
from gemmsim.families.refuse import MAX_GRID_Y, Refusals
from gemmsim.families.simt_accesses import second_instructions
from gemmsim.families.traits import Parameter, Prior, Traits
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm

__all__ = [
    "DTYPES", "LAYOUTS", "LAYOUTS_OF", "LAYOUT_RULE", "SOURCE", "access_patterns", "fitted", "macros", "plan",
    "second_instructions",
]  # fmt: skip
NAME = "mma"
WEIGHT_DTYPES: tuple[str, ...] = ()
EPILOGUES = True
BATCH = True
PARAMETERS = (
    Parameter("bm", (16, 32, 64, 96, 128, 192, 256), 128, 16, 512, False, "rows of the block tile"),
    Parameter("bn", (16, 32, 64, 96, 128, 192, 256), 256, 16, 512, False, "columns of the block tile"),
    Parameter("bk", (16, 32, 64, 128), 32, 8, 256, True, "depth of a k-step, 32 bytes or more"),
    Parameter("wm", (16, 32, 64), 64, 16, 256, True, "rows of the warp tile"),
    Parameter("wn", (16, 32, 64), 64, 16, 256, True, "columns of the warp tile"),
    Parameter("stages", (2, 3, 4, 5, 6), 4, 2, 16, False, "buffers in shared memory"),
    *COPIES,
    Parameter("blocks", (1, 2, 3, 4), 1, 1, 16, False, "blocks an SM that the compiler leaves registers for"),
    Parameter("group_m", (8,), 8, 1, 65535, False, "tile rows that the raster walks together"),
    Parameter("split_k", (1, 2, 3, 4, 6, 8, 12, 16), 1, 1, 256, False, "slices along K of each tile"),
)
PRIORS: Mapping[str, Prior] = {
    "load_latency": Prior(2.0, 1.0, 5.0),  # cp.async, its wait and a barrier
    "dram_latency": Prior(1.5, 0.3, 6.0),
    "arrival": Prior(1.0, 0.3, 2.0),
    "async_write": Prior(0.5, 0.05, 1.5),
    "barrier_clk": Prior(8.0, 1.0, 40.0),
    "store_clk": Prior(0.5, 0.1, 3.0),
    "start": Prior(4.0, 0.7, 25.0),
    "epilogue_slots": Prior(5.0, 0.5, 20.0),
    "scalar_slots": Prior(4.0, 0.5, 40.0),
    "cold_code": Prior(3.0, 0.5, 15.0),
    "second_launch": Prior(0.5, 0.05, 3.0),
    "shared_near": Prior(0.6, 0.4, 1.0),
    "shared_far": Prior(0.8, 0.5, 1.0),
    "l2_rate": Prior(1.0, 0.8, 1.4),
    "rows_64b": Prior(0.1, 0.01, 1.0),
    "rows_32b": Prior(0.5, 0.05, 4.0),
    "narrow_copies": Prior(0.2, 0.02, 1.5),
    "crossings": Prior(2.0, 0.2, 6.0),
    "last_row": Prior(5.0, 1.0, 20.0),
    "straggler": Prior(0.02, 0.002, 0.08),
    "memory_sharpness": Prior(4.0, 1.5, 10.0),
    "pipe_sharpness": Prior(4.0, 1.5, 16.0),
    "spill_clk": Prior(6.0, 2.5, 15.0),
    "power": Prior(0.8, 0.05, 4.0),
}
#: not fitted: read once and kept
FIXED: Mapping[str, float] = {
    "power_onset": 0.617,
    "queue_noise": 0.1,
    "memory_sharpness_lone": 4.0,
    "start_slots": 200.0,
    "prologue_slots": 4.0,
    "spill_lone_clk": 12.0,
    "sector_clk": 0.25,
}
#: offsets inside a tile are 32-bit
MAX_OFFSET = 2**32 - 1
#: blocks in grid.x
MAX_GRID_X = 2**31 - 1
#: a slice along K shorter than this is all start and end
LEAST_SLICE = 64
#: registers that a thread needs beside its results to do anything
LEAST_BESIDE = 24


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, estimated from the tile; threads and shared memory are exact."""
    return mma_resources.launch(problem, config, arch)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    r = Refusals(len(config))
    hardware_rules(r, arch)
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    step = config["bk"] * problem.a_bytes
    r.when("step_bytes", step < STEP_BYTES, f"bk x {problem.a_bytes} B is less than the {STEP_BYTES} B of one mma.sync")
    tile_rules(r, problem, config, launch, arch)
    _split_rules(r, problem, config)
    return r


def hardware_rules(r: Refusals, arch: Arch) -> None:
    """Tensor cores of bf16 and tf32, and cp.async."""
    lacking = f"{arch.name} lacks cp.async and mma.sync of bf16, sm80 and later have them: family triton would do"
    r.when("mma_sync", not able(arch), lacking)


def tile_rules(r: Refusals, problem: Gemm, config: Config, launch: Launch, arch: Arch) -> None:
    """Warp tiles fill the block tile, and the block fits an SM and the launch the grid."""
    bm, bn = config["bm"], config["bn"]
    for part, whole in (("wm", "bm"), ("wn", "bn")):
        r.when(f"{part}_divides_{whole}", config[whole] % config[part] != 0, f"{whole} is not a multiple of {part}")
    r.over("threads_per_block", launch.threads, arch.max_threads_per_block, "threads a block")
    blocks = config.values.get("blocks", np.ones(1, np.int64))
    threads = launch.threads * blocks
    r.over("threads_per_sm", threads, arch.max_warps_per_sm * LANES, "threads of `blocks` blocks an SM")
    short = mma_resources.results(config) + LEAST_BESIDE - mma_resources.cap(blocks, launch.threads, arch)
    r.over("registers", np.maximum(short, 0), 0, "registers a thread too few for its results")
    r.over("shared_memory", launch.smem_bytes, arch.smem_per_block_bytes, "B of shared memory a block")
    for what, side, stride in (("a", bm, problem.a_stride), ("b", bn, problem.b_stride)):
        found = np.maximum(side, config["bk"]).astype(np.float64) * stride
        r.over(f"offset_{what}", found, MAX_OFFSET, "elements from the first of a tile to its last")
    tiles = np.ceil(problem.m / bm) * np.ceil(problem.n / bn)
    r.over("grid_x", tiles * config.values.get("split_k", 1) * np.ceil(bm * bn / 1024), MAX_GRID_X, "blocks in grid.x")
    r.over("grid_z", problem.batch, MAX_GRID_Y, "problems of a batch")


def _split_rules(r: Refusals, problem: Gemm, config: Config) -> None:
    split = config["split_k"]
    r.under("slice_columns", np.where(split > 1, problem.k // split, LEAST_SLICE), LEAST_SLICE)
    short = (split > 1) & (split > -(-problem.k // config["bk"]))
    r.when("slices", short, "a slice would have no k-step")


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits)."""
    return mma_traits.traits(problem, config, align)


def space() -> Config:
    """Every structurally valid combination that makes sense."""
    return mma_space.space(PARAMETERS)


def group_m(config: Config) -> FloatArray:
    """Tile rows that the raster walks together."""
    return config["group_m"].astype(np.float64)
