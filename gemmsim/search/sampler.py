"""Optuna samplers over a Space: the model-guided one, and any other kept to configurations that are free.

Both give all parameters of a trial at once, so that a trial's parameters are those of the configuration it measures and
no configuration is proposed twice in a study. They serve `study.ask(distributions(space))`, and `study.optimize` with
an objective that suggests each parameter from the space's choices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from gemmsim.errors import GemmsimError
from gemmsim.problem import FloatArray
from gemmsim.search.learnt import Learnt
from gemmsim.search.residual import Corrected, corrected
from gemmsim.search.space import Index, Mask, Space
from gemmsim.search.trials import Trials, distributions

#: configurations that the model likes best, and others drawn at random, that a proposal is chosen from
LIKED, DRAWN = 256, 128
#: standard deviations below which an improvement on the best is computed by the tail's form
FAR = -5.0


class FreeSampler(BaseSampler):
    """Any Optuna sampler, its proposals mapped to the nearest configuration of the space that no trial has had."""

    def __init__(self, sampler: BaseSampler, space: Space, seed: int | None = None) -> None:
        self._sampler, self._space, self._seed, self._trials = sampler, space, _seed(seed), Trials(space)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of the space."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The inner sampler's proposal, or the free configuration with the fewest steps to it."""
        inner = self._sampler.infer_relative_search_space(study, trial)
        proposed = dict(self._sampler.sample_relative(study, trial, inner))
        for name, distribution in search_space.items():
            if name not in proposed:
                proposed[name] = self._sampler.sample_independent(study, trial, name, distribution)
        mask = _some(self._trials.free(self._trials.of(study)))
        place = self._space.place(proposed)
        if place is None or not mask[place]:
            place = self._space.nearest(proposed, mask, np.random.default_rng([self._seed, trial.number]))
        return self._space.params(place)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A parameter that is none of the space: the inner sampler's."""
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """New random numbers, in each process that has a copy."""
        self._seed = _seed(None)
        self._sampler.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """The inner sampler's."""
        self._sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """The inner sampler's."""
        self._sampler.after_trial(study, trial, state, values)


class ModelGuidedSampler(BaseSampler):
    """First the model's shortlist, then the configuration whose corrected time promises most.

    The model's times are corrected by what was measured (gemmsim.search.residual), and of the free configurations the
    one with the largest expected improvement on the best is proposed. Where the model's residuals are large so are the
    deviations, and what is uncertain is tried sooner; a model whose order is wrong loses its say. Trials under way
    count as measured at their corrected times, so that those asked for meanwhile lie elsewhere. The same seed and the
    same trials give the same proposals. shortlist: how many configurations to measure before the first correction.
    learnt: what was measured of other shapes; it corrects the model's times beforehand.
    """

    def __init__(
        self, space: Space, *, shortlist: int = 4, seed: int | None = None, learnt: Learnt | None = None
    ) -> None:
        if shortlist < 1:
            raise GemmsimError(f"shortlist = {shortlist}: expected a whole number >= 1")
        if learnt is not None:
            space = replace(space, predicted_s=space.predicted_s * np.exp(learnt.correction(space)))
        self._space, self._seed, self._trials = space, _seed(seed), Trials(space)
        self._first = space.shortlist(shortlist)
        self._liked = np.argsort(space.predicted_s, kind="stable")

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of the space."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A free configuration of the space."""
        trials = self._trials.of(study)
        mask = _some(self._trials.free(trials))
        listed = [place for place in self._first if mask[place]]
        if listed:
            return self._space.params(listed[0])
        return self._space.params(self._promising(trials, mask, np.random.default_rng([self._seed, trial.number])))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A parameter that is none of the space's: refused, since the model says nothing of it."""
        raise GemmsimError(f"{param_name} is suggested, which is no parameter of the space: expected only "
                           f"{', '.join(self._space.choices)}, each with the space's choices")  # fmt: skip

    def reseed_rng(self) -> None:
        """New random numbers, in each process that has a copy."""
        self._seed = _seed(None)

    def _promising(self, trials: Sequence[FrozenTrial], mask: Mask, generator: np.random.Generator) -> int:
        """Position of the free configuration with the largest expected improvement."""
        asked = self._pool(mask, generator)
        measured, time_s = self._believed(trials)
        if not len(measured):
            return int(asked[0])
        scores = _improvement(corrected(self._space, measured, time_s, asked), float(np.log(time_s.min())))
        return int(asked[np.argmax(scores)])

    def _believed(self, trials: Sequence[FrozenTrial]) -> tuple[Index, FloatArray]:
        """Positions that were measured or are being measured, and their times, s: of the latter the corrected ones."""
        measured, time_s = self._trials.known(trials)
        open_ = [place for t in trials if not t.state.is_finished() and (place := self._trials.place(t)) is not None]
        pending = np.asarray(open_, np.intp)
        if not len(pending):
            return measured, time_s
        expected = self._space.predicted_s[pending]
        if len(measured):
            expected = np.exp(corrected(self._space, measured, time_s, pending).mean)
        return np.concatenate([measured, pending]), np.concatenate([time_s, expected])

    def _pool(self, mask: Mask, generator: np.random.Generator) -> Index:
        """Free configurations to choose from: those that the model likes best, and some of all others."""
        order = self._liked[mask[self._liked]]
        others = order[LIKED:]
        drawn = others[generator.integers(len(others), size=DRAWN)] if len(others) else others
        return np.concatenate([order[:LIKED], drawn])


def _improvement(found: Corrected, best: float) -> FloatArray:
    """Log of the expected improvement of log time on the best.

    Below FAR deviations, where its two terms cancel, by density / (z^2 + 3), within 1 % there.
    """
    z = (best - found.mean) / found.deviation
    near = np.maximum(z, FAR)
    below = np.asarray([math.erfc(-x / math.sqrt(2)) / 2 for x in near.tolist()])
    close = np.log(near * below + np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi))
    tail = -(z**2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(z**2 + 3)
    return np.asarray(np.log(found.deviation) + np.where(z > FAR, close, tail))


def _some(mask: Mask) -> Mask:
    """The mask, if anything is free in it. Raises GemmsimError if every configuration has been tried."""
    if not mask.any():
        raise GemmsimError(f"all {len(mask)} configurations of the space have been tried: expected fewer trials")
    return mask


def _seed(seed: int | None) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
