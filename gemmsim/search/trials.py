"""A study's trials as places in a space: which configurations are free, what is known of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from gemmsim.problem import FloatArray
from gemmsim.search.space import Index, Mask, Space

#: a configuration that failed counts as so many times as slow as predicted, or as the slowest: those near are put off
FAILED = 2.0
#: user attribute of a trial: position in the space of its configuration, chosen before its parameters are written
PLACE = "place"
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
    """Where in the space a study's trials are: looked up once a trial that is over.

    Methods take all trials of the study, in the order of their numbers, and cost what is under way costs: those before
    the first that is not over are counted once.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._forget(None)

    def _forget(self, study: Study | None) -> None:
        self._study = study
        self._over: dict[int, int | None] = {}
        self._lost: dict[int, int] = {}
        self._counted = 0
        self._mask = np.zeros(len(self._space), bool)
        self._values: dict[int, float] = {}

    def of(self, study: Study) -> Sequence[FrozenTrial]:
        """The study's trials."""
        if study is not self._study:
            self._forget(study)
        return study.get_trials(deepcopy=False)

    def open(self, trials: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
        """The first trial that is not over, and all after it."""
        while self._counted < len(trials) and trials[self._counted].state.is_finished():
            self._mark([trials[self._counted]], self._mask)
            self._note([trials[self._counted]], self._values)
            self._counted += 1
        return trials[self._counted :]

    def _mark(self, trials: Sequence[FrozenTrial], mask: Mask) -> None:
        for place in map(self.place, trials):
            if place is not None:
                mask[place] = True

    def _note(self, trials: Sequence[FrozenTrial], values: dict[int, float]) -> None:
        for trial in trials:
            place = self.place(trial)
            if place is not None and trial.state.is_finished():
                values[place] = np.nan if trial.value is None else trial.value

    def place(self, trial: FrozenTrial) -> int | None:
        """Position of a trial's configuration, chosen or enqueued; None if it has none, or failed unmeasured."""
        if trial.number in self._over:
            return self._over[trial.number]
        place = trial.user_attrs.get(PLACE)
        if place is None:  # another program's, or enqueued
            place = self._space.place({**trial.system_attrs.get("fixed_params", {}), **trial.params})
        if trial.state.is_finished():
            status = trial.user_attrs.get(STATUS, OK if not trial.params else None)
            if trial.state == TrialState.FAIL and status in _NOTHING:
                if place is not None and status in (UNFINISHED, OK):
                    self._lost[trial.number] = place
                place = None
            self._over[trial.number] = place
        return place

    def taken(self, trials: Sequence[FrozenTrial], *, waiting: bool = True) -> Mask:
        """Configurations that trials have, but for those that failed unmeasured; waiting: those enqueued, too."""
        left = [trial for trial in self.open(trials) if waiting or trial.state != TrialState.WAITING]
        mask = self._mask.copy()
        self._mark(left, mask)
        return mask

    def free(self, trials: Sequence[FrozenTrial]) -> Mask:
        """Configurations that no trial has."""
        return ~self.taken(trials)

    def lost(self, trials: Sequence[FrozenTrial]) -> dict[int, int]:
        """Configurations whose workers died, the first to do so first, and how many did."""
        self.taken(trials)  # looks all up
        return dict(Counter(place for _, place in sorted(self._lost.items())))

    def known(self, trials: Sequence[FrozenTrial]) -> tuple[Index, FloatArray]:
        """Positions that were measured and their times, s; of those that failed, a time that puts them off."""
        left, values = self.open(trials), self._values.copy()
        self._note(left, values)
        places, time_s = np.asarray(list(values), np.intp), np.asarray(list(values.values()), np.float64)
        late = np.fmax(FAILED * self._space.predicted_s[places], np.nanmax(time_s, initial=0.0))
        return places, np.where(np.isnan(time_s), late, time_s)
