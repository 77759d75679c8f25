"""Tasks through Nsight Compute, some at a time: each one's outcome and its counters, whatever happens to the others.

One ncu watches one child (profiled.py) that launches a chunk of tasks. What the child was at when it died or hung costs
that task alone; tasks of the chunk that ncu told no counters of are run again with the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsim.bench.metrics import beside, combined
from gemmsim.bench.ncu import KernelCounts, Metrics, by_row, command, missing_metric, parse, refuse_failure
from gemmsim.bench.profiled import MARKER
from gemmsim.bench.task import Task
from gemmsim.errors import GemmsimError

#: tasks that one ncu sees; what is counted is written after each
CHUNK = 50
#: what one ncu may take, s: a start, and so much a task
START_S, TASK_S = 180.0, 30.0
#: runs a command for so many seconds at most; its status (None: it was ended) and what it printed
Run = Callable[[Sequence[str], float], tuple[int | None, str]]


def run(arguments: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
    """The command in a session of its own, ended with all its children after timeout_s."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    ) as process:
        try:
            return _waited(process, timeout_s)
        finally:
            if process.poll() is None:
                _end(process)


def _waited(process: subprocess.Popen[str], timeout_s: float) -> tuple[int | None, str]:
    try:
        said, _ = process.communicate(timeout=timeout_s)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        _end(process)
        return None, process.communicate()[0]


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class _Chunk:
    """What came of one ncu: outcomes and kernels by place in the chunk; the place of the task the child ended at."""

    rows: Mapping[int, Mapping[str, Any]]
    kernels: Mapping[int, Sequence[KernelCounts]]
    fell: int | None
    why: str
    log: str
    status: int | None


def counted(
    tasks: Sequence[Task], device: int, ncu: str, *, run: Run = run, chunk: int = CHUNK
) -> Iterator[list[tuple[Task, dict[str, Any]]]]:
    """Tasks with the columns of their rows, chunk by chunk: status, reason, what the launch took, and counters.

    Raises GemmsimError for what Nsight Compute cannot do here: no permission, no kernel counted.
    """
    left, metrics = list(tasks), Metrics()
    while left:
        now = left[:chunk]
        found, metrics = _profile(now, device, ncu, metrics, run)
        done = {place: row for place in range(len(now)) if (row := _row(found, place)) is not None}
        if not done:
            refuse_failure(found.log, found.status)
        yield [(now[place], row) for place, row in done.items()]
        left = [task for place, task in enumerate(now) if place not in done] + left[chunk:]


def _row(found: _Chunk, place: int) -> dict[str, Any] | None:
    """The columns of a task; None for one that is to be run again."""
    row = found.rows.get(place)
    if row is not None and row["status"] != "ok":
        return dict(row)
    if row is not None and found.kernels.get(place):
        counters = combined([kernel.values for kernel in found.kernels[place]])
        return {**row, "kernels": len(found.kernels[place]), **beside(counters), **counters}
    if place == found.fell:
        return {"status": "timeout" if found.status is None else "launch", "reason": found.why}
    return None


def _profile(tasks: Sequence[Task], device: int, ncu: str, metrics: Metrics, run: Run) -> tuple[_Chunk, Metrics]:
    """One ncu over some tasks, called again with other metrics while it does not know one."""
    timeout_s = START_S + TASK_S * len(tasks)
    with tempfile.TemporaryDirectory(prefix="gemmsim-") as folder:
        given, out, log = (Path(folder) / name for name in ("tasks", "out", "log"))
        numbered = (replace(task, number=i).plain() for i, task in enumerate(tasks))
        given.write_text("".join(json.dumps(plain) + "\n" for plain in numbered), "utf-8")
        child = [sys.executable, "-m", "gemmsim.bench.profiled", str(given), str(out), str(device)]
        while True:
            for stale in (out, log):
                stale.unlink(missing_ok=True)
            status, said = run(command(ncu, metrics.asked(), str(log), child), timeout_s)
            text = log.read_text("utf-8", errors="replace") if log.exists() else ""
            missing = missing_metric(f"{text}\n{said}")
            if missing is None:
                return _chunk(_lines(out), text, said, status, metrics), metrics
            other = metrics.without(missing)
            if other == metrics:
                raise GemmsimError(f"{ncu} knows no metric {missing}: expected Nsight Compute 2022.1 or later")
            metrics = other


def _lines(path: Path) -> list[dict[str, Any]]:
    """What the child wrote; a last line that its end cut off is none."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def _chunk(lines: Sequence[Mapping[str, Any]], text: str, said: str, status: int | None, metrics: Metrics) -> _Chunk:
    fatal = next((line["fatal"] for line in lines if "fatal" in line), None)
    if fatal is not None:
        raise GemmsimError(str(fatal))
    log = f"{text}\n{said}"
    if "ERR_NVGPUCTRPERM" in log:
        refuse_failure(log, status)
    rows = {line["done"]: line["row"] for line in lines if "done" in line}
    fell = next((line["start"] for line in lines if "start" in line and line["start"] not in rows), None)
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    why = f"the launching process was ended ({last[:200]})" if last else "the launching process was ended"
    kernels = dict(by_row(parse(text, metrics), MARKER))
    return _Chunk(rows, kernels, fell, why, log, status)
