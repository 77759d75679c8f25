"""A schedule as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a track a slot of an SM.

A slice is a piece of work, named by its tile; inside it lie its phases, where they are known: load (start and first
loads), main loop, epilogue, fix-up (stream-K: what other blocks left). They divide a piece as they divide a lone one.
Times are microseconds from the moment the launch is asked for. Source: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.problem import IntArray
from gemmsim.rows import whole_file
from gemmsim.simulate.schedule import Schedule

#: slices of a file: some 15 MB, which a browser still opens in seconds
MOST_SLICES = 100_000
#: phases of a piece at most
PHASES = 4
#: a phase that is a smaller share of its piece is left out
LEAST_PHASE = 1e-3
Event = dict[str, Any]


def trace(s: Schedule, path: str) -> str:
    """Write the trace, complete or not at all. Gives what was left out to keep its size, '' for nothing.

    Raises GemmsimError for a schedule of which no block was placed, and where the file cannot be written.
    """
    import orjson

    if not s.simulated:
        raise GemmsimError(f"trace {path}: {s.note}; expected a launch of fewer blocks")
    kept = min(len(s), MOST_SLICES)
    phases = kept * (1 + PHASES) <= MOST_SLICES
    events = [*_tracks(s), *_around(s), *_slices(s, kept, phases)]
    note = _left_out(s, kept, phases)
    other = {"configuration": s.key, "gpu": s.gpu, "makespan_s": s.makespan_s, "left_out": note}
    with whole_file(path) as file:
        file.write(orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}))
    return note


def _left_out(s: Schedule, kept: int, phases: bool) -> str:
    cut = [f"{len(s) - kept} of {len(s)} blocks, the last to start"] if kept < len(s) else []
    return ", and ".join([*cut, *([] if phases else ["the phases inside blocks"])])


def _tracks(s: Schedule) -> Iterator[Event]:
    """Names of the tracks: launch and second kernel, then the SMs in order, slot by slot."""
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": f"{s.gpu} {s.key}"}}
    names = {0: "launch"} | {
        1 + sm * s.slots + slot: f"SM {sm}{f', slot {slot}' if s.slots > 1 else ''}"
        for sm in range(len(s.busy_s))
        for slot in range(s.slots)
    }
    for track, name in names.items():
        yield {"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": 0, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}


def _around(s: Schedule) -> Iterator[Event]:
    """The launch itself, and the kernel that sums slices."""
    yield _slice("launch", 0, 0.0, s.launch_s)
    if s.second_s:
        yield _slice("sum slices", 0, s.makespan_s - s.second_s, s.makespan_s)


def _slices(s: Schedule, kept: int, phases: bool) -> Iterator[Event]:
    """A slice a piece, its phases inside."""
    order = np.argsort(s.start_s, kind="stable")
    track = 1 + s.sm * s.slots + _slots(s, order)
    batch = bool(s.problem.max())
    for i in order[:kept].tolist():
        start, end, kind = float(s.start_s[i]), float(s.end_s[i]), int(s.kind[i])
        name = f"{f'problem {s.problem[i]}, ' if batch else ''}tile {s.row[i]}, {s.column[i]}"
        first, steps = int(s.first_step[i]), int(s.steps[i])
        yield _slice(name, int(track[i]), start, end, {"block": i, "first_k_step": first, "k_steps": steps})
        if phases:
            shares = float(s.starting[kind]), float(s.ending[kind]), float(s.fixing[kind])
            yield from _phases(int(track[i]), start, end, shares)


def _phases(track: int, start: float, end: float, shares: tuple[float, float, float]) -> Iterator[Event]:
    starting, ending, fixing = shares
    parts = {"load": starting, "main loop": 1 - sum(shares), "fix-up": fixing, "epilogue": ending}
    at = start
    for name, part in parts.items():
        until = min(end, at + part * (end - start))
        if part >= LEAST_PHASE:
            yield _slice(name, track, at, until)
        at = until


def _slice(name: str, track: int, start_s: float, end_s: float, args: Event | None = None) -> Event:
    start, end = (round(seconds * 1e9) for seconds in (start_s, end_s))  # whole ns: what nests or follows still does
    event: Event = {"ph": "X", "pid": 0, "tid": track, "name": name, "ts": start / 1e3, "dur": (end - start) / 1e3}
    return event | ({"args": args} if args else {})


def _slots(s: Schedule, order: IntArray) -> IntArray:
    """The slot of each piece on its SM: the first that is free when it starts, so that no slices of a track overlap."""
    slot = np.zeros(len(s), np.int64)
    free = np.zeros((len(s.busy_s), s.slots))
    rounding = 1e-9 * s.makespan_s
    for i in order.tolist():
        row = free[s.sm[i]]
        slot[i] = int(np.argmax(row <= s.start_s[i] + rounding))
        row[slot[i]] = s.end_s[i]
    return slot
