"""What measured times say of others: Gaussian-process regression of log(measured / predicted).

The kernel has parts: how far the model is off on the whole, and on each family where there are several; the slope of
the residuals against log predicted, by which a model that is wrong is unlearnt (at -1 its times count for nothing);
what configurations of the same block and thread tile share; what those with near parameters share. How large these two
are, and how far near reaches, is the likeliest of a few combinations, and the slope is let go only on strong evidence.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from gemmsim.problem import FloatArray
from gemmsim.search.space import Index, Space

#: standard deviation of the common offset, in log time: coefficients of another GPU may be off by as much
OFFSET = 1.0
#: standard deviation of a family's own offset, where a space has several
FAMILY = 0.3
#: standard deviation of the slope -> the log of how likely it is beforehand: most models order configurations well
SLOPES = {0.1: 0.0, 1.0: -4.0}
#: standard deviations tried of the residuals that configurations share
SCALES = (0.05, 0.15, 0.5)
#: distances tried over which parameters matter alike, where 1 is from the least value of a parameter to its largest
LENGTHS = (0.3, 1.0)
#: part of the shared residual that belongs to the tile, the rest to near parameters
TILE_PART = 0.4
#: a time measured again differs by this much (NOISE_FLOOR's order)
NOISE = 0.005
#: so many measured configurations at most, the fastest, are regressed on: cost grows with the cube
MOST = 64


@dataclass(frozen=True)
class Corrected:
    """log time, s: mean and standard deviation, an entry a configuration asked for."""

    mean: FloatArray
    deviation: FloatArray


def corrected(space: Space, measured: Index, time_s: FloatArray, asked: Index) -> Corrected:
    """log time of the configurations at `asked`, from the model's and from those measured at other positions, s."""
    kept = np.argsort(time_s, kind="stable")[:MOST]
    measured, log_s = measured[kept], np.log(time_s[kept])
    inner, cross = _Parts(space, measured, measured), _Parts(space, asked, measured)
    residual = log_s - np.log(space.predicted_s[measured])
    scales = itertools.product(SLOPES, SCALES, LENGTHS)
    likeliest = max((_Fitted(inner, residual, *scale) for scale in scales), key=lambda f: f.likelihood)
    mean, deviation = likeliest.at(cross)
    return Corrected(np.log(space.predicted_s[asked]) + mean, deviation)


class Alike:
    """How much of their residuals configurations at a and at b share, from 0 to 1 for the same."""

    def __init__(self, space: Space, a: Index, b: Index) -> None:
        self._tile = TILE_PART * (space.tiles[a][:, None] == space.tiles[b][None, :])
        x, y = space.features[a], space.features[b]
        self._square = np.maximum((x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2 * x @ y.T, 0)

    def at(self, length: float) -> FloatArray:
        """A row a configuration at a, a column one at b; length: how far near reaches."""
        return np.asarray(self._tile + (1 - TILE_PART) * np.exp(-self._square / (2 * length**2)))


def levels(space: Space, a: Index, b: Index) -> FloatArray:
    """Variance that configurations at a and at b share by their family; none where there is one family only."""
    if len(space.parts) == 1:
        return np.zeros((1, 1))
    return np.asarray(FAMILY**2 * (space.part[a][:, None] == space.part[b][None, :]))


class _Parts:
    """Parts of the kernel between configurations at a and at b, before they are scaled."""

    def __init__(self, space: Space, a: Index, b: Index) -> None:
        log_a, log_b = np.log(space.predicted_s[a]), np.log(space.predicted_s[b])
        self.above = log_a - log_b.mean()
        self.slope = np.outer(self.above, log_b - log_b.mean())
        self.alike, self.levels = Alike(space, a, b), levels(space, a, b)
        self.level = FAMILY**2 * (len(space.parts) > 1)


class _Fitted:
    """The regression with one combination of scales, and the log of how likely it is."""

    def __init__(self, inner: _Parts, residual: FloatArray, slope: float, scale: float, length: float) -> None:
        self._slope, self._scale, self._length = slope, scale, length
        self._residual, self._inner = residual, self._kernel(inner) + NOISE**2 * np.eye(len(residual))
        lower = np.linalg.cholesky(self._inner)
        half = np.linalg.solve(lower, residual)
        self.likelihood = float(-half @ half / 2 - np.log(np.diag(lower)).sum()) + SLOPES[slope]

    def _kernel(self, parts: _Parts) -> FloatArray:
        shared = self._scale**2 * parts.alike.at(self._length)
        return np.asarray(OFFSET**2 + parts.levels + self._slope**2 * parts.slope + shared)

    def at(self, cross: _Parts) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the residual at the configurations that `cross` relates to the measured."""
        kernel, inverse = self._kernel(cross), np.linalg.inv(self._inner)
        prior = OFFSET**2 + cross.level + self._slope**2 * cross.above**2 + self._scale**2
        variance = prior - (kernel @ inverse * kernel).sum(1)
        return kernel @ (inverse @ self._residual), np.sqrt(np.maximum(variance, NOISE**2))
