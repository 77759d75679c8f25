"""Threads, registers, spills and shared memory of a block of kernels/mma.cu."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.copies import LEAST_ASYNC, fitted_columns
from gemmsim.families.mma_launch import dynamic_smem_bytes
from gemmsim.families.simt_resources import left, threads_of
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm, IntArray

Columns = Mapping[str, IntArray] | Config
#: what decides registers, shared memory and a block's counts
COLUMNS = ("bm", "bn", "bk", "wm", "wn", "stages", "blocks", "split_k")
#: registers: a thread's own, a sum, a register of fragments (of one step, and where that is all of a k-step), a copy's
#: offset and target up to so many copies, a step along K up to so many
OWN_REGS, SUM_REGS, FRAGMENT_REGS, LONE_FRAGMENT_REGS = 23.3, 1.14, 0.8, 0.39
COPY_REGS, MOST_COPIES, STEP_REGS, MOST_STEPS = 2.4, 24, 1.1, 4
#: copies of one element from which on no offset is kept (common/swizzle.cuh), and what their batches take instead
#: (fitted to the kernels of unaligned rows in studies/h200/mma_bf16.csv.gz)
KEPT_COPIES, BATCH_REGS = 12, 19.0
#: bytes of K that one mma.sync multiplies
STEP_BYTES = 32
#: of registers lacking, those that ptxas saves by computing again; each of the others is a word spilled
SAVED_REGS = 25.0


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes; threads and shared memory are exact."""

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _resources(u, problem, arch)

    columns = {p: config[p] for p in COLUMNS} | fitted_columns(problem, config)
    threads, regs, spills, smem = per_unique(columns, len(config), compute)
    return Launch(threads, regs, spills, smem, np.zeros(len(config), bool))


def results(u: Columns) -> IntArray:
    """Sums a thread holds."""
    return np.asarray(u["wm"] * u["wn"] // LANES)


def cap(blocks: IntArray, threads: IntArray, arch: Arch) -> IntArray:
    """Registers a thread that the compiler may use at most."""
    return np.asarray(np.minimum(left(blocks, threads, arch), arch.regs_per_thread))


def copies(u: Columns, side: str, width: int) -> IntArray:
    """Copies a thread makes of the tile of A (bm) or B (bn) a k-step."""
    return np.asarray(-(-u[side] * u["bk"] * width // (piece(u, side, width) * threads_of(u))))


def piece(u: Columns, side: str, width: int) -> IntArray:
    """Bytes of a copy: what cp.async can do, or one element."""
    allowed = u["copy_a" if side == "bm" else "copy_b"]
    return np.where(allowed >= LEAST_ASYNC, allowed, width)


def wanted(u: Mapping[str, IntArray], width: int) -> FloatArray:
    """Registers a thread that nothing limits: sums, fragments, what copies and steps keep.

    Fitted to 80 kernels that NVRTC 13.5 compiled for sm_90a (studies/facts).
    """
    steps = u["bk"] * width // STEP_BYTES
    each = np.where(steps > 1, FRAGMENT_REGS, LONE_FRAGMENT_REGS)
    own = OWN_REGS + SUM_REGS * results(u) + each * (u["wm"] + u["wn"]) / 2
    return np.asarray(own + _copying(u, width) + STEP_REGS * np.minimum(steps, MOST_STEPS))


def _copying(u: Mapping[str, IntArray], width: int) -> FloatArray:
    """Registers a thread for its copies: an offset and a target each, or so many for a batch of single elements."""
    kept, batches = np.zeros(1), np.zeros(1)
    for side, name in (("bm", "copy_a"), ("bn", "copy_b")):
        count = copies(u, side, width)
        batched = (u[name] < LEAST_ASYNC) & (count > KEPT_COPIES)
        kept, batches = kept + np.where(batched, 0, count), batches + batched
    return np.asarray(COPY_REGS * np.minimum(kept, MOST_COPIES) + BATCH_REGS * batches)


def _resources(u: Mapping[str, IntArray], problem: Gemm, arch: Arch) -> tuple[np.ndarray, ...]:
    threads = threads_of(u)
    limit, free = cap(u["blocks"], threads, arch), wanted(u, problem.a_bytes)
    spills = 4.0 * np.floor(np.maximum(0, free - limit - SAVED_REGS))
    regs = np.clip(np.round(free), 16, limit).astype(np.int64)
    return threads, regs, spills, dynamic_smem_bytes(u, problem.a_bytes)
