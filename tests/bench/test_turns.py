"""Who is to blame for a process lost while kernels take turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gemmsim.bench.keeper import ROUNDS
from gemmsim.bench.task import Ask, Kernel, Task
from gemmsim.bench.turns import in_turn
from gemmsim.problem import form_of

TASKS = [Task(i, Ask(8, 8, 8, form_of("fp32"), "cublas", ()), Kernel()) for i in range(4)]
LOST = {"status": "crash", "reason": "killed"}


class Run:
    """`early` lose the process when they are checked, `late` when all are timed, `together` when those are."""

    def __init__(
        self, *, early: Collection[int] = (), late: Collection[int] = (), together: Collection[int] = ()
    ) -> None:
        self.early, self.late, self.together = early, late, together
        self.calls: list[list[int]] = []

    def __call__(self, tasks: Sequence[Task]) -> Mapping[str, Any]:
        numbers = [task.number for task in tasks]
        self.calls.append(numbers)
        for number in numbers:
            if number in self.early:
                return LOST | {"lost": number}
        if set(self.late) & set(numbers) or (self.together and set(self.together) <= set(numbers)):
            return LOST | {"lost": ROUNDS}
        return {"rows": [{"status": "ok", "of": number} for number in numbers]}


def statuses(run: Run) -> list[str]:
    found = in_turn(TASKS, run)
    assert all(outcome.get("of", number) == number for number, outcome in found.items())
    return [found[task.number]["status"] for task in TASKS]


def test_nobody_fails() -> None:
    run = Run()
    assert statuses(run) == ["ok"] * 4
    assert run.calls == [[0, 1, 2, 3]]


def test_those_that_lose_it_alone_are_left_out() -> None:
    run = Run(early={1}, late={2})
    assert statuses(run) == ["ok", "crash", "crash", "ok"]
    assert run.calls == [[0, 1, 2, 3], [0, 2, 3], [0], [2], [3], [0, 3]]


def test_where_none_loses_it_alone_all_have_the_outcome() -> None:
    assert statuses(Run(together={0, 3})) == ["crash"] * 4


def test_all_fail_or_there_are_none() -> None:
    assert statuses(Run(late={0, 1, 2, 3})) == ["crash"] * 4
    assert in_turn([], Run()) == {}
