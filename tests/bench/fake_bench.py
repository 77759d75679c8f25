"""A bench without a GPU, for the campaign's tests: GEMMSIM_BENCH=fake_bench with this folder on PYTHONPATH.

The number of rows decides what happens: CRASH kills the process, HANG never ends, BREAK loses the context, WRONG is a
wrong result, any other takes FAKE_S seconds. FAKE_LOG is a file that every finished measurement appends a line to.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemmsim.bench.task import Ask, Kernel, Place, Task, Turns
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu

CRASH, HANG, BREAK, WRONG, NO_COMPILE = 6661, 6662, 6663, 6664, 6665


class _Device:
    broken = False

    def synchronize(self) -> None:
        if self.broken:
            raise RuntimeError("an illegal memory access was encountered")


class Rig:
    def __init__(self) -> None:
        uuid = os.environ.get("FAKE_UUID", "GPU-fake")
        self.place = Place("NVIDIA H200", uuid, "9.0", 132, "580.0", "13.0")
        self.device = _Device()

    def forget(self) -> None:
        pass

    def load(self) -> None:
        pass

    def measure(self, task: Task) -> dict[str, Any]:
        columns, found = self.ready(task)
        return columns if found is None else columns | self.times(found, 2)

    def ready(self, task: Task) -> tuple[dict[str, Any], Task | None]:
        _harm(self, dict(task.ask.config).get("harm", task.ask.m))
        if task.ask.m == WRONG:
            return {"status": "wrong", "reason": "relative Frobenius error 1, limit 1e-06"}, None
        time.sleep(float(os.environ.get("FAKE_S", "0.002")))
        log = os.environ.get("FAKE_LOG")
        if log:
            with open(log, "a") as file:
                file.write(f"{task.ask.m} {task.ask.n} {task.ask.k} {dict(task.ask.config)}\n")
        return {"status": "ok", "reason": ""}, task

    def times(self, task: Task, count: int) -> dict[str, Any]:
        time_s = 1e-9 * task.ask.m * task.ask.n
        return {"time_s": time_s, "min_s": time_s, "samples_s": [time_s] * count, "sample_count": count,
                "unstable": "spread" if task.ask.m == 77 else ""}  # fmt: skip

    def turns(self, turns: Turns, warm: Mapping[int, Task]) -> dict[int, dict[str, Any]]:
        for task in warm.values():
            _harm(self, dict(task.ask.config).get("late_harm", 0))
        return {number: self.times(task, turns.rounds) for number, task in warm.items()}


def _harm(rig: Rig, what: int) -> None:
    if what == CRASH:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == HANG:
        time.sleep(1000)
    if what == BREAK:
        rig.device.broken = True
    rig.device.synchronize()


def open_rig(device: int) -> Rig:
    if os.environ.get("FAKE_FATAL"):
        raise GemmsimError(os.environ["FAKE_FATAL"])
    return Rig()


class Compiler:
    def expect(self, asks: Sequence[Ask]) -> None:
        pass

    def close(self) -> None:
        pass

    def compiled(self, asks: Sequence[Ask], gpu: Gpu) -> Iterator[tuple[int, str, Kernel]]:
        for i, ask in enumerate(asks):
            time.sleep(0.001)
            bad = dict(ask.config).get("bk") == 5
            yield i, "ptxas says no" if bad else "", Kernel(path=f"/{i}", key=f"key-{dict(ask.config)}",
                                                            regs_per_thread=32, spill_bytes=0, smem_bytes=0,
                                                            stack_bytes=0)  # fmt: skip


def open_compiler(jobs: int | None) -> Compiler:
    return Compiler()
