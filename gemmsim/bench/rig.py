"""One task at a time on the GPU: inputs, kernel, check, samples, and what the card said before and after."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmsim.bench import check, cublas
from gemmsim.bench.data import Data, make, supported
from gemmsim.bench.device import Device
from gemmsim.bench.environment import Nvml
from gemmsim.bench.kernels import Prepared, library, prepare
from gemmsim.bench.summary import summary, unstable
from gemmsim.bench.task import GRAPH_BELOW_S, Ask, Place, Refused, Task, Turns
from gemmsim.bench.timing import Timer, round_count, sample_count, shuffled

#: share of the device's memory for inputs and references of problems that may come again
CACHE_SHARE = 0.4


@dataclass(frozen=True)
class Warm:
    """A kernel whose result is right, on its data and warm: seconds of a launch, what the card said meanwhile."""

    ask: Ask
    prepared: Prepared
    data: Data
    launch_s: float
    before: Mapping[str, Any]


class Rig:
    """The device with the data of the problems that came last, as many as CACHE_SHARE of its memory holds.

    Raises GemmsimError where there is no GPU, CuPy, driver or NVML.
    """

    def __init__(self, number: int = 0) -> None:
        self.device = Device(number)
        self.nvml = Nvml(self.device.pci)
        self.timer = Timer(self.device)
        self.place: Place = self.device.place(self.nvml.uuid(), self.nvml.driver())
        self._data: OrderedDict[tuple[Any, ...], Data] = OrderedDict()
        self._room = int(CACHE_SHARE * self.device.memory_bytes)
        self._seed = random.SystemRandom().getrandbits(62)

    def load(self) -> None:
        """Have what every row needs: kernels/measure.cu compiled, cuBLAS opened."""
        self.device.spin(0.0)
        cublas.handle()

    def measure(self, task: Task) -> dict[str, Any]:
        """The outcome's columns of a row. Raises CuPy's errors; a context that failed is of no more use."""
        columns, warm = self.ready(task)
        try:
            return columns if warm is None else columns | self._timed(warm)
        except Refused as refused:  # by cuBLAS, beside the kernel
            return {**columns, "status": "refused", "reason": str(refused)}

    def ready(self, task: Task) -> tuple[dict[str, Any], Warm | None]:
        """A task's columns but for its times; and its kernel, checked and warm, or None where it is not right."""
        reason = supported(task.ask.form)
        if reason:
            return {"status": "refused", "reason": reason}, None
        data = self._data_of(task.ask)
        try:
            prepared = prepare(self.device, task, data)
        except Refused as refused:
            return {"status": "refused", "reason": str(refused)}, None
        launch_s, verdict = self.checked(prepared, data)
        known = {**prepared.columns(), **verdict.columns()}
        if verdict.reason:
            return {"status": "wrong", "reason": verdict.reason, **known}, None
        launch_s, before = self.timer.warm_up(prepared.launch, launch_s, self.nvml.read)
        return {"status": "ok", "reason": "", **known}, Warm(task.ask, prepared, data, launch_s, before)

    def forget(self) -> None:
        """Give the memory of the problems back."""
        self._data.clear()
        self.device.cupy.get_default_memory_pool().free_all_blocks()

    def _data_of(self, ask: Ask) -> Data:
        """The problem's data, the longest unused given up for it."""
        key = (ask.m, ask.n, ask.k, ask.form)
        data = self._data.pop(key, None)
        if data is None:
            while self._data and sum(d.nbytes for d in self._data.values()) + _bytes(ask) > self._room:
                self._data.popitem(last=False)
            self._seed += 1 << 8
            data = make(self.device, ask, self._seed)
        self._data[key] = data
        return data

    def checked(self, prepared: Prepared, data: Data) -> tuple[float, check.Verdict]:
        """Seconds of one launch on poisoned memory, and what its result is worth."""
        data.poison(self.device)
        prepared.poison()
        launch_s = self.timer.once(prepared.launch)
        return launch_s, check.compare(self.device, data, prepared.unfused)

    def _timed(self, warm: Warm) -> dict[str, Any]:
        how, launch = warm.ask.conditions, warm.prepared.launch
        calls = [launch]
        if how.against:
            calls.append(self._other(warm.ask, warm.data).launch)
            self.timer.once(calls[1])
        flush_s = self.timer.flush_seconds(how.l2)
        count = sample_count(len(calls) * warm.launch_s, len(calls) * flush_s, how.samples, how.budget_s)
        launches, timing = 1, "event"
        if how.graph and warm.launch_s < GRAPH_BELOW_S and not how.against:
            found, launches = self.timer.graph(launch, warm.launch_s, count)
            timing = "graph"
        else:
            found = self.timer.samples(calls, how.l2, count)
        columns = _columns(warm, found.seconds, self.nvml.read(), found.host_bound)
        return columns | {"launches": launches, "timed_by": timing}

    def turns(self, turns: Turns, warm: Mapping[int, Warm]) -> dict[int, dict[str, Any]]:
        """Times of the kernels, by number: a sample of each in every round, in an order that changes with the round.

        The L2's condition is that of the first. Raises CuPy's errors.
        """
        kernels = list(warm.values())
        if not kernels:
            return {}
        l2 = kernels[0].ask.conditions.l2
        round_s = sum(one.launch_s + self.timer.flush_seconds(l2) for one in kernels)
        count = round_count(round_s, turns.rounds, turns.budget_s)
        calls = [one.prepared.launch for one in kernels]
        found = self.timer.samples(calls, l2, count, shuffled(len(calls), count))
        after = self.nvml.read()
        timed = (_columns(one, (s,), after, found.host_bound) for one, s in zip(kernels, found.seconds, strict=True))
        return {i: columns | {"launches": 1, "timed_by": "event"} for i, columns in zip(warm, timed, strict=True)}

    def _other(self, ask: Ask, data: Data) -> Prepared:
        """cuBLAS on the same inputs, its result in an array of its own."""
        if data.other_c is None:
            data.other_c = self.device.cupy.zeros_like(data.c)
        return library(self.device, ask, data, data.other_c)


def _bytes(ask: Ask) -> int:
    """Device memory that making a problem's data takes at most: operands and result in float64, C and its like."""
    m, n, k = ask.m, ask.n, ask.k
    return ask.form.batch * (16 * (m * k + k * n) + 40 * m * n)


def _columns(
    warm: Warm, seconds: tuple[tuple[float, ...], ...], after: Mapping[str, Any], late: bool
) -> dict[str, Any]:
    ask, before, mine = warm.ask, warm.before, summary(seconds[0])
    words = unstable(seconds[0], before, after)
    found: dict[str, Any] = {
        **mine, "samples_s": list(seconds[0]), "tflops": 1e-12 * ask.flops / float(mine["time_s"]),
        "unstable": " ".join([*([words] if words else []), *(["host_bound"] if late else [])]),
        **{f"{name}_before": value for name, value in before.items()},
        **{f"{name}_after": value for name, value in after.items()},
    }  # fmt: skip
    if len(seconds) > 1:
        other = summary(seconds[1])["time_s"]
        found |= {"cublas_time_s": other, "cublas_samples_s": list(seconds[1]), "ratio": other / mine["time_s"]}
    return found
