"""The bench as an objective: tickets, outcomes, how much is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from gemmsim.bench.task import Ask
from gemmsim.problem import form_of
from gemmsim.search.loop import Objective
from gemmsim.search.space import Candidate
from gemmsim.tuning.job import Job
from gemmsim.tuning.objectives import AHEAD, Measured

JOB = Job(64, 128, 256, form_of("fp32"), "h200_sxm", ("naive",), "warm")
CONFIG = {"bm": 8, "bn": 32, "bk": 1}


class Bench:
    """Rows in the order given, by number."""

    def __init__(self, *rows: tuple[int, dict[str, Any]]) -> None:
        self.asks: list[Ask] = []
        self.rows = deque(rows)

    def submit(self, ask: Ask) -> int:
        self.asks.append(ask)
        return 10 + len(self.asks)

    def next(self) -> tuple[int, dict[str, Any]]:
        return self.rows.popleft()

    def turns(self, asks: Sequence[Ask], rounds: int, budget_s: float) -> list[dict[str, Any]]:
        raise NotImplementedError


def test_rows_come_back_under_their_tickets_whatever_their_order() -> None:
    bench = Bench((12, {"status": "wrong", "reason": "off", "time_s": 1.0}), (11, {"status": "ok", "time_s": 2e-3}))
    objective = Measured(bench, JOB)
    objective.submit(0, Candidate("naive", CONFIG))
    objective.submit(7, Candidate("naive", CONFIG | {"bm": 16}))
    (second, wrong), (first, ok) = objective.next(), objective.next()
    assert (second, wrong.time_s, wrong.status, wrong.reason) == (7, None, "wrong", "off")
    assert (first, ok.time_s, ok.status) == (0, 2e-3, "ok")
    assert set(ok.facts) == {"key"}
    assert isinstance(objective, Objective)


def test_the_bench_is_asked_for_the_jobs_problem_under_its_conditions() -> None:
    bench = Bench()
    Measured(bench, JOB).submit(0, Candidate("naive", CONFIG))
    (ask,) = bench.asks
    assert (ask.m, ask.n, ask.k, ask.form.dtype, ask.family, dict(ask.config)) == (
        64,
        128,
        256,
        "fp32",
        "naive",
        CONFIG,
    )
    assert (ask.conditions.l2, ask.conditions.graph, ask.conditions.against) == ("warm", False, "")


def test_rows_that_another_search_left_are_passed_over() -> None:
    bench = Bench((3, {"status": "ok", "time_s": 1.0}), (11, {"status": "ok", "time_s": 2.0}))
    objective = Measured(bench, JOB)
    objective.submit(5, Candidate("naive", CONFIG))
    assert objective.next()[0] == 5


def test_no_more_is_under_way_than_there_are_compilers() -> None:
    assert [Measured(Bench(), JOB, jobs).ahead for jobs in (1, 5, 100)] == [2, 5, AHEAD]
