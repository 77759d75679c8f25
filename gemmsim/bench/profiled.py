"""What Nsight Compute watches: `python -m gemmsim.bench.profiled TASKS OUT DEVICE` launches each task once.

TASKS: a Task a line, as `Task.plain` has it. OUT: {"start": number}, then {"done": number, "row": columns}.
Only the launches lie between cudaProfilerStart and Stop. Each row's begin with a marker, the kernel `spin` of
kernels/measure.cu on as many blocks as the task's number plus one: the profile says whose kernels follow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gemmsim.bench.data import Data, make, supported
from gemmsim.bench.device import Device
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Refused, Task, task_from
from gemmsim.errors import GemmsimError

#: the kernel that a row begins with
MARKER = "spin"
_SEED = 1


class Launcher:
    """A device with the data of the problem that came last."""

    def __init__(self, number: int) -> None:
        """Raises GemmsimError where there is no GPU."""
        self.device = Device(number)
        self._data: Data | None = None

    def launch_once(self, task: Task) -> dict[str, Any]:
        """Launch a task's kernels once, marked; the columns of its row. Raises CuPy's errors."""
        reason = supported(task.ask.form)
        if reason:
            return {"status": "refused", "reason": reason}
        data = self._ready(task)
        try:
            prepared = prepare(self.device, task, data)
        except Refused as refused:
            return {"status": "refused", "reason": str(refused)}
        data.poison(self.device)
        prepared.poison()
        self.device.synchronize()
        mark = self.device.own(MARKER, (np.uint64(0),), blocks=task.number + 1, threads=1)
        with self.device.profiled():
            mark()
            prepared.launch()
        return {"status": "ok", "reason": "", **prepared.columns()}

    def _ready(self, task: Task) -> Data:
        ask = task.ask
        if self._data is None or self._data.key != (ask.m, ask.n, ask.k, ask.form):
            self._data = None
            self.device.cupy.get_default_memory_pool().free_all_blocks()
            self._data = make(self.device, ask, _SEED, reference=False)
        return self._data


def main(arguments: list[str]) -> int:
    """Launch every task; the exit status, 3 after one that the GPU's context did not survive."""
    tasks = [task_from(json.loads(line)) for line in Path(arguments[0]).read_text("utf-8").splitlines()]
    with open(arguments[1], "w", encoding="utf-8", buffering=1) as out:
        try:
            launcher = Launcher(int(arguments[2]))
        except GemmsimError as error:
            out.write(json.dumps({"fatal": str(error)}) + "\n")
            return 2
        for task in tasks:
            out.write(json.dumps({"start": task.number}) + "\n")
            row = outcome(launcher, task)
            out.write(json.dumps({"done": task.number, "row": row}) + "\n")
            if row["status"] == "launch":
                return 3
    return 0


def outcome(launcher: Launcher, task: Task) -> dict[str, Any]:
    """A task's columns. Whatever goes wrong is its status."""
    try:
        return launcher.launch_once(task)
    except Exception as error:  # a row, not the end of the others
        return {"status": "launch", "reason": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
