"""A bench without a GPU, for the campaign's tests: GEMMSIM_BENCH=fake_bench with this folder on PYTHONPATH.

The number of rows decides what happens: CRASH kills the process, HANG never ends, BREAK loses the context, WRONG is a
wrong result, any other takes FAKE_S seconds. FAKE_LOG is a file that every finished measurement appends a line to.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.bench.task import Ask, Kernel, Place, Task
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

    def measure(self, task: Task) -> dict[str, Any]:
        m = task.ask.m
        if m == CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        if m == HANG:
            time.sleep(1000)
        if m == BREAK:
            self.device.broken = True
            raise RuntimeError("an illegal memory access was encountered")
        if m == WRONG:
            return {"status": "wrong", "reason": "relative Frobenius error 1, limit 1e-06"}
        time.sleep(float(os.environ.get("FAKE_S", "0.002")))
        log = os.environ.get("FAKE_LOG")
        if log:
            with open(log, "a") as file:
                file.write(f"{m} {task.ask.n} {task.ask.k} {dict(task.ask.config)}\n")
        time_s = 1e-9 * m * task.ask.n
        return {"status": "ok", "reason": "", "time_s": time_s, "min_s": time_s, "samples_s": [time_s, time_s],
                "sample_count": 2, "unstable": "spread" if m == 77 else ""}  # fmt: skip


def open_rig(device: int) -> Rig:
    if os.environ.get("FAKE_FATAL"):
        raise GemmsimError(os.environ["FAKE_FATAL"])
    return Rig()


def compile_ahead(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    for i, ask in enumerate(asks):
        time.sleep(0.001)
        bad = dict(ask.config).get("bk") == 5
        yield i, "ptxas says no" if bad else "", Kernel(path=f"/{i}", key=f"key-{dict(ask.config)}", regs_per_thread=32,
                                                        spill_bytes=0, smem_bytes=0, stack_bytes=0)  # fmt: skip
