"""Wave edges: sizes from which the baseline needs a further wave, and what a schedule of its blocks says there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gemmsim.model.predict import predict
from gemmsim.simulate.schedule import schedule
from gemmsim.study.sweep.line import Line, Point
from gemmsim.study.sweep.plan import SweepStudy

#: launches beside edges that are scheduled block by block, on a GPU and product
MOST_SCHEDULED = 64


@dataclass(frozen=True)
class Scheduled:
    """A launch placed block by block: waves that the busiest slot has, and the makespan."""

    waves: int
    time_s: float


@dataclass(frozen=True)
class Edge:
    """Two neighbouring sizes, of which the second takes more waves, by the closed form.

    again: the first size after it at which the rate is what it was before, None if past the last; scheduled: both
    launches block by block, None where they were not placed; others: curve -> its point at the second size.
    """

    gpu: str
    product: str
    before: Point
    after: Point
    again: int | None
    scheduled: tuple[Scheduled, Scheduled] | None
    others: dict[str, Point]

    @property
    def drop(self) -> float:
        """How much of the rate is lost from one size to the next."""
        return 1 - self.after.flops_per_s / self.before.flops_per_s

    def back(self, curve: str) -> float | None:
        """How much faster another curve is just past the edge; None where it has no point."""
        point = self.others.get(curve)
        return None if point is None else point.flops_per_s / self.after.flops_per_s - 1


def edges(study: SweepStudy, lines: Sequence[Line]) -> Iterator[Edge]:
    """The wave edges of the baseline; none where it is not one configuration, whose waves alone mean something."""
    for line in lines:
        if line.curve == study.baseline and line.alone:
            others = [x for x in lines if (x.gpu, x.product) == (line.gpu, line.product) and x is not line]
            yield from _of_line(study, line, others)


def _of_line(study: SweepStudy, line: Line, others: Sequence[Line]) -> Iterator[Edge]:
    pairs = [(a, b) for a, b in pairwise(line.points) if b.waves > a.waves]
    placed = _scheduled(study, line, [point.size for pair in pairs for point in pair][:MOST_SCHEDULED])
    for before, after in pairs:
        again = (x.size for x in line.points if x.size > after.size and x.flops_per_s >= before.flops_per_s)
        both = (placed.get(before.size), placed.get(after.size))
        there = {x.curve: point for x in others if (point := x.at(after.size)) is not None}
        known = (both[0], both[1]) if both[0] is not None and both[1] is not None else None
        yield Edge(line.gpu, line.product, before, after, next(again, None), known, there)


def _scheduled(study: SweepStudy, line: Line, sizes: Sequence[int]) -> dict[int, Scheduled]:
    """Size -> the baseline's launch block by block, where it can be placed."""
    if not sizes:
        return {}
    gpu = next(gpu for gpu in study.gpus if gpu.name == line.gpu)
    product = next(product for product in study.products if product.name == line.product)
    curve = study.curve(line.curve)
    q, config = product.sized(study.vary, sizes, curve.dtype), curve.kernels[0].config
    p = predict(q.m, q.n, q.k, gpu=gpu, dtype=q.dtype, family=config.family,
                config=config.take(np.zeros(len(sizes), np.intp)), l2=study.l2)  # fmt: skip
    found = {size: schedule(p, i) for i, size in enumerate(sizes)}
    return {size: Scheduled(x.waves, x.makespan_s) for size, x in found.items() if x.simulated}
