"""What a study of heat maps finds: the best of every cell, predicted and measured, and one configuration for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gemmsim.config import Config, config_key
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured
from gemmsim.model.calibration import UNCALIBRATED
from gemmsim.model.predict import Prediction, predict
from gemmsim.problem import FloatArray
from gemmsim.study.base import Progress
from gemmsim.study.heatmap.plan import HeatmapStudy
from gemmsim.study.recorded import DEFAULTS, FITTED, basis_of
from gemmsim.study.workload import Work

#: combinations of the other parameters that are tried where the family's space has none for a cell
TRIED = 60
#: a cell that loses no more on the best is as good as it
NEAR = 0.05
Place = tuple[int, int]  # x, y
Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Cell:
    """The fastest of a cell's configurations. time_s is NaN where none can launch, and reason says why."""

    x: int
    y: int
    configurations: int  # that can launch
    time_s: float
    key: str
    bound_by: str
    extrapolated: bool
    reason: str

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.x, self.y


@dataclass(frozen=True)
class Heatmap:
    """One GEMM on one GPU with one kernel, every cell of the plane."""

    work: Work
    gpu: str
    family: str
    dtype: str
    peak_flops: float | None
    calibration: str
    cells: tuple[Cell, ...]

    @property
    def kernel(self) -> tuple[str, str, str]:
        """GPU, family and dtype."""
        return self.gpu, self.family, self.dtype

    @cached_property
    def launching(self) -> dict[Place, Cell]:
        """The cells in which something can launch, fastest first."""
        there = sorted((c for c in self.cells if not c.reason), key=lambda c: c.time_s)
        return {c.place: c for c in there}

    @property
    def best(self) -> Cell | None:
        """The fastest cell, None where nothing can launch."""
        return next(iter(self.launching.values()), None)

    def loss(self, place: Place) -> float:
        """How much longer the cell's best takes than the map's: 0.05 is 5 %; infinite where none can launch."""
        best, here = self.best, self.launching.get(place)
        return here.time_s / best.time_s - 1 if best and here else float("inf")

    @property
    def near(self) -> int:
        """Cells that lose NEAR at most."""
        return sum(self.loss(place) <= NEAR for place in self.launching)

    @property
    def basis(self) -> str:
        """Where the coefficients come from: fitted, extrapolated (fitted, asked outside their range) or defaults."""
        return basis_of(self.calibration, self.best is not None and self.best.extrapolated)


@dataclass(frozen=True)
class MeasuredCell:
    """The fastest of a cell's measured rows, and of the same rows the fastest predicted and what it took."""

    x: int
    y: int
    rows: int
    measured_s: float
    key: str
    predicted_s: float
    picked_key: str
    picked_s: float  # measured, of the fastest predicted


@dataclass(frozen=True)
class MeasuredMap:
    """The measured rows of one GEMM, GPU and kernel, cell by cell, predicted under their own conditions."""

    work: Work
    gpu: str
    family: str
    dtype: str
    rows: int
    cells: tuple[MeasuredCell, ...]

    @property
    def kernel(self) -> tuple[str, str, str]:
        """GPU, family and dtype."""
        return self.gpu, self.family, self.dtype


@dataclass(frozen=True)
class Fixed:
    """The one configuration of a kernel that loses least in its worst GEMM."""

    gpu: str
    family: str
    dtype: str
    place: Place
    key: str
    losses: tuple[float, ...]  # a GEMM: how much longer than the GEMM's own best


@dataclass(frozen=True)
class Move:
    """The best cell of one GEMM and kernel on each GPU that can launch it, all with coefficients of the same kind."""

    work: Work
    family: str
    dtype: str
    basis: str
    best: dict[str, Place]  # GPU -> its best cell
    losses: dict[tuple[str, str], float]  # (from, to): the first GPU's best cell on the second, how much longer


@dataclass(frozen=True)
class Outcome:
    """What a study of heat maps found. elsewhere: L2 conditions of rows that are of another one than the study's."""

    study: HeatmapStudy
    maps: tuple[Heatmap, ...]
    measured: tuple[MeasuredMap, ...]
    fixed: tuple[Fixed, ...]
    moves: tuple[Move, ...]
    elsewhere: tuple[str, ...]


def run(study: HeatmapStudy, progress: Progress) -> Outcome:
    """Predict every map. Needs no GPU."""
    maps: list[Heatmap] = []
    fixed: list[Fixed] = []
    for gpu in study.gpus:
        for family, dtype in study.kernels:
            predictions = []
            for work in study.works:
                p = _predict(study, gpu, work, dtype, family)
                maps.append(_map(study, gpu, work, p))
                predictions.append(p)
                progress(1)
            fixed += _fixed(study, predictions)
    moves = [move for kernel in study.kernels for work in study.works for move in _moves(study, work, *kernel, maps)]
    measured = [found for rows in study.rows for found in _measured(study, rows)]
    elsewhere = dict.fromkeys(f"{r.config.family} {r.l2}" for r in study.rows if r.l2 != study.l2)
    return Outcome(study, tuple(maps), tuple(measured), tuple(fixed), tuple(moves), tuple(elsewhere))


def _predict(
    study: HeatmapStudy, gpu: Gpu, work: Work, dtype: str, family: str, config: Config | None = None,
    calibrated: str = "auto", terms: bool = False,
) -> Prediction:  # fmt: skip
    return predict(
        work.m, work.n, work.k, gpu=gpu, dtype=dtype, family=family, config=config or study.spaces[family], l2=study.l2,
        calibrated=calibrated, terms=terms,
    )  # fmt: skip


def _map(study: HeatmapStudy, gpu: Gpu, work: Work, p: Prediction) -> Heatmap:
    dtype, family = p.problem.dtype, p.config.family
    found = firsts(study, p.config, p.time_s)
    fast = np.asarray([i for i in found.values() if p.feasible[i]], np.intp)
    cells = list(_launching(study, gpu, work, p, fast)) if len(fast) else []
    cells += _refused(study, p, [place for place, i in found.items() if not p.feasible[i]])
    cells += _absent(study, gpu, work, p, found)
    peak = gpu.peak_flops(dtype)
    return Heatmap(work, gpu.name, family, dtype, peak, p.calibration.name, tuple(sorted(cells, key=lambda c: c.place)))


def firsts(study: HeatmapStudy, config: Config, time_s: FloatArray) -> dict[Place, int]:
    """Position of the fastest configuration of each cell; of one that cannot launch where none can."""
    order = np.argsort(time_s, kind="stable")  # NaN last
    _, cell = unique_rows({"x": config[study.x], "y": config[study.y]})
    _, first = np.unique(cell[order], return_index=True)
    return {(int(config[study.x][i]), int(config[study.y][i])): int(i) for i in order[first]}


def _launching(study: HeatmapStudy, gpu: Gpu, work: Work, p: Prediction, fast: Index) -> Iterator[Cell]:
    """The cells with a configuration that can launch, with the terms of the fastest."""
    family = p.config.family
    _, cell = unique_rows({"x": p.config[study.x], "y": p.config[study.y]})
    counts = np.bincount(cell[p.feasible], minlength=int(cell.max()) + 1)
    said = _predict(study, gpu, work, p.problem.dtype, family, p.config.take(fast), terms=True)
    bounds, outside = said.bound_by, said.extrapolated
    for j, i in enumerate(fast.tolist()):
        config = p.config.row(i)
        yield Cell(config[study.x], config[study.y], int(counts[cell[i]]), float(p.time_s[i]), config_key(config),
                   bounds[j], bool(outside[j]), "")  # fmt: skip


def _refused(study: HeatmapStudy, p: Prediction, places: Sequence[Place]) -> Iterator[Cell]:
    """Cells whose configurations cannot launch, with the reason that most of them have."""
    for x, y in places:
        here = np.flatnonzero((p.config[study.x] == x) & (p.config[study.y] == y))
        rules, first, counts = np.unique(p.refusals.rule[here], return_index=True, return_counts=True)
        can = rules < 0
        if can.any():
            yield _empty(x, y, f"not searched: the space of family {p.config.family} leaves it out")
        else:
            yield _empty(x, y, p.refusals.reason(int(here[first[np.argmax(counts)]])))


def _empty(x: int, y: int, reason: str) -> Cell:
    return Cell(x, y, 0, float("nan"), "", "", False, reason)


def _absent(study: HeatmapStudy, gpu: Gpu, work: Work, p: Prediction, found: dict[Place, int]) -> Iterator[Cell]:
    """Cells of the plane that the family's space has no configuration for: why others of its parameters are refused."""
    xs, ys = (sorted(set(p.config[axis].tolist())) for axis in (study.x, study.y))
    places = [(x, y) for x in xs for y in ys if (x, y) not in found]
    if not places:
        return iter(())
    rest = {name: v for name, v in p.config.values.items() if name not in (study.x, study.y)}
    distinct, _ = unique_rows(rest)
    some = distinct[np.unique(np.linspace(0, len(distinct) - 1, TRIED).astype(np.intp))]
    values = {name: np.tile(v[some], len(places)) for name, v in rest.items()}
    for axis, side in ((study.x, 0), (study.y, 1)):
        values[axis] = np.repeat([place[side] for place in places], len(some)).astype(np.int64)
    tried = Config(p.config.family, {name: values[name] for name in p.config.values})
    return _refused(study, _predict(study, gpu, work, p.problem.dtype, p.config.family, tried), places)


def _fixed(study: HeatmapStudy, predictions: Sequence[Prediction]) -> Iterator[Fixed]:
    """The configuration with the least worst loss over the GEMMs, if one can launch all that any can launch."""
    times = np.stack([p.time_s for p in predictions if p.feasible.any()] or [np.full(1, np.nan)])
    if len(times) < len(predictions) or not np.isfinite(times).all(axis=0).any():
        return
    losses = times / np.nanmin(times, axis=1, keepdims=True) - 1
    best, p = int(np.nanargmin(losses.max(axis=0))), predictions[0]
    config = p.config.row(best)
    yield Fixed(p.gpu.name, p.config.family, p.problem.dtype, (config[study.x], config[study.y]), config_key(config),
                tuple(losses[:, best].tolist()))  # fmt: skip


def _moves(study: HeatmapStudy, work: Work, family: str, dtype: str, maps: Sequence[Heatmap]) -> Iterator[Move]:
    """How the best cell moves from GPU to GPU. Fits against defaults would compare fits, not chips."""
    mine = [m for m in maps if (m.work, m.family, m.dtype) == (work, family, dtype) and m.best]
    if len(mine) < 2:
        return
    basis = DEFAULTS if any(m.calibration == UNCALIBRATED for m in mine) else FITTED
    times = {m.gpu: _cell_times(study, m, basis) for m in mine}
    best = {gpu: min(cells, key=lambda place: cells[place]) for gpu, cells in times.items()}
    losses = {
        (a, b): times[b].get(best[a], float("inf")) / times[b][best[b]] - 1 for a in times for b in times if a != b
    }
    yield Move(work, family, dtype, basis, best, losses)


def _cell_times(study: HeatmapStudy, m: Heatmap, basis: str) -> dict[Place, float]:
    """Time of each cell that can launch, by physical defaults where that is the basis and the map has another."""
    if basis == FITTED or m.calibration == UNCALIBRATED:
        return {place: cell.time_s for place, cell in m.launching.items()}
    gpu = next(g for g in study.gpus if g.name == m.gpu)
    p = _predict(study, gpu, m.work, m.dtype, m.family, calibrated="none")
    return {place: float(p.time_s[i]) for place, i in firsts(study, p.config, p.time_s).items() if p.feasible[i]}


def _measured(study: HeatmapStudy, rows: Measured) -> Iterator[MeasuredMap]:
    """The rows of each GEMM of the study, where GPU, kernel and condition are the study's."""
    kernel = (rows.config.family, rows.problem.dtype)
    if rows.l2 != study.l2 or kernel not in study.kernels or rows.gpu.name not in {g.name for g in study.gpus}:
        return
    q = rows.problem
    for work in study.works:
        here = rows.take((q.m == work.m) & (q.n == work.n) & (q.k == work.k))
        if len(here):
            yield MeasuredMap(work, rows.gpu.name, *kernel, len(here), tuple(_timed(study, here)))


def _timed(study: HeatmapStudy, rows: Measured) -> Iterator[MeasuredCell]:
    q = rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.form, family=rows.config.family, config=rows.config,
                facts=rows.facts, l2=rows.l2)  # fmt: skip
    fastest, picked = (firsts(study, rows.config, t) for t in (rows.time_s, p.time_s))
    _, cell = unique_rows({"x": rows.config[study.x], "y": rows.config[study.y]})
    counts = np.bincount(cell)
    for place, i in fastest.items():
        j = picked[place]
        yield MeasuredCell(
            *place, int(counts[cell[i]]), float(rows.time_s[i]), config_key(rows.config.row(i)), float(p.time_s[j]),
            config_key(rows.config.row(j)), float(rows.time_s[j]),
        )  # fmt: skip
