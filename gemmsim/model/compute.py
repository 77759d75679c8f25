"""Math units, issue slots and the integer pipe: clocks of an SM a block and k-step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.families.traits import FMA, MMA_SYNC
from gemmsim.model.demand import Case
from gemmsim.problem import FloatArray

#: clocks that one wgmma takes at least, however few its columns (fitted once on Triton bf16 rows of an H200: 21 to 25)
WGMMA_LEAST_CLK = 25.0
WARP_THREADS = 32
#: code of a main loop that is fetched at full rate, and a line of it (fp32 rows of simt on an H200: loops of 20 KB are,
#: of 27 KB are not)
LOOP_CACHE_BYTES, CODE_LINE_BYTES = 22 * 1024, 128
#: integer instructions issue every other clock
INTEGER_RATE = 2.0


def math_clk(x: Case) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Clocks of the math unit, and whether math waits for the fragment loads.

    Multiply-adds over the dense rate. A wgmma takes at least WGMMA_LEAST_CLK. Where mma.sync reaches well
    under the peak (sm_90: 65 %, Luo et al. 2025) it and its fragment loads take turns: their clocks add up. Elsewhere
    (sm_80: 95 %), and in a kernel that reads fragments ahead, they overlap and the rate is that share of the peak.
    """
    arch, t = x.gpu.arch, x.traits
    waits = (t.path == MMA_SYNC) & (arch.mma_sync_fraction_of_peak < 0.8) & ~t.fragments_ahead
    rate = arch.fma_per_clk_per_sm[x.dtype] * np.where((t.path == MMA_SYNC) & ~waits, arch.mma_sync_fraction_of_peak, 1)
    conflicts = np.where(t.path == FMA, t.bank_conflicts, 1)
    clk = np.maximum(conflicts * t.fmas / rate, WGMMA_LEAST_CLK * t.wgmma_count) / x.c["tensor_clock"]
    return clk, waits


def few_warps(x: Case) -> FloatArray:
    """How much longer a lone block (or part of one) takes: it has fewer warps than the SM has sub-partitions.

    Where math and the rest are issued in turn, also warps that do not share out evenly count: six warps take as long as
    eight, two sub-partitions having two.
    """
    t, schedulers = x.traits, x.gpu.arch.sub_partitions
    if t.joint_issue.any():
        return np.asarray(np.ceil(t.warps / schedulers) * schedulers / t.warps)
    return np.maximum(1, schedulers * t.parts / t.warps)


def math_slots(x: Case) -> float:
    """Share of their clocks that the schedulers issue math in while the unit is busy: 1 for fp32, half for fp64."""
    arch = x.gpu.arch
    return arch.fma_per_clk_per_sm[x.dtype] / (WARP_THREADS * arch.sub_partitions)


def issue_clk(x: Case) -> FloatArray:
    """Clocks of the schedulers: warp instructions over one a clock and sub-partition."""
    t, c = x.traits, x.c
    slots = c["loop_slots"] * t.loops + c["operation_slots"] * t.operations + t.instructions
    return np.asarray((slots + c["scalar_slots"] * t.scalar_loads * t.warps) / x.gpu.arch.sub_partitions)


def fetch_clk(x: Case) -> FloatArray:
    """Clocks a k-step that one warp takes to walk a main loop which the instruction cache does not hold; else 0.

    Its instructions one a clock, and fetch_clk for each line of 128 B over LOOP_CACHE_BYTES. Warps that walk in step
    share what was fetched: two a scheduler hide most of it.
    """
    t = x.traits
    over = np.maximum(0, t.loop_bytes - LOOP_CACHE_BYTES) / CODE_LINE_BYTES
    if not over.any():
        return np.zeros(1)
    walk = t.instructions / t.warps + t.bank_conflicts * t.fmas / (WARP_THREADS * t.warps)
    return np.asarray(np.where(over > 0, walk + x.c["fetch_clk"] * over, 0))


def cold_code_clk(x: Case) -> FloatArray:
    """Clocks that the first blocks wait for the code itself, which a flushed L2 does not hold."""
    return np.asarray(x.c["cold_code"] * x.traits.code_bytes / CODE_LINE_BYTES)


def integer_clk(x: Case) -> FloatArray:
    """Clocks of the half-rate integer pipe."""
    return np.asarray(INTEGER_RATE * x.traits.integer_instructions / x.gpu.arch.sub_partitions)


def epilogue_clk(x: Case) -> FloatArray:
    """Clocks a block for its result: conversion, exchange and store of each accumulator, and stored sectors."""
    t, c = x.traits, x.c
    slots = c["epilogue_slots"] * t.accumulators * t.warps + x.epilogue_slots * x.bm * x.bn / 32
    stored = c["store_clk"] * t.store_sectors + c["store_round_clk"] * t.store_rounds
    return np.asarray(slots / x.gpu.arch.sub_partitions + stored)


def start_issue_clk(x: Case) -> FloatArray:
    """Clocks of issue a block before the main loop: fixed, and for each load of the prologue."""
    t, c = x.traits, x.c
    return np.asarray(t.warps * (c["start_slots"] + c["prologue_slots"] * t.prologue_loads) / x.gpu.arch.sub_partitions)
