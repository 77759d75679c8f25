"""Threads, registers, spills and shared memory of a block of kernels/simt.cu."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.simt_launch import dynamic_smem_bytes, fitted_vec
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Form, Gemm, IntArray

Columns = Mapping[str, IntArray] | Config
#: what decides registers, shared memory and a block's counts
COLUMNS = ("bm", "bn", "bk", "wm", "wn", "tm", "tn", "stages", "async_copy", "vec", "blocks", "regs", "stream_k")
PAD_BYTES = 16  # that a row of a tile in shared memory is longer than its side, where K runs on in memory
ACCESS_BYTES = 16  # of one copy or fragment read, at most
#: registers: a thread's own, each result, the smaller side of its tile, and what copies keep as addresses
OWN_REGS, RESULT_REGS, SIDE_REGS = 49.3, 1.27, -0.21
TURNED_COPY_REGS, STRAIGHT_COPY_REGS, MOST_COPIES = 0.94, 1.4, 24
THROUGH_REGS, THROUGH_WORD_REGS, MOST_WORDS = 3.5, 0.97, 64
STREAM_REGS = 11.5
#: words spilled: WORDS (registers lacking - SAVED_REGS) ** WORDS_POWER; ptxas first saves some by computing again
SAVED_REGS, WORDS, WORDS_POWER = 25.5, 0.14, 1.55


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes; threads and shared memory are exact."""

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _resources(u, problem, arch)

    columns = {p: config[p] for p in COLUMNS} | {"vec": fitted(problem, config)}
    threads, regs, spills, smem = per_unique(columns, len(config), compute)
    return Launch(threads, regs, spills, smem, np.zeros(len(config), bool))


def threads_of(u: Columns) -> IntArray:
    """Threads of a block."""
    return np.asarray(np.maximum(u["bm"] // u["wm"], 1) * np.maximum(u["bn"] // u["wn"], 1) * LANES)


def form(problem: Gemm) -> Form:
    """What of the problem decides how the kernel is compiled and how much it takes."""
    return Form(problem.dtype, problem.dtype_b, problem.dtype_c, problem.layout)


def turned(side: str, layout: str) -> bool:
    """Whether K runs on in memory for the operand whose tile's side is bm (A) or bn (B): it is scattered on the way."""
    return layout[0] != "T" if side == "bm" else layout[1] == "T"


def cap(u: Columns, threads: IntArray, arch: Arch) -> IntArray:
    """Registers a thread that the compiler may use at most."""
    return np.asarray(
        np.minimum(np.where(u["regs"] > 0, u["regs"], left(u["blocks"], threads, arch)), arch.regs_per_thread)
    )


def left(blocks: IntArray, threads: IntArray, arch: Arch) -> IntArray:
    """Registers a thread that so many blocks an SM leave, however many it can have."""
    warps = -(-threads // LANES * blocks // arch.sub_partitions)  # of a sub-partition, which holds whole ones
    return np.asarray(arch.regs_per_sm // arch.sub_partitions // (LANES * np.maximum(warps, 1)) // 8 * 8)


def fitted(problem: Gemm, config: Config) -> IntArray:
    """Elements of a global access that the strides allow: what is compiled for the problem."""
    found = fitted_vec(problem.m, problem.n, problem.k, config.values, form(problem))
    return np.broadcast_to(found, len(config)).astype(np.int64)


def vector(u: Columns, width: int) -> IntArray:
    """Elements of a global access where nothing forbids it."""
    return np.asarray(np.minimum(u["vec"], ACCESS_BYTES // width))


def lanes_across(bk: IntArray, wide: IntArray) -> IntArray:
    """Lanes that copy `wide` elements each along one row of K of a scattered operand."""
    return np.asarray(np.where((wide == 1) & (bk % 16 == 0), 16, np.maximum(bk // wide, 1)))


def copies(u: Columns, side: str, layout: str, vec: IntArray, threads: IntArray) -> tuple[IntArray, IntArray]:
    """Copies a thread makes of one operand's tile, and how many elements each moves."""
    size, bk = u[side], u["bk"]
    if not turned(side, layout):
        return np.asarray(-(-bk * size // (vec * threads))), vec
    wide = np.where(u["async_copy"] == 1, 1, vec)
    across = lanes_across(bk, wide)
    rounds = -(-size // np.maximum(threads // across, 1))
    return np.asarray(rounds * np.maximum(bk // (across * wide), 1)), wide


def _resources(u: Mapping[str, IntArray], problem: Gemm, arch: Arch) -> tuple[np.ndarray, ...]:
    threads, limit = threads_of(u), cap(u, threads_of(u), arch)
    free = wanted(u, problem, threads)
    spills = 4.0 * np.floor(WORDS * np.maximum(0, free - limit - SAVED_REGS) ** WORDS_POWER)
    regs = np.clip(np.round(free), 16, limit).astype(np.int64)
    return threads, regs, spills, dynamic_smem_bytes(u, form(problem))


def wanted(u: Mapping[str, IntArray], problem: Gemm, threads: IntArray) -> FloatArray:
    """Registers a thread that nothing limits.

    Fitted to kernels that NVRTC 13.5 compiled for sm_90a (rows of the H200 campaign, studies/facts), caps counted in;
    those for sm_80 took no part. tests/families/test_facts.py holds it to both.
    """
    words = problem.a_bytes // 4
    vec = vector(u, problem.a_bytes)
    (a, wide_a), (b, wide_b) = (copies(u, side, problem.layout, vec, threads) for side in ("bm", "bn"))
    addresses = np.zeros(len(threads))
    for side, count in (("bm", a), ("bn", b)):
        each = TURNED_COPY_REGS if turned(side, problem.layout) else STRAIGHT_COPY_REGS
        addresses = addresses + each * np.minimum(count, MOST_COPIES)
    moved = np.minimum(words * (a * wide_a + b * wide_b), MOST_WORDS)
    through = THROUGH_REGS + THROUGH_WORD_REGS * moved
    thread = words * (RESULT_REGS * u["tm"] * u["tn"] + SIDE_REGS * np.minimum(u["tm"], u["tn"]))
    own = OWN_REGS + STREAM_REGS * u["stream_k"]
    return np.asarray(own + thread + np.where(u["async_copy"] == 1, addresses, through))
