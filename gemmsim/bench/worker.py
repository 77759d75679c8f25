"""The child of a session: `python -m gemmsim.bench.worker DEVICE PARENT`, jobs in on stdin, rows out on stdout.

One JSON object a line. Out: {"hello": place} or {"fatal": sentence} once; then for each task {"start": number} and
{"done": columns}; for kernels in turn {"start": number} for each of them, {"start": ROUNDS}, and {"done": {"rows":
columns of each}} or {"done": {"lost": the number it was at, status, reason}}. A task that breaks the GPU's context says
so in its row, and the child ends: the next one starts with a whole context. The child never outlives its parent.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from gemmsim.bench.backend import Measurer, backend
from gemmsim.bench.keeper import ROUNDS
from gemmsim.bench.parent import die_with
from gemmsim.bench.task import Task, Turns, job_from
from gemmsim.errors import GemmsimError

#: tells the parent the number of the task that begins
Start = Callable[[int], None]


def main(arguments: list[str]) -> int:
    """Serve until stdin ends; the exit status."""
    device, parent = int(arguments[0]), int(arguments[1])
    die_with(parent)
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        rig = backend().open_rig(device)
    except GemmsimError as error:
        _say(out, {"fatal": str(error)})
        return 2
    _say(out, {"hello": asdict(rig.place)})
    with contextlib.suppress(Exception):  # the first row says so
        rig.load()
    for line in sys.stdin:
        usable = _serve(out, rig, line)
        if not usable:
            # the context is lost: leaving by the front door would wait for it
            os._exit(0)
    return 0


def _serve(out: Any, rig: Measurer, line: str) -> bool:
    """Do one job and say what came of it; whether the rig can go on."""
    job = job_from(json.loads(line))
    began = time.perf_counter()

    def start(number: int) -> None:
        _say(out, {"start": number})

    if isinstance(job, Turns):
        found, usable = in_turn(rig, job, start)
        each_s = (time.perf_counter() - began) / len(job.tasks)
        found |= {"rows": [row | {"wall_s": each_s} for row in found["rows"]]} if "rows" in found else {}
    else:
        start(job.number)
        found, usable = outcome(rig, functools.partial(rig.measure, job))
        found |= {"wall_s": time.perf_counter() - began}
    _say(out, {"done": found})
    return usable


def in_turn(rig: Measurer, turns: Turns, start: Start) -> tuple[dict[str, Any], bool]:
    """`rows`, one of each task, those that failed with their status alone; or `lost`, whose fault it was."""
    rows: list[dict[str, Any]] = []
    warm: dict[int, Any] = {}
    for task in turns.tasks:
        start(task.number)
        row, usable = outcome(rig, functools.partial(_warmed, rig, task, warm))
        if not usable:
            return row | {"lost": task.number}, False
        rows.append(row)
    start(ROUNDS)
    found, usable = outcome(rig, lambda: {"times": rig.turns(turns, warm)})
    if "times" not in found:
        return found | {"lost": ROUNDS}, usable
    numbers = [task.number for task in turns.tasks]
    return {"rows": [row | found["times"].get(i, {}) for i, row in zip(numbers, rows, strict=True)]}, True


def _warmed(rig: Measurer, task: Task, warm: dict[int, Any]) -> dict[str, Any]:
    row, found = rig.ready(task)
    if found is not None:
        warm[task.number] = found
    return row


def outcome(rig: Measurer, measure: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """The columns that measuring gives, and whether the rig can go on. Whatever goes wrong is the row's status."""
    try:
        return measure(), True
    except GemmsimError as error:
        return {"status": "refused", "reason": str(error)}, True
    except MemoryError as error:  # CuPy's is one
        return {"status": "launch", "reason": f"out of memory: {_one_line(error)}"}, _survived(rig)
    except Exception as error:
        return {"status": "launch", "reason": f"{type(error).__name__}: {_one_line(error)}"}, _survived(rig)


def _survived(rig: Measurer) -> bool:
    """Whether the context still works: an illegal address stays with it for good."""
    synchronize = getattr(getattr(rig, "device", None), "synchronize", None)
    try:
        if synchronize is not None:
            synchronize()
        rig.forget()
    except Exception:
        return False
    return True


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:400]


def _say(out: Any, message: dict[str, Any]) -> None:
    try:
        out.write(json.dumps(message) + "\n")
        out.flush()
    except BrokenPipeError:  # the parent is gone
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
