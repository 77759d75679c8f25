"""Measured rows that lie on a sweep's lines: of each curve, product and size the fastest that was timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gemmsim.config import config_key
from gemmsim.measured import Measured
from gemmsim.model.predict import predict
from gemmsim.ranking import cublas
from gemmsim.study.sweep.curves import Curve
from gemmsim.study.sweep.line import Line
from gemmsim.study.sweep.plan import Fixed, SweepStudy


@dataclass(frozen=True)
class Timed:
    """The fastest measured row of a curve at one size.

    rows: how many of the curve were timed there; predicted_s: of that very row, with its compiler facts; line_s: of the
    line, which may have another configuration, None where the size is none of the sweep's; cublas_s: recorded in the
    same L2 condition, None where it is not.
    """

    gpu: str
    product: str
    curve: str
    file: str
    size: int
    family: str
    config: str
    rows: int
    time_s: float
    flops_per_s: float
    memory_share: float
    predicted_s: float
    line_s: float | None
    cublas_s: float | None


def timed(study: SweepStudy, lines: Sequence[Line]) -> Iterator[Timed]:
    """What was measured on each line, by size; over several files the fastest."""
    for line in lines:
        product = next(product for product in study.products if product.name == line.product)
        found: dict[int, list[Timed]] = {}
        for file, rows in study.rows:
            for row in _of_file(study, line, product, file, rows):
                found.setdefault(row.size, []).append(row)
        yield from (min(found[size], key=lambda row: row.time_s) for size in sorted(found))


def _of_file(study: SweepStudy, line: Line, product: Fixed, file: str, rows: Measured) -> Iterator[Timed]:
    """The fastest row of each size in one file."""
    if rows.gpu.name != line.gpu or rows.problem.dtype != line.dtype or rows.problem.beyond_plain:
        return
    here = _on_line(study, study.curve(line.curve), product, rows)
    sizes = getattr(rows.problem, study.vary)
    for size in np.unique(sizes[here]).tolist():
        same = np.flatnonzero(here & (sizes == size))
        best = rows.take(same[[np.argmin(rows.time_s[same])]])
        yield _timed(study, line, file, size, best, len(same))


def _on_line(study: SweepStudy, curve: Curve, product: Fixed, rows: Measured) -> np.ndarray:
    """Rows of the product, between the first size and the last, in a configuration of the curve."""
    q = rows.problem
    here = np.logical_or.reduce([kernel.admits(rows.config) for kernel in curve.kernels])
    for side, size in product.sides:
        here &= getattr(q, side) == size
    sizes = getattr(q, study.vary)
    return np.asarray(here & (sizes >= study.sizes[0]) & (sizes <= study.sizes[-1]))


def _timed(study: SweepStudy, line: Line, file: str, size: int, row: Measured, count: int) -> Timed:
    q, time_s, point = row.problem, float(row.time_s[0]), line.at(size)
    p = predict(q.m, q.n, q.k, gpu=row.gpu, dtype=q.form, family=row.config.family, config=row.config, facts=row.facts,
                l2=row.l2)  # fmt: skip
    library = cublas(line.gpu, line.dtype, int(q.m[0]), int(q.n[0]), int(q.k[0]), row.l2)
    share = float(q.compulsory_bytes[0]) / time_s / row.gpu.dram_bytes_per_s
    return Timed(
        gpu=line.gpu, product=line.product, curve=line.curve, file=file, size=size, family=row.config.family,
        config=config_key(row.config.row(0)), rows=count, time_s=time_s, flops_per_s=float(q.flops[0]) / time_s,
        memory_share=share, predicted_s=float(p.time_s[0]), line_s=None if point is None else point.time_s,
        cublas_s=library.time_s if library is not None and library.l2 == row.l2 else None,
    )  # fmt: skip
