"""Threads, registers, spills and shared memory of a block of kernels/mma.cu."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.copies import fitted_columns
from gemmsim.families.mma_launch import dynamic_smem_bytes
from gemmsim.families.simt_resources import left, threads_of
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Gemm, IntArray

Columns = Mapping[str, IntArray] | Config
#: what decides registers, shared memory and a block's counts
COLUMNS = ("bm", "bn", "bk", "wm", "wn", "stages", "blocks", "split_k")
#: registers: a thread's own, each copy's offset, up to so many copies
OWN_REGS, COPY_REGS, MOST_COPIES = 36.0, 1.4, 12
#: words spilled for each register lacking beyond those that ptxas saves by computing again
SAVED_REGS, WORDS = 20.0, 1.0


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
    piece = np.maximum(u["copy_a" if side == "bm" else "copy_b"], width)
    return np.asarray(-(-u[side] * u["bk"] * width // (piece * threads_of(u))))


def wanted(u: Mapping[str, IntArray], width: int) -> FloatArray:
    """Registers a thread that nothing limits: sums, two steps' fragments, what copies keep."""
    fragments = (u["wm"] + u["wn"]) / 2
    kept = sum(np.minimum(copies(u, side, width), MOST_COPIES) for side in ("bm", "bn"))
    return np.asarray(OWN_REGS + results(u) + fragments + COPY_REGS * kept)


def _resources(u: Mapping[str, IntArray], problem: Gemm, arch: Arch) -> tuple[np.ndarray, ...]:
    threads = threads_of(u)
    limit, free = cap(u["blocks"], threads, arch), wanted(u, problem.a_bytes)
    spills = 4.0 * np.floor(WORDS * np.maximum(0, free - limit - SAVED_REGS))
    regs = np.clip(np.round(free), 16, limit).astype(np.int64)
    return threads, regs, spills, dynamic_smem_bytes(u, problem.a_bytes)
