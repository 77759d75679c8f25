"""Run a study: the best configurations of every GEMM on every GPU, what the newer card buys, and the recorded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.model.calibration import UNCALIBRATED
from gemmsim.model.predict import Prediction, predict
from gemmsim.ranking import TIE
from gemmsim.study.base import Progress
from gemmsim.study.picks.plan import PicksStudy
from gemmsim.study.picks.speedup import Speedup, best_time, speedups
from gemmsim.study.recorded import DEFAULTS, FITTED, Recorded, recorded_rows
from gemmsim.study.workload import Work


@dataclass(frozen=True)
class Candidate:
    """A configuration in the first few of one GEMM on one GPU; rank 1 is the pick. Seconds and FLOP/s of one launch."""

    variant: str
    gemm: str
    m: int
    n: int
    k: int
    count: int
    gpu: str
    dtype: str
    rank: int
    family: str
    config: str
    time_s: float
    flops_per_s: float
    peak_share: float  # of the dense peak
    bound_by: str
    blocks_per_sm: int
    waves: float
    dram_bytes: float  # read and written
    calibration: str  # the file's name, or `uncalibrated`
    extrapolated: bool
    tied: bool  # with the one before or after it: times within gemmsim.ranking.TIE
    searched: int  # configurations that can launch

    @property
    def basis(self) -> str:
        """Where the coefficients come from: fitted, extrapolated (fitted, asked outside their range) or defaults."""
        if self.calibration == UNCALIBRATED:
            return DEFAULTS
        return "extrapolated" if self.extrapolated else FITTED


@dataclass(frozen=True)
class Outcome:
    """What a study found."""

    study: PicksStudy
    candidates: tuple[Candidate, ...]
    speedups: tuple[Speedup, ...]
    recorded: tuple[Recorded, ...]

    @property
    def picks(self) -> list[Candidate]:
        """The first of each GEMM and GPU."""
        return [c for c in self.candidates if c.rank == 1]


def run(study: PicksStudy, progress: Progress) -> Outcome:
    """Predict everything the study asks for; no GPU needed. Raises GemmsimError where no configuration fits a GPU."""
    candidates: list[Candidate] = []
    for gpu in study.gpus:
        for work in study.works:
            for dtype in study.dtypes:
                candidates += shortlist(study, gpu, work, dtype)
                progress(1)
    gains = []
    for gain in speedups(study, _remembered(study)):
        gains.append(gain)
        progress(1)
    rows = recorded_rows(study.gpus) if study.measure == "recorded" else []
    progress(1)
    return Outcome(study, tuple(candidates), tuple(gains), tuple(rows))


def _remembered(study: PicksStudy) -> Callable[[Gpu, Work, str, str], float]:
    """best_time, each case computed once."""
    known: dict[tuple[int, Work, str, str], float] = {}
    kept: list[Gpu] = []  # keeps the GPUs alive, so that their ids stay theirs

    def best_s(gpu: Gpu, work: Work, dtype: str, basis: str) -> float:
        key = (id(gpu), work, dtype, basis)
        if key not in known:
            kept.append(gpu)
            known[key] = best_time(study, gpu, work, dtype, basis)
        return known[key]

    return best_s


def shortlist(study: PicksStudy, gpu: Gpu, work: Work, dtype: str) -> list[Candidate]:
    """The fastest `top` configurations of one GEMM, all families together."""
    found: list[tuple[float, str, int]] = []
    searched = 0
    for family in [f for f, d in study.kernels if d == dtype]:
        p = _predict(study, gpu, work, dtype, family, study.spaces[family])
        searched += int(p.feasible.sum())
        order = np.argsort(p.time_s, kind="stable")[: study.top]
        found += [(float(p.time_s[i]), family, int(i)) for i in order if p.feasible[i]]
    if not found:
        raise GemmsimError(
            f"no configuration of {', '.join(study.spaces)} fits GEMM {work.name} "
            f"({work.m} x {work.n} x {work.k}) on {gpu.name}"
        )
    best = sorted(found)[: study.top]
    return list(_described(study, gpu, work, dtype, best, searched))


def _described(
    study: PicksStudy, gpu: Gpu, work: Work, dtype: str, best: list[tuple[float, str, int]], searched: int
) -> Iterator[Candidate]:
    times = [time_s for time_s, _, _ in best]
    for rank, (time_s, family, i) in enumerate(best, 1):
        tied = sum(abs(t / time_s - 1) < TIE for t in times) > 1
        config = study.spaces[family].take(np.asarray([i]))
        p = _predict(study, gpu, work, dtype, family, config, terms=True)
        rate, peak = float(p.tflops[0]) * 1e12, gpu.peak_flops(dtype)
        yield Candidate(
            work.variant, work.name, work.m, work.n, work.k, work.count, gpu.name, dtype, rank, family,
            config_key(config.row(0)), float(p.time_s[0]), rate, rate / peak if peak else float("nan"),
            p.bound_by[0], int(p.blocks_per_sm[0]), float(p.waves[0]),
            float(p.dram_read_bytes[0] + p.dram_write_bytes[0]), p.calibration.name, bool(p.extrapolated[0]), tied,
            searched,
        )  # fmt: skip


def _predict(
    study: PicksStudy, gpu: Gpu, work: Work, dtype: str, family: str, config: Config, terms: bool = False
) -> Prediction:
    return predict(work.m, work.n, work.k, gpu=gpu, dtype=dtype, family=family, config=config, l2=study.l2, terms=terms)
