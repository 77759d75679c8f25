"""Who is compared, and what the comparison says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
import pytest

from gemmsim.bench.task import CUBLAS, Ask
from gemmsim.problem import form_of
from gemmsim.search.loop import search
from gemmsim.search.space import Candidate, Space, space_of
from gemmsim.tuning.finals import FINALISTS, WITHIN, in_turn, of_trials
from gemmsim.tuning.job import Job
from gemmsim.tuning.result import DEFAULT, FIRST_PICK, LIBRARY

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("register_tile",), "warm")
SPACE = space_of(256, 256, 256, gpu="h200_sxm", family="register_tile", dtype="fp32", l2="warm")
FIRST = int(np.argmin(SPACE.predicted_s))


class Bench:
    """Samples by place, "cublas", or the word of a failure."""

    def __init__(self, found: Mapping[int | str, Sequence[float] | str], rest: float = 5e-3) -> None:
        self.found, self.rest = found, rest
        self.asks: Sequence[Ask] = ()

    def turns(self, asks: Sequence[Ask], rounds: int, budget_s: float) -> list[dict[str, Any]]:
        self.asks = asks
        return [self._row(self._at(ask)) for ask in asks]

    def _at(self, ask: Ask) -> Sequence[float] | str:
        if ask.family == CUBLAS:
            return self.found.get(CUBLAS, [self.rest] * 30)
        place = SPACE.place_of(Candidate(ask.family, dict(ask.config)))
        assert place is not None
        return self.found.get(place, [self.rest] * 30)

    def _row(self, found: Sequence[float] | str) -> dict[str, Any]:
        if isinstance(found, str):
            return {"status": found, "reason": "why"}
        return {"status": "ok", "time_s": float(np.median(found)), "samples_s": list(found)}

    def submit(self, ask: Ask) -> int:
        raise NotImplementedError

    def next(self) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError


def trials(space: Space, times: Mapping[int, float | str], others: float = 1.0) -> Sequence[optuna.trial.FrozenTrial]:
    """A search's trials of all places, with these times."""

    def answer(candidate: Candidate) -> float | str:
        place = space.place_of(candidate)
        assert place is not None
        return times.get(place, others)

    return search(space, answer, trials=len(space), seed=0).get_trials(deepcopy=False)


KEPT = np.unique([*range(0, len(SPACE), 40), SPACE.default, FIRST])
SMALL = Space([SPACE.parts[0].take(KEPT)], SPACE.predicted_s[KEPT], SPACE.identity)
#: places that are neither the default nor the first pick
A, B, C, D, E, F, G = [p for p in range(len(SMALL)) if KEPT[p] not in (SPACE.default, FIRST)][:7]


def at(space: Space, candidate: Candidate) -> int:
    place = space.place_of(candidate)
    assert place is not None
    return place


def test_the_fastest_few_the_default_and_the_first_pick_are_compared() -> None:
    near = {p: 1e-3 * (1 + 0.001 * i) for i, p in enumerate([A, B, C, D, E, F][: FINALISTS + 2])}
    entries = of_trials(SMALL, trials(SMALL, near | {G: 1e-3 * (1 + WITHIN + 0.01)}))
    plain = [e for e in entries if not e.roles]
    assert [at(SMALL, Candidate(e.family, dict(e.config))) for e in plain] == [A, B, C, D][:FINALISTS]
    assert {role for e in entries for role in e.roles} == {DEFAULT, FIRST_PICK}
    assert [e.over for e in entries][:2] == pytest.approx([1, 1.001])
    assert all(math.isnan(e.low) and not e.tied for e in entries)


def test_what_failed_in_its_trial_is_said_and_not_tried_again() -> None:
    default = SMALL.default
    bench = Bench({})
    entries = in_turn(bench, JOB, SMALL, trials(SMALL, {default: "compile", A: 1e-3}))
    lost = next(e for e in entries if DEFAULT in e.roles)
    assert (lost.time_s, lost.status, entries[-1]) == (None, "compile", lost)
    assert SMALL.candidate(default).config not in [dict(ask.config) for ask in bench.asks]


def noisy(mean: float, seed: int, count: int = 30) -> list[float]:
    return (mean * (1 + 0.002 * np.random.default_rng(seed).standard_normal(count))).tolist()


def place_in_space(small: int) -> int:
    return at(SPACE, SMALL.candidate(small))


def test_ties_and_intervals_are_of_the_samples_in_turn() -> None:
    a, b, c = (place_in_space(p) for p in (A, B, C))
    bench = Bench({a: noisy(1e-3, 1), b: noisy(1.0005e-3, 2), c: noisy(1.02e-3, 3), CUBLAS: noisy(1.1e-3, 4)})
    entries = in_turn(bench, JOB, SMALL, trials(SMALL, {A: 1.01e-3, B: 1e-3, C: 1.005e-3}))
    times = {at(SPACE, Candidate(e.family, dict(e.config))): e for e in entries if LIBRARY not in e.roles}
    best, tied = sorted((times[a], times[b]), key=lambda e: e.over)
    assert (best.over, best.tied, tied.tied, times[c].tied) == (1, False, True, False)
    assert times[c].low < 1.02 < times[c].high
    library = next(e for e in entries if LIBRARY in e.roles)
    assert library.low < 1.1 < library.high
    assert library.low > 1.09


def test_a_faster_cublas_stands_before_the_best_and_is_none_itself() -> None:
    a = place_in_space(A)
    bench = Bench({a: noisy(1e-3, 1), CUBLAS: noisy(0.8e-3, 4)})
    entries = in_turn(bench, JOB, SMALL, trials(SMALL, {A: 1e-3}))
    assert LIBRARY in entries[0].roles
    assert entries[0].low < 0.8 < entries[0].high
    assert entries[0].high - entries[0].low < 0.01
    assert entries[1].over == 1
    assert not entries[0].tied


def test_what_fails_in_turn_has_its_status_and_nobody_else_has() -> None:
    a, b = place_in_space(A), place_in_space(B)
    bench = Bench({a: "timeout", b: noisy(1e-3, 1), CUBLAS: "refused"})
    entries = in_turn(bench, JOB, SMALL, trials(SMALL, {A: 1e-3, B: 1e-3}))
    assert [e.status for e in entries if e.time_s is None] == ["timeout", "refused"]
    assert entries[0].over == 1


def test_where_nothing_runs_in_turn_nothing_is_best() -> None:
    class Dead(Bench):
        def _row(self, found: Sequence[float] | str) -> dict[str, Any]:
            return {"status": "crash", "reason": "gone"}

    entries = in_turn(Dead({}), JOB, SMALL, trials(SMALL, {A: 1e-3}))
    assert {e.status for e in entries} == {"crash"}
    assert not any(e.time_s for e in entries)


def test_a_type_that_cublas_lacks_is_compared_without_it() -> None:
    bench = Bench({})
    in_turn(bench, Job(256, 256, 256, form_of("fp8"), "h200_sxm", ("triton",), "warm"), SMALL, trials(SMALL, {A: 1e-3}))
    assert CUBLAS not in {ask.family for ask in bench.asks}
