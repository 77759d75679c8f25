"""Why the newer card is faster: what it would lose with one of its figures taken from the older one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gemmsim.comparison import with_group
from gemmsim.hardware import Gpu
from gemmsim.model.predict import predict
from gemmsim.study.picks.plan import PicksStudy
from gemmsim.study.recorded import DEFAULTS, FITTED
from gemmsim.study.workload import Work

#: a figure whose loss costs less than this is no reason
LEAST_GAIN = 1.02


@dataclass(frozen=True)
class Speedup:
    """One pass of a variant on two GPUs, each with its own best tiles, both with coefficients of the same kind."""

    variant: str
    dtype: str
    new: str
    old: str
    new_s: float
    old_s: float
    basis: str  # FITTED or DEFAULTS
    factors: Mapping[str, float]  # figure -> how many times longer the newer takes with the older's

    @property
    def ratio(self) -> float:
        """Older over newer time."""
        return self.old_s / self.new_s

    @property
    def reason(self) -> str:
        """The figures that matter, largest first."""
        gains = sorted(((f, name) for name, f in self.factors.items() if f >= LEAST_GAIN), reverse=True)
        return ", ".join(f"{name} {f:.2f}x" for f, name in gains) or "no figure that matters here differs"


#: groups of figures that are taken from the older card one at a time
FIGURES = ("memory bandwidth", "L2", "SMs", "clock", "math rate per SM")


def speedups(study: PicksStudy, best_s: Callable[[Gpu, Work, str, str], float]) -> Iterator[Speedup]:
    """Each GPU against the one named before it, a variant and dtype at a time.

    best_s(gpu, work, dtype, basis) is the time of the best configuration.
    """
    for old, new in zip(study.gpus, study.gpus[1:], strict=False):
        for dtype in study.dtypes:
            kind = basis(study, dtype, new, old)
            for variant in study.variants:
                yield _speedup(study, variant, dtype, new, old, kind, best_s)


def _speedup(
    study: PicksStudy, variant: str, dtype: str, new: Gpu, old: Gpu, kind: str,
    best_s: Callable[[Gpu, Work, str, str], float],
) -> Speedup:  # fmt: skip
    works = [work for work in study.works if work.variant == variant]

    def total(gpu: Gpu) -> float:
        return sum(work.count * best_s(gpu, work, dtype, kind) for work in works)

    new_s = total(new)
    swapped = {name: with_group(new, old, name) for name in FIGURES}
    factors = {name: total(gpu) / new_s if gpu != new else 1.0 for name, gpu in swapped.items()}
    return Speedup(variant, dtype, new.name, old.name, new_s, total(old), kind, factors)


def basis(study: PicksStudy, dtype: str, new: Gpu, old: Gpu) -> str:
    """FITTED only where both are: fitted coefficients against defaults would compare fits, not chips."""
    for family in [f for f, d in study.kernels if d == dtype]:
        for gpu in (new, old):
            if not predict(1, 1, 1, gpu=gpu, dtype=dtype, family=family).calibration.fitted:
                return DEFAULTS
    return FITTED


def best_time(study: PicksStudy, gpu: Gpu, work: Work, dtype: str, basis: str) -> float:
    """Seconds of the fastest configuration of any family."""
    times = []
    for family in [f for f, d in study.kernels if d == dtype]:
        p = predict(
            work.m, work.n, work.k, gpu=gpu, dtype=dtype, family=family, config=study.spaces[family], l2=study.l2,
            calibrated="auto" if basis == FITTED else "none",
        )  # fmt: skip
        times.append(p.time_s[p.feasible])
    return float(min((t.min() for t in times if len(t)), default=np.nan))
