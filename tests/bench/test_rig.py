"""What a task becomes on the device, with every part that touches one replaced: the columns, and what is skipped."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsim.bench import rig as module
from gemmsim.bench.check import Verdict
from gemmsim.bench.kernels import Prepared
from gemmsim.bench.rig import Rig
from gemmsim.bench.task import Ask, Conditions, Kernel, Refused, Task, Turns
from gemmsim.bench.timing import Samples
from gemmsim.problem import Form, form_of
from gemmsim.store import COLUMNS, JSON_COLUMNS

ASK = Ask(100, 200, 300, form_of("fp32"), "naive", (("bm", 8),))
READING = {"sm_clock_hz": 1.98e9, "memory_clock_hz": 3.2e9, "power_w": 300.0, "temperature_c": 40.0, "throttle": "idle"}
RIGHT = Verdict(1e-7, 1e-5, 0.1, 0)


class Timer:
    """Launches of 10 us, the other call's 20."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def once(self, call: Any) -> float:
        call()
        return 10e-6

    def warm_up(self, call: Any, launch_s: float, meanwhile: Any) -> tuple[float, Any]:
        return launch_s, meanwhile()

    def flush_seconds(self, l2: str) -> float:
        return 140e-6

    def samples(self, calls: Any, l2: str, count: int, orders: Any = None) -> Samples:
        self.counts.append(count)
        self.orders = orders
        return Samples(tuple((10e-6 * (i + 1),) * count for i in range(len(calls))), False)

    def graph(self, call: Any, launch_s: float, count: int) -> tuple[Samples, int]:
        return Samples(((8e-6,) * count,), False), 50


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = object.__new__(Rig)
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    cupy = SimpleNamespace(get_default_memory_pool=lambda: pool, zeros_like=lambda x: x)
    made.device, made.timer, made._data, made._room, made._seed = (
        SimpleNamespace(cupy=cupy),
        Timer(),
        OrderedDict(),
        0,
        1,
    )
    made.nvml = SimpleNamespace(read=lambda: dict(READING))
    made.data_made = []

    def make(device: Any, ask: Ask, seed: int) -> Any:
        made.data_made.append((ask.m, seed))
        return SimpleNamespace(c=0, other_c=None, nbytes=100, poison=lambda device: None)

    made.verdict, made.prepared = RIGHT, Prepared(lambda: None, lambda: None, 256, 4096, 3)
    monkeypatch.setattr(module, "make", make)
    monkeypatch.setattr(module, "prepare", lambda device, task, data: made.prepared)
    monkeypatch.setattr(module, "library", lambda device, ask, data, c: made.prepared)
    monkeypatch.setattr(module.check, "compare", lambda device, data, unfused: made.verdict)
    return made


def measured(rig: Any, **how: Any) -> dict[str, Any]:
    return dict(rig.measure(Task(0, replace(ASK, conditions=Conditions(**how)), Kernel())))


def test_a_row(rig: Any) -> None:
    row = measured(rig)
    assert (row["status"], row["time_s"], row["timed_by"], row["launches"], row["unstable"]) == (
        "ok",
        1e-5,
        "event",
        1,
        "",
    )
    assert row["tflops"] == pytest.approx(2e-12 * 100 * 200 * 300 / 1e-5)
    assert row["samples_s"] == [1e-5] * 30
    assert row["power_w_before"] == row["power_w_after"] == 300
    assert (row["threads"], row["smem_bytes"], row["blocks_per_sm"], row["error"]) == (256, 4096, 3, 1e-7)
    assert row.keys() <= {*COLUMNS, *JSON_COLUMNS}


def test_against_cublas(rig: Any) -> None:
    row = measured(rig, against="cublas")
    assert (row["cublas_time_s"], row["ratio"]) == (2e-5, 2.0)
    assert len(row["cublas_samples_s"]) == row["sample_count"] == 30
    assert row.keys() <= {*COLUMNS, *JSON_COLUMNS}
    assert measured(rig, against="cublas", samples=7)["sample_count"] == 7
    assert measured(rig, budget_s=1e-3)["sample_count"] == 6


def test_a_graph(rig: Any) -> None:
    row = measured(rig, l2="warm", graph=True)
    assert (row["time_s"], row["timed_by"], row["launches"]) == (8e-6, "graph", 50)


def test_in_turn(rig: Any) -> None:
    tasks = [Task(i, replace(ASK, conditions=Conditions(against="turns")), Kernel()) for i in (3, 5, 8)]
    ready = {task.number: rig.ready(task) for task in tasks}
    assert {columns["status"] for columns, _ in ready.values()} == {"ok"}
    found = rig.turns(Turns(tuple(tasks), 20, 1.0), {number: warm for number, (_, warm) in ready.items()})
    assert {number: row["time_s"] for number, row in found.items()} == pytest.approx({3: 1e-5, 5: 2e-5, 8: 3e-5})
    assert {row["sample_count"] for row in found.values()} == {20}
    assert len(found[3]["samples_s"]) == len(found[8]["samples_s"]) == 20
    assert all(row.keys() <= {*COLUMNS, *JSON_COLUMNS} and row["timed_by"] == "event" for row in found.values())
    assert sorted(rig.timer.orders[0]) == [0, 1, 2]
    assert len(rig.timer.orders) == 20
    assert "cublas_time_s" not in found[3]
    rig.turns(Turns(tuple(tasks), 20, 1e-4), {3: ready[3][1]})
    assert rig.timer.counts[-1] == 6
    assert rig.turns(Turns(tuple(tasks), 20, 1.0), {}) == {}


def test_what_is_wrong_takes_no_turn(rig: Any) -> None:
    rig.verdict = replace(RIGHT, nan_count=4)
    columns, warm = rig.ready(Task(0, ASK, Kernel()))
    assert (columns["status"], warm) == ("wrong", None)


def test_what_is_wrong_is_not_timed(rig: Any) -> None:
    rig.verdict = replace(RIGHT, nan_count=4)
    row = measured(rig)
    assert row["status"] == "wrong"
    assert row["reason"].startswith("4 elements of C are NaN")
    assert "time_s" not in row
    assert rig.timer.counts == []


def test_refused(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Prepared:
        raise Refused("blocks_per_sm: no block fits")

    monkeypatch.setattr(module, "prepare", refuse)
    assert measured(rig) == {"status": "refused", "reason": "blocks_per_sm: no block fits"}
    mixed = Task(0, replace(ASK, form=form_of(Form("bf16", dtype_b="int8"))), Kernel())
    assert rig.measure(mixed)["reason"].startswith("B in int8 beside A in bf16 is not measured")


def test_what_cublas_refuses_beside_a_kernel(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Prepared:
        raise Refused("cublas: fp8 in layout NN is not timed")

    monkeypatch.setattr(module, "library", refuse)
    row = measured(rig, against="cublas")
    assert (row["status"], row["reason"], row["error"]) == ("refused", "cublas: fp8 in layout NN is not timed", 1e-7)
    assert "time_s" not in row


def test_a_batch_counts_all_its_problems(rig: Any) -> None:
    row = rig.measure(Task(0, replace(ASK, form=form_of(Form("fp32", batch=3))), Kernel()))
    assert row["tflops"] == pytest.approx(3 * 2e-12 * 100 * 200 * 300 / 1e-5)


def test_data_are_made_once_a_problem_and_given_up_for_others(rig: Any) -> None:
    def ask(m: int, **form: Any) -> None:
        rig.measure(Task(0, replace(ASK, m=m, form=form_of(Form("fp32", **form))), Kernel()))

    rig._room = 10**9
    for m in (1, 2, 1, 2):
        ask(m)
    ask(1, beta=True)
    assert [m for m, _ in rig.data_made] == [1, 2, 1]
    assert len({seed for _, seed in rig.data_made}) == 3
    rig._room = 0
    ask(2)
    ask(3)
    ask(2)
    assert [m for m, _ in rig.data_made] == [1, 2, 1, 3, 2]
