"""Run a study: the best configurations of every GEMM on every GPU, what the newer card buys, and the recorded rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.model.predict import Prediction, predict
from gemmsim.ranking import TIE
from gemmsim.study.base import Progress
from gemmsim.study.picks.plan import PicksStudy
from gemmsim.study.picks.speedup import Speedup, speedups
from gemmsim.study.picks.terms import pick_parts
from gemmsim.study.recorded import Recorded, basis_of, recorded_rows
from gemmsim.study.timed import Timed, Timings
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
    parameters: Mapping[str, int]

    @property
    def basis(self) -> str:
        """Where the coefficients come from: fitted, extrapolated (fitted, asked outside their range) or defaults."""
        return basis_of(self.calibration, self.extrapolated)


@dataclass(frozen=True)
class Outcome:
    """What a study found."""

    study: PicksStudy
    candidates: tuple[Candidate, ...]
    speedups: tuple[Speedup, ...]
    recorded: tuple[Recorded, ...]  # rows that ship
    parts: tuple[Mapping[str, float], ...]  # of each pick: seconds by term
    timings: Timings | None = None  # what was timed for it, failures too
    timed: tuple[Timed, ...] = ()  # of them what ran

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
    for gain in speedups(study):
        gains.append(gain)
        progress(1)
    rows = [] if study.measure == "none" else recorded_rows(study.gpus, lambda *kernel: kernel in study.kernels)
    progress(1)
    parts = pick_parts(study, [c for c in candidates if c.rank == 1])
    progress(1)
    return Outcome(study, tuple(candidates), tuple(gains), tuple(rows), tuple(parts))


def shortlist(study: PicksStudy, gpu: Gpu, work: Work, dtype: str) -> list[Candidate]:
    """The fastest `top` configurations of one GEMM, all families together."""
    found: list[tuple[float, str, int]] = []
    searched, why = 0, ""
    for family in [f for f, d in study.kernels if d == dtype]:
        p = _predict(study, gpu, work, dtype, family, study.spaces[family])
        searched += int(p.feasible.sum())
        why = why or next(filter(None, p.reasons), "") if not searched else ""
        order = np.argsort(p.time_s, kind="stable")[: study.top]
        found += [(float(p.time_s[i]), family, int(i)) for i in order if p.feasible[i]]
    if not found:
        raise GemmsimError(
            f"no configuration of {', '.join(study.spaces)} fits GEMM {work.name} "
            f"({work.m} x {work.n} x {work.k}) on {gpu.name}: {why}"
        )
    best = sorted(found)[: study.top]
    return list(_described(study, gpu, work, dtype, best, searched))


def _described(
    study: PicksStudy, gpu: Gpu, work: Work, dtype: str, best: list[tuple[float, str, int]], searched: int
) -> Iterator[Candidate]:
    times = [time_s for time_s, _, _ in best]
    tied = [sum(abs(t / time_s - 1) < TIE for t in times) > 1 for time_s in times]
    said = {
        family: _predict(study, gpu, work, dtype, family, study.spaces[family].take(np.asarray(places)), terms=True)
        for family, places in _places(best).items()
    }
    peak, seen = gpu.peak_flops(dtype), Counter[str]()
    for rank, (_, family, _) in enumerate(best, 1):
        p, i = said[family], seen[family]
        seen[family] += 1
        rate, parameters = float(p.tflops[i]) * 1e12, p.config.row(i)
        yield Candidate(
            work.variant, work.name, work.m, work.n, work.k, work.count, gpu.name, dtype, rank, family,
            config_key(parameters), float(p.time_s[i]), rate, rate / peak if peak else float("nan"),
            p.bound_by[i], int(p.blocks_per_sm[i]), float(p.waves[i]),
            float(p.dram_read_bytes[i] + p.dram_write_bytes[i]), p.calibration.name, bool(p.extrapolated[i]),
            tied[rank - 1], searched, parameters,
        )  # fmt: skip


def _places(best: list[tuple[float, str, int]]) -> dict[str, list[int]]:
    """Family -> the places of its configurations, in order of rank."""
    found: dict[str, list[int]] = {}
    for _, family, place in best:
        found.setdefault(family, []).append(place)
    return found


def _predict(
    study: PicksStudy, gpu: Gpu, work: Work, dtype: str, family: str, config: Config, terms: bool = False
) -> Prediction:
    return predict(work.m, work.n, work.k, gpu=gpu, dtype=dtype, family=family, config=config, l2=study.l2, terms=terms)
