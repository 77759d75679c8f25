"""The searches of some shapes: what they are told, what they learn, how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from gemmsim.hardware import load_gpu
from gemmsim.problem import form_of
from gemmsim.search.loop import search
from gemmsim.search.space import Candidate, Space
from gemmsim.tuning.job import PREDICTED, RECORDED, Job
from gemmsim.tuning.recorded import Rows, read_rows
from gemmsim.tuning.tuner import Source, Tuner, Watcher, ended

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("smem_tile", "naive"), "warm", PREDICTED, trials=8)
GPU = load_gpu("h200_sxm")
SIMT = str(Path(__file__).parents[2] / "studies" / "h200" / "simt_fp32.csv.gz")


class Log(Watcher):
    def __init__(self, stop_at: int = -1) -> None:
        self.said: list[Any] = []
        self.stop_at = stop_at

    def begins(self, job: Job, space: Space, name: str, done: int, stored: int) -> None:
        self.said.append((name, len(space), done, stored))

    def trial(self, job: Job, trial: optuna.trial.FrozenTrial) -> None:
        self.said.append(trial.number)
        if trial.number == self.stop_at:
            raise KeyboardInterrupt

    def over(self) -> None:
        self.said.append("over")


def test_a_tuning_tells_what_it_does_and_what_came_of_it() -> None:
    log = Log()
    tuned = Tuner(Source(GPU), watcher=log).tune(optuna.create_study(), JOB, "it")
    assert log.said == [("it", tuned.configurations, 0, 0), *range(8), "over"]
    assert (tuned.count, tuned.trials["ok"].count, tuned.in_turn, tuned.stopped) == (8, 8, False, False)
    best = tuned.best
    assert best is not None
    assert best.time_s == best.predicted_s == min(e.time_s for e in tuned.entries if e.time_s is not None)
    assert tuned.tflops(best) == pytest.approx(2e-12 * 256**3 / best.time_s)


def test_a_study_carried_on_begins_with_what_it_has() -> None:
    study, log = optuna.create_study(), Log()
    Tuner(Source(GPU)).tune(study, JOB)
    tuned = Tuner(Source(GPU), watcher=log).tune(study, replace(JOB, trials=10))
    assert log.said == [("", tuned.configurations, 8, 0), 8, 9, "over"]
    assert tuned.count == 10


def test_what_was_measured_before_comes_first_and_counts() -> None:
    study, log = optuna.create_study(), Log()
    source = Source(GPU, stored=lambda job, space: [30, 20, 10])
    space, _ = source.ready(JOB)
    Tuner(source, watcher=log).tune(study, replace(JOB, trials=5))
    assert log.said[0] == ("", len(space), 0, 3)
    assert [space.place(t.params) for t in study.trials][:3] == [30, 20, 10]
    assert len(study.trials) == 5
    few = optuna.create_study()
    Tuner(source).tune(few, replace(JOB, trials=2))
    assert [space.place(t.params) for t in few.trials] == [30, 20]


def test_a_person_stops_it_and_has_what_was_found() -> None:
    tuned = Tuner(Source(GPU), watcher=Log(stop_at=3)).tune(optuna.create_study(), JOB)
    assert (tuned.stopped, tuned.count, tuned.in_turn) == (True, 4, False)
    assert tuned.best is not None


def test_no_more_than_there_is(recorded: Rows) -> None:
    job = replace(_recorded(recorded), trials=10**6)
    tuned = Tuner(Source(GPU, rows=recorded)).tune(optuna.create_study(), job)
    assert (tuned.count, tuned.configurations, tuned.regret) == (229, 229, 0)


def test_a_shape_learns_from_those_before(recorded: Rows) -> None:
    tuner = Tuner(Source(GPU, rows=recorded))
    job = replace(_recorded(recorded), trials=40)
    for m in (4096, 1024):
        tuner.tune(optuna.create_study(), replace(job, m=m, n=m, k=m))
    other = replace(job, m=2048, n=2048, k=2048, trials=12)
    alone, after = optuna.create_study(), optuna.create_study()
    Tuner(Source(GPU, rows=recorded)).tune(alone, other)
    tuner.tune(after, other)
    assert [said.shape for said in tuner.learnt.said] == [(4096,) * 3, (1024,) * 3, (2048,) * 3]
    assert [t.params for t in alone.trials] != [t.params for t in after.trials]


def test_trials_by_how_they_ended() -> None:
    space, _ = Source(GPU).ready(JOB)

    def answer(candidate: Candidate) -> float | str:
        place = space.place_of(candidate)
        assert place is not None
        return 1e-3 if place % 3 else "wrong"

    study = search(space, answer, trials=30, seed=0)
    found = ended(study.trials)
    assert sum(e.count for e in found.values()) == 30
    assert set(found) == {"ok", "wrong"}
    assert list(found) == sorted(found, key=lambda status: -found[status].count)


@pytest.fixture(scope="module")
def recorded() -> Rows:
    return read_rows([SIMT])


def _recorded(rows: Rows) -> Job:
    return Job(4096, 4096, 4096, rows.form, rows.gpu.name, rows.families, rows.l2, RECORDED)
