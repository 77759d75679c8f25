"""Searches of some shapes, one after another: each learns from those before, its fastest are timed again in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.trial import FrozenTrial, TrialState

from gemmsim.hardware import Gpu
from gemmsim.search.learnt import NOTHING, Learnt, learnt
from gemmsim.search.loop import Call, Objective, search
from gemmsim.search.replay import Replay
from gemmsim.search.sampler import ModelGuidedSampler
from gemmsim.search.space import Space, space_of
from gemmsim.search.trials import REASON, STATUS, Trials
from gemmsim.tuning import finals
from gemmsim.tuning.job import MEASURED, RECORDED, Job
from gemmsim.tuning.objectives import Bench, Measured
from gemmsim.tuning.recorded import Rows
from gemmsim.tuning.result import Ended, Entry, Tuned

Answers = Objective | Call


@dataclass(frozen=True)
class Source:
    """Where times come from: a bench, recorded rows, or with neither the model; of which GPU.

    compilers: how many the bench has, None: one a core. stored: what has been measured of a job's space, positions.
    """

    gpu: Gpu
    bench: Bench | None = None
    rows: Rows | None = None
    compilers: int | None = None
    stored: Callable[[Job, Space], Sequence[int]] = lambda job, space: ()

    def ready(self, job: Job) -> tuple[Space, Answers]:
        """A job's space and what answers for its configurations. Raises GemmsimError where none can launch."""
        if job.objective == RECORDED:
            assert self.rows is not None
            replay = self.rows.replay(*job.shape)
            return replay.space, replay
        space = space_of(*job.shape, gpu=self.gpu, family=job.families, dtype=job.form, l2=job.l2)
        if job.objective == MEASURED:
            assert self.bench is not None
            return space, Measured(self.bench, job, self.compilers)
        return space, Replay(job.shape, space, space.predicted_s)


class Watcher:
    """What is told of a tuning as it goes; by itself it does nothing."""

    def begins(self, job: Job, space: Space, name: str, done: int, stored: int) -> None:
        """A shape's search begins; so many of its trials are done, so many others are rows of the store."""

    def trial(self, job: Job, trial: FrozenTrial) -> None:
        """A trial is over."""

    def over(self) -> None:
        """No more trials of the shape are begun here."""

    def finals(self) -> None:
        """The fastest are timed in turn."""

    def ends(self, tuned: Tuned) -> None:
        """A shape is done."""


@dataclass
class Tuner:
    """The searches. budget_s: no trial of a shape begins later, s; None: no limit."""

    source: Source
    budget_s: float | None = None
    watcher: Watcher = field(default_factory=Watcher)
    learnt: Learnt = NOTHING

    def tune(self, study: optuna.Study, job: Job, name: str = "") -> Tuned:
        """Search a shape, and time what came of it in turn. KeyboardInterrupt ends it early, with what there is."""
        began = time.monotonic()
        space, answers = self.source.ready(job)
        entries: list[Entry] | None = None
        stopped = False
        self.watcher.begins(job, space, name, len(measured(space, study)), self._enqueued(study, job, space))
        try:
            self.search(study, job, space, answers)
            entries = self._finals(study, job, space)
        except KeyboardInterrupt:
            stopped = True
        trials = measured(space, study)
        known_s = answers.time_s if isinstance(answers, Replay) else None
        tuned = Tuned(
            job, name, len(space), ended(trials), time.monotonic() - began,
            entries or finals.of_trials(space, trials, known_s), in_turn=entries is not None, stopped=stopped,
            least_s=None if known_s is None else float(known_s.min()),
        )  # fmt: skip
        self.watcher.ends(tuned)
        return tuned

    def _enqueued(self, study: optuna.Study, job: Job, space: Space) -> int:
        """Have a new study begin with what was measured before; how many that is."""
        if study.get_trials(deepcopy=False):
            return 0
        places = self.source.stored(job, space)[: job.trials]
        for place in places:
            study.enqueue_trial(space.params(place))
        return len(places)

    def search(self, study: optuna.Study, job: Job, space: Space, answers: Answers) -> None:
        """Measure until the study has its trials; what it learnt goes to the shapes that follow."""
        sampler = ModelGuidedSampler(space, learnt=self.learnt, seed=job.seed)
        try:
            search(space, answers, trials=job.trials, sampler=sampler, study=study, budget_s=self.budget_s,
                   progress=lambda trial: self.watcher.trial(job, trial))  # fmt: skip
        finally:
            self.watcher.over()
        self.learnt += learnt([(space, study.get_trials(deepcopy=False))])

    def _finals(self, study: optuna.Study, job: Job, space: Space) -> list[Entry] | None:
        """The fastest in turn; None where there is no bench, or nothing ran."""
        if self.source.bench is None:
            return None
        trials = measured(space, study)
        if not any(trial.state == TrialState.COMPLETE for trial in trials):
            return None
        self.watcher.finals()
        return finals.in_turn(self.source.bench, job, space, trials)


def measured(space: Space, study: optuna.Study) -> list[FrozenTrial]:
    """The trials that are over and measured a configuration."""
    places = Trials(space)
    return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished() and places.place(t) is not None]


def ended(trials: Sequence[FrozenTrial]) -> dict[str, Ended]:
    """Trials by how they ended, most first."""
    found: dict[str, list[str]] = {}
    for trial in trials:
        found.setdefault(str(trial.user_attrs.get(STATUS)), []).append(str(trial.user_attrs.get(REASON, "")))
    most = sorted(found.items(), key=lambda item: -len(item[1]))
    return {status: Ended(len(reasons), reasons[0]) for status, reasons in most}
