"""The bench as the objective of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gemmsim.bench.compile import cores
from gemmsim.bench.task import Ask, Conditions
from gemmsim.search.loop import Outcome
from gemmsim.search.space import Candidate
from gemmsim.store import Row, identity
from gemmsim.tuning.job import Job

#: configurations under way at once, at most one a compiler: those further ahead are chosen knowing less
AHEAD = 8


class Bench(Protocol):
    """What is needed of gemmsim.bench.session.Session."""

    def submit(self, ask: Ask) -> int:
        """Take an ask at once; its number."""

    def next(self) -> tuple[int, Row]:
        """The number and the row of the next ask that is done."""

    def turns(self, asks: Sequence[Ask], rounds: int, budget_s: float) -> list[Row]:
        """The rows of asks timed in turn."""


def ask_of(job: Job, family: str, config: dict[str, int]) -> Ask:
    """A configuration of a job's problem as the bench is asked for it."""
    return Ask(*job.shape, job.form, family, tuple(config.items()), Conditions(l2=job.l2))


class Measured:
    """A search's objective: rows of a bench session, in the store by the time they are told."""

    def __init__(self, bench: Bench, job: Job, compilers: int | None = None) -> None:
        self.ahead = max(2, min(AHEAD, compilers or cores()))
        self._bench, self._job = bench, job
        self._tickets: dict[int, int] = {}

    def submit(self, ticket: int, candidate: Candidate) -> None:
        """Hand a configuration to the bench."""
        self._tickets[self._bench.submit(ask_of(self._job, *candidate))] = ticket

    def next(self) -> tuple[int, Outcome]:
        """Wait for a row of one that was handed over; rows of others, that a stopped search left, are passed over."""
        while True:
            number, row = self._bench.next()
            if number in self._tickets:
                return self._tickets.pop(number), outcome(row)


def outcome(row: Row) -> Outcome:
    """What a trial holds of a row: its time, how it ended and why, and the row's key in the store."""
    ok = row["status"] == "ok"
    return Outcome(row["time_s"] if ok else None, str(row["status"]), str(row.get("reason") or ""),
                   {"key": identity(row)})  # fmt: skip
