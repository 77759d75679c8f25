"""The GEMM by nvcuda::wmma's 16x16x16, the portable first step on tensor cores: padded tiles, one or two buffers.

The kernel is kernels/wmma.cu. Its fragments are read and multiplied in turn: no step of K is read ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families import copies, mma, mma_resources, mma_traits
from gemmsim.families.combinations import grid, times, where
from gemmsim.families.copies import COPIES, fitted
from gemmsim.families.cuda import Plan, common_macros
from gemmsim.families.mma_accesses import along_k
from gemmsim.families.mma_launch import DTYPES, LANES, LAYOUTS, threads
from gemmsim.families.refuse import Refusals
from gemmsim.families.simt_resources import threads_of
from gemmsim.families.traits import Parameter, Prior, Traits
from gemmsim.hardware import Arch
from gemmsim.problem import DTYPE_BYTES, FloatArray, Form, Gemm, IntArray

__all__ = ["DTYPES", "LAYOUTS", "fitted"]
NAME = "wmma"
SOURCE = "wmma.cu"
WEIGHT_DTYPES: tuple[str, ...] = ()
EPILOGUES = True
BATCH = True
#: parameter -> macro; group_m is an argument
MACROS = {"bm": "BM", "bn": "BN", "bk": "BK", "wm": "WM", "wn": "WN", "stages": "STAGES", **copies.MACROS}
PARAMETERS = (
    Parameter("bm", (32, 64, 128), 128, 16, 512, False, "rows of the block tile"),
    Parameter("bn", (32, 64, 128), 128, 16, 512, False, "columns of the block tile"),
    Parameter("bk", (16, 32, 64), 32, 16, 256, False, "depth of a k-step, a multiple of 16"),
    Parameter("wm", (16, 32, 64), 64, 16, 256, False, "rows of the warp tile, a multiple of 16"),
    Parameter("wn", (16, 32, 64), 32, 16, 256, False, "columns of the warp tile, a multiple of 16"),
    Parameter("stages", (1, 2), 2, 1, 2, False, "1: copy, wait, multiply; 2: double buffer"),
    *COPIES,
    Parameter("group_m", (8,), 8, 1, 65535, False, "tile rows that the raster walks together"),
)
PRIORS: Mapping[str, Prior] = {
    name: mma.PRIORS[name]
    for name in ("load_latency", "dram_latency", "arrival", "async_write", "barrier_clk", "store_clk", "start",
                 "epilogue_slots", "scalar_slots", "cold_code", "shared_near", "shared_far", "l2_rate", "rows_64b",
                 "rows_32b", "narrow_copies", "crossings", "last_row", "straggler", "memory_sharpness", "power",
                 "spill_clk")
} | {"queue_noise": Prior(0.3, 0.05, 1.0)}  # fmt: skip
FIXED: Mapping[str, float] = {name: value for name, value in mma.FIXED.items() if name != "queue_noise"}
#: a fragment's side; bytes behind each row of a tile; bytes of a warp's sums on their way to the epilogue
SIDE, PADDING, PATCH_BYTES = 16, 32, 1536
#: registers: a thread's own, a sum, a register of fragments, and where a k-step has several steps more for each of them
#: (fitted to 60 kernels that NVRTC 13.5 compiled for sm_90a: studies/facts)
OWN_REGS, SUM_REGS, FRAGMENT_REGS, MORE_REGS = 28.0, 0.65, 1.95, 0.75
#: threads of an SM that registers are left for, half of them if a thread has more sums than
SHARING, MANY_SUMS = 512, 64
#: warps of a block that is searched
WARPS = (4, 8)


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for types without a kernel."""
    return common_macros(form, DTYPES) | {macro: str(config[name]) for name, macro in MACROS.items()}


def _smem_bytes(config: Mapping[str, IntArray], layout: str, width: int) -> IntArray:
    """Shared memory of a block: padded tiles, or what the warps' sums pass through if that is more."""
    stage = np.zeros(1, np.int64)
    for side in ("bm", "bn"):
        row, rows = (config["bk"], config[side]) if along_k(layout, side) else (config[side], config["bk"])
        stage = stage + rows * (row * width + PADDING)
    warps = config["bm"] // config["wm"] * (config["bn"] // config["wn"])
    return np.asarray(np.maximum(config["stages"] * stage, PATCH_BYTES * warps))


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch. Scalars: group_m."""
    rows = -(-m // config["bm"])
    columns = {name: np.full(1, value, np.int64) for name, value in config.items()}
    smem = int(_smem_bytes(columns, form.layout, DTYPE_BYTES[form.dtype])[0])
    # more rows than there are change nothing, and group_m * columns would leave 32 bits
    group = max(1, min(config["group_m"], rows))
    return Plan((rows * -(-n // config["bn"]), 1, form.batch), threads(config), smem, (group,))


def _as_mma(config: Config) -> Config:
    """The configuration of mma that does the same work."""
    ones = np.ones(len(config), np.int64)
    return Config("mma", {**config.values, "blocks": ones, "split_k": ones})


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, estimated from the tile; threads and shared memory are exact."""
    threads = threads_of(config)
    sums = mma_resources.results(config)
    blocks = np.maximum(np.where(sums <= MANY_SUMS, SHARING, SHARING // 2) // threads, 1)  # as the kernel has them
    held = (config["wm"] + config["wn"]) / 4
    more = np.where(config["bk"] * problem.a_bytes > mma_resources.STEP_BYTES, MORE_REGS, 0)
    free = OWN_REGS + SUM_REGS * sums + (FRAGMENT_REGS + more) * held
    regs = np.clip(np.round(free), 16, mma_resources.cap(blocks, threads, arch)).astype(np.int64)
    smem = np.broadcast_to(_smem_bytes(config.values, problem.layout, problem.a_bytes), len(config))
    return Launch(threads, regs, np.zeros(len(config)), smem, np.zeros(len(config), bool))


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    r = Refusals(len(config))
    mma.hardware_rules(r, arch)
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    for name in ("bk", "wm", "wn"):
        r.when(f"{name}_fragments", config[name] % SIDE != 0, f"{name} is not a multiple of {SIDE}")
    mma.tile_rules(r, problem, config, launch, arch)
    return r


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits): mma's, but fragments are read and multiplied in turn, in one or two buffers."""
    same = mma_traits.traits(problem, _as_mma(config), align)
    two = config["stages"] == 2
    return replace(
        same,
        depth=np.ones(1),
        fill_steps=np.ones(1),
        prologue_loads=np.where(two, same.loads, 0.0),
        asynchronous=same.asynchronous & two,
        prefetched=same.prefetched & two,
        exposed_barriers=same.warps * np.where(two, 1, 2),
        fragments_ahead=np.zeros(1, bool),
    )


def space() -> Config:
    """Every combination of tiles of 4 or 8 warps whose sums fit into registers."""
    choices = {p.name: p.choices for p in PARAMETERS}
    tiles = grid(choices, "bm", "bn", "wm", "wn")
    warps = tiles["bm"] // tiles["wm"] * (tiles["bn"] // tiles["wn"])
    fills = (tiles["bm"] % tiles["wm"] == 0) & (tiles["bn"] % tiles["wn"] == 0) & np.isin(warps, WARPS)
    columns = where(tiles, fills & (mma_resources.results(tiles) * LANES <= 64 * 64))
    columns = times(columns, grid(choices, "bk", "stages", "copy_a", "copy_b", "copy_c", "group_m"))
    return Config("wmma", {p.name: columns[p.name] for p in PARAMETERS})


def group_m(config: Config) -> FloatArray:
    """Tile rows that the raster walks together."""
    return config["group_m"].astype(np.float64)
