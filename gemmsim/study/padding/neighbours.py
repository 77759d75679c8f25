"""Recorded problems that lie next to one another: the same configurations, measured on sizes that differ a little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from gemmsim.explanation import PAD
from gemmsim.measured import Measured
from gemmsim.model.predict import predict
from gemmsim.problem import FloatArray

#: sizes that differ by no more in each dimension are neighbours
NEAR = 0.025
#: configurations that both must have rows of
LEAST = 5
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Neighbours:
    """Two problems with rows of the same configurations, the less aligned (else the larger) first.

    Times are those of the fastest of these configurations, of each problem its own.
    """

    gpu: str
    family: str
    dtype: str
    l2: str
    sizes: Sizes
    other: Sizes
    aligned_bytes: tuple[int, int]  # of the row strides of A and B, the least, of each problem
    configurations: int
    measured_s: tuple[float, float]
    predicted_s: tuple[float, float]

    @property
    def measured_gain(self) -> float:
        """Share of the time that the second problem takes less, measured."""
        return 1 - self.measured_s[1] / self.measured_s[0]

    @property
    def predicted_gain(self) -> float:
        """The same, predicted."""
        return 1 - self.predicted_s[1] / self.predicted_s[0]


def neighbours(rows: Measured) -> Iterator[Neighbours]:
    """Every pair among the rows, predicted under their own conditions with their own facts."""
    q = rows.problem
    at: dict[Sizes, dict[int, int]] = {}
    configurations = rows.configurations.tolist()
    for i, mnk in enumerate(zip(q.m.tolist(), q.n.tolist(), q.k.tolist(), strict=True)):
        at.setdefault(mnk, {})[configurations[i]] = i
    pairs = [(a, b) for a, b in permutations(at, 2) if _near(a, b) and _order(rows, a) < _order(rows, b)]
    for a, b in pairs:
        common = sorted(at[a].keys() & at[b].keys())
        if len(common) < LEAST:
            continue
        first, second = (_times(rows.take(np.asarray([at[x][c] for c in common], np.intp))) for x in (a, b))
        yield Neighbours(
            rows.gpu.name, rows.config.family, q.dtype, rows.l2, a, b, (_aligned(rows, a), _aligned(rows, b)),
            len(common), (first[0], second[0]), (first[1], second[1]),
        )  # fmt: skip


def _near(a: Sizes, b: Sizes) -> bool:
    return all(abs(x / y - 1) <= NEAR and abs(y / x - 1) <= NEAR for x, y in zip(a, b, strict=True))


def _order(rows: Measured, sizes: Sizes) -> tuple[int, int, Sizes]:
    """The less aligned first, then the one with more work."""
    return _aligned(rows, sizes), -sizes[0] * sizes[1] * sizes[2], sizes


def _aligned(rows: Measured, sizes: Sizes) -> int:
    """Bytes that the row strides of A (K) and B (N) are both multiples of: a power of two, up to PAD elements."""
    _, n, k = sizes
    return min(min(k & -k, PAD) * rows.problem.a_bytes, min(n & -n, PAD) * rows.problem.b_bytes)


def _times(rows: Measured) -> tuple[float, float]:
    """The fastest measured, and the fastest predicted."""
    return float(rows.time_s.min()), float(np.nanmin(predicted_s(rows)))


def predicted_s(rows: Measured) -> FloatArray:
    """What is predicted of each row, under its own conditions with its own facts; seconds."""
    q = rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.form, family=rows.config.family, config=rows.config,
                facts=rows.facts, l2=rows.l2)  # fmt: skip
    said: FloatArray = p.time_s
    return said
