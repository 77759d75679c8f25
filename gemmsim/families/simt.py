"""The fast GEMM on CUDA cores: block, warp and thread tiles, cp.async pipeline, raster, split-K and stream-K.

The kernel is kernels/simt.cu. What it takes is in simt_resources, what it does in simt_traits, what `rank` searches in
simt_space; here stand its parameters, its rules and its coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families import simt_resources, simt_space, simt_traits
from gemmsim.families.refuse import Refusals
from gemmsim.families.simt_accesses import access_patterns, second_instructions
from gemmsim.families.simt_launch import SOURCE, copies_across, fitted, macros, plan
from gemmsim.families.traits import Parameter, Prior, Traits
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm

__all__ = ["SOURCE", "access_patterns", "fitted", "macros", "plan", "second_instructions"]
NAME = "simt"
DTYPES = ("fp32", "fp64")
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN", "NT", "TN")
EPILOGUES = True
BATCH = False
PARAMETERS = (
    Parameter("bm", (32, 64, 96, 128, 192, 256), 64, 4, 512, False, "rows of the block tile"),
    Parameter("bn", (32, 64, 96, 128, 192, 256), 256, 4, 512, False, "columns of the block tile"),
    Parameter("bk", (8, 16, 32), 8, 4, 64, False, "depth of a k-step"),
    Parameter("wm", (16, 32, 48, 64, 96, 128), 32, 1, 256, False, "rows of the warp tile"),
    Parameter("wn", (16, 32, 48, 64, 96, 128), 128, 1, 256, False, "columns of the warp tile"),
    Parameter("tm", (2, 4, 8, 12, 16), 8, 1, 32, False, "rows of a thread's results"),
    Parameter("tn", (2, 4, 8, 12, 16), 16, 1, 32, False, "columns of a thread's results"),
    Parameter("stages", (1, 2, 3, 4), 3, 1, 8, False, "buffers in shared memory"),
    Parameter(
        "async_copy", (0, 1), 1, 0, 1, False, "1: cp.async, 2 stages or more; 0: through registers, 1 or 2 stages"
    ),
    Parameter("vec", (4,), 4, 1, 4, True, "elements of a global load, fewer where a stride or an address forbids it"),
    Parameter("blocks", (1, 2, 3, 4, 6), 1, 1, 16, False, "blocks an SM that the compiler leaves registers for"),
    Parameter("regs", (232, 0), 232, 0, 255, False, "cap on registers a thread; 0: what `blocks` leaves"),
    Parameter("order", (1,), 1, 0, 1, False, "a thread's products are written down row by row (0) or column by column"),
    Parameter("group_m", (8,), 8, 1, 65535, False, "tile rows that the raster walks together"),
    Parameter(
        "split_k", (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32), 1, 1, 256, False, "slices along K of a split tile"
    ),
    Parameter("split_tail", (0, 1), 0, 0, 1, False, "1: only tiles past the last whole wave are split; 0: all"),
    Parameter("stream_k", (0, 1), 0, 0, 1, False, "1: one persistent wave shares out the k-steps evenly"),
)
#: cold_code ends on its bound: rows of 384 x 384 x 384 want less, those of one long wave more, though not for their
#: code, since what they take longer than predicted without it goes with their time rather than with their lines
PRIORS: Mapping[str, Prior] = {
    "dram_latency": Prior(1.0, 0.2, 3.0),
    "barrier_clk": Prior(12.0, 1.0, 40.0),
    "store_clk": Prior(1.0, 0.2, 5.0),
    "start": Prior(8.0, 1.0, 25.0),
    "queue_noise": Prior(0.2, 0.03, 1.0),
    "fetch_clk": Prior(20.0, 4.0, 80.0),
    "cold_code": Prior(6.0, 1.0, 15.0),
    "second_launch": Prior(0.5, 0.05, 3.0),
    "arrival": Prior(0.5, 0.05, 2.0),
    "narrow_copies": Prior(0.2, 0.02, 1.5),
    "straggler": Prior(0.02, 0.002, 0.08),
    "in_step": Prior(0.7, 0.1, 1.0),
    "handover": Prior(8.0, 1.0, 60.0),
    "fixup": Prior(1.5, 0.3, 8.0),
    "spill_clk": Prior(6.0, 2.5, 15.0),
}
#: far from what bounds these rows, or counted: L1 takes 128 B a clock, a result is scaled, addressed and stored
FIXED: Mapping[str, float] = {
    "load_latency": 1.0,
    "shared_near": 0.6,
    "shared_far": 1.0,
    "spill_lone_clk": 8.0,
    "epilogue_slots": 3.0,
    "start_slots": 250.0,
    "prologue_slots": 6.0,
    "sector_clk": 0.25,
}
#: blocks in grid.x
MAX_GRID_X = 2**31 - 1
#: compute capability that has cp.async
ASYNC_SINCE = (8, 0)
#: offsets inside a tile are 32-bit
MAX_OFFSET = 2**32 - 1
#: a slice along K shorter than this is all start and end
LEAST_SLICE = 64
#: the least that ptxas can be told
LEAST_REGS = 24


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, estimated from the tile; threads and shared memory are exact."""
    return simt_resources.launch(problem, config, arch)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    r = Refusals(len(config))
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    _tile_rules(r, config)
    _copy_rules(r, problem, config, launch, arch)
    _budget_rules(r, config, launch, arch)
    _split_rules(r, problem, config)
    return r


def _tile_rules(r: Refusals, config: Config) -> None:
    """Thread tiles of 32 lanes fill the warp tile, warp tiles the block tile."""
    for p in ("bm", "bn", "bk"):
        r.when(f"{p}_fours", config[p] % 4 != 0, f"{p} is not a multiple of 4")
    for part, whole in (("wm", "bm"), ("wn", "bn"), ("tm", "wm"), ("tn", "wn")):
        r.when(f"{part}_divides_{whole}", config[whole] % config[part] != 0, f"{whole} is not a multiple of {part}")
    lanes = (config["wm"] // config["tm"]) * (config["wn"] // config["tn"])
    r.over("lanes", lanes, LANES, "thread tiles in a warp tile")
    r.under("lanes", lanes, LANES)


def _copy_rules(r: Refusals, problem: Gemm, config: Config, launch: Launch, arch: Arch) -> None:
    stages, asynchronous = config["stages"], config["async_copy"] == 1
    if tuple(int(part) for part in arch.compute_capability.split(".")) < ASYNC_SINCE:
        r.when("async_copy", asynchronous, f"{arch.name} has no cp.async: sm80 and later do")
    r.when("async_stages", asynchronous & (stages < 2), "cp.async needs 2 stages or more")
    r.over("register_stages", np.where(asynchronous, 0, stages), 2, "stages through registers")
    if any(simt_resources.turned(side, problem.layout) for side in ("bm", "bn")):
        over = launch.threads % copies_across(config.values, simt_resources.form(problem))
        r.over("copy_lanes", over, 0, "threads left over by the lanes that copy a row of K")


def _budget_rules(r: Refusals, config: Config, launch: Launch, arch: Arch) -> None:
    blocks, regs, threads = config["blocks"], config["regs"], launch.threads
    r.over("threads_per_block", threads, arch.max_threads_per_block, "threads a block")
    r.when("regs_and_blocks", (regs > 0) & (blocks > 1), "regs and blocks are two caps: expected blocks 1, or regs 0")
    r.over("threads_per_sm", threads * blocks, arch.max_warps_per_sm * LANES, "threads of `blocks` blocks an SM")
    r.under("registers_left", simt_resources.cap(config, threads, arch), LEAST_REGS)
    taken = (regs + 7) // 8 * 8 * threads
    r.over("registers_per_block", taken, arch.regs_per_block, "registers a block at the cap")
    r.over("shared_memory", launch.smem_bytes, arch.smem_per_block_bytes, "B of shared memory a block")


def _split_rules(r: Refusals, problem: Gemm, config: Config) -> None:
    bm, bn, bk, split, stream = (config[p] for p in ("bm", "bn", "bk", "split_k", "stream_k"))
    for what, found in (("a", bm * problem.a_stride), ("b", np.maximum(bk, bn) * problem.b_stride)):
        r.over(f"offset_{what}", found, MAX_OFFSET, "elements from the first of a tile to its last")
    r.when("split_tail", (config["split_tail"] == 1) & (split == 1), "split_tail without split_k has nothing to split")
    r.when("stream_and_split", (stream == 1) & (split > 1), "stream_k shares out K itself: expected split_k 1")
    r.under("slice_columns", np.where(split > 1, problem.k // split, LEAST_SLICE), LEAST_SLICE)
    r.over("slices", np.where(split > 1, split, 0), np.ceil(problem.k / bk).max(initial=1), "slices of so many k-steps")
    tiles = -(-problem.m // bm) * -(-problem.n // bn)
    r.over("grid_x", tiles.astype(np.float64) * split * np.ceil(bm * bn / 1024), MAX_GRID_X, "blocks in grid.x")


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits)."""
    return simt_traits.traits(problem, config, launch, arch, align)


def space() -> Config:
    """Every structurally valid combination that makes sense."""
    return simt_space.space(PARAMETERS)


def group_m(config: Config) -> FloatArray:
    """Tile rows that the raster walks together."""
    return config["group_m"].astype(np.float64)
