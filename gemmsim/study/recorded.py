"""The measured rows that ship with gemmsim (studies/*/*.csv.gz), each predicted under its own conditions."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsim import families
from gemmsim.config import config_key
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, measured_rows
from gemmsim.model.calibration import UNCALIBRATED
from gemmsim.model.predict import Prediction, predict
from gemmsim.paths import data_folder
from gemmsim.rows import Table, read_csv
from gemmsim.yamlfile import read_yaml

#: what a file of timed configurations says of its rows; files of counters, facts and library times lack one of these
_SAYS = ("gpu", "family", "dtype", "l2", "bm")
_TIMES = ("median_s", "time_s")
#: columns that hold one value where a file is about one kernel; a file that compares kernels has several in one
_SAME = ("gpu", "family", "dtype", "dtype_b", "dtype_c", "l2", "layout", "batch", "beta", "epilogue")
#: share of a file's rows that may be marked unstable: else it says how the GPU was, not what a kernel takes
MOST_UNSTABLE = 0.5
#: where coefficients come from: measured rows of the GPU, the same asked outside their range, or physical defaults
FITTED, EXTRAPOLATED, DEFAULTS = "fitted", "extrapolated", "defaults"
#: rows that no coefficient was fitted on
NEW = "not fitted on"


def basis_of(calibration: str, extrapolated: bool) -> str:
    """Where a prediction's coefficients come from; calibration: the file's name, or `uncalibrated`."""
    if calibration == UNCALIBRATED:
        return DEFAULTS
    return EXTRAPOLATED if extrapolated else FITTED


@dataclass(frozen=True)
class Recorded:
    """The rows of one file and their predictions, made with the rows' compiler facts and L2 condition."""

    file: str  # triton_bf16.csv.gz
    rows: Measured
    prediction: Prediction

    @property
    def kernel(self) -> str:
        """Family and dtype."""
        return f"{self.rows.config.family} {self.rows.problem.dtype}"

    @property
    def basis(self) -> str:
        """FITTED on these very rows, NEW where the coefficients were fitted on other files, DEFAULTS if on none."""
        if not self.prediction.calibration.fitted:
            return DEFAULTS
        return FITTED if any(str(f).split()[0] == self.file for f in self.fit().get("files", ())) else NEW

    def keys(self) -> list[str]:
        """The name of each row's configuration."""
        return [config_key(self.rows.config.row(i)) for i in range(len(self.rows))]

    def fit(self) -> Mapping[str, Any]:
        """What the calibration file says of its fit: rows, files, held_out; empty if uncalibrated."""
        if not self.prediction.calibration.fitted:
            return {}
        path = Path(self.rows.gpu.path).parent / "calibration" / self.prediction.calibration.name
        said = read_yaml(path).get("fitted")
        return said if isinstance(said, dict) else {}


def recorded_rows(
    gpus: Sequence[Gpu], wanted: Callable[[str, str], bool] = lambda family, dtype: True
) -> list[Recorded]:
    """The shipped rows of these GPUs, predicted; wanted: of a family and dtype, whether its rows are."""
    paths = sorted(data_folder("studies").glob("*/*.csv.gz"))
    known = [path for path in paths if (kernel := _first_kernel(path))[0] in families.FAMILIES and wanted(*kernel)]
    return [found for path in known for found in _read(path, gpus)]


def _first_kernel(path: Path) -> tuple[str, str]:
    """Family and dtype of a file's first row, without reading more."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file), {})
    return row.get("family", ""), row.get("dtype", "")


def _read(path: Path, gpus: Sequence[Gpu]) -> Iterator[Recorded]:
    table = read_csv(str(path))
    if not all(column in table for column in _SAYS) or not any(column in table for column in _TIMES):
        return
    if any(len(set(table.text(column))) > 1 for column in _SAME if column in table):
        return
    if "unstable" in table and sum(map(bool, table.text("unstable"))) > MOST_UNSTABLE * len(table):
        return
    gpu = next((g for g in gpus if g.name == _first(table, "gpu")), None)
    if gpu is None:
        return
    yield predicted(path.name, measured_rows(table), gpu)


def predicted(file: str, rows: Measured, gpu: Gpu) -> Recorded:
    """The rows of a file, predicted for this GPU under their own conditions."""
    p = rows.problem
    prediction = predict(
        p.m, p.n, p.k, gpu=gpu, dtype=p.form, family=rows.config.family, config=rows.config, facts=rows.facts,
        l2=rows.l2,
    )  # fmt: skip
    return Recorded(file, rows, prediction)


def _first(table: Table, column: str) -> str:
    return next(iter(table.text(column)), "")
