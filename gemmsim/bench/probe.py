"""What a GPU does, read by the kernels of kernels/probe.cu: a `Reading` a figure, in SI units or SM clocks.

Every figure is the median of several launches; bandwidth and FMA rate are those of the best launch form tried. Bytes,
steps and FMAs are counted by the caller's arithmetic here, times by events, clocks by the SM's own counter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from gemmsim.bench.lab import Lab

#: constants of kernels/probe.cu: vectors of 16 B in flight a thread; LDS.128 and FMAs an iteration and thread
VECTOR_BYTES, UNROLL, LOADS, FMAS = 16, 4, 8, {"fp32": 8 * 32, "fp64": 8 * 16}
#: bytes that DRAM is read over, or as much as fits beside what else lies there
DRAM_BYTES = 2**31
#: footprints of the L2 curve, of the device's L2; the plateau is the median of the readings in the second's range
L2_SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5, 2.0, 4.0)
PLATEAU = (0.3, 0.77)
#: launch forms of DRAM reads, blocks an SM and threads: the waves' tail and the order of pages differ
DRAM_FORMS = ((2, 512), (2, 1024), (16, 512), (64, 256))
#: forms of L2 reads, largest first: the grid's stride must stay small against the L2
L2_FORMS = ((2, 1024), (2, 512), (2, 256), (1, 256), (1, 128), (1, 64))
SHARED_THREADS = (128, 256, 512, 1024)
FMA_FORMS = ((1, 256), (1, 512), (1, 1024), (2, 512))
#: lines between which a chase steps: no sector is fetched with the one before
LINE_BYTES, PAGE_BYTES = 128, 256


@dataclass(frozen=True)
class Reading:
    """One figure: key of a hardware file or a name of its own, value in `unit`, how it was read, and its curve."""

    key: str
    value: float
    unit: str
    how: str
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Plan:
    """How much is done: launches a figure, clocks an FMA launch lasts, seconds of load first, shares of the L2."""

    repeats: int = 7
    fma_clk: float = 8e6
    warm_s: float = 0.4
    l2_bytes: float = 2**33  # read in a launch of the L2 curve
    l2_shares: tuple[float, ...] = L2_SHARES
    chase_steps: int = 20_000
    launches: int = 200


QUICK = Plan(3, 2e6, 0.1, 2**31, (0.375, 0.5, 0.625, 2.0), 5_000, 50)
Step = Callable[[Lab, Plan, Mapping[str, float]], list[Reading]]


def readings(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> Iterator[tuple[str, list[Reading]]]:
    """What was read, step by step, with the step's name. fma_rates: FMA a clock and SM by dtype, for launch lengths."""
    for name, step in STEPS.items():
        yield name, step(lab, plan, fma_rates)


# ---------------------------------------------------------------------------------------------- FMA and clock


def fma(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """FLOP/s of independent FMA chains in registers, fp32 and fp64, and the SM clock while they run."""
    found, clocks = [], {}
    _warm(lab, plan, fma_rates["fp32"])
    for dtype, letter in (("fp32", "f"), ("fp64", "d")):
        best, clocks[dtype] = max(_fma(lab, plan, dtype, letter, fma_rates[dtype], form) for form in FMA_FORMS)
        how = f"independent {letter.upper()}FMA chains in registers, the best of {len(FMA_FORMS)} launch forms"
        found.append(Reading(f"flops.{dtype}", best, "FLOP/s", how))
    how = "SM clocks over nanoseconds inside the fp32 FMA kernel, median of the blocks"
    return [*found, Reading("clock_load_hz", clocks["fp32"], "Hz", how)]


def _warm(lab: Lab, plan: Plan, rate: float) -> None:
    """Load for a while first: power and clocks have a memory."""
    share = Plan(repeats=1, fma_clk=plan.fma_clk)
    spent = 0.0
    for _ in range(1000):
        if spent >= plan.warm_s:
            return
        spent += max(_fma_seconds(lab, share, "fp32", "f", rate, FMA_FORMS[2])[0], 1e-4)


def _fma(lab: Lab, plan: Plan, dtype: str, letter: str, rate: float, form: tuple[int, int]) -> tuple[float, float]:
    """FLOP/s and SM clock of one launch form."""
    seconds, flops, clock_hz = _fma_seconds(lab, plan, dtype, letter, rate, form)
    return flops / seconds, clock_hz


def _fma_seconds(
    lab: Lab, plan: Plan, dtype: str, letter: str, rate: float, form: tuple[int, int]
) -> tuple[float, float, float]:
    per_sm, threads = form
    blocks = per_sm * lab.facts.sm_count
    iterations = max(1, int(plan.fma_clk * rate / (per_sm * threads * FMAS[dtype])))
    stamps, sink = lab.array(np.zeros(2 * blocks, np.uint64)), lab.array(np.zeros(1))
    real = np.float32 if letter == "f" else np.float64
    arguments = (np.int32(iterations), real(0.999), real(0.5), stamps, sink)
    seconds = lab.seconds(f"fma_{letter}", blocks, threads, *arguments, repeats=plan.repeats)
    taken = lab.read(stamps).astype(np.float64).reshape(-1, 2)
    flops = 2.0 * blocks * threads * iterations * FMAS[dtype]
    return median(seconds), flops, 1e9 * float(np.median(taken[:, 0] / taken[:, 1]))


# ---------------------------------------------------------------------------------------------- bandwidth


def dram(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """Bytes read, and bytes read and written by a copy, over a footprint far beyond the L2."""
    size = _footprint(lab)
    x, sink = lab.scratch(size), lab.array(np.zeros(1, np.uint32))
    half = lab.address(x) + size // 2
    count, halves = np.uint64(size // VECTOR_BYTES), np.uint64(size // 2 // VECTOR_BYTES)
    read = _best(lab, plan, size, "read_bytes", x, count, np.int32(1), sink)
    copied = _best(lab, plan, size, "copy_bytes", x, np.uint64(half), halves)
    how = f"over {size / 2**30:g} GiB, the best of {len(DRAM_FORMS)} launch forms"
    return [
        Reading("dram_measured_bytes_per_s", read, "B/s", f"read kernel {how}"),
        Reading("dram_copy_bytes_per_s", copied, "B/s", f"copy kernel, bytes read and written, {how}"),
    ]


def _footprint(lab: Lab) -> int:
    """Bytes of DRAM to work over: a power of two that leaves room."""
    return int(min(DRAM_BYTES, 2 ** math.floor(math.log2(max(0.6 * lab.free_bytes(), 2**20)))))


def _best(lab: Lab, plan: Plan, moved_bytes: int, kernel: str, *arguments: Any) -> float:
    """B/s of the best launch form."""
    times = []
    for per_sm, threads in DRAM_FORMS:
        taken = lab.seconds(kernel, per_sm * lab.facts.sm_count, threads, *arguments, repeats=plan.repeats + 1)
        times.append(median(taken[1:]))
    return moved_bytes / min(times)


def l2(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """Bytes that the SMs read again and again past L1, by footprint; the figure is the plateau inside the L2."""
    per_sm, threads = l2_form(lab.facts.sm_count, lab.facts.l2_bytes)
    stride = per_sm * threads * UNROLL * VECTOR_BYTES * lab.facts.sm_count
    sizes = sorted({stride * max(1, round(share * lab.facts.l2_bytes / stride)) for share in plan.l2_shares})
    x, sink = lab.scratch(sizes[-1]), lab.array(np.zeros(1, np.uint32))
    curve = []
    for size in sizes:
        passes = max(2, math.ceil(plan.l2_bytes / size))
        arguments = (x, np.uint64(size // VECTOR_BYTES), np.int32(passes), sink)
        taken = lab.seconds("read_bytes", per_sm * lab.facts.sm_count, threads, *arguments, repeats=plan.repeats + 1)
        curve.append((float(size), size * passes / median(taken[1:])))
    low, high = (share * lab.facts.l2_bytes for share in PLATEAU)
    inside = [rate for size, rate in curve if low <= size <= high] or [max(rate for _, rate in curve)]
    how = f"read kernel past L1, median of footprints from {low / 2**20:.0f} to {high / 2**20:.0f} MiB"
    return [Reading("l2_measured_bytes_per_s", median(inside), "B/s", how, tuple(curve))]


def l2_form(sm_count: int, l2_bytes: int) -> tuple[int, int]:
    """Blocks an SM and threads whose grid covers at most a sixth of the L2 at a step; the least there is, if none."""
    stride = UNROLL * VECTOR_BYTES * sm_count
    return next((form for form in L2_FORMS if math.prod(form) * stride <= l2_bytes / 6), L2_FORMS[-1])


def shared(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """Bytes a clock that an SM loads from shared memory, 16 B a lane without bank conflict, by threads of a block."""
    sms = lab.facts.sm_count
    clocks, sink = lab.array(np.zeros(sms, np.uint64)), lab.array(np.zeros(1, np.uint32))
    curve = []
    for threads in SHARED_THREADS:
        iterations = max(1, 2**20 // (threads * LOADS // 8))
        for _ in range(2):
            lab.run("shared_bytes", sms, threads, np.int32(iterations), np.uint32(2064), clocks, sink)
        taken = float(np.median(lab.read(clocks).astype(np.float64)))
        curve.append((float(threads), threads * iterations * LOADS * VECTOR_BYTES / taken))
    how = f"LDS.128 without bank conflict, the best of {', '.join(map(str, SHARED_THREADS))} threads an SM"
    return [Reading("smem_bytes_per_clk_per_sm", max(rate for _, rate in curve), "B/clk", how, tuple(curve))]


# ---------------------------------------------------------------------------------------------- latency and launch


def latency(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """Clocks from a load to the next that needs it: shared memory, L1, L2 near, most of the L2, DRAM."""
    wide, far = int(lab.facts.l2_bytes * 2 / 3), _footprint(lab)
    rows = (
        ("l1_latency_clk", "chase_l1", 16 * 2**10, LINE_BYTES, True),
        ("l2_latency_clk", "chase_l2", lab.facts.l2_bytes // 16, LINE_BYTES, True),
        ("l2_wide_latency_clk", "chase_l2", wide, LINE_BYTES, True),
        ("dram_latency_clk", "chase_l2", far, PAGE_BYTES, False),
    )
    found = [_shared_latency(lab, plan)]
    for key, kernel, size, stride, warm in rows:
        clk = _chase(lab, plan, kernel, size, stride, warm)
        found.append(Reading(key, clk, "clk", f"pointer chase over {_bytes(size)}, one thread, lines in random order"))
    return found


def _bytes(size: int) -> str:
    return f"{size / 2**20:.4g} MiB" if size >= 2**20 else f"{size / 2**10:.4g} KiB"


def _shared_latency(lab: Lab, plan: Plan) -> Reading:
    out = lab.array(np.zeros(2, np.uint64))
    for _ in range(2):
        lab.run("chase_shared", 1, 1, np.int32(plan.chase_steps), out)
    clk = float(lab.read(out)[0]) / plan.chase_steps
    return Reading("smem_latency_clk", clk, "clk", "pointer chase in shared memory, one thread")


def _chase(lab: Lab, plan: Plan, kernel: str, size: int, stride: int, warm: bool) -> float:
    """Clocks a step. warm: every line was just read by the same SM; else each launch starts where none has been."""
    lines = size // stride
    order = np.random.default_rng(lines).permutation(lines).astype(np.uint32)
    x, places = lab.scratch(lines * stride), lab.array(order)
    out = lab.array(np.zeros(2, np.uint64))
    base = lab.address(x)
    lab.run("link", -(-lines // 256), 256, np.uint64(base), places, np.uint32(lines), np.uint32(stride))
    found = []
    for launch in range(3):
        first = base + int(order[launch * lines // 4]) * stride
        steps = min(plan.chase_steps, lines // 4) if not warm else plan.chase_steps
        lab.run(kernel, 1, 1, np.uint64(first), np.int32(lines if warm else 0), np.int32(steps), out)
        found.append(float(lab.read(out)[0]) / steps)
    return median(found)


def launch(lab: Lab, plan: Plan, fma_rates: Mapping[str, float]) -> list[Reading]:
    """Seconds that an empty kernel takes between two events on a busy stream."""
    times = lab.seconds("empty", 1, 32, repeats=plan.launches)
    how = f"empty kernel between two events, stream busy, median of {plan.launches}"
    return [Reading("launch_s", median(times), "s", how)]


#: in this order: FMAs first, they bring the clocks up
STEPS: Mapping[str, Step] = {
    "FMA rate": fma,
    "DRAM": dram,
    "L2": l2,
    "shared memory": shared,
    "latencies": latency,
    "launch": launch,
}


# ---------------------------------------------------------------------------------------------- occupancy

#: registers of the kernels hold_R, block sizes and shares of a block's shared memory that the driver is asked for
HELD_REGS = (24, 32, 40, 48, 56, 64, 72, 80, 96, 104, 112, 128, 144, 160, 168, 192, 208, 232, 255)
OCCUPANCY_THREADS = (32, 64, 96, 128, 160, 192, 256, 288, 384, 512, 640, 768, 1024)


def occupancy_grid(smem_per_block_bytes: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Threads, registers and shared bytes of the grid: 19 x 13 x 12 launches, round and odd sizes."""
    smem = np.concatenate([[0, 1000, 8192, 16384], np.linspace(20_001, smem_per_block_bytes, 8)]).astype(np.int64)
    return OCCUPANCY_THREADS, HELD_REGS, np.unique(np.minimum(smem, smem_per_block_bytes)).tolist()
