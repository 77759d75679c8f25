"""What follows the product: the cost of fusing it, and of separate kernels in its place."""

from __future__ import annotations

import numpy as np

from gemmsim.hardware import Gpu
from gemmsim.model.latency import launch_s
from gemmsim.model.rates import dram_rate, l2_rate
from gemmsim.problem import FloatArray, Gemm

#: warp instructions an accumulator: read off what the operation needs, not measured. A load that is shared out over
#: 16 B, a conversion and an FMA; gelu by tanh (MUFU and nine others), silu by exp and reciprocal
SLOTS = {"bias": 1.5, "relu": 1.0, "gelu": 12.0, "silu": 6.0, "residual": 2.5, "scale": 1.0}
BETA_SLOTS = 2.5


def slots(problem: Gemm) -> float:
    """Warp instructions that beta and the epilogue add for each accumulator."""
    return BETA_SLOTS * problem.beta + sum(SLOTS[step] for step in problem.epilogue)


def separate_s(problem: Gemm, gpu: Gpu) -> FloatArray:
    """Seconds of beta and the epilogue as kernels of their own, one a step, after the GEMM.

    Each reads C (from L2 if it fits, else DRAM) and writes it, reads its other array from DRAM, and is launched.
    """
    result = problem.batch * problem.m * problem.n * float(problem.c_bytes)
    fits = result < gpu.l2_bytes / gpu.l2_partitions
    once = result / np.where(fits, l2_rate(gpu), dram_rate(gpu))
    total = np.zeros(len(problem))
    for step in (*(("beta",) if problem.beta else ()), *problem.epilogue):
        other = result if step in ("beta", "residual") else 0.0
        total = total + launch_s(gpu) + 2 * once + other / dram_rate(gpu)
    return np.asarray(total)
