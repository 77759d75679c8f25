"""Threads, registers, spills and shared memory of a block of kernels/simt.cu."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.families.unique import per_unique
from gemmsim.families.wavefronts import LANES
from gemmsim.hardware import Arch
from gemmsim.problem import Gemm, IntArray

#: what decides registers and shared memory
COLUMNS = ("bm", "bn", "bk", "wm", "wn", "tm", "tn", "stages", "async_copy", "blocks", "regs")
PAD_BYTES = 16  # that a row of a tile in shared memory is longer than its side, where K runs on in memory


def launch(problem: Gemm, config: Config, arch: Arch) -> Launch:
    """What a block takes."""

    def compute(u: Mapping[str, IntArray]) -> tuple[np.ndarray, ...]:
        return _resources(u, problem, arch)

    columns = {p: config[p] for p in COLUMNS}
    threads, regs, spills, smem = per_unique(columns, len(config), compute)
    return Launch(threads, regs, spills, smem, np.zeros(len(config), bool))


def threads_of(u: Mapping[str, IntArray] | Config) -> IntArray:
    """Threads of a block."""
    return np.maximum(u["bm"] // u["wm"], 1) * np.maximum(u["bn"] // u["wn"], 1) * LANES


def smem_bytes(u: Mapping[str, IntArray] | Config, width: int, layout: str) -> IntArray:
    """Dynamic shared memory of a block, B: as many buffers as stages, each one tile of A and of B."""
    pads = PAD_BYTES * (int(layout[0] != "T") + int(layout[1] == "T"))
    return u["stages"] * u["bk"] * (width * (u["bm"] + u["bn"]) + pads)


def cap(u: Mapping[str, IntArray] | Config, threads: IntArray, arch: Arch) -> IntArray:
    """Registers a thread that the compiler may use at most."""
    left = arch.regs_per_sm // np.maximum(threads * u["blocks"], 1) // 8 * 8
    return np.minimum(np.where(u["regs"] > 0, u["regs"], left), arch.regs_per_thread)


def _resources(u: Mapping[str, IntArray], problem: Gemm, arch: Arch) -> tuple[np.ndarray, ...]:
    threads = threads_of(u)
    words = problem.a_bytes // 4
    tm, tn = u["tm"], u["tn"]
    limit = cap(u, threads, arch)
    wanted = 32 + words * (tm * tn + 2 * (tm + tn))
    least = 20 + words * (tm * tn + tm + tn)
    regs = np.maximum(np.minimum(wanted, limit), 16)
    spills = 4.0 * np.maximum(0, least - limit)
    return threads, regs, spills, smem_bytes(u, problem.a_bytes, problem.layout)
