"""A curve of a sweep, predicted: a point a size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """The fastest configuration of a curve at one size. Seconds of one launch, bytes read and written.

    memory_share: A and B read once and C written once, over the time, of the memory's bandwidth. waves: of the model.
    basis: fitted, extrapolated or defaults.
    """

    size: int
    family: str
    config: str
    time_s: float
    low_s: float
    high_s: float
    flops_per_s: float
    memory_share: float
    dram_bytes: float
    waves: int
    blocks_per_sm: int
    bound_by: str
    basis: str


@dataclass(frozen=True)
class Line:
    """One curve of one product on one GPU. alone: of one configuration; missing: sizes that cannot launch, and why."""

    gpu: str
    product: str
    curve: str
    dtype: str
    alone: bool
    points: tuple[Point, ...]
    missing: tuple[int, ...] = ()
    reason: str = ""

    def at(self, size: int) -> Point | None:
        """The point of a size; None where there is none."""
        return next((point for point in self.points if point.size == size), None)
