"""Rows that were timed for a study on the machine at hand: read from the file beside its report, and predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, gpu_names
from gemmsim.measured import measured_rows
from gemmsim.problem import FloatArray
from gemmsim.rows import Table, read_csv
from gemmsim.study.recorded import Recorded, predicted

#: what `gemmsim measure --out` writes and is read here
_NEEDED = ("campaign", "gpu", "family", "dtype", "l2", "status", "m", "n", "k", "time_s")
#: columns that rows of one kernel share
_SAME = ("gpu", "family", "dtype", "l2")


@dataclass(frozen=True)
class Timed(Recorded):
    """Rows of one kernel, GPU and L2 condition. cublas_s: cuBLAS, timed in turn with each row; NaN where it was not."""

    cublas_s: FloatArray

    @property
    def kernel(self) -> str:
        """Family and dtype, told apart from rows that ship."""
        return f"{super().kernel}, timed here"


@dataclass(frozen=True)
class Timings:
    """A file of rows timed for a study, as text; lines say where they stand."""

    table: Table

    @property
    def path(self) -> str:
        """The file."""
        return self.table.path

    @property
    def products(self) -> list[str]:
        """The devices, as they call themselves."""
        return list(dict.fromkeys(p for p in self.table.columns.get("product", ()) if p))

    @property
    def statuses(self) -> Mapping[str, int]:
        """Rows by status."""
        return Counter(self.table.text("status"))

    @property
    def unstable(self) -> int:
        """Rows whose timing was marked unstable."""
        return sum(map(bool, self.table.columns.get("unstable", ())))

    def of(self, gpus: Sequence[Gpu], l2: str, kernels: Sequence[tuple[str, str]]) -> Iterator[Timed]:
        """The rows of these GPUs, this L2 condition and these (family, dtype), predicted; a Timed a kernel and GPU."""
        chips = {gpu.name: gpu for gpu in gpus}
        keys = list(zip(*(self.table.text(name) for name in (*_SAME, "status")), strict=True))
        for key in dict.fromkeys(keys):
            name, family, dtype, condition, status = key
            if status == "ok" and name in chips and condition == l2 and (family, dtype) in kernels:
                yield _timed(self.table.take(np.flatnonzero([k == key for k in keys])), chips[name])


def _timed(table: Table, gpu: Gpu) -> Timed:
    known = gpu.name if gpu.name.partition(":")[0] in gpu_names() else gpu.path  # a file of the user's own
    rows = measured_rows(replace(table, columns={**table.columns, "gpu": [known] * len(table)}))
    found = predicted("measured.csv", rows, gpu)
    nothing = np.full(len(rows), np.nan)
    library = table.number("cublas_time_s", blank_ok=True) if "cublas_time_s" in table else nothing
    return Timed(found.file, found.rows, found.prediction, library)


def read_timings(path: str, campaign: str) -> Timings:
    """Rows of a file. Raises GemmsimError for a file that holds none, or rows of another campaign."""
    table = read_csv(path)
    missing = next((name for name in _NEEDED if name not in table), None)
    if missing is not None:
        raise GemmsimError(f"{path}: no column {missing}: expected rows that gemmsim study run --measure wrote")
    other = next((name for name in table.text("campaign") if name != campaign), None)
    if other is not None:
        raise GemmsimError(f"{path}: holds rows of {other!r}: expected those of study {campaign}")
    return Timings(table)
