"""What a study of padding finds: gains case by case, times along its curves, and measured rows of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gemmsim import families
from gemmsim.config import Config, config_key
from gemmsim.explanation import PAD, stride_dimensions
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu
from gemmsim.model.predict import Prediction, predict
from gemmsim.padding import Padding, pad
from gemmsim.problem import IntArray, gemm
from gemmsim.study.base import Progress
from gemmsim.study.padding.neighbours import Neighbours, neighbours, predicted_s
from gemmsim.study.padding.plan import Asked, PaddingStudy

#: fastest configurations of a family that are kept of the sizes as asked, and as many of the sizes padded; and of so
#: many of the fastest tiles the fastest: past the edge of a wave another tile may win
KEPT, TILES = 20, 40


@dataclass(frozen=True)
class Case:
    """One problem on one GPU with one kernel: what padding gains. refused: family -> why it cannot launch as asked."""

    asked: Asked
    gpu: str
    kernel: str
    dtype: str
    padding: Padding
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """The fastest configuration at one size of a curve. aligned_bytes: see `aligned_bytes`."""

    size: int
    aligned_bytes: int
    time_s: float
    family: str
    key: str


@dataclass(frozen=True)
class Curve:
    """Time against a size: one problem, GPU and kernel."""

    asked: Asked
    gpu: str
    kernel: str
    dtype: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Held:
    """The fastest of the measured rows of one size of a curve. predicted_s: of that very row, with its facts."""

    asked: Asked
    gpu: str
    kernel: str
    dtype: str
    size: int
    family: str
    key: str
    rows: int
    time_s: float
    predicted_s: float


@dataclass(frozen=True)
class Outcome:
    """What a study of padding found."""

    study: PaddingStudy
    cases: tuple[Case, ...]
    curves: tuple[Curve, ...]
    held: tuple[Held, ...]
    neighbours: tuple[Neighbours, ...]


def run(study: PaddingStudy, progress: Progress) -> Outcome:
    """Pad every problem and predict every curve. Needs no GPU."""
    cases, curves = [], []
    for gpu in study.gpus:
        for kernel, names in study.kernels.items():
            for dtype in study.dtypes:
                for asked in study.problems:
                    spaces, refused = shortlists(asked, gpu, names, dtype, study.l2)
                    found = pad(asked.m, asked.n, asked.k, gpu=gpu, dtype=dtype, l2=study.l2, spaces=spaces)
                    cases.append(Case(asked, gpu.name, kernel, dtype, found, refused))
                    if asked.sizes:
                        points = tuple(_points(asked, gpu, dtype, spaces, study.l2))
                        curves.append(Curve(asked, gpu.name, kernel, dtype, points))
                    progress(1)
    near = [pair for rows in study.rows if _wanted(study, rows.gpu.name) for pair in neighbours(rows)]
    return Outcome(study, tuple(cases), tuple(curves), tuple(_held(study)), tuple(near))


def _wanted(study: PaddingStudy, gpu: str) -> bool:
    return any(g.name == gpu for g in study.gpus)


def shortlists(
    asked: Asked, gpu: Gpu, names: Sequence[str], dtype: str, l2: str
) -> tuple[dict[str, Config], dict[str, str]]:
    """Of each family the configurations that are fastest at the sizes as asked or padded to PAD; and who is refused.

    A family without a configuration that can launch either is left out, unless none can.
    """
    sizes = (asked.m, asked.n, asked.k)
    m, n, k = (-(-size // PAD) * PAD for size in sizes)
    found: dict[str, Config] = {}
    refused: dict[str, str] = {}
    for name in names:
        space = families.space(name)
        why = {mnk: _refused(name, space, mnk, dtype, gpu) for mnk in dict.fromkeys((sizes, (m, n, k)))}
        if why[sizes]:
            refused[name] = why[sizes]
        some = [
            _fastest(predict(*mnk, gpu=gpu, dtype=dtype, family=name, config=space, l2=l2))
            for mnk, reason in why.items() if not reason
        ]  # fmt: skip
        if some:
            found[name] = space.take(np.unique(np.concatenate(some)))
    return found or {name: families.space(name) for name in names}, refused


def _fastest(p: Prediction) -> np.ndarray:
    """The KEPT fastest that can launch, and the fastest of each of the TILES fastest tiles."""
    order = np.argsort(p.time_s, kind="stable")[: int(p.feasible.sum())]
    if not len(order):
        return order
    _, tile = unique_rows({side: p.config[side][order] for side in ("bm", "bn")})
    _, first = np.unique(tile, return_index=True)
    return np.union1d(order[:KEPT], order[np.sort(first)[:TILES]])


def _refused(name: str, space: Config, sizes: tuple[int, int, int], dtype: str, gpu: Gpu) -> str:
    """The reason that most configurations are refused for, where all are; predictions of none are then needed."""
    module = families.family(name)
    m, n, k = (np.full(len(space), size) for size in sizes)
    problem = gemm(m, n, k, dtype)
    refusals = module.refusals(problem, space, module.launch(problem, space, gpu.arch), gpu.arch)
    if refusals.feasible.any():
        return ""
    _, first, counts = np.unique(refusals.rule, return_index=True, return_counts=True)
    return refusals.reason(int(first[np.argmax(counts)]))


def aligned_bytes(asked: Asked, dtype: str, size: int) -> int:
    """The largest power of two of bytes, up to PAD elements, that a row stride of this size is a multiple of.

    0 where the curve's dimension is no row stride of A or B.
    """
    names, problem = stride_dimensions("NN"), gemm(1, 1, 1, dtype)
    width = {names["A"]: problem.a_bytes, names["B"]: problem.b_bytes}.get(asked.dimension)
    return 0 if width is None else min(size & -size, PAD) * width


def _points(asked: Asked, gpu: Gpu, dtype: str, spaces: Mapping[str, Config], l2: str) -> Iterator[Point]:
    """The fastest configuration of any family at each size, every one predicted in one call a family."""
    best: dict[int, tuple[float, str, str]] = {}
    for name, space in spaces.items():
        m, n, k = _grid(asked, len(space))
        tiled = _tiled(space, len(asked.sizes))
        p = predict(m, n, k, gpu=gpu, dtype=dtype, family=name, config=tiled, l2=l2)
        times = np.where(np.isfinite(p.time_s), p.time_s, np.inf).reshape(len(asked.sizes), len(space))
        for size, row, first in zip(asked.sizes, times, times.argmin(axis=1).tolist(), strict=True):
            if row[first] < best.get(size, (np.inf,))[0]:
                best[size] = float(row[first]), name, config_key(space.row(first))
    for size, (time_s, name, key) in sorted(best.items()):
        yield Point(size, aligned_bytes(asked, dtype, size), time_s, name, key)


def _grid(asked: Asked, configurations: int) -> tuple[IntArray, IntArray, IntArray]:
    """M, N and K of every size, so many times over."""
    m, n, k = np.repeat(np.asarray([asked.at(size) for size in asked.sizes], np.int64), configurations, axis=0).T
    return m, n, k


def _tiled(space: Config, times: int) -> Config:
    return Config(space.family, {name: np.tile(v, times) for name, v in space.values.items()})


def _held(study: PaddingStudy) -> list[Held]:
    """Of each kernel the fastest measured row on the curves, where GPU, dtype and L2 condition are the study's."""
    found: dict[tuple[object, ...], Held] = {}
    for row in _timed(study):
        key = (row.asked.name, row.gpu, row.kernel, row.dtype, row.size)
        if key not in found or row.time_s < found[key].time_s:
            found[key] = row
    return list(found.values())


def _timed(study: PaddingStudy) -> Iterator[Held]:
    """The fastest measured row of each family at each size."""
    for rows in study.rows:
        q, family = rows.problem, rows.config.family
        if rows.l2 != study.l2 or q.dtype not in study.dtypes or not _wanted(study, rows.gpu.name):
            continue
        for asked, size in ((p, size) for p in study.problems for size in p.sizes):
            m, n, k = asked.at(size)
            here = np.flatnonzero((q.m == m) & (q.n == n) & (q.k == k))
            if len(here):
                best = rows.take(here[[np.argmin(rows.time_s[here])]])
                key, time_s, said = config_key(best.config.row(0)), float(best.time_s[0]), float(predicted_s(best)[0])
                for kernel in [kernel for kernel, names in study.kernels.items() if family in names]:
                    yield Held(asked, rows.gpu.name, kernel, q.dtype, size, family, key, len(here), time_s, said)
