"""Addresses that the lanes of kernels/simt.cu ask for: copies of both tiles, fragment reads, stores of C."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemmsim.config import Config
from gemmsim.families import simt_resources
from gemmsim.families.accesses import Access, access, across, column, idle, threads
from gemmsim.families.simt_launch import REDUCE_RESULTS, REDUCE_THREADS
from gemmsim.families.simt_resources import PAD_BYTES, copies, lanes_across, threads_of, turned, vector
from gemmsim.families.simt_traits import groups, lane_map
from gemmsim.families.traits import inside
from gemmsim.families.wavefronts import LANES
from gemmsim.problem import FloatArray, Gemm, IntArray

#: LDS with a false predicate that ptxas puts before each tile's cp.async (sm_90a, NVRTC 13.5): no lane takes part
PLACEHOLDERS = 3
#: warp instructions of `reduce`, read off its disassembly: start and end, a round of eight slices, one slice of the
#: rest; and what comes before either
REDUCE, REDUCE_ROUND, REDUCE_SLICE, REDUCE_BEFORE = 110.0, 48.0, 12.0, (18.0, 13.0)
ROUND = 8


def access_patterns(problem: Gemm, config: Config) -> tuple[Access, ...]:
    """Requests of a block (see Access). Those of the second kernel, that sums slices, touch global memory alone."""
    warps = threads_of(config) / LANES
    before_copies = np.where(config["async_copy"] == 1, PLACEHOLDERS * warps, 0.0)
    placeholders = idle("placeholders", before_copies, before_copies * (config["stages"] - 1))  # tiles before the loop
    copying = [x for side in ("bm", "bn") for x in _copies(problem, config, side)]
    return (*copying, placeholders, *_fragments(problem, config, warps), _stores(problem, config, warps))


def _copies(problem: Gemm, config: Config, side: str) -> Iterator[Access]:
    """How a tile of A (side bm) or B (bn) gets into shared memory; a warp whose lanes all hold back asks too."""
    vec = np.minimum(simt_resources.fitted(problem, config), vector(config, problem.a_bytes))
    count, wide = copies(config, side, problem.layout, vec, threads_of(config))
    each = np.where(config["async_copy"] == 1, 1, wide) if turned(side, problem.layout) else 1
    requests = np.ceil(config[side] * config["bk"] / wide / LANES)
    live, name = np.ones(1), "A" if side == "bm" else "B"
    if turned(side, problem.layout):
        live = inside(problem.m if side == "bm" else problem.n, config[side].astype(np.float64))
        yield from _moved(f"{name} past the edge", problem, config, side, wide, (1 - live) * requests, edge=True)
    yield from _moved(name, problem, config, side, wide, live * requests)
    yield idle(f"{name}, no lane", each * (threads_of(config) / LANES * count - requests))


def _moved(
    name: str, problem: Gemm, config: Config, side: str, wide: IntArray, requests: FloatArray, edge: bool = False
) -> Iterator[Access]:
    """The copies of one operand: cp.async, or a load and as many stores as it takes. edge: all lanes read one line."""
    asynchronous, width = config["async_copy"] == 1, problem.a_bytes
    shared, memory = _places(problem, config, side, wide, edge)
    scattered = turned(side, problem.layout)
    store, stores = (np.ones(1, np.int64), wide) if scattered else (wide, np.ones(1))
    copied = np.where(asynchronous, requests, 0.0)
    through = requests - copied
    yield access(f"{name}: cp.async", copied, wide * width, shared=shared, memory=memory)
    yield access(f"{name}: load", through, wide * width, memory=memory)
    yield access(f"{name}: store", through * stores, store * width, shared=shared)


def _places(problem: Gemm, config: Config, side: str, wide: IntArray, edge: bool) -> tuple[IntArray, IntArray]:
    """First bytes in shared memory and in the matrix of what each lane copies, in the rounds of a k-step."""
    size, bk, wide, width = column(config[side]), column(config["bk"]), column(wide), problem.a_bytes
    stride = column(problem.a_stride if side == "bm" else problem.b_stride)
    if turned(side, problem.layout):
        line, k = across(threads(len(config)), lanes_across(bk, wide))
        line, k = line % size, k * wide
        shared = k * (size + PAD_BYTES // width) + line
        return shared * width, (line * (0 if edge else 1) * stride + k) * width
    row = size // wide  # lanes that copy one
    k, place = across(threads(len(config), row // LANES + 1) % (row * bk), row)
    place = place * wide
    return (k * size + place) * width, (k * stride + place) * width


def _fragments(problem: Gemm, config: Config, warps: FloatArray) -> Iterator[Access]:
    """Reads for each column of K; a pipeline of three buffers and more reads one column ahead."""
    width = problem.a_bytes
    ahead = (config["async_copy"] == 1) & (config["stages"] >= 3)
    for name, count, lane in zip("AB", (config["tm"], config["tn"]), _lanes(config), strict=True):
        group = groups(count, width)
        reads = warps * count / group
        yield access(f"{name}: fragments", reads * config["bk"], group * width,
                     shared=(lane * group[:, None] * width)[:, None, :], ends=reads * ahead)  # fmt: skip


def _stores(problem: Gemm, config: Config, warps: FloatArray) -> Access:
    """One row of C's groups of neighbours, as all others: at once where the strides allow."""
    row, place = _lanes(config)
    group = groups(config["tn"], problem.a_bytes)
    vec = np.minimum(simt_resources.fitted(problem, config), vector(config, problem.a_bytes))
    whole = np.where(vec >= group, group, 1)
    memory = row * groups(config["tm"], problem.a_bytes)[:, None] * problem.n[:, None] + place * group[:, None]
    return access("C: store", 0.0, whole * problem.c_bytes, memory=(memory * problem.c_bytes)[:, None, :],
                  ends=warps * config["tm"] * config["tn"] / whole)  # fmt: skip


def _lanes(config: Config) -> tuple[IntArray, IntArray]:
    lm, ln = (np.maximum(config[whole] // config[part], 1) for whole, part in (("wm", "tm"), ("wn", "tn")))
    return lane_map(lm, ln)


def second_instructions(config: Config) -> FloatArray:
    """Warp instructions of the second kernel for each tile whose slices it sums."""
    rounds, rest = config["split_k"] // ROUND, config["split_k"] % ROUND
    own = REDUCE + rounds * REDUCE_ROUND + rest * REDUCE_SLICE
    own = own + REDUCE_BEFORE[0] * (rounds > 0) + REDUCE_BEFORE[1] * (rest > 0)
    return np.asarray(own * REDUCE_THREADS / LANES * np.ceil(config["bm"] * config["bn"] / REDUCE_RESULTS))
