"""Times of single launches: two events round each, the stream already busy, the L2 in a known condition.

The host queues a whole batch behind a kernel that only waits, so that no launch of it waits for the host; if the wait
turns out too short it is made longer and the batch timed again. The wait is learned once and kept.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gemmsim.bench.device import Device

Call = Callable[[], None]
#: bytes written over the L2, and bytes of another buffer read after that
FLUSH_BYTES = 256 << 20
#: warm-up before the samples, s of kernel time: clocks and caches are then as they stay
WARM_UP_S = 0.003
#: launches of a warm-up at most: more are never queued unsynchronised
WARM_UP_LAUNCHES = 128
#: samples of a row where --samples does not say: as many as the budget holds, within these; LEAST_OF_LONG where LEAST
#: launches would take twice the budget
LEAST, MOST, LEAST_OF_LONG = 5, 30, 3
#: samples of one call or two that are queued at once, fewer of more: a stream takes about a thousand commands before
#: the host must wait for it
BATCH = 64
#: rounds of kernels in turn at least: with fewer the median of a ratio has no interval at 95 %
LEAST_ROUNDS = 6
#: times a batch is taken, the wait doubled in between, before it is taken as it is; and the longest wait, s
TRIES, LONGEST_WAIT_S = 4, 0.05
#: kernel time one graph should hold, s, and its launches at most
GRAPH_S, GRAPH_LAUNCHES = 500e-6, 256


def sample_count(launch_s: float, flush_s: float, samples: int | None, budget_s: float) -> int:
    """Samples of a row: those asked for, or as many as the budget holds, from LEAST (LEAST_OF_LONG) to MOST."""
    if samples is not None:
        return samples
    least = LEAST if LEAST * launch_s <= 2 * budget_s else LEAST_OF_LONG
    return max(least, min(MOST, int(budget_s / max(launch_s + flush_s, 1e-9))))


def warm_up_count(launch_s: float) -> int:
    """Launches that, with the checked one before them, take WARM_UP_S; none where that one alone did."""
    return min(WARM_UP_LAUNCHES, math.ceil(max(0.0, WARM_UP_S - launch_s) / max(launch_s, 1e-9)))


def graph_count(launch_s: float) -> int:
    """Launches of one graph."""
    return max(2, min(GRAPH_LAUNCHES, math.ceil(GRAPH_S / max(launch_s, 1e-9))))


def round_count(round_s: float, rounds: int, budget_s: float) -> int:
    """Rounds of kernels in turn: those asked for, or as many as the budget holds, LEAST_ROUNDS at least."""
    return min(rounds, max(LEAST_ROUNDS, int(budget_s / max(round_s, 1e-9))))


def shuffled(calls: int, rounds: int) -> list[list[int]]:
    """The order of so many calls in each round: as a seed has it, so that the same turns are taken again."""
    draw = random.Random(calls)
    return [draw.sample(range(calls), calls) for _ in range(rounds)]


@dataclass(frozen=True)
class Samples:
    """Seconds of each launch of each call, and whether the host may have been waited for."""

    seconds: tuple[tuple[float, ...], ...]
    host_bound: bool


class Timer:
    """Times calls that queue one launch each on a device's stream."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._wait_s = 300e-6
        self._dirty: Any = None
        self._sweep: Any = None
        self._flush_s = 0.0

    def once(self, call: Call) -> float:
        """Seconds of one launch, the stream idle before: a first estimate."""
        begin, end = self._events(2)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return _seconds(begin, end)

    def warm_up(self, call: Call, launch_s: float, meanwhile: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds a launch, from as many as take WARM_UP_S; and what `meanwhile` gave while they ran."""
        count = warm_up_count(launch_s)
        if not count:
            return launch_s, meanwhile()
        begin, end = self._events(2)
        begin.record()
        for _ in range(count):
            call()
        end.record()
        found = meanwhile()
        end.synchronize()
        return _seconds(begin, end) / count, found

    def samples(
        self, calls: Sequence[Call], l2: str, count: int, orders: Sequence[Sequence[int]] | None = None
    ) -> Samples:
        """`count` samples of each call, one of each in turn, each after the L2 was put in its condition.

        orders: whose turn it is, one after another, in each of the rounds; left out, as the calls stand.
        """
        flush = self._flush(l2)
        rounds = [range(len(calls))] * count if orders is None else orders
        size = BATCH if len(calls) <= 2 else max(1, 2 * BATCH // len(calls))
        parts = [self._timely(calls, flush, rounds[start : start + size]) for start in range(0, count, size)]
        joined = zip(*(part.seconds for part in parts), strict=True)
        return Samples(tuple(sum(one, ()) for one in joined), any(part.host_bound for part in parts))

    def _timely(self, calls: Sequence[Call], flush: Call | None, rounds: Sequence[Sequence[int]]) -> Samples:
        """A batch for which the host was early enough, or the last of TRIES."""
        for _ in range(TRIES - 1):
            found = self._batch(calls, flush, rounds)
            if not found.host_bound:
                return found
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        return self._batch(calls, flush, rounds)

    def _batch(self, calls: Sequence[Call], flush: Call | None, rounds: Sequence[Sequence[int]]) -> Samples:
        """One batch behind a wait. The wait was long enough if the first event has not passed when all is queued."""
        pairs: list[list[tuple[Any, Any]]] = [[] for _ in calls]
        events = iter(self._events(2 * len(rounds) * len(calls)))
        self._device.spin(self._wait_s)
        queued = time.perf_counter()
        for order in rounds:
            for call, mine in ((calls[i], pairs[i]) for i in order):
                if flush is not None:
                    flush()
                elif len(calls) > 1:
                    call()  # what is warm is what this call left, not the other
                begin, end = next(events), next(events)
                begin.record()
                call()
                end.record()
                mine.append((begin, end))
        queued = time.perf_counter() - queued
        late = bool(pairs[rounds[0][0]][0][0].done)
        self._device.synchronize()
        self._wait_s = max(self._wait_s, min(1.5 * queued, LONGEST_WAIT_S)) if late else self._wait_s
        return Samples(tuple(tuple(_seconds(b, e) for b, e in mine) for mine in pairs), late)

    def graph(self, call: Call, launch_s: float, count: int) -> tuple[Samples, int]:
        """`count` samples of a CUDA graph over its launches, and how many those are. The L2 is warm."""
        launches = graph_count(launch_s)
        stream = self._device.stream
        stream.begin_capture()
        try:
            for _ in range(launches):
                call()
        finally:
            graph = stream.end_capture()
        graph.upload(stream)
        found = self.samples([lambda: graph.launch(stream)], "warm", count)
        return Samples(tuple(tuple(s / launches for s in one) for one in found.seconds), found.host_bound), launches

    def _events(self, count: int) -> list[Any]:
        make = self._device.cupy.cuda.Event
        return [make() for _ in range(count)]

    def flush_seconds(self, l2: str) -> float:
        """What putting the L2 in a condition takes."""
        return 0.0 if self._flush(l2) is None else self._flush_s

    def _flush(self, l2: str) -> Call | None:
        """A call that puts the L2 in a condition; None for warm, which the launch before leaves."""
        if l2 == "warm":
            return None
        if self._dirty is None:
            self._make_buffers()
        return self._write if l2 == "cold_dirty" else self._write_and_read

    def _make_buffers(self) -> None:
        cupy = self._device.cupy
        self._dirty = cupy.empty(FLUSH_BYTES, "uint8")
        self._clean = cupy.zeros(FLUSH_BYTES, "uint8")
        self._sweep = self._device.sweep(self._clean)
        self._write_and_read()
        self._flush_s = self.once(self._write_and_read)

    def _write(self) -> None:
        self._dirty.data.memset_async(1, FLUSH_BYTES, self._device.stream)

    def _write_and_read(self) -> None:
        self._write()
        self._sweep()


def _seconds(begin: Any, end: Any) -> float:
    from cupy.cuda import get_elapsed_time

    return 1e-3 * float(get_elapsed_time(begin, end))
