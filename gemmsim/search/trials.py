"""A study's trials as places in a space: which configurations are free, what is known of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from gemmsim.problem import FloatArray
from gemmsim.search.space import Index, Mask, Space

#: a configuration that failed counts as so many times as slow as predicted, or as the slowest: those near are put off
FAILED = 2.0
#: user attributes of a trial: how it ended, and why
STATUS, REASON = "status", "reason"
OK = "ok"
#: status of a trial until it ends; of a failed one: its worker died. Its configuration is free again, and next
UNFINISHED = "unfinished"
#: status of a trial that was stopped: its configuration is free again
INTERRUPTED = "interrupted"
#: status of a trial begun when others had begun all that were to be, or enqueued with a configuration that one has
UNNEEDED = "unneeded"
#: failed trials of these measured nothing; none is ok and failed, unless its worker died between the two
_NOTHING = (UNFINISHED, OK, INTERRUPTED, UNNEEDED)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The parameters of a trial, as Optuna has them."""
    return {name: CategoricalDistribution(values) for name, values in space.choices.items()}


class Trials:
    """Where in the space a study's trials are: looked up once a trial that is over."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._study: object = None
        self._over: dict[int, int | None] = {}
        self._lost: dict[int, int] = {}

    def of(self, study: Study) -> Sequence[FrozenTrial]:
        """The study's trials."""
        if study is not self._study:
            self._study, self._over, self._lost = study, {}, {}
        return study.get_trials(deepcopy=False)

    def place(self, trial: FrozenTrial) -> int | None:
        """Position of a trial's configuration, chosen or enqueued; None if it has none, or failed unmeasured."""
        if trial.number in self._over:
            return self._over[trial.number]
        place = self._space.place({**trial.system_attrs.get("fixed_params", {}), **trial.params})
        if trial.state.is_finished():
            status = trial.user_attrs.get(STATUS, OK if not trial.params else None)
            if trial.state == TrialState.FAIL and status in _NOTHING:
                if place is not None and status in (UNFINISHED, OK):
                    self._lost[trial.number] = place
                place = None
            self._over[trial.number] = place
        return place

    def taken(self, trials: Iterable[FrozenTrial]) -> Mask:
        """Configurations that these trials have."""
        mask = np.zeros(len(self._space), bool)
        mask[[place for place in map(self.place, trials) if place is not None]] = True
        return mask

    def free(self, trials: Iterable[FrozenTrial]) -> Mask:
        """Configurations that no trial has; those of trials that failed unmeasured are free."""
        return ~self.taken(trials)

    def lost(self) -> dict[int, int]:
        """Configurations whose workers died, first to last, and how many did, among the trials looked up so far."""
        return dict(Counter(place for _, place in sorted(self._lost.items())))

    def known(self, trials: Sequence[FrozenTrial]) -> tuple[Index, FloatArray]:
        """Positions that were measured and their times, s; of those that failed, a time that puts them off."""
        over = [(self.place(trial), trial.value) for trial in trials if trial.state.is_finished()]
        values = {place: np.nan if value is None else value for place, value in over if place is not None}
        places, time_s = np.asarray(list(values), np.intp), np.asarray(list(values.values()), np.float64)
        late = np.fmax(FAILED * self._space.predicted_s[places], np.nanmax(time_s, initial=0.0))
        return places, np.where(np.isnan(time_s), late, time_s)
