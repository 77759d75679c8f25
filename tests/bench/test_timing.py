"""How many samples, and the order in which a batch is queued, on a device that only writes down what it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gemmsim.bench import timing
from gemmsim.bench.timing import Timer, graph_count, sample_count, warm_up_count


@pytest.mark.parametrize(
    ("launch_s", "flush_s", "asked", "count"),
    [
        (10e-6, 140e-6, None, 30),
        (1e-3, 140e-6, None, 13),
        (2.7e-3, 140e-6, None, 5),
        (6e-3, 140e-6, None, 5),
        (6.1e-3, 140e-6, None, 3),
        (22e-3, 140e-6, None, 3),
        (22e-3, 140e-6, 12, 12),
        (1e-6, 0.0, 1, 1),
    ],
)
def test_samples_follow_the_budget(launch_s: float, flush_s: float, asked: int | None, count: int) -> None:
    assert sample_count(launch_s, flush_s, asked, 0.015) == count


def test_warm_up_goes_by_time() -> None:
    assert warm_up_count(1e-3) == 2
    assert warm_up_count(2.9e-3) == 1
    assert warm_up_count(1.0) == 0
    assert warm_up_count(1e-9) == timing.WARM_UP_LAUNCHES


def test_graphs_hold_many_short_launches() -> None:
    assert graph_count(5e-6) == 100
    assert graph_count(1e-9) == timing.GRAPH_LAUNCHES
    assert graph_count(1.0) == 2


class _Event:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def record(self) -> None:
        self.at = self._device.clock
        self._device.said.append("event")

    def synchronize(self) -> None:
        pass

    @property
    def done(self) -> bool:
        self._device.late -= 1
        return self._device.late >= 0


class _Array:
    def __init__(self, device: FakeDevice) -> None:
        self.data, self._device = self, device

    def memset_async(self, value: int, size: int, stream: object) -> None:
        self._device.said.append("write")


class FakeDevice:
    """late: how many batches find their first event done before all is queued."""

    def __init__(self, late: int = 0) -> None:
        self.said: list[str] = []
        self.waits: list[float] = []
        self.clock, self.late = 0.0, late
        self.cupy, self.cuda, self.stream = self, self, self

    def Event(self) -> _Event:
        return _Event(self)

    def empty(self, count: int, kind: str) -> _Array:
        return _Array(self)

    zeros = empty

    def sweep(self, buffer: object) -> Any:
        return lambda: self.said.append("read")

    def spin(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.said.append("wait")

    def synchronize(self) -> None:
        pass

    def begin_capture(self) -> None:
        self._captured_at = self.clock

    def end_capture(self) -> Any:
        seconds, self.clock = self.clock - self._captured_at, self._captured_at

        def launch(stream: object) -> None:
            self.clock += seconds

        return SimpleNamespace(upload=lambda stream: None, launch=launch)

    def call(self, name: str, seconds: float) -> Any:
        def launch() -> None:
            self.clock += seconds
            self.said.append(name)

        return launch


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_seconds", lambda begin, end: end.at - begin.at)


def batch(l2: str, calls: int = 1) -> list[str]:
    device = FakeDevice()
    timer = Timer(device)  # type: ignore[arg-type]
    timer.flush_seconds(l2)
    device.said.clear()
    timer.samples([device.call(name, 1.0) for name in "ab"[:calls]], l2, 2)
    return device.said


def test_each_sample_finds_the_l2_in_its_condition() -> None:
    assert batch("cold_clean") == ["wait", *["write", "read", "event", "a", "event"] * 2]
    assert batch("cold_dirty") == ["wait", *["write", "event", "a", "event"] * 2]
    assert batch("warm") == ["wait", *["event", "a", "event"] * 2]


def test_against_another_they_take_turns() -> None:
    one = ["write", "read", "event", "{}", "event"]
    assert batch("cold_clean", 2) == ["wait", *[word.format(name) for _ in range(2) for name in "ab" for word in one]]


def test_warm_is_what_the_call_itself_left() -> None:
    turn = [word for name in "ab" for word in (name, "event", name, "event")]
    assert batch("warm", 2) == ["wait", *turn, *turn]


def test_a_host_that_is_late_waits_longer_the_next_time() -> None:
    device = FakeDevice(late=2)
    timer = Timer(device)  # type: ignore[arg-type]
    found = timer.samples([device.call("a", 1.0), device.call("b", 2.0)], "warm", 3)
    assert not found.host_bound
    assert found.seconds == ((1.0,) * 3, (2.0,) * 3)
    assert len(device.waits) == 3
    assert device.waits[0] < device.waits[1] < device.waits[2]


def test_many_samples_come_in_batches() -> None:
    device = FakeDevice()
    found = Timer(device).samples([device.call("a", 1.0), device.call("b", 2.0)], "warm", 150)  # type: ignore[arg-type]
    assert found.seconds == ((1.0,) * 150, (2.0,) * 150)
    assert len(device.waits) == 3


def test_a_graphs_time_is_that_of_one_of_its_launches() -> None:
    device = FakeDevice()
    found, launches = Timer(device).graph(device.call("a", 5e-6), 5e-6, 3)  # type: ignore[arg-type]
    assert launches == 100
    assert found.seconds[0] == pytest.approx((5e-6,) * 3)
    assert device.said.count("a") == 100


def test_a_host_that_is_always_late_says_so() -> None:
    device = FakeDevice(late=100)
    found = Timer(device).samples([device.call("a", 1.0)], "warm", 1)  # type: ignore[arg-type]
    assert found.host_bound
    assert len(device.waits) == timing.TRIES


def test_turns_change_with_the_round_and_come_again_with_the_same_seed() -> None:
    orders = timing.shuffled(4, 30)
    assert orders == timing.shuffled(4, 30)
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert {order[0] for order in orders} == {0, 1, 2, 3}
    device = FakeDevice()
    timer = Timer(device)  # type: ignore[arg-type]
    timer.flush_seconds("cold_clean")
    device.said.clear()
    calls = [device.call(name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    found = timer.samples(calls, "cold_clean", 2, [[2, 0, 1], [1, 2, 0]])
    turns = [word for name in "cabbca" for word in ("write", "read", "event", name, "event")]
    assert device.said == ["wait", *turns]
    assert found.seconds == ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))


def test_many_kernels_in_turn_come_in_smaller_batches() -> None:
    device = FakeDevice()
    calls = [device.call("abcdefgh"[i], 1.0) for i in range(8)]
    found = Timer(device).samples(calls, "warm", 40, timing.shuffled(8, 40))  # type: ignore[arg-type]
    assert [len(one) for one in found.seconds] == [40] * 8
    assert len(device.waits) == 3


@pytest.mark.parametrize(
    ("round_s", "rounds", "budget_s", "count"),
    [(0.01, 30, 1.0, 30), (0.1, 30, 1.0, 10), (1.0, 30, 1.0, 6), (1, 4, 1, 4)],
)
def test_rounds_follow_the_budget(round_s: float, rounds: int, budget_s: float, count: int) -> None:
    assert timing.round_count(round_s, rounds, budget_s) == count
