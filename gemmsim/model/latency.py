"""What delays only the block itself: load latency, arrival, barriers, dependent instructions."""

from __future__ import annotations

import numpy as np

from gemmsim.families.traits import WGMMA
from gemmsim.hardware import Gpu
from gemmsim.model.demand import Case
from gemmsim.model.rates import l2_rate
from gemmsim.problem import FloatArray

#: bytes a clock that the port of one SM brings in
PORT_BYTES_PER_CLK = 64.0
#: L2 latency where no source has it: between the 206 clocks of an A100 and the 285 of an H200
TYPICAL_L2_LATENCY_CLK = 260.0
#: DRAM latency where no source has it: an H200's pointer chase gives 378 (1 GB) and an H100's 480 to 830
TYPICAL_DRAM_LATENCY_CLK = 530.0
#: launch of an empty kernel between two events where it was not measured (2.8 us on an H200)
TYPICAL_LAUNCH_S = 2.8e-6


def latency_clk(x: Case, cold_a: FloatArray, cold_b: FloatArray) -> FloatArray:
    """Clocks a k-step that a lone block waits for its loads and its own instructions, before division by the depth.

    Each round of loads takes load_latency L2 latencies; blocks that run together walk K in step, so all of them wait
    for the first touch of a panel they share: in the waves that find it in DRAM (cold_a, cold_b: their share) a round
    takes dram_latency x (DRAM - L2 latency) longer. Then clocks a load, for the warps at a barrier, for instructions
    that depend on each other, a fixed delay, and scattered_latency L2 latencies where the lanes of a load lie rows
    apart (docs/shared_memory.md). Without the term Triton rows drawn from the whole space are off by 21.1 instead of
    9.2 % (`validate --without latency --seeds 3`; studies/h200/README.md, what each effect buys).
    """
    t, c, near = x.traits, x.c, l2_latency_clk(x.gpu)
    further = dram_further_clk(x)
    rounds = c["load_latency"] * near * (t.rounds_a + t.rounds_b) + further * (
        t.rounds_a * cold_a + t.rounds_b * cold_b
    )
    each = np.where(t.asynchronous, np.where(t.path == WGMMA, 0, c["async_load_clk"]), c["load_batch_clk"])
    own = c["chain_clk"] * t.chain_instructions + c["barrier_clk"] * t.barrier_warps + t.step_clk
    scattered = c["scattered_latency"] * near * (t.scattered_lines > 0)
    return np.asarray(rounds + each * t.loads + own + c["scalar_clk"] * t.scalar_loads + scattered)


def loader_clk(x: Case) -> FloatArray:
    """Clocks a k-step of a warp that does nothing but ask the copy engine for boxes.

    Tiles of 48 x 128 x 32, swapped, in pairs, ask for three a k-step, two of them for both blocks: 512 k-steps of
    256 x 256 x 16384 take 139 us on an H200, 500 clocks each, while math takes 96.
    """
    t, c = x.traits, x.c
    if not t.boxes.any():
        return np.zeros(1)
    turn = c["loader_clk"] + c["loader_cluster_clk"] * (t.cluster_m * t.cluster_n > 1)
    return np.asarray(turn + c["box_clk"] * t.boxes + c["shared_box_clk"] * t.shared_boxes)


def dram_further_clk(x: Case) -> float:
    """Clocks that a round of loads waits longer for DRAM than for L2."""
    return x.c["dram_latency"] * max(dram_latency_clk(x.gpu) - l2_latency_clk(x.gpu), 0)


def exposed_clk(x: Case) -> FloatArray:
    """Clocks a k-step that a lone block waits whatever its depth: barriers, and fragments that few warps wait for."""
    return np.asarray(x.traits.exposed_clk + x.c["barrier_clk"] * x.traits.exposed_barriers)


def arrival_clk(x: Case, l2_step_bytes: FloatArray, tiles: FloatArray) -> FloatArray:
    """Clocks that a k-step's bytes take once the first have come: through the SM's port, or at its share of L2's rate.

    l2_step_bytes: what a block takes from L2 a k-step, weighted as in the L2 term. The rate is shared by the SMs that
    have a block: few SMs are limited by their ports (64 B a clock), all of an H200's by L2 (30 B a clock and SM).
    """
    tile_bytes = (x.bm * x.a_bytes + x.bn * x.b_bytes) * x.bk
    share = x.c["l2_rate"] * l2_rate(x.gpu) / x.gpu.clock_hz / np.minimum(tiles, x.gpu.sm_count)
    return np.asarray(x.c["arrival"] * np.maximum(tile_bytes / PORT_BYTES_PER_CLK, l2_step_bytes / share))


def l2_latency_clk(gpu: Gpu) -> float:
    """The GPU's own figure, else a typical one."""
    return gpu.l2_latency_clk or TYPICAL_L2_LATENCY_CLK


def dram_latency_clk(gpu: Gpu) -> float:
    """The GPU's own figure, else a typical one."""
    return gpu.dram_latency_clk or TYPICAL_DRAM_LATENCY_CLK


def dram_wait(gpu: Gpu) -> float:
    """How many times as long a request waits for DRAM as for L2."""
    return max(1.0, dram_latency_clk(gpu) / l2_latency_clk(gpu))


def launch_s(gpu: Gpu) -> float:
    """Launch of an empty kernel between two events: the GPU's own figure, else a typical one."""
    return gpu.launch_s or TYPICAL_LAUNCH_S
