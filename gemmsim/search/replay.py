"""A search without a GPU: recorded rows answer in its place, under predictions that have not seen them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gemmsim.calibrate import Model, fit
from gemmsim.errors import GemmsimError
from gemmsim.measured import Measured
from gemmsim.problem import FloatArray
from gemmsim.search.learnt import NOTHING, Learnt, recorded
from gemmsim.search.space import Candidate, Space


@dataclass(frozen=True)
class Replay:
    """The recorded configurations of one shape, and their times, s. Called with a candidate it says its time.

    learnt: what the rows of other shapes say, those that the coefficients were fitted on.
    """

    shape: tuple[int, int, int]
    space: Space
    time_s: FloatArray
    learnt: Learnt = NOTHING

    def __call__(self, candidate: Candidate) -> float | str:
        """Seconds; the status `refused` for a configuration that was not recorded."""
        place = self.space.place_of(candidate)
        return "refused" if place is None else float(self.time_s[place])

    def regret(self, measured_s: FloatArray) -> FloatArray:
        """How much slower than the best recorded the best so far is, an entry a trial; failed trials are infinite."""
        return np.asarray(np.minimum.accumulate(measured_s) / self.time_s.min() - 1)


def replays(rows: Measured, *, folds: int = 3, seed: int = 0) -> Iterator[Replay]:
    """One a shape, in the order of the rows; predicted from tile parameters alone, no compiler facts.

    The shapes are dealt to `folds` parts, and those of a part are predicted with coefficients fitted on the rows of the
    others. Of rows of one shape and configuration the fastest stands. Raises GemmsimError where shapes are too few.
    """
    shapes = rows.shapes
    count = int(shapes.max()) + 1
    if not 2 <= folds <= count:
        raise GemmsimError(f"{folds} folds of {count} shapes: expected 2 folds or more, each with a shape")
    fold = np.random.default_rng(seed).permutation(count)[shapes] % folds
    predicted, others = np.empty(len(rows)), []
    model = Model(rows.without_facts())
    for part in range(folds):
        fitted_s = model.time_s(fit(rows.take(fold != part), of=rows).values)
        predicted[fold == part] = fitted_s[fold == part]
        others.append(recorded(rows.take(fold != part), fitted_s[fold != part]))
    for shape in dict.fromkeys(shapes.tolist()):
        here = np.flatnonzero(shapes == shape)
        yield _replay(rows, here, predicted, others[fold[here[0]]])


def _replay(rows: Measured, here: np.ndarray, predicted: FloatArray, learnt: Learnt) -> Replay:
    """The rows at these positions, all of one shape."""
    here = here[np.argsort(rows.time_s[here], kind="stable")]
    _, first = np.unique(rows.configurations[here], return_index=True)
    here = here[first]
    p = rows.problem
    shape = int(p.m[here[0]]), int(p.n[here[0]]), int(p.k[here[0]])
    identity = {"gpu": rows.gpu.name, "problem": " x ".join(map(str, shape)), "form": p.dtype, "l2": rows.l2}
    return Replay(shape, Space([rows.config.take(here)], predicted[here], identity), rows.time_s[here], learnt)
