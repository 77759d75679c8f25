"""The clock that the power cap leaves."""

from __future__ import annotations

import numpy as np

from gemmsim.model.demand import Case
from gemmsim.problem import FloatArray

#: seconds between two timed launches in which the cache is flushed and the chip draws little (256 MiB written)
FLUSH_S = 60e-6


def slowdown(x: Case, time_s: FloatArray) -> FloatArray:
    """Factor on the time: 1 + power x (average rate over kernel and flush, as a share of the peak, - power_onset).

    Long bf16 kernels meet the power cap and lose clock; fp32 on CUDA cores does not. The rate is averaged over the
    kernel and the pause before it, because the regulator is slower than one launch.
    """
    peak = x.gpu.peak_flops(x.dtype) or np.inf
    rate = 2 * x.m * x.n * x.k * x.batch / (time_s + FLUSH_S) / peak
    return np.asarray(1 + x.c["power"] * np.maximum(0, rate - x.c["power_onset"]))
