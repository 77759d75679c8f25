"""The child of a campaign: `python -m gemmsim.bench.worker DEVICE PARENT`, tasks in on stdin, rows out on stdout.

One JSON object a line. Out: {"hello": place} or {"fatal": sentence} once; then for each task {"start": number} and
{"done": number, "row": columns}. A task that breaks the GPU's context says so in its row, and the child ends: the next
one starts with a whole context. The child never outlives its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

from gemmsim.bench.backend import Measurer, backend
from gemmsim.bench.task import Task, task_from
from gemmsim.errors import GemmsimError

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def main(arguments: list[str]) -> int:
    """Serve until stdin ends; the exit status."""
    device, parent = int(arguments[0]), int(arguments[1])
    _die_with(parent)
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        rig = backend().open_rig(device)
    except GemmsimError as error:
        _say(out, {"fatal": str(error)})
        return 2
    _say(out, {"hello": asdict(rig.place)})
    for line in sys.stdin:
        task = task_from(json.loads(line))
        _say(out, {"start": task.number})
        began = time.perf_counter()
        row, usable = outcome(rig, task)
        _say(out, {"done": task.number, "row": row | {"wall_s": time.perf_counter() - began}})
        if not usable:
            # the context is lost: leaving by the front door would wait for it
            os._exit(0)
    return 0


def outcome(rig: Measurer, task: Task) -> tuple[dict[str, Any], bool]:
    """A task's columns, and whether the rig can go on. Whatever goes wrong is the row's status."""
    try:
        return rig.measure(task), True
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


def _die_with(parent: int) -> None:
    """Ask the kernel (Linux) to kill us when the parent goes; elsewhere the end of stdin says so, a row later."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
