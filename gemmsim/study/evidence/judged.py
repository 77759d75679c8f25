"""Recorded rows held against their predictions: an entry a row, and what the model's picks lose on each shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gemmsim.model.intervals import CLASSES
from gemmsim.problem import FloatArray, IntArray
from gemmsim.study.recorded import FITTED, Recorded
from gemmsim.validate import ALIGNED, LEAST_CONFIGURATIONS, TOP, lost, shape_class

Texts = npt.NDArray[np.str_]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Rows with a prediction, an entry a row, files one after another. Seconds, FLOP and bytes of one launch.

    shape: number of file and problem. low_s, high_s: the 80 % interval. kind: what the interval takes the row for.
    known_shape, known_launch: whether the problem, and the problem with this tile, are among the rows that this
    kernel's coefficients were fitted on.
    """

    file: Texts
    gpu: Texts
    kernel: Texts
    family: Texts
    dtype: Texts
    basis: Texts
    tile: Texts
    m: IntArray
    n: IntArray
    k: IntArray
    shape: IntArray
    shape_class: Texts
    kind: Texts
    spills: Mask
    aligned: Mask
    measured_s: FloatArray
    predicted_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    flops: FloatArray
    compulsory_bytes: FloatArray
    known_shape: Mask
    known_launch: Mask

    def __len__(self) -> int:
        return len(self.measured_s)

    @property
    def off(self) -> FloatArray:
        """Predicted over measured, less 1."""
        return np.asarray(self.predicted_s / self.measured_s - 1)

    @property
    def inside(self) -> Mask:
        """Whether the interval holds the measured time."""
        return np.asarray((self.low_s <= self.measured_s) & (self.measured_s <= self.high_s))

    def take(self, where: Mask | npt.NDArray[np.intp]) -> Judged:
        """Some of the rows."""
        return Judged(*(getattr(self, f.name)[where] for f in fields(self)))


@dataclass(frozen=True)
class Ranking:
    """The rows of one problem in one file: what the model's first pick, and the best of its first five, lose.

    picked, best: tiles; their times are measured, seconds. regret: shares of the best measured time.
    """

    file: str
    gpu: str
    kernel: str
    family: str
    basis: str
    m: int
    n: int
    k: int
    shape_class: str
    configurations: int
    picked: str
    picked_s: float
    best: str
    best_s: float
    regret: float
    regret_of_5: float


@dataclass(frozen=True)
class Evidence:
    """Every row, every ranking, and the files they come from. refused: rows that the model would not let launch."""

    recorded: tuple[Recorded, ...]
    rows: Judged
    rankings: tuple[Ranking, ...]
    refused: int


def judged(recorded: Sequence[Recorded]) -> Evidence:
    """The rows of all files, and the ranking of each problem with enough configurations."""
    parts = [_columns(r) for r in recorded]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["shape"] = _numbers(columns, "file", "m", "n", "k")
    fitted = columns["basis"] == FITTED
    columns["known_shape"] = _known(_numbers(columns, "kernel", "gpu", "m", "n", "k"), fitted)
    columns["known_launch"] = _known(_numbers(columns, "kernel", "gpu", "m", "n", "k", "tile"), fitted)
    every = Judged(**columns)
    rows = every.take(np.isfinite(every.predicted_s))
    return Evidence(tuple(recorded), rows, tuple(_rankings(rows)), len(every) - len(rows))


def _columns(r: Recorded) -> dict[str, npt.NDArray[np.generic]]:
    p, count = r.rows.problem, len(r.rows)
    low, high = r.prediction.interval_s
    same = {"file": r.file, "gpu": r.rows.gpu.name, "kernel": r.kernel, "family": r.rows.config.family,
            "dtype": p.dtype, "basis": r.basis}  # fmt: skip
    return {
        **{name: np.full(count, value) for name, value in same.items()},
        "tile": np.asarray(r.keys()), "m": p.m, "n": p.n, "k": p.k,
        "shape_class": shape_class(p.m, p.n, p.k), "kind": np.asarray(CLASSES)[r.prediction.kind],
        "spills": r.rows.spills, "aligned": (p.n % ALIGNED == 0) & (p.k % ALIGNED == 0),
        "measured_s": r.rows.time_s, "predicted_s": r.prediction.time_s, "low_s": low, "high_s": high,
        "flops": p.flops, "compulsory_bytes": p.compulsory_bytes,
    }  # fmt: skip


def _numbers(columns: Mapping[str, npt.NDArray[np.generic]], *names: str) -> IntArray:
    """For each row the number of its distinct combination of the columns."""
    each = [np.unique(columns[name], return_inverse=True)[1].ravel() for name in names]
    return np.asarray(np.unique(np.stack(each, axis=1), axis=0, return_inverse=True)[1].ravel(), np.int64)


def _known(number: IntArray, fitted: Mask) -> Mask:
    """Whether a row's number is also that of a row fitted on."""
    return np.isin(number, number[fitted])


def _rankings(rows: Judged) -> Iterator[Ranking]:
    order = np.argsort(rows.shape, kind="stable")
    for where in np.split(order, np.flatnonzero(np.diff(rows.shape[order])) + 1):
        if len(where) >= LEAST_CONFIGURATIONS:
            yield _ranking(rows.take(where))


def _ranking(rows: Judged) -> Ranking:
    """Of the rows of one problem in one file."""
    pick, best = int(np.argmin(rows.predicted_s)), int(np.argmin(rows.measured_s))
    regret = dict(zip(TOP, lost(rows.predicted_s, rows.measured_s), strict=True))
    return Ranking(
        str(rows.file[0]), str(rows.gpu[0]), str(rows.kernel[0]), str(rows.family[0]), str(rows.basis[0]),
        int(rows.m[0]), int(rows.n[0]), int(rows.k[0]), str(rows.shape_class[0]), len(rows),
        str(rows.tile[pick]), float(rows.measured_s[pick]), str(rows.tile[best]), float(rows.measured_s[best]),
        regret[1], regret[5],
    )  # fmt: skip
