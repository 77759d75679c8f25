"""A study's trials as places in a space: which configurations are free, what is known of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from gemmsim.problem import FloatArray
from gemmsim.search.space import Index, Mask, Space

#: a configuration that failed counts as so many times as slow as predicted, or as the slowest: those near are put off
FAILED = 2.0
#: user attribute of a trial: how it ended
STATUS = "status"
#: status of a trial that was stopped: its configuration is free again
INTERRUPTED = "interrupted"


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The parameters of a trial, as Optuna has them."""
    return {name: CategoricalDistribution(values) for name, values in space.choices.items()}


class Trials:
    """Where in the space a study's trials are: looked up once a trial that is over."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._study: object = None
        self._over: dict[int, int | None] = {}

    def of(self, study: Study) -> Sequence[FrozenTrial]:
        """The study's trials."""
        if study is not self._study:
            self._study, self._over = study, {}
        return study.get_trials(deepcopy=False)

    def place(self, trial: FrozenTrial) -> int | None:
        """Position of a trial's configuration; None if it has none, or was stopped."""
        if trial.number in self._over:
            return self._over[trial.number]
        stopped = trial.user_attrs.get(STATUS) == INTERRUPTED
        place = None if stopped else self._space.place(trial.params)
        if trial.state.is_finished():
            self._over[trial.number] = place
        return place

    def free(self, trials: Sequence[FrozenTrial]) -> Mask:
        """Configurations that no trial has; those of trials that were stopped are free."""
        mask = np.ones(len(self._space), bool)
        mask[[place for place in map(self.place, trials) if place is not None]] = False
        return mask

    def known(self, trials: Sequence[FrozenTrial]) -> tuple[Index, FloatArray]:
        """Positions that were measured and their times, s; of those that failed, a time that puts them off."""
        over = [(self.place(trial), trial.value) for trial in trials if trial.state.is_finished()]
        values = {place: np.nan if value is None else value for place, value in over if place is not None}
        places, time_s = np.asarray(list(values), np.intp), np.asarray(list(values.values()), np.float64)
        late = np.fmax(FAILED * self._space.predicted_s[places], np.nanmax(time_s, initial=0.0))
        return places, np.where(np.isnan(time_s), late, time_s)
