"""The measured rows that ship with gemmsim (studies/*/*.csv.gz), each with the model's time under the row's own conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.config import config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.model.predict import Prediction, predict
from gemmsim.paths import data_folder
from gemmsim.problem import FloatArray, IntArray, dtype_name
from gemmsim.rows import Table, read_csv

#: a median above this many times the minimum was disturbed: the minimum counts (studies/h200/README.md names the row)
DISTURBED = 2.0
CUBLAS = "cublas"


@dataclass(frozen=True)
class Recorded:
    """Rows of one file that share GPU, family, dtype and L2 condition, and what the model says of each.

    Predictions use the compiler facts and the L2 condition of the rows.
    """

    file: str  # triton_bf16
    gpu: str
    family: str
    dtype: str
    l2: str
    measured_s: FloatArray
    prediction: Prediction

    @property
    def sizes(self) -> tuple[IntArray, IntArray, IntArray]:
        """M, N and K of each row."""
        p = self.prediction.problem
        return p.m, p.n, p.k

    @property
    def shape_ids(self) -> npt.NDArray[np.int64]:
        """A number for each distinct (m, n, k)."""
        _, ids = np.unique(np.stack(self.sizes, axis=1), axis=0, return_inverse=True)
        return np.asarray(ids.ravel(), np.int64)

    @property
    def plain(self) -> npt.NDArray[np.bool_]:
        """Rows without spills and with N a multiple of 8: what the model's main error figure is about."""
        return (self.prediction.launch.spill_bytes == 0) & (self.prediction.problem.n % 8 == 0)

    @property
    def coefficients(self) -> str:
        """The calibration's name, or `uncalibrated`."""
        return self.prediction.calibration.name

    @property
    def fitted(self) -> bool:
        """Whether the coefficients were fitted on measured rows: the shipped calibrations come from these files."""
        return self.prediction.calibration.fitted

    def keys(self) -> list[str]:
        """The name of each row's configuration."""
        config = self.prediction.config
        return [config_key(config.row(i)) for i in range(len(self.measured_s))]


@dataclass(frozen=True)
class Library:
    """A vendor library's time of one shape."""

    gpu: str
    dtype: str
    l2: str
    m: int
    n: int
    k: int
    measured_s: float


def recorded_rows(gpus: Sequence[Gpu]) -> list[Recorded]:
    """The shipped rows of these GPUs for every family that gemmsim has, predicted."""
    return [found for path in _files() for found in _read(path, gpus)]


def library_times(gpus: Sequence[Gpu]) -> list[Library]:
    """The shipped times of cuBLAS on these GPUs."""
    names = [gpu.name for gpu in gpus]
    return [row for path in _files() if path.name.startswith(CUBLAS) for row in _libraries(read_csv(str(path)), names)]


def _files() -> list[Path]:
    return sorted(data_folder("studies").glob("*/*.csv.gz"))


def _read(path: Path, gpus: Sequence[Gpu]) -> Iterator[Recorded]:
    """One Recorded for a file of timed configurations; nothing for the other files (counters, facts, conditions)."""
    table = read_csv(str(path))
    if any(column not in table for column in ("gpu", "family", "dtype", "l2", "m", "median_s")):
        return
    name, family, dtype, l2 = (_only(table, column) for column in ("gpu", "family", "dtype", "l2"))
    gpu = next((g for g in gpus if g.name == name), None)
    if gpu is None or family not in families.FAMILIES:
        return
    parameters = [p.name for p in families.family(family).PARAMETERS if p.name in table]
    prediction = predict(
        *(table.whole(size) for size in "mnk"), gpu=gpu, dtype=dtype, family=family, l2=l2, facts=table.facts(),
        config=families.config(family, {p: table.whole(p) for p in parameters}),
    )  # fmt: skip
    yield Recorded(path.name.split(".")[0], name, family, dtype, l2, measured_s(table), prediction)


def measured_s(table: Table) -> FloatArray:
    """The time of each row: its median, or its minimum where the median is more than DISTURBED times that."""
    median = table.number("median_s")
    if "min_s" not in table:
        return median
    least = table.number("min_s")
    return np.where(median > DISTURBED * least, least, median)


def _only(table: Table, column: str) -> str:
    """The one value of a column; empty if there are several."""
    values = set(table.text(column))
    return values.pop() if len(values) == 1 else ""


def _libraries(table: Table, gpus: Sequence[str]) -> Iterator[Library]:
    if any(column not in table for column in ("l2", "median_s")):
        return
    sizes = [table.whole(size).tolist() for size in "mnk"]
    columns = zip(*(table.text(c) for c in ("gpu", "dtype", "l2")), *sizes, measured_s(table).tolist(), strict=True)
    for gpu, dtype, l2, m, n, k, seconds in columns:
        try:
            known = dtype_name(dtype)
        except GemmsimError:
            continue
        if gpu in gpus:
            yield Library(gpu, known, l2, m, n, k, seconds)
