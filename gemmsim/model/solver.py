"""Demand -> time. Resident blocks share an SM as a closed queue; L2, DRAM, power and launch come on top.

    R = soft_max(math, shared, issue, integer, spills)      clocks a k-step that a block keeps its SM busy; wgmma and
        spills take turns: their clocks add up; so do math, issue and spills of a family with joint_issue
    S = soft_max((latency + arrival or R) / depth, R alone)  clocks a k-step of a block that is alone; R fewer sub-
        partitions if it has fewer warps; latency + R alone if its loads do not overlap its own math
    W = k_steps R + start and epilogue + spills once more    C = k_steps S + fill + start + epilogue + spills once more
    a block whose warps meet at no barrier is as many customers as it has parts: n x parts, W / parts, S with R / parts
    an SM with n blocks at once needs queue(n, W, C); whole waves at full residency, the partial wave at its own, or at
        full residency where two blocks end together (in_step). Code that must be fetched: see _waves
    a block that stays for tile after tile pays fill and start once a launch, while no memory is busy; of its tiles C =
        max(k_steps R + epilogue, k_steps chain + what of the epilogue is longer than the loads in flight last): see
        _stream; a warp that only loads has a pace of its own, which the chain is at least
    the slowest SM is behind the mean by straggler, where waves do not even that out: SM (1 + straggler / waves)
    time = soft_max(SM, L2, DRAM) x power + launch

`queue` is a closed form in the place of exact mean-value analysis, which needs one pass a resident block.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.model import split
from gemmsim.model.demand import Case, Demand
from gemmsim.model.latency import dram_further_clk
from gemmsim.model.pnorm import soft_max
from gemmsim.model.power import slowdown
from gemmsim.problem import FloatArray

NOTHING: Set[str] = frozenset()
#: of the queue's noise, what is left where blocks wait for code: short waits, evenly spread
FETCH_NOISE = 0.2
ZERO = np.zeros(1)


@dataclass(frozen=True)
class Blocks:
    """Equal blocks of a launch, clocks of each: what it asks of its SM, and what it takes if it is alone there.

    walk: its way through code that must be fetched, which it takes at least; 0 where there is none.
    """

    count: FloatArray
    work_clk: FloatArray
    alone_clk: FloatArray  # less than work_clk counts as work_clk
    walk_clk: FloatArray


def time_s(x: Case, d: Demand, free: Set[str] = NOTHING) -> FloatArray:
    """Seconds of the launch, with every term in `free` costing nothing."""
    tiles, shares = blocks(x, d, free)
    clk = _waves(x, d, tiles, free)
    return total_s(x, d, clk if shares is None else clk + _waves(x, d, shares, free), free)


def blocks(x: Case, d: Demand, free: Set[str] = NOTHING) -> tuple[Blocks, Blocks | None]:
    """The blocks that compute whole tiles, and those that compute shares of tiles if there are any."""
    parts, stays = x.traits.parts, x.traits.persistent
    busy, lone = (clk / parts for clk in _step(x, d, free))
    start, epilogue = (clk / parts for clk in _blocks(d, free))
    chain = _chain(x, d, lone, free)
    step = _lone_step(x, d, chain, lone, free)
    depth = d.useful_depth if "edge" in free else 1.0
    spill, spill_lone = _of("spill", d.spill_clk, free), _of("spill", d.spill_lone_clk, free)
    fill = ZERO if "fill" in free else d.fill_steps * chain + d.start_clk
    if stays.any():
        fill, start = np.where(stays, 0, fill), np.where(stays, 0, start)
    lone_ends = fill + d.lone_factor * (start + epilogue)

    beside = np.where(x.traits.tiles_under_way > 1, 0, start + epilogue)  # of results, what math waits for
    work = d.k_steps * depth * busy + beside + spill

    def walking(steps: FloatArray, ends: FloatArray) -> FloatArray:
        """Clocks of so many k-steps of a lone block, and of what comes before and behind them."""
        apart = steps * step + ends
        return np.where(stays, _stream(x, d, steps, (chain, lone), ends, free), apart) if stays.any() else apart

    alone = walking(d.k_steps * depth, lone_ends) + spill_lone
    fetched = bool(d.fetch_clk.any())
    walk = _of("issue", d.fetch_clk, free) * depth
    walked = d.k_steps * walk + lone_ends if fetched else ZERO
    tiles = Blocks(d.units.whole, work, alone, walked)
    if not d.units.parts.any():
        return tiles, None
    steps, begun = d.units.part_steps * depth, d.units.begun
    fixup = _of("split", d.fixup_clk, free)
    walked = d.units.part_steps * walk + begun * lone_ends + fixup if fetched else ZERO
    alone = walking(steps, begun * lone_ends) + spill_lone + fixup
    return tiles, Blocks(d.units.parts, steps * busy + begun * beside + spill, alone, walked)


def _stream(
    x: Case, d: Demand, steps: FloatArray, step: tuple[FloatArray, FloatArray], ends: FloatArray, free: Set[str]
) -> FloatArray:
    """Clocks of a tile of a lone block that stays: its loads are one stream, its math and results another.

    step: clocks of a k-step of either. While results are stored the loads of the next tile go on until all buffers are
    full, `depth` k-steps of them. Math bound, an epilogue costs all of its time: 64 k-steps of 128 x 256 x 64 take
    65,536 clocks of math, their epilogue 1,792, 3 %. Bound by loads, none of it up to depth x chain. Where tiles
    take turns an epilogue runs beside the math of the others and costs nothing up to their time.
    """
    under_way = x.traits.tiles_under_way
    chain, lone = step
    lone = lone + _of("latency", d.exposed_clk, free)
    beyond = np.maximum(0, ends - x.traits.depth * chain)
    own = np.maximum(steps * lone, (steps * lone + ends) / under_way)
    return soft_max(x.c["pipe_sharpness"], own, steps * chain + np.where(under_way > 1, 0, beyond))


def total_s(x: Case, d: Demand, clk: FloatArray, free: Set[str] = NOTHING) -> FloatArray:
    """Seconds of the launch whose busiest SM is at its blocks for `clk` clocks: memory, power, launch on top."""
    area = d.useful_area if "edge" in free else 1.0
    if "fill" not in free and d.cold_code_clk.any():
        clk = clk + d.cold_code_clk
    if x.c["straggler"] > 0 and "waves" not in free:
        waves = d.units.blocks / (x.sms * x.blocks_per_sm)
        clk = clk * (1 + x.c["straggler"] / np.sqrt(np.maximum(waves, 1)))
    sm_s = clk / x.gpu.clock_hz
    l2_s = ZERO if "l2" in free else _l2_bytes(d, free) * area / d.l2_bytes_per_s
    total = soft_max(_sharpness(x), sm_s, l2_s, _dram_s(d, free))
    if "power" not in free and x.c["power"] > 0:
        total = total * slowdown(x, total)
    if x.traits.persistent.any():
        total = total + np.where(x.traits.persistent, _once(x, d, free), 0) / x.gpu.clock_hz
    total = total + _of("split", d.second_s, free) if d.second_s.any() else total
    return total if "launch" in free else np.asarray(total + d.launch_s)


def _once(x: Case, d: Demand, free: Set[str]) -> FloatArray:
    """Clocks of a launch of blocks that stay in which no memory is busy, nor math: before the first k-step, and behind.

    Until the first tile's first k-steps have come, and where tiles take turns the last result, which no math hides.
    """
    first = _of("latency", _waiting_clk(x, d), free) + d.start_clk + d.lone_factor * d.start_issue_clk
    last = np.where(x.traits.tiles_under_way > 1, d.epilogue_clk, 0)
    return np.asarray(_of("fill", first, free) + _of("epilogue", last, free))


def contention(x: Case, d: Demand) -> tuple[FloatArray, FloatArray]:
    """How residents of an SM meet in their k-steps, for gemmsim.model.drift.

    Share of the SM's time that a block keeps its busiest unit at work if no other asks for that unit: a k-step then
    takes as long as it takes a lone block, or L2 the k-steps of all that are resident. And share of a k-step, with all
    of them there, that a block waits longer for DRAM than another for L2; 0 if more than one is in flight.
    """
    busy, lone = _step(x, d, NOTHING)
    step = _lone_step(x, d, _chain(x, d, lone, NOTHING), lone, NOTHING)
    at_once = np.minimum(x.sms * x.blocks_per_sm, d.tiles)
    l2 = d.l2_weighted_bytes / d.l2_bytes_per_s * x.gpu.clock_hz * at_once / (d.tiles * d.k_steps)
    alone = np.maximum(np.maximum(step, l2), busy)
    further = np.where(x.traits.depth > 1, 0, dram_further_clk(x))
    return np.asarray(busy / alone), np.asarray(further / np.maximum(alone, x.blocks_per_sm * busy))


def crowding(x: Case, d: Demand) -> FloatArray:
    """What the residents of an SM want of its busiest unit, 1: all of it; the sharp and cheap form of `contention`."""
    busy = np.maximum(np.maximum(d.math_clk, d.shared_clk), np.maximum(d.issue_clk, d.integer_clk))
    resident = np.minimum(x.blocks_per_sm, np.ceil(d.units.blocks / x.sms))
    lone = np.maximum(d.latency_clk + np.where(_overlaps(x, d), 0, busy), x.traits.depth * busy) / x.traits.depth
    l2 = d.l2_weighted_bytes * (x.gpu.clock_hz / d.l2_bytes_per_s * x.sms) / (d.tiles * d.k_steps) * resident
    return np.asarray(resident * busy / np.maximum(lone, l2))


def _l2_bytes(d: Demand, free: Set[str]) -> FloatArray:
    plain = "split" in free or not d.workspace_bytes.any()
    return d.l2_weighted_bytes if plain else d.l2_weighted_bytes + d.workspace_bytes


def _sharpness(x: Case) -> FloatArray:
    """Several blocks an SM reach for memory at odds with each other: their maximum is softer than a lone block's."""
    return np.where(x.blocks_per_sm <= 1, x.c["memory_sharpness_lone"], x.c["memory_sharpness"])


def _of(term: str, clk: FloatArray, free: Set[str]) -> FloatArray:
    return ZERO if term in free else clk


def _step(x: Case, d: Demand, free: Set[str]) -> tuple[FloatArray, FloatArray]:
    """Clocks a k-step that a block keeps its SM busy, among others and alone."""
    math, shared, issue, integer, spill, spill_lone = (
        _of(term, clk, free)
        for term, clk in (
            ("math", d.math_clk),
            ("shared", d.shared_clk),
            ("issue", d.issue_clk),
            ("integer", d.integer_clk),
            ("spill", d.spill_clk),
            ("spill", d.spill_lone_clk),
        )
    )

    sharp = x.c["pipe_sharpness"]

    def pipes(slower: FloatArray | float) -> FloatArray:
        unit = math * slower
        if x.traits.joint_issue.any():  # math and the rest take turns at the schedulers
            unit = np.maximum(unit, d.math_slots * unit + issue * slower)
            return soft_max(sharp, unit, shared, integer * slower)
        return soft_max(sharp, np.where(d.math_waits, unit + shared, unit), shared, issue * slower, integer * slower)

    busy = pipes(1.0)
    if spill.any():
        busy = np.where(d.wgmma | x.traits.joint_issue, busy + spill, soft_max(sharp, busy, spill))
    return busy, pipes(d.lone_factor) + spill_lone


def _chain(x: Case, d: Demand, lone: FloatArray, free: Set[str]) -> FloatArray:
    """Clocks a k-step that a lone block waits for its loads: latency and what follows in turn, over the depth.

    wgmma runs by itself while the next tile arrives; mma.sync and FMA are issued by the warps that also load.
    """
    if "latency" in free:
        return np.asarray(np.where(_overlaps(x, d), 0, lone) / x.traits.depth)
    chain = np.asarray((_waiting_clk(x, d) + np.where(_overlaps(x, d), 0, lone)) / x.traits.depth)
    return np.maximum(chain, d.loader_clk) if d.loader_clk.any() else chain


def _lone_step(x: Case, d: Demand, chain: FloatArray, lone: FloatArray, free: Set[str]) -> FloatArray:
    """Clocks a k-step of a block that is alone on its SM."""
    step = np.where(x.traits.asynchronous, soft_max(x.c["pipe_sharpness"], chain, lone), chain)
    return step + _of("latency", d.exposed_clk, free) if d.exposed_clk.any() else step


def _overlaps(x: Case, d: Demand) -> npt.NDArray[np.bool_]:
    """Whether math runs while the next tile arrives: by itself, or because its loads were issued a k-step before."""
    return np.asarray((d.wgmma & x.traits.asynchronous) | x.traits.prefetched)


def _waiting_clk(x: Case, d: Demand) -> FloatArray:
    """Clocks a k-step from the issue of its loads to the last byte, where the tile's arrival is waited for."""
    return np.asarray(d.latency_clk + np.where(_overlaps(x, d), d.arrival_clk, 0))


def _blocks(d: Demand, free: Set[str]) -> tuple[FloatArray, FloatArray]:
    return _of("fill", d.start_issue_clk, free), _of("epilogue", d.epilogue_clk, free)


def resident_clk(x: Case, d: Demand, block: Blocks, resident: FloatArray | float) -> FloatArray:
    """Clocks from start to end of `resident` equal blocks that share an SM, by the closed queue.

    A block takes no less than its walk through code that must be fetched; others issue meanwhile, nearly in turn.
    """
    count, noise, work = resident * x.traits.parts, x.c["queue_noise"], block.work_clk
    served = queue(count, work, np.maximum(block.alone_clk, work), noise)
    if not d.fetch_clk.any():
        return served
    return np.maximum(served, queue(count, work, np.maximum(block.walk_clk, work), FETCH_NOISE * noise))


def _waves(x: Case, d: Demand, block: Blocks, free: Set[str]) -> FloatArray:
    """Clocks of the busiest SM for equal blocks: whole waves at full residency, the rest at its own."""
    tiles = block.count * d.useful_area if "edge" in free else block.count
    whole = resident_clk(x, d, block, x.blocks_per_sm)
    if "waves" in free:  # every SM equally busy to the end
        return np.asarray(tiles / (x.sms * x.blocks_per_sm) * whole)
    busiest = np.ceil(tiles / x.sms)
    full = np.floor(busiest / x.blocks_per_sm)
    rest = busiest - full * x.blocks_per_sm
    last = np.where(rest > 0, resident_clk(x, d, block, np.maximum(rest, 1)), 0)
    if x.c["in_step"] > 0:
        last = last + together(x, full, rest) * (whole - last)
    return np.asarray(full * whole + last)


def together(x: Case, full: FloatArray, rest: FloatArray) -> FloatArray:
    """How often the last wave fills both slots of an SM, though it would leave one empty if spread evenly.

    Two resident blocks end together, the less the more waves have been: the SM that is done takes the next two.
    Found on rows of an H200 with two blocks an SM and between two and three for each: 2176 x 2048 x 1024, 64 x 256.
    """
    behind = (rest > 0) & (full > 0) & (x.blocks_per_sm == 2)
    return np.asarray(np.where(behind, x.c["in_step"] / np.maximum(full, 1), 0))


def queue(blocks: FloatArray, work: FloatArray, alone: FloatArray, noise: float) -> FloatArray:
    """Time of resident blocks that each ask `work` of their SM and alone would take `alone` (>= work), a closed queue.

    The root of (t - n W)(t - C) = noise W (n W + C - W - t): C for one block, n W for many. noise 1 is Schweitzer's
    approximation of mean-value analysis (random service), noise 0 the bound max(n W, C) (blocks in step).
    """
    total, noisy = blocks * work, noise * work
    b = total + alone - noisy
    root = np.square(b) - 4 * (total * alone - noisy * (total + alone - work))
    return np.asarray(0.5 * (b + np.sqrt(np.maximum(root, 0))))


def _dram_s(d: Demand, free: Set[str]) -> FloatArray:
    own = ZERO if "dram" in free else d.dram_read_bytes + d.dram_write_bytes
    return np.asarray((own + _of("writeback", d.writeback_bytes, free)) / d.dram_bytes_per_s)


def alone_s(x: Case, d: Demand) -> dict[str, FloatArray]:
    """Seconds of each term if it were alone: stations at the busiest SM's load, latency wave by wave, bytes over rates.

    waves, edge, alignment and power have no time of their own; for them `saved` says what they cost.
    """
    clock, sms, u = x.gpu.clock_hz, x.sms, d.units
    whole, parts = np.ceil(u.whole / sms), np.ceil(u.parts / sms)
    rounds = np.ceil(whole / x.blocks_per_sm)
    part_rounds = np.ceil(parts / x.blocks_per_sm)
    busiest, steps = whole + parts, whole * d.k_steps + parts * u.part_steps
    waited = rounds * d.k_steps + part_rounds * u.part_steps
    rounds = rounds + part_rounds
    per_step = {
        "math": d.math_clk,
        "shared": d.shared_clk,
        "issue": d.issue_clk,
        "integer": d.integer_clk,
    }
    out = {term: steps * clk / clock for term, clk in per_step.items()}
    waiting = _waiting_clk(x, d) / x.traits.depth
    out["latency"] = waited * (waiting + d.exposed_clk) / clock
    stays = x.traits.persistent
    filling = np.where(stays, 1, rounds) * (d.fill_steps * waiting + d.start_clk)
    out["fill"] = np.maximum(filling, np.where(stays, 1, busiest) * d.start_issue_clk) / clock
    spilled = np.maximum(busiest * d.spill_clk, rounds * d.spill_lone_clk)
    out["spill"] = (d.k_steps + 1) * spilled / clock
    out["split"] = split.alone_s(d)
    out["epilogue"] = busiest * d.epilogue_clk / clock
    out["l2"] = d.l2_weighted_bytes / d.l2_bytes_per_s
    out["dram"] = (d.dram_read_bytes + d.dram_write_bytes) / d.dram_bytes_per_s
    out["writeback"] = d.writeback_bytes / d.dram_bytes_per_s
    out["launch"] = np.full(1, d.launch_s)
    return out
