"""What searches of other shapes say of the model on this one: Gaussian-process regression across shapes.

A configuration's residual, log(measured / predicted) less what a shape's residuals have in common, is shared by shapes
as far as they are alike: by the distance of the logs of their sizes. How much is shared, and with which shapes, is the
likeliest of a few combinations given the trials of the other shapes themselves, nothing at all being one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from gemmsim.problem import FloatArray
from gemmsim.search.residual import NOISE, OFFSET, shared
from gemmsim.search.space import Candidate, Index, Space
from gemmsim.search.trials import Trials

Shape = tuple[int, int, int]
#: trials of a shape that are regressed on, its fastest, and of all shapes, the nearest: cost grows with the cube
MOST, MOST_IN_ALL = 64, 512
#: standard deviations tried of the residuals
SCALES = (0.05, 0.15)
#: distances tried over which parameters matter alike, as in gemmsim.search.residual
LENGTHS = (0.3, 1.0)
#: doublings of a size over which what is shared falls to 0.6 of it; 0: shapes share nothing
REACHES = (0.0, 1.0, 4.0)
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
    """What the trials of some shapes said, an entry a shape."""

    said: Sequence[Said] = ()

    def correction(self, space: Space) -> FloatArray:
        """log of the factor by which the model's time is off, as other shapes say, an entry a configuration."""
        others = [s for s in self.said if s.shape != space.shape and len(s.residual)]
        found = _Observed.of(space, sorted(others, key=lambda s: float(_far(s.shape, space.shape))))
        return np.zeros(len(space)) if found is None else found.correction()


def learnt(searches: Iterable[tuple[Space, Sequence[FrozenTrial]]]) -> Learnt:
    """What searches said: each a space and its study's trials; only trials with a time count."""
    return Learnt([_said(space, trials) for space, trials in searches])


def _said(space: Space, trials: Sequence[FrozenTrial]) -> Said:
    places, time_s = Trials(space).known([t for t in trials if t.state == TrialState.COMPLETE])
    fastest = np.argsort(time_s, kind="stable")[:MOST]
    places, time_s = places[fastest], time_s[fastest]
    return Said(space.shape, [space.candidate(int(p)) for p in places], np.log(time_s / space.predicted_s[places]))


def _far(a: Shape, b: Shape) -> FloatArray:
    """Square of the distance of two shapes, in doublings of a size."""
    return np.asarray(((np.log2(a) - np.log2(b)) ** 2).sum())


@dataclass(frozen=True)
class _Observed:
    """Trials of other shapes whose configurations the space has, a row a trial."""

    space: Space
    places: Index
    residual: FloatArray
    shapes: FloatArray  # log2 of m, n, k

    @classmethod
    def of(cls, space: Space, said: Sequence[Said]) -> _Observed | None:
        rows = [
            (place, residual, np.log2(s.shape))
            for s in said for candidate, residual in zip(s.candidates, s.residual, strict=True)
            if (place := space.place_of(candidate)) is not None
        ][:MOST_IN_ALL]  # fmt: skip
        if not rows:
            return None
        places, residual, shapes = zip(*rows, strict=True)
        return cls(space, np.asarray(places, np.intp), np.asarray(residual), np.stack(shapes))

    def correction(self) -> FloatArray:
        """The mean that the likeliest combination gives, of every configuration."""
        scale, length, reach = max(itertools.product(SCALES, LENGTHS, REACHES), key=lambda c: self._solved(*c)[0])
        if not reach:
            return np.zeros(len(self.space))
        weights = self._solved(scale, length, reach)[1] * scale**2 * _alike(self._own, self.shapes, reach)[0]
        chunks = np.array_split(np.arange(len(self.space)), -(-len(self.space) // CHUNK))
        return np.concatenate([shared(self.space, chunk, self.places, length) @ weights for chunk in chunks])

    @property
    def _own(self) -> FloatArray:
        return np.log2(self.space.shape)[None, :]

    def _solved(self, scale: float, length: float, reach: float) -> tuple[float, FloatArray]:
        """Log of how likely the residuals are, and the weight of each."""
        alike = _alike(self.shapes, self.shapes, reach)
        same = (alike == 1).astype(np.float64)
        kernel = OFFSET**2 * same + scale**2 * alike * shared(self.space, self.places, self.places, length)
        lower = np.linalg.cholesky(kernel + NOISE**2 * np.eye(len(kernel)))
        half = np.linalg.solve(lower, self.residual)
        return float(-half @ half / 2 - np.log(np.diag(lower)).sum()), np.linalg.solve(lower.T, half)


def _alike(a: FloatArray, b: FloatArray, reach: float) -> FloatArray:
    """How alike shapes are, from 0 to 1 for the same."""
    square = ((a[:, None, :] - b[None, :, :]) ** 2).sum(2)
    return np.asarray(np.exp(-square / (2 * reach**2)) if reach else square == 0, np.float64)
