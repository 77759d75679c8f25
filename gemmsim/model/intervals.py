"""How far a prediction may be off: the 10th and 90th percentile of measured over predicted, for cases of its kind.

Split conformal prediction by class (Mondrian): coefficients are fitted on half of the configurations x half of the
shapes, and the ratios of the other halves, pooled over seeds, give each class its quantiles. They hold for new rows
that are drawn like those (same GPU, kernel and condition); outside the fitted range and without a fit they are widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.model.demand import Case, Demand
from gemmsim.problem import FloatArray, IntArray

LOW, HIGH = 0.1, 0.9
#: kinds of cases, hardest first; a case is of the first that fits
CLASSES = ("unaligned", "spills", "hot_rows", "narrow", "serial", "one_wave", "waves")
#: a class with fewer ratios, or shapes, takes the quantiles of all; of those that are hard, at least UNCALIBRATED's
LEAST_RATIOS, LEAST_SHAPES = 60, 5
HARD = ("unaligned", "spills", "hot_rows", "narrow")
#: outside the fitted range the logarithm of the factors grows by this (rows of new shapes outside the range of the
#: first fit were off by 1.3 to 1.7 times as much as those inside)
EXTRAPOLATED = 1.5
#: 10th and 90th percentile of measured over predicted where nothing was fitted: twice the logarithm of what the
#: physical defaults show on the H200's rows (0.83 to 1.20), where alone they can be compared with anything
UNCALIBRATED = (0.69, 1.44)


@dataclass(frozen=True)
class Spread:
    """Factors from predicted to measured time, by class: (10th, 90th percentile). facts and tile: what was known."""

    facts: Mapping[str, tuple[float, float]]
    tile: Mapping[str, tuple[float, float]]

    def factors(self, kind: IntArray, known: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Low and high factor of each row: its class, and whether compiler facts were known.

        1 always lies between them, also where more than nine in ten of the fitted rows were off to one side.
        """
        tables = [[side[name] for name in CLASSES] for side in (self.tile, self.facts)]
        found = np.asarray(tables, np.float64)[known.astype(np.int64), kind]
        return np.minimum(found[..., 0], 1), np.maximum(found[..., 1], 1)


def classify(x: Case, d: Demand) -> IntArray:
    """Position in CLASSES of each row.

    unaligned: elements loaded one by one; spills: registers spill; hot_rows: a tile four times taller than M, whose few
    rows all blocks ask for; narrow: tile rows of 32 B or copies under 16 B; serial: loads do not overlap math (every
    row of such a family); one_wave: no more blocks than run at once; waves: the rest.
    """
    t = x.traits
    narrow = np.minimum(t.a_row_bytes, t.b_row_bytes) <= 32
    narrow = narrow | (np.minimum(t.a_copy_bytes, t.b_copy_bytes) < 16)
    conditions = [
        t.scalar_loads > 0,
        x.spill_bytes > 0,
        (t.repeats_rows | t.repeats_last | t.fills_edges) & (4 * x.m <= x.bm),
        narrow,
        ~t.asynchronous & (d.units.blocks > x.gpu.sm_count * x.blocks_per_sm),
        d.units.blocks <= x.gpu.sm_count * x.blocks_per_sm,
    ]
    kind = np.full(len(x.m), len(CLASSES) - 1, np.int64)
    for position in reversed(range(len(conditions))):
        kind[np.broadcast_to(conditions[position], kind.shape)] = position
    return kind


def spread_of(ratio: FloatArray, kind: IntArray, shape: IntArray) -> dict[str, tuple[float, float]]:
    """Quantiles of measured over predicted for each class, and what stands in where it has too few ratios or shapes.

    Rows of one shape err together: a class seen on few shapes says little of the next.
    """
    out = {}
    for position, name in enumerate(CLASSES):
        mine = kind == position
        many = int(mine.sum()) >= LEAST_RATIOS
        low, high = _quantiles(ratio[mine] if many else ratio)
        if name in HARD and not (many and len(np.unique(shape[mine])) >= LEAST_SHAPES):
            low, high = min(low, UNCALIBRATED[0]), max(high, UNCALIBRATED[1])
        out[name] = (low, high)
    return out


def _quantiles(ratio: FloatArray) -> tuple[float, float]:
    """The conformal quantiles: of n + 1 values, the new one among them."""
    n = len(ratio)
    low, high = max(0.0, (LOW * (n + 1) - 1) / n), min(1.0, HIGH * (n + 1) / n)
    return float(np.quantile(ratio, low, method="lower")), float(np.quantile(ratio, high, method="higher"))


def uncalibrated() -> Spread:
    """The spread of physical defaults."""
    table = dict.fromkeys(CLASSES, UNCALIBRATED)
    return Spread(table, table)
