"""Run a sweep: every curve predicted at every size, the wave edges of the baseline, the measured rows beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gemmsim.config import config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.model.predict import Prediction, predict
from gemmsim.problem import Gemm
from gemmsim.study.base import Progress
from gemmsim.study.recorded import basis_of
from gemmsim.study.sweep.curves import Curve, Kernel
from gemmsim.study.sweep.edges import Edge, edges
from gemmsim.study.sweep.line import Line, Point
from gemmsim.study.sweep.plan import Fixed, SweepStudy
from gemmsim.study.sweep.timed import Timed, timed

#: predictions made at once
MOST_AT_ONCE = 250_000


@dataclass(frozen=True)
class Outcome:
    """What a sweep found. absent: lines of curves that can launch at no size."""

    study: SweepStudy
    lines: tuple[Line, ...]
    edges: tuple[Edge, ...]
    timed: tuple[Timed, ...]
    absent: tuple[Line, ...] = ()

    def line(self, gpu: str, product: str, curve: str) -> Line | None:
        """The line of these names; None where no configuration of the curve can launch on that GPU."""
        names = (gpu, product, curve)
        return next((x for x in self.lines if (x.gpu, x.product, x.curve) == names), None)


def run(study: SweepStudy, progress: Progress) -> Outcome:
    """Predict everything that the study asks for. Raises GemmsimError where no curve can launch on a GPU."""
    lines: list[Line] = []
    absent: list[Line] = []
    for gpu in study.gpus:
        here: list[Line] = []
        for curve in study.curves:
            here += _lines(study, gpu, curve)
            progress(1)
        if not any(line.points for line in here):
            raise GemmsimError(f"curves: none can launch on {gpu.name}: {next(x.reason for x in here)}")
        lines += [line for line in here if line.points]
        absent += [line for line in here if not line.points]
    found = Outcome(study, tuple(lines), tuple(edges(study, lines)), tuple(timed(study, lines)), tuple(absent))
    progress(1)
    return found


def _lines(study: SweepStudy, gpu: Gpu, curve: Curve) -> Iterator[Line]:
    """A curve on a GPU, a line a product."""
    for product in study.products:
        problem = product.sized(study.vary, study.sizes, curve.dtype)
        answers = [_fastest(kernel, problem, gpu, study.l2) for kernel in curve.kernels]
        times = np.stack([np.where(p.feasible, p.time_s, np.inf) for p in answers])
        best = times.argmin(axis=0)
        columns = [_points(p, study) for p in answers]
        chosen = [columns[which][i] for i, which in enumerate(best.tolist())]
        points = tuple(point for point in chosen if point is not None)
        yield _line(study, gpu, curve, product, points, answers)


def _line(
    study: SweepStudy, gpu: Gpu, curve: Curve, product: Fixed, points: tuple[Point, ...], answers: Sequence[Prediction]
) -> Line:
    known = {point.size for point in points}
    missing = tuple(size for size in study.sizes if size not in known)
    reason = answers[0].reasons[study.sizes.index(missing[0])] if missing else ""
    return Line(gpu.name, product.name, curve.name, curve.dtype, curve.alone, points, missing, reason)


def _fastest(kernel: Kernel, problem: Gemm, gpu: Gpu, l2: str) -> Prediction:
    """For each problem the fastest of the kernel's configurations, with its terms; the first where none can launch."""
    count, cases = len(kernel.config), len(problem)
    best = np.zeros(cases, np.intp)
    at_once = max(1, MOST_AT_ONCE // count)
    for start in range(0, cases if count > 1 else 0, at_once):
        rows = np.arange(start, min(cases, start + at_once))
        some, every = problem.take(np.repeat(rows, count)), kernel.config.take(np.tile(np.arange(count), len(rows)))
        p = predict(some.m, some.n, some.k, gpu=gpu, dtype=problem.dtype, family=every.family, config=every, l2=l2)
        best[rows] = np.where(p.feasible, p.time_s, np.inf).reshape(len(rows), count).argmin(axis=1)
    return predict(
        problem.m, problem.n, problem.k, gpu=gpu, dtype=problem.dtype, family=kernel.config.family,
        config=kernel.config.take(best), l2=l2, terms=True,
    )  # fmt: skip


def _points(p: Prediction, study: SweepStudy) -> list[Point | None]:
    """A point a row, None for one that cannot launch."""
    sizes, bounds, low, high = getattr(p.problem, study.vary).tolist(), p.bound_by, *p.interval_s
    share = p.problem.compulsory_bytes / p.time_s / p.gpu.dram_bytes_per_s
    beyond = p.extrapolated
    return [
        Point(
            size=size, family=p.config.family, config=config_key(p.config.row(i)), time_s=float(p.time_s[i]),
            low_s=float(low[i]), high_s=float(high[i]), flops_per_s=1e12 * float(p.tflops[i]),
            memory_share=float(share[i]), dram_bytes=float(p.dram_read_bytes[i] + p.dram_write_bytes[i]),
            waves=int(p.waves[i]), blocks_per_sm=int(p.blocks_per_sm[i]), bound_by=bounds[i],
            basis=basis_of(p.calibration.name, bool(beyond[i])),
        ) if p.feasible[i] else None
        for i, size in enumerate(sizes)
    ]  # fmt: skip
