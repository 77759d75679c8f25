"""The fast GEMM on Hopper's tensor cores: wgmma fed by TMA, a producer beside consumer warpgroups, persistent clusters.

The kernel is kernels/wgmma.cu. What it takes is in wgmma_resources, what it does in wgmma_traits, what `rank` searches
in wgmma_space, how it is launched in wgmma_launch; here stand its parameters, its rules and its coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families import wgmma_resources, wgmma_space, wgmma_traits
from gemmsim.families.mma_launch import DTYPES as MMA_DTYPES
from gemmsim.families.mma_launch import able
from gemmsim.families.refuse import Refusals
from gemmsim.families.simt_resources import form
from gemmsim.families.traits import Parameter, Prior, Traits
from gemmsim.families.wavefronts import LANES
from gemmsim.families.wgmma_launch import DTYPES, LAYOUT_RULE, LAYOUTS_OF, SOURCE, macros, plan
from gemmsim.families.wgmma_resources import (
    COLUMNS_STEP,
    MOST_COLUMNS,
    ROWS,
    along_k,
    lacking,
    sharers,
    starts,
    x_side,
    y_side,
)
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm

__all__ = ["DTYPES", "LAYOUTS_OF", "LAYOUT_RULE", "SOURCE", "macros", "plan"]
NAME = "wgmma"
WEIGHT_DTYPES: tuple[str, ...] = ()
LAYOUTS = ("NN", "NT", "TN", "TT")
EPILOGUES = True
BATCH = True
_SIDE = tuple(range(8, 257, 8))
PARAMETERS = (
    Parameter("bm", _SIDE, 128, 8, 512, False, "rows of the block tile"),
    Parameter("bn", _SIDE, 256, 8, 512, False, "columns of the block tile"),
    Parameter("bk", (32, 64, 128), 64, 16, 256, True, "depth of a k-step: 64, 128 or 256 bytes"),
    Parameter("stages", tuple(range(2, 17)), 4, 1, 32, False, "buffers in shared memory"),
    Parameter("consumers", (1, 2, 3), 2, 1, 3, False, "warpgroups that multiply, beside one that loads"),
    Parameter("pingpong", (0, 1), 0, 0, 1, False, "1: consumers take turns, a tile each; 0: they share every tile"),
    Parameter("cluster_m", (1, 2), 2, 1, 4, True, "blocks of a cluster along M, which share tiles of B"),
    Parameter("cluster_n", (1, 2), 1, 1, 4, True, "blocks of a cluster along N, which share tiles of A"),
    Parameter("swap", (0, 1), 0, 0, 1, False, "1: C^T = B^T A^T, so that N is what is cut into 64s, and M into 8s"),
    Parameter("blocks", (1, 2), 1, 1, 2, False, "blocks an SM that registers are left for"),
    Parameter("group_m", (1, 8), 8, 1, 65535, False, "rows of cluster tiles that the raster walks together"),
    Parameter("hilbert", (0,), 0, 0, 1, False, "1: tiles along Hilbert's curve; group_m is then without effect"),
    Parameter("split_k", (1, 2, 3, 4, 5, 6, 8, 12, 16), 1, 1, 256, False, "slices along K of a split tile"),
    Parameter("split_tail", (0, 1), 0, 0, 1, False, "1: only tiles past the last whole wave are split; 0: all"),
    Parameter("stream_k", (0, 1), 0, 0, 1, False, "1: what is past the last whole wave is shared out evenly along K"),
)
#: of the warp that loads and of rows: read off deep problems of few tiles, 128 x 128 x 65536
PRIORS: Mapping[str, Prior] = {
    "load_latency": Prior(2.0, 1.0, 5.0),  # TMA, its barrier and the producer's turn
    "dram_latency": Prior(1.5, 0.3, 6.0),
    "box_row_clk": Prior(1.65, 1.0, 3.0),
    "loader_clk": Prior(140.0, 70.0, 280.0),
    "loader_cluster_clk": Prior(130.0, 60.0, 260.0),
    "box_clk": Prior(45.0, 20.0, 90.0),
    "shared_box_clk": Prior(32.0, 15.0, 65.0),
    "start": Prior(10.0, 1.0, 25.0),
    "epilogue_slots": Prior(8.0, 1.0, 30.0),
    "store_round_clk": Prior(350.0, 100.0, 1000.0),
    "merging": Prior(0.15, 0.02, 0.5),
    "filled": Prior(2.0, 0.5, 8.0),
    "pipe_sharpness": Prior(10.0, 2.5, 16.0),
    "power": Prior(0.5, 0.05, 4.0),
}
#: not fitted: read once and kept. Fits that were free to move them gained less than 0.1 % of error
FIXED: Mapping[str, float] = {
    "arrival": 1.0,
    "handover": 1.0,
    "fixup": 1.0,
    "memory_sharpness": 3.0,
    "memory_sharpness_lone": 3.0,
    "power_onset": 0.56,
    "tensor_clock": 0.9,
    "async_write": 0.3,
    "queue_noise": 0.1,
    "store_clk": 0.5,
}
#: bytes of K in a k-step: rows of a swizzle, one or two side by side
STEP_BYTES = (64, 128, 256)
CLUSTERS = (1, 2, 4)
#: what the copy engine takes: strides in whole multiples of it, and boxes of so many elements a side
TMA_BYTES, TMA_BOX = 16, 256
#: a slice along K shorter than this is all start and end
LEAST_SLICE = 64
#: tiles, and k-steps times slices, are counted in 32 bits
MOST_INT = 2**31 - 1


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes, exactly: what would spill is refused."""
    return wgmma_resources.launch(problem, config, arch)


def refusals(problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
    """Why a configuration cannot run, if it cannot."""
    r = Refusals(len(config))
    other = _other(problem, arch)
    r.when(
        "wgmma",
        "wgmma" not in arch.matrix_instructions,
        f"only sm90 has this instruction, {arch.name} does not: {other}",
    )
    for p in PARAMETERS:
        r.outside(p, config[p.name])
    _stride_rules(r, problem, other)
    _tile_rules(r, problem, config)
    _budget_rules(r, config, launch, arch)
    _split_rules(r, problem, config)
    return r


def _other(problem: Gemm, arch: Arch) -> str:
    """The family that does what wgmma cannot: mma, where it has the type and the chip what mma is made of."""
    return f"family {'mma' if problem.dtype in MMA_DTYPES and able(arch) else 'triton'} would do"


def _stride_rules(r: Refusals, problem: Gemm, other: str) -> None:
    """The copy engine steps from row to row in multiples of 16 bytes. C goes another way where it cannot."""
    for name, stride in (("A", problem.a_stride * problem.a_bytes), ("B", problem.b_stride * problem.b_bytes)):
        sentence = f"rows of {name} in memory lie no multiple of {TMA_BYTES} B apart, which TMA asks for: {other}"
        r.when(f"stride_{name.lower()}", stride % TMA_BYTES != 0, sentence)


def _tile_rules(r: Refusals, problem: Gemm, config: Config) -> None:
    """Consumers share out 64s of wgmma's M side; its N side is one instruction wide."""
    x, y, cluster = x_side(config), y_side(config), cluster_of(config)
    few = "bm (bn with swap) is no multiple of 64 x consumers, or of 64 where they take turns"
    r.when("x_side", x % (ROWS * sharers(config)) != 0, few)
    alone = (config["pingpong"] == 1) & (config["consumers"] == 1)
    r.when("pingpong", alone, "one consumer has none to take turns with")
    r.when("y_side", y % COLUMNS_STEP != 0, "bn (bm with swap) is no multiple of 8")
    r.over("y_side", y, MOST_COLUMNS, "columns of one wgmma (bn, or bm with swap)")
    r.over("box", x, TMA_BOX, "elements of one side of a TMA box (bm, or bn with swap)")
    step = config["bk"] * problem.a_bytes
    known = " or ".join(map(str, STEP_BYTES))
    r.when("step_bytes", ~np.isin(step, STEP_BYTES), f"bk x {problem.a_bytes} B is not {known}")
    r.when("cluster", ~np.isin(cluster, CLUSTERS), "cluster_m x cluster_n is not 1, 2 or 4")
    for name, side, loaders in (("a", "bm", "cluster_n"), ("b", "bn", "cluster_m")):
        rows = config[side] if along_k(form(problem), name) else config["bk"]
        broken = rows % (COLUMNS_STEP * config[loaders]) != 0
        what = f"a tile of {name.upper()} has no whole eights of rows for each of {loaders} blocks"
        r.when(f"share_{name}", broken, what)


def _budget_rules(r: Refusals, config: Config, launch: Launch, arch: Arch) -> None:
    threads = launch.threads * config["blocks"]
    r.over("threads_per_sm", threads, arch.max_warps_per_sm * LANES, "threads of `blocks` blocks an SM")
    r.over("registers", lacking(config), 0, "registers a thread more than setmaxnreg gives a consumer")
    few = "a thread begins with fewer registers than one wgmma of so many columns names"
    r.when("registers_at_start", ~starts(config), few)
    r.over("shared_memory", launch.smem_bytes, arch.smem_per_block_bytes, "B of shared memory a block")


def _split_rules(r: Refusals, problem: Gemm, config: Config) -> None:
    bk, split, stream = (config[p] for p in ("bk", "split_k", "stream_k"))
    r.when("split_tail", (config["split_tail"] == 1) & (split == 1), "split_tail without split_k has nothing to split")
    r.when("stream_and_split", (stream == 1) & (split > 1), "stream_k shares out K itself: expected split_k 1")
    r.under("slice_columns", np.where(split > 1, problem.k // split, LEAST_SLICE), LEAST_SLICE)
    short = (split > 1) & (split > -(-problem.k // bk))
    r.when("slices", short, "a slice would have no k-step")
    rows, columns = (
        np.ceil(size / (config[side] * config[across]))
        for size, side, across in ((problem.m, "bm", "cluster_m"), (problem.n, "bn", "cluster_n"))
    )
    r.over("tiles", rows * columns * problem.batch * split, MOST_INT, "cluster tiles and slices")
    r.over("k_steps", np.ceil(problem.k / bk) * split, MOST_INT, "k-steps times slices")


def cluster_of(config: Config) -> np.ndarray:
    """Blocks of a cluster."""
    return np.asarray(config["cluster_m"] * config["cluster_n"])


def traits(problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
    """Counts of a block (see Traits)."""
    return wgmma_traits.traits(problem, config, launch)


def space() -> Config:
    """Every structurally valid combination that makes sense."""
    return wgmma_space.space(PARAMETERS)


def group_m(config: Config) -> FloatArray:
    """Tile rows that the raster walks together; Hilbert's curve counts as groups as tall as a wave is wide."""
    rows = np.where(config["hilbert"] == 1, HILBERT_ROWS, config["group_m"])
    return np.asarray(rows * config["cluster_m"], np.float64)


#: rows of tiles that a wave on a chip of some 130 SMs spans along the curve
HILBERT_ROWS = 11
