"""The fake bench with times that hang on the configuration: GEMMSIM_BENCH=tune_bench, both folders on PYTHONPATH.

TUNE_FAIL: configurations whose bk is that do not compile; `all`: none does. TUNE_NOISE: by what share samples differ.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fake_bench
import numpy as np

from gemmsim.bench.task import Ask, Kernel, Task, Turns
from gemmsim.hardware import Gpu


def time_of(ask: Ask) -> float:
    """Seconds: 1 us an output of 4,096, times 1 to 2 as the configuration's digest has it."""
    return 1e-6 * ask.m * ask.n / 4096 * (1 + zlib.crc32(repr((ask.family, sorted(ask.config))).encode()) / 2**32)


class Rig(fake_bench.Rig):
    def times(self, task: Task, count: int) -> dict[str, Any]:
        noise = float(os.environ.get("TUNE_NOISE", "0.001"))
        generator = np.random.default_rng(zlib.crc32(repr(task.ask).encode()))
        samples = time_of(task.ask) * (1 + noise * generator.standard_normal(count))
        time_s = float(np.median(samples))
        return {"time_s": time_s, "min_s": samples.min(), "samples_s": samples.tolist(), "sample_count": count,
                "unstable": ""}  # fmt: skip

    def turns(self, turns: Turns, warm: Mapping[int, Task]) -> dict[int, dict[str, Any]]:
        return {number: self.times(task, turns.rounds) for number, task in warm.items()}


def open_rig(device: int) -> Rig:
    fake_bench.open_rig(device)
    return Rig()


class Compiler(fake_bench.Compiler):
    def compiled(self, asks: Sequence[Ask], gpu: Gpu) -> Iterator[tuple[int, str, Kernel]]:
        fail = os.environ.get("TUNE_FAIL", "")
        for i, error, kernel in super().compiled(asks, gpu):
            bad = fail == "all" or fail == str(dict(asks[i].config).get("bk"))
            yield i, "ptxas says no" if bad else error, kernel


def open_compiler(jobs: int | None) -> Compiler:
    return Compiler()
