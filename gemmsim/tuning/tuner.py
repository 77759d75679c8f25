"""Searches of some shapes, one after another: each learns from those before, its fastest are timed again in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.trial import FrozenTrial, TrialState

from gemmsim.errors import GemmsimError
from gemmsim.search.learnt import Learnt, learnt
from gemmsim.search.loop import Objective, search
from gemmsim.search.sampler import ModelGuidedSampler
from gemmsim.search.space import Candidate, Space, space_of
from gemmsim.tuning import finals
from gemmsim.tuning.job import MEASURED, RECORDED, Job
from gemmsim.tuning.objectives import Bench, Measured
from gemmsim.tuning.recorded import Rows
from gemmsim.tuning.result import Tuned, statuses

#: s between looks at whether other workers are done
LOOK_S = 0.2
Answers = Objective | Callable[[Candidate], float | str]


@dataclass(frozen=True)
class Source:
    """Where times come from: a bench, recorded rows, or with neither the model."""

    bench: Bench | None = None
    rows: Rows | None = None

    def ready(self, job: Job) -> tuple[Space, Answers]:
        """A job's space and what answers for its configurations. Raises GemmsimError where none can launch."""
        if job.objective == RECORDED:
            assert self.rows is not None
            replay = self.rows.replay(*job.shape)
            return replay.space, replay
        space = space_of(*job.shape, gpu=job.gpu, family=job.families, dtype=job.form, l2=job.l2)
        if job.objective == MEASURED:
            assert self.bench is not None
            return space, Measured(self.bench, job)
        return space, lambda candidate: float(space.predicted_s[space.place_of(candidate)])


class Watcher:
    """What is told of a tuning as it goes; by itself it does nothing."""

    def begins(self, job: Job, space: Space, name: str) -> None:
        """A shape's search begins."""

    def trial(self, job: Job, trial: FrozenTrial) -> None:
        """A trial is over."""

    def waits(self, running: int) -> None:
        """So many trials of other workers are still running."""

    def finals(self, count: int) -> None:
        """So many are timed in turn."""

    def ends(self, tuned: Tuned) -> None:
        """A shape is done."""


@dataclass
class Tuner:
    """The searches. budget_s: no trial of a shape begins later, s; None: no limit."""

    source: Source
    budget_s: float | None = None
    watcher: Watcher = field(default_factory=Watcher)
    learnt: Learnt = field(default_factory=Learnt)

    def search(self, study: optuna.Study, job: Job, space: Space, answers: Answers) -> None:
        """Measure until the study has its trials; what it learnt goes to those that follow."""
        sampler = ModelGuidedSampler(space, learnt=self.learnt, seed=job.seed)
        try:
            search(space, answers, trials=job.trials, sampler=sampler, study=study, budget_s=self.budget_s,
                   progress=lambda trial: self.watcher.trial(job, trial))  # fmt: skip
        finally:
            said = learnt([(space, study.get_trials(deepcopy=False))]).said
            self.learnt = Learnt((*self.learnt.said, *said))

    def tune(self, study: optuna.Study, job: Job, name: str = "") -> Tuned:
        """Search a shape, and time what came of it in turn. KeyboardInterrupt ends it early, with what there is."""
        began = time.monotonic()
        space, answers = self.source.ready(job)
        self.watcher.begins(job, space, name)
        entries, stopped = None, False
        try:
            self.search(study, job, space, answers)
            if self.source.bench is not None:
                self._others(study)
                entries = self._finals(study, job, space)
        except KeyboardInterrupt:
            stopped = True
        trials = study.get_trials(deepcopy=False)
        tuned = Tuned(
            job, name, len(space), statuses(trials), time.monotonic() - began,
            finals.of_trials(space, trials) if entries is None else entries, entries is not None, stopped,
        )  # fmt: skip
        self.watcher.ends(tuned)
        return tuned
