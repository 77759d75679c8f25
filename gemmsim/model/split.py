"""Tiles that several blocks share along K: slices that a second kernel sums, or one wave that shares out all k-steps.

    split_k     every tile, or with split_tail those past the last whole wave, is cut into slices of about k_steps /
                split_k; slices leave partial results in a workspace, which a second kernel reads and sums
                With sums_slices they run side by side, and the block with a tile's last slice waits for the parts of
                the others and sums them: no second launch (some 3 us), but handover for a part that is written and
                fixup for each that is read: 4 slices of 128 x 128 in fp32 take 4 x 2,442 clocks, 5 us
    stream_k    SMs x resident blocks compute whole tiles wave by wave; the k-steps of what is left, more than a wave's
                and less than two, they share out evenly. Where a share ends inside a tile its partial result goes
                through L2 to the block that owns the tile, which waits for it

Without what this costs, held-out simt rows of an H200 are off by 6.3 instead of 5.6 %, and the first pick loses 6.5
instead of 2.8 % (no spills, aligned; `gemmsim validate --rows studies/h200/simt_fp32.csv.gz --split config,shape
--seeds 5 --without split`).

Source of the second: time = a + b [peers > 1] + c iterations + d (peers - 1), Stream-K (Osama et al., 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.model import traffic
from gemmsim.model.demand import Case, Demand, Units
from gemmsim.model.latency import PORT_BYTES_PER_CLK, l2_latency_clk, launch_s
from gemmsim.model.rates import dram_rate, l2_rate
from gemmsim.problem import FloatArray

#: columns of K that take as long as reading one more partial result
PART_DEPTH = 8.0
#: slices that a thread of the second kernel has in flight
SLICES_IN_FLIGHT = 8.0
#: latencies of the L2 in turn where a part is passed on: the flag is seen, the block meets, the part is read
HOPS = 4.0
#: where blocks stay: bytes a clock of a part that one warp writes, or reads and sums, and all warps of an SM; latencies
#: in turn. Two consumers with 64 KiB of sums each need 4.4 us to hand over one part and to sum it
PART_BYTES_PER_CLK, PARTS_BYTES_PER_CLK, PART_HOPS = 6.0, 35.0, 2.0
ZERO = np.zeros(1)


@dataclass(frozen=True)
class Cost:
    """What sharing tiles costs beside the shorter blocks: partial results, the second kernel, waiting for peers."""

    workspace_bytes: FloatArray  # written once, read once
    second_s: FloatArray  # the kernel that sums slices: its launch and its reads
    fixup_clk: FloatArray  # of a stream-K block: partial results written, read, waited for
    second_asked_bytes: FloatArray  # that the second kernel reads, in all
    second_read_bytes: FloatArray  # and what of it DRAM brings, and takes
    second_write_bytes: FloatArray


def units(x: Case, tiles: FloatArray, k_steps: FloatArray) -> Units:
    """Blocks of the launch: whole tiles, and blocks that compute part_steps k-steps each."""
    t = x.traits
    if not shared(x):
        return Units(tiles, ZERO, ZERO, np.ones(1), ZERO)
    slots = x.sms * x.blocks_per_sm
    split = t.split_k > 1
    waves = np.floor(tiles / slots)
    tail = tiles - waves * slots
    streamed = np.where(tail > 0, tail + np.where(waves > 0, slots, 0), 0)
    rest = np.where(t.stream_k, streamed, np.where(split, np.where(t.split_tail, tail, tiles), 0))
    total = rest * k_steps
    streams = np.maximum(1, np.minimum(slots, total))
    # few tiles: no more blocks share one than reading their parts takes less time than a share of K
    most = np.where(waves > 0, slots, rest * np.maximum(1, np.floor(np.sqrt(x.k / PART_DEPTH))))
    streams = np.minimum(streams, np.maximum(most, 1))
    parts = np.where(t.stream_k, np.minimum(streams, total), rest * t.split_k)
    mean = k_steps / t.split_k
    longest = np.ceil(mean)
    # of many waves of slices, of which few have a k-step more than the others, the mean counts
    longest = np.where(t.uneven_slices, mean + (longest - mean) / np.maximum(1, parts / slots), longest)
    steps = np.where(t.stream_k, np.ceil(total / streams), longest)
    begun = np.where(t.stream_k, 1 + np.minimum(1, steps / k_steps), 1)
    return Units(tiles - rest, parts, steps, begun, np.where(split & ~t.sums_slices, rest, 0))


def shared(x: Case) -> bool:
    """Whether any row's tiles are shared by several blocks."""
    return bool((x.traits.split_k > 1).any() or x.traits.stream_k.any())


def slices(x: Case) -> FloatArray:
    """How many times a launch walks all tiles, each time along a part of K: slices follow one another.

    Once if the slices of a tile follow one another: see `abreast`.
    """
    t = x.traits
    return np.where(t.split_tail | t.sums_slices, 1.0, t.split_k) if shared(x) else np.ones(1)


def abreast(x: Case) -> FloatArray:
    """How many blocks that run at once compute slices of one tile, each along its own part of K.

    A wave of 132 blocks then spans the panels of 33 tiles in 4 slices, each along all of K, in place of those of 132
    tiles along a quarter.
    """
    t = x.traits
    return np.where(t.sums_slices & ~t.split_tail, t.split_k, 1.0)


def stored_bytes(x: Case, tiles: FloatArray, k_steps: FloatArray) -> FloatArray:
    """Bytes that the launch stores, without a second kernel: C of what is not summed by one, and partial results."""
    c = x.batch * x.m * x.n * x.c_bytes
    if not shared(x):
        return c
    u, tile_bytes = units(x, tiles, k_steps), x.bm * x.bn * x.traits.partial_bytes
    return np.asarray(c * (1 - u.summed / tiles) + _left(x, u) * tile_bytes)


def _left(x: Case, u: Units) -> FloatArray:
    """Parts of tiles that blocks leave in the workspace: all slices, or all but the last, which sums them."""
    t = x.traits
    return np.where(t.stream_k, u.parts, np.where(t.sums_slices, u.parts * (1 - 1 / t.split_k), u.summed * t.split_k))


def cost(x: Case, u: Units, k_steps: FloatArray) -> Cost:
    """Bytes of partial results, and the time of what handles them (module's formula)."""
    if not shared(x):
        return Cost(ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
    t = x.traits
    tile_bytes = x.bm * x.bn * t.partial_bytes
    ragged = (t.stream_k | t.sums_slices) & (u.parts > 0)
    workspace = np.where(ragged | (u.summed > 0), _left(x, u), 0) * tile_bytes
    peers = np.where(ragged, np.maximum(np.ceil(k_steps / np.maximum(u.part_steps, 1)) - 1, 1), 0)
    fixup = np.where(ragged, fixup_clk(x, 1.0, peers), 0)
    summed = x.batch * x.m * x.n * u.summed / np.maximum(u.summed + u.whole, 1)
    asked, result = summed * t.split_k * t.partial_bytes, summed * x.c_bytes
    read = asked * _missed(x, workspace)
    return Cost(
        workspace, np.where(u.summed > 0, _second_s(x, workspace), 0), fixup, asked, read,
        result - traffic.kept_of_stream(result, result + read, x.gpu.l2_bytes / x.gpu.l2_partitions),
    )  # fmt: skip


def _missed(x: Case, workspace: FloatArray) -> FloatArray:
    """Share of the workspace that the second kernel does not find in L2."""
    return 1 - np.minimum(1, x.gpu.l2_bytes / x.gpu.l2_partitions / np.maximum(workspace, 1))


def fixup_clk(x: Case, passed: FloatArray | float, peers: FloatArray) -> FloatArray:
    """Clocks of a stream-K block for tiles it shares: passed, 0 or 1, whether it does; peers whose parts it sums."""
    part = x.bm * x.bn * x.traits.partial_bytes
    passing = part / PORT_BYTES_PER_CLK + HOPS * l2_latency_clk(x.gpu)
    if x.traits.sums_slices.any():
        passing = np.where(x.traits.sums_slices, _passing_clk(x, part), passing)
    return np.asarray((x.c["handover"] * passed + x.c["fixup"] * peers) * passing)


def _passing_clk(x: Case, part_bytes: FloatArray) -> FloatArray:
    """Clocks to pass a part on where a block's own warps do, at their pace, or that of all warps on the SM.

    Slices of tiles that take turns are passed on side by side. One warpgroup takes 4,000 clocks for 80 KiB.
    """
    t = x.traits
    rate = np.minimum(PART_BYTES_PER_CLK * t.warps, PARTS_BYTES_PER_CLK)
    lone = part_bytes / rate + PART_HOPS * l2_latency_clk(x.gpu)
    beside = np.maximum(lone / t.tiles_under_way, part_bytes * x.blocks_per_sm / PARTS_BYTES_PER_CLK)
    return np.asarray(np.where(t.stream_k, lone, beside))


def _second_s(x: Case, workspace: FloatArray) -> FloatArray:
    """Seconds of the second kernel: launched behind the first, it reads the workspace from L2, what fits, or DRAM."""
    miss = _missed(x, workspace)
    reading = workspace * ((1 - miss) / l2_rate(x.gpu) + miss / dram_rate(x.gpu))
    rounds = np.ceil(x.traits.split_k / SLICES_IN_FLIGHT) * l2_latency_clk(x.gpu) / x.gpu.clock_hz
    return np.asarray(x.c["second_launch"] * launch_s(x.gpu) + reading + rounds)


def alone_s(d: Demand) -> FloatArray:
    """Seconds of all that: the second kernel, partial results through L2, the fix-up of a block."""
    return np.asarray(d.second_s + d.workspace_bytes / d.l2_bytes_per_s + d.fixup_clk / d.clock_hz)
