"""What delays only the block itself: load latency, arrival, barriers, dependent instructions."""

from __future__ import annotations

import numpy as np

from gemmsim.families.traits import WGMMA
from gemmsim.hardware import Gpu
from gemmsim.model.demand import Case
from gemmsim.problem import FloatArray

#: clocks between the issue of two cp.async of a thread while the block goes on (read from Triton rows: 20 when left free)
ASYNC_LOAD_CLK = 20.0
#: bytes a clock that the port of one SM brings in
PORT_BYTES_PER_CLK = 64.0
#: L2 latency where no source has it: between the 206 clocks of an A100 and the 285 of an H200
TYPICAL_L2_LATENCY_CLK = 260.0
#: launch of an empty kernel between two events where it was not measured (2.8 us on an H200)
TYPICAL_LAUNCH_S = 2.8e-6


def latency_clk(x: Case, dram_share: FloatArray) -> FloatArray:
    """Clocks from the issue of a k-step's loads to their data: private to the block, before it is divided by the depth.

    load rounds x load_latency x L2 latency x (1 + dram_latency x the share of the bytes that DRAM delivers), + clocks a
    load, a barrier's warps, and dependent instructions that nothing hides.
    """
    t, c = x.traits, x.c
    latency = c["load_latency"] * l2_latency_clk(x.gpu) * (1 + c["dram_latency"] * dram_share)
    each = np.where(t.asynchronous, np.where(t.path == WGMMA, 0, ASYNC_LOAD_CLK), c["load_batch_clk"])
    alone = each * t.loads + c["barrier_clk"] * t.barriers + c["exposed"] * t.exposed_clk
    rounds = c["round_clk"] * t.load_rounds + c["scalar_clk"] * t.scalar_loads
    return np.asarray(latency * t.load_rounds + alone + rounds)


def arrival_clk(x: Case) -> FloatArray:
    """Clocks a tile's bytes take through the SM's port once the first have come: 64 B a clock."""
    bytes_ = (x.bm + x.bn) * x.bk * x.element_bytes
    return np.asarray(x.c["arrival"] * bytes_ / PORT_BYTES_PER_CLK)


def l2_latency_clk(gpu: Gpu) -> float:
    """The GPU's own figure, else a typical one."""
    return gpu.l2_latency_clk or TYPICAL_L2_LATENCY_CLK


def launch_s(gpu: Gpu) -> float:
    """Launch of an empty kernel between two events: the GPU's own figure, else a typical one."""
    return gpu.launch_s or TYPICAL_LAUNCH_S
