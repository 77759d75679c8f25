"""The search itself: choose configurations, hand them to the objective, tell Optuna; every configuration at most once.

Any number of processes on any hosts may search one study at once; gemmsim.search.turns says how they keep apart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import optuna
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from gemmsim.errors import GemmsimError
from gemmsim.search.sampler import FreeSampler, ModelGuidedSampler
from gemmsim.search.space import Candidate, Space
from gemmsim.search.storage import answering
from gemmsim.search.trials import OK, REASON, STATUS
from gemmsim.search.turns import Turns

#: user attribute of a study: what its trials were measured for
SPACE = "gemmsim_space"
#: user attribute of a trial: the model's time, s
PREDICTED = "predicted_s"
#: status of an objective that gave no time: NaN, infinite, zero or less
NO_TIME = "no time"


@dataclass(frozen=True)
class Outcome:
    """What an objective found: a time, s, or none and why; facts become user attributes of the trial."""

    time_s: float | None
    status: str = OK
    reason: str = ""
    facts: Mapping[str, str | int | float] = field(default_factory=dict)


@runtime_checkable
class Objective(Protocol):
    """Measures configurations, several under way at once."""

    @property
    def ahead(self) -> int:
        """How many configurations may be under way at once, 1 or more."""

    def submit(self, ticket: int, candidate: Candidate) -> None:
        """Take one more configuration; returns at once."""

    def next(self) -> tuple[int, Outcome]:
        """Wait for one that is done: its ticket, and what was found."""


#: a configuration -> its time, s, or the status of what failed, or an Outcome
Call = Callable[[Candidate], float | str | Outcome]


def search(
    space: Space, objective: Objective | Call, *, trials: int, sampler: BaseSampler | None = None,
    study: optuna.Study | None = None, seed: int | None = None, budget_s: float | None = None,
    progress: Callable[[FrozenTrial], object] = lambda trial: None,
) -> optuna.Study:  # fmt: skip
    """Measure until the study holds `trials` configurations, those of all its workers; all, if the space has no more.

    sampler: model-guided unless given; any of Optuna's will do, and is kept to what is free. study: one to carry on, in
    any storage. budget_s: no trial is begun later than this many seconds from now, and those under way are waited for.
    progress is told each trial that this search ends. Each trial holds `status`, `worker`, `predicted_s`, the outcome's
    facts and, if ok, the time in seconds as its value; a trial without a time is a failed one. What the objective
    raises, KeyboardInterrupt as well, ends the search, and the configurations under way are free again.
    Raises GemmsimError for trials < 1, for a study of another space and for a storage that is lost.
    """
    if trials < 1:
        raise GemmsimError(f"trials = {trials}: expected a whole number >= 1")
    until = math.inf if budget_s is None else time.monotonic() + budget_s
    study = study or optuna.create_study(direction="minimize")
    same_space(study, space)
    study.sampler = _kept(space, sampler, seed)
    told = objective if isinstance(objective, Objective) else _Called(objective)
    with answering(f"study {study.study_name}"), Turns(study, space, trials, until) as turns:
        _loop(space, told, turns, progress)
    return study


def _loop(space: Space, objective: Objective, turns: Turns, progress: Callable[[FrozenTrial], object]) -> None:
    while True:
        while len(turns.under_way) < objective.ahead and (begun := turns.begin()) is not None:
            turns.note(begun.number, {PREDICTED: float(space.predicted_s[begun.place])})
            objective.submit(begun.number, space.candidate(begun.place))
        if turns.under_way:
            number, outcome = objective.next()
            ended = _tell(turns, number, outcome)
            if ended is not None:
                progress(ended)
        elif not turns.wait():
            return


def _tell(turns: Turns, number: int, outcome: Outcome) -> FrozenTrial | None:
    """End a trial; None if others thought this worker dead and ended it before."""
    time_s = outcome.time_s if outcome.status == OK else None
    good = time_s is not None and math.isfinite(time_s) and time_s > 0
    status = NO_TIME if outcome.status == OK and not good else outcome.status
    said = {REASON: outcome.reason} if outcome.reason else {}
    return turns.end(number, time_s if good else None, {**outcome.facts, **said, STATUS: status})


class _Called:
    """A plain function as an objective."""

    ahead = 1

    def __init__(self, call: Call) -> None:
        self._call = call

    def submit(self, ticket: int, candidate: Candidate) -> None:
        self._asked = ticket, candidate

    def next(self) -> tuple[int, Outcome]:
        ticket, candidate = self._asked
        found = self._call(candidate)
        if isinstance(found, Outcome):
            return ticket, found
        return ticket, Outcome(None, found) if isinstance(found, str) else Outcome(float(found))


def _kept(space: Space, sampler: BaseSampler | None, seed: int | None) -> BaseSampler:
    """The sampler, such that it proposes free configurations of the space."""
    if sampler is None:
        return ModelGuidedSampler(space, seed=seed)
    return sampler if isinstance(sampler, ModelGuidedSampler | FreeSampler) else FreeSampler(sampler, space, seed)


def same_space(study: optuna.Study, space: Space) -> None:
    """Note in a new study what it is for. Raises GemmsimError if it is for something else."""
    if study.directions != [StudyDirection.MINIMIZE]:
        raise GemmsimError(f"study {study.study_name} does not minimise one value: expected one that does, the time")
    # trials first: those of another worker come after what the study is for
    begun = any(trial.state != TrialState.WAITING for trial in study.get_trials(deepcopy=False))
    asked, held = space.described, study.user_attrs.get(SPACE)
    if held is None:
        if begun:
            raise GemmsimError(f"study {study.study_name} has trials that are not gemmsim's: expected an empty study")
        study.set_user_attr(SPACE, asked)
        return
    differ = [f"{name} {held.get(name)}, not {asked.get(name)}"
              for name in {**held, **asked} if held.get(name) != asked.get(name)]  # fmt: skip
    if differ:
        raise GemmsimError(f"study {study.study_name} is of {'; '.join(differ)}: expected a new study by another name")
