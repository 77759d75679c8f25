"""What the time hangs on: by how many per cent it changes with one per cent more of each figure of the GPU's file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, log

from gemmsim.comparison.cost import Card, Trial
from gemmsim.hwfields import Quantity
from gemmsim.whatif import figure_names, figure_value, moved_gpu, quantity

#: a figure is moved by this much to both sides: less would fall between the steps of waves and whole SMs
STEP = 0.05


@dataclass(frozen=True)
class Elasticity:
    """d log time / d log figure, by central differences: -0.5 is 0.5 % less time with 1 % more of the figure.

    What hangs on a figure is moved with it (see gemmsim.whatif.changed_gpu).
    """

    label: str
    figure: str
    value: float
    unit: str
    elasticity: float


def elasticities(card: Card, trial: Trial) -> tuple[Elasticity, ...]:
    """Of each figure that the file gives as a number large enough to be moved, largest first.

    At both sides the best configuration is picked again, from the shortlist at the figure's own value.
    """
    found = []
    for key in figure_names(card.gpu):
        value, q = figure_value(card.gpu, key), quantity(key)
        if value is not None:
            found += [Elasticity(card.label, key, value, q.unit, e) for e in _slope(card, key, value, q, trial)]
    return tuple(sorted(found, key=lambda e: -abs(e.elasticity)))


def _slope(card: Card, key: str, value: float, q: Quantity, trial: Trial) -> Iterator[float]:
    """The elasticity, unless the figure is a small whole number; to one side where the other is out of its range.

    Likewise where nothing of the shortlist can launch on the other side.
    """
    low, high = max(q.low, value * (1 - STEP)), min(q.high, value * (1 + STEP))
    if q.whole:
        low, high = round(low), round(high)
    if not 0 < low <= value <= high or (q.whole and high - low < 2):
        return
    down, up = (trial.time_s(moved_gpu(card.gpu, key, end)) for end in (low, high))
    if not isfinite(down):
        low, down = value, card.time_s
    if not isfinite(up):
        high, up = value, card.time_s
    if low < high:
        yield log(up / down) / log(high / low)
