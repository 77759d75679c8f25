"""What was measured of other shapes says of the model on this one: Gaussian-process regression across shapes.

A configuration's residual, log(measured / predicted) less what a shape's residuals have in common, is shared by shapes
as far as they are alike: of the same alignment, and by the distance of the logs of their sizes. How far that reaches is
the likeliest of a few distances given what was measured of the other shapes itself, no distance at all being one.
The settings are the likeliest for half of the recorded shapes of the H200, rounded. It is by the same configurations
that shapes learn of one another: a space of which little was measured elsewhere is hardly corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from gemmsim.measured import Measured
from gemmsim.problem import FloatArray, IntArray
from gemmsim.search.residual import NOISE, OFFSET, Alike, levels
from gemmsim.search.space import Candidate, Index, Space
from gemmsim.search.trials import Trials

Shape = tuple[int, int, int]
#: configurations of a shape that are regressed on, the fastest predicted, and of all shapes, the nearest: cost grows
#: with the cube
MOST, MOST_IN_ALL = 32, 512
#: standard deviation of a residual, and the distance over which parameters matter alike, as in gemmsim.search.residual
SCALE, LENGTH = 0.1, 1.0
#: part of a residual that is the configuration's own, the rest shared by its like
OWN_PART = 0.33
#: doublings of a size over which what is shared falls to 0.6 of it; 0: shapes share nothing
REACHES = (0.0, 2.0, 8.0)
#: part of a residual that another shape can share, however near
SHARED_PART = 0.8
#: elements to which n and k are aligned that a kernel can make use of: shapes that differ in it share nothing
ALIGNED = 8
#: configurations that are predicted at a time
CHUNK = 4096


@dataclass(frozen=True)
class Said:
    """Configurations measured for one shape, and the log of measured over predicted time of each."""

    shape: Shape
    candidates: Sequence[Candidate]
    residual: FloatArray


@dataclass(frozen=True)
class Learnt:
    """What was measured of some shapes, an entry a shape."""

    said: Sequence[Said] = ()

    def __add__(self, other: Learnt) -> Learnt:
        return Learnt([*self.said, *other.said])

    def correction(self, space: Space) -> FloatArray:
        """log of the factor by which the model's time is off, as other shapes say, an entry a configuration."""
        own = np.asarray([space.shape], np.float64)
        alike = [s for s in self.said if len(s.residual) and _aligned(np.asarray([s.shape])) == _aligned(own)]
        nearest = sorted(alike, key=lambda s: float(_square(np.asarray([s.shape]), own)[0, 0]))
        found = _Observed.of(space, nearest)
        return np.zeros(len(space)) if found is None else found.correction()


NOTHING = Learnt()


def learnt(searches: Iterable[tuple[Space, Sequence[FrozenTrial]]]) -> Learnt:
    """What searches said: each a space and its study's trials; only trials with a time count."""
    return Learnt([_searched(space, trials) for space, trials in searches])


def recorded(rows: Measured, predicted_s: FloatArray) -> Learnt:
    """What rows of one family say; predicted_s: the model's time of each, s, infinite where it would not launch."""
    launched = np.isfinite(predicted_s)
    rows, predicted_s = rows.take(launched), predicted_s[launched]
    shapes = rows.shapes
    return Learnt([_recorded(rows, np.flatnonzero(shapes == i), predicted_s) for i in np.unique(shapes)])


def _searched(space: Space, trials: Sequence[FrozenTrial]) -> Said:
    places, time_s = Trials(space).known([t for t in trials if t.state == TrialState.COMPLETE])
    first = np.argsort(space.predicted_s[places], kind="stable")[:MOST]
    places, time_s = places[first], time_s[first]
    return Said(space.shape, [space.candidate(int(p)) for p in places], np.log(time_s / space.predicted_s[places]))


def _recorded(rows: Measured, here: Index, predicted_s: FloatArray) -> Said:
    here = here[np.argsort(predicted_s[here], kind="stable")][:MOST]
    p, first = rows.problem, here[0]
    candidates = [Candidate(rows.config.family, rows.config.row(int(i))) for i in here]
    shape = int(p.m[first]), int(p.n[first]), int(p.k[first])
    return Said(shape, candidates, np.log(rows.time_s[here] / predicted_s[here]))


@dataclass(frozen=True)
class _Observed:
    """Trials of other shapes whose configurations the space has, a row a trial."""

    space: Space
    places: Index
    residual: FloatArray
    shapes: FloatArray  # m, n, k

    @classmethod
    def of(cls, space: Space, said: Sequence[Said]) -> _Observed | None:
        rows = [
            (place, residual, s.shape)
            for s in said for candidate, residual in zip(s.candidates, s.residual, strict=True)
            if (place := space.place_of(candidate)) is not None
        ][:MOST_IN_ALL]  # fmt: skip
        if not rows:
            return None
        places, residual, shapes = zip(*rows, strict=True)
        return cls(space, np.asarray(places, np.intp), np.asarray(residual), np.asarray(shapes, np.float64))

    def correction(self) -> FloatArray:
        """The mean that the likeliest reach gives, of every configuration."""
        shared = self._shared(self.places)
        solved = {reach: self._solved(shared, reach) for reach in REACHES}
        reach = max(REACHES, key=lambda reach: solved[reach][0])
        weights = solved[reach][1] * _alike(self._own, self.shapes, reach)[0]
        chunks = np.array_split(np.arange(len(self.space)), -(-len(self.space) // CHUNK))
        return np.concatenate([self._shared(chunk) @ weights for chunk in chunks])

    def _shared(self, places: Index) -> FloatArray:
        """Covariance of residuals of configurations at `places` with those observed, were it of one shape."""
        own = OWN_PART * (places[:, None] == self.places[None, :])
        alike = own + (1 - OWN_PART) * Alike(self.space, places, self.places).at(LENGTH)
        return np.asarray(levels(self.space, places, self.places) + SCALE**2 * alike)

    @property
    def _own(self) -> FloatArray:
        return np.asarray([self.space.shape], np.float64)

    def _solved(self, shared: FloatArray, reach: float) -> tuple[float, FloatArray]:
        """Log of how likely the residuals are, and the weight of each."""
        alike = _alike(self.shapes, self.shapes, reach)
        kernel = OFFSET**2 * (alike == 1) + alike * shared + NOISE**2 * np.eye(len(alike))
        lower = np.linalg.cholesky(kernel)
        half = np.linalg.solve(lower, self.residual)
        return float(-half @ half / 2 - np.log(np.diag(lower)).sum()), np.linalg.solve(lower.T, half)


def _alike(a: FloatArray, b: FloatArray, reach: float) -> FloatArray:
    """How alike shapes (a row of m, n, k each) of one alignment are, from 0 to 1 for the same."""
    square = _square(a, b)
    return np.where(square == 0, 1.0, SHARED_PART * np.exp(-square / (2 * reach**2)) if reach else 0.0)


def _square(a: FloatArray, b: FloatArray) -> FloatArray:
    """Square of the distance of shapes, in doublings of a size."""
    return np.asarray(((np.log2(a)[:, None, :] - np.log2(b)[None, :, :]) ** 2).sum(2))


def _aligned(shapes: FloatArray) -> IntArray:
    n, k = shapes[:, 1].astype(np.int64), shapes[:, 2].astype(np.int64)
    return np.asarray(np.gcd(np.gcd(n, k), ALIGNED), np.int64)
