"""The search itself: ask Optuna, call the objective, tell Optuna; every configuration at most once."""

from __future__ import annotations

import math
from collections.abc import Callable

import optuna
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import TrialState

from gemmsim.errors import GemmsimError
from gemmsim.search.sampler import FreeSampler, ModelGuidedSampler
from gemmsim.search.space import Candidate, Space
from gemmsim.search.trials import INTERRUPTED, STATUS, Trials, distributions

#: a configuration -> its time, s, or the status of what failed (of gemmsim.store.STATUSES, or any other word)
Objective = Callable[[Candidate], float | str]
#: user attribute of a study: what its trials were measured for
SPACE = "gemmsim_space"
#: user attribute of a trial: the model's time, s
PREDICTED = "predicted_s"
#: status of an objective that gave no time: NaN, infinite, zero or less
NO_TIME = "no time"


def search(
    space: Space, objective: Objective, *, trials: int, sampler: BaseSampler | None = None,
    study: optuna.Study | None = None, seed: int | None = None,
) -> optuna.Study:  # fmt: skip
    """Measure up to `trials` configurations, those that the study holds included; all, if the space has no more.

    sampler: model-guided unless given; any of Optuna's will do, and is kept to what is free. study: one to carry on, in
    any storage. Each trial holds `status`, `predicted_s` and, if ok, the time in seconds as its value; a trial
    without a time is a failed one. What the objective raises ends the search, and its configuration stays free.
    Raises GemmsimError for trials < 1 and for a study of another space.
    """
    if trials < 1:
        raise GemmsimError(f"trials = {trials}: expected a whole number >= 1")
    study = study or optuna.create_study(direction="minimize")
    _same_space(study, space)
    study.sampler = _kept(space, sampler, seed)
    for _ in range(_left(space, study, trials)):
        _one(space, objective, study)
    return study


def _kept(space: Space, sampler: BaseSampler | None, seed: int | None) -> BaseSampler:
    """The sampler, such that it proposes free configurations of the space."""
    if sampler is None:
        return ModelGuidedSampler(space, seed=seed)
    return sampler if isinstance(sampler, ModelGuidedSampler | FreeSampler) else FreeSampler(sampler, space, seed)


def _left(space: Space, study: optuna.Study, trials: int) -> int:
    """How many more configurations to measure."""
    left = int(Trials(space).free(study.get_trials(deepcopy=False)).sum())
    return min(trials - (len(space) - left), left)


def _one(space: Space, objective: Objective, study: optuna.Study) -> None:
    trial = study.ask(distributions(space))
    try:
        place = _place(space, trial)
        trial.set_user_attr(PREDICTED, float(space.predicted_s[place]))
        found = objective(space.candidate(place))
    except BaseException:
        trial.set_user_attr(STATUS, INTERRUPTED)
        study.tell(trial, state=TrialState.FAIL)
        raise
    if isinstance(found, str) or not (math.isfinite(found) and found > 0):
        trial.set_user_attr(STATUS, found if isinstance(found, str) else NO_TIME)
        study.tell(trial, state=TrialState.FAIL)
    else:
        trial.set_user_attr(STATUS, "ok")
        study.tell(trial, float(found))


def _place(space: Space, trial: optuna.Trial) -> int:
    """Position of a trial's configuration. Raises GemmsimError for one that somebody enqueued and that is none."""
    place = space.place(trial.params)
    if place is None:
        raise GemmsimError(f"trial {trial.number} is {trial.params}: expected a configuration that can launch")
    return place


def _same_space(study: optuna.Study, space: Space) -> None:
    """Note in a new study what it is for. Raises GemmsimError if it is for something else."""
    if study.directions != [StudyDirection.MINIMIZE]:
        raise GemmsimError(f"study {study.study_name} does not minimise one value: expected one that does, the time")
    asked, held = space.described, study.user_attrs.get(SPACE)
    if held is None:
        if any(trial.state != TrialState.WAITING for trial in study.get_trials(deepcopy=False)):
            raise GemmsimError(f"study {study.study_name} has trials that are not gemmsim's: expected an empty study")
        study.set_user_attr(SPACE, asked)
        return
    differ = [f"{name} {held.get(name)}, not {value}" for name, value in asked.items() if held.get(name) != value]
    if differ:
        raise GemmsimError(f"study {study.study_name} is of {'; '.join(differ)}: expected a new study by another name")
