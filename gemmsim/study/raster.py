"""A study of raster orders: launches that differ in group_m alone, counted and timed, beside what both models say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from gemmsim.config import config_key
from gemmsim.errors import GemmsimError
from gemmsim.measured import Measured, read_measured
from gemmsim.model.predict import Prediction, predict
from gemmsim.problem import FloatArray
from gemmsim.rows import Table, read_csv
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.document import Text
from gemmsim.study.workload import at

#: column of the counters -> what it is here, and the least it may be: what others are divided by is not 0
COUNTED = {
    "dram_read_bytes": ("read_bytes", 1.0),
    "dram_write_bytes": ("write_bytes", 0.0),
    "kernel_time_s": ("kernel_time_s", 1e-9),
    "clock_hz": ("clock_hz", 1.0),
}
#: the gain that is often quoted for swizzling the tiles
QUOTED = (0.20, 0.40)


class Document(document.Document):
    """A study of raster orders, as written; counters, rows: the same launches counted and timed, files beside it."""

    counters: Text
    rows: Text


@dataclass(frozen=True)
class RasterStudy(Study):
    """A checked study of raster orders. counted: the columns of COUNTED, an entry a row; unstable: of its timing."""

    kind: ClassVar[str] = "raster"
    doing: ClassVar[str] = "Simulating"
    rows: Measured
    counted: Mapping[str, FloatArray]
    unstable: tuple[str, ...]

    def groups(self) -> list[tuple[str, str]]:
        """Problem and tile of each row."""
        return [_group(self.rows, i) for i in range(len(self.rows))]

    def steps(self) -> int:
        """A step a launch."""
        return len(self.rows)

    def run(self, progress: Progress = quiet) -> list[Sweep]:
        """Every launch simulated and predicted."""
        return sweeps(self, progress)


@dataclass(frozen=True)
class Launch:
    """One launch: counted by Nsight Compute (kernel_time_s at clock_hz), timed by events, simulated and predicted."""

    m: int
    n: int
    k: int
    tile: str
    group_m: int
    read_bytes: float
    simulated_read_bytes: float
    closed_read_bytes: float
    write_bytes: float
    simulated_write_bytes: float
    closed_write_bytes: float
    kernel_time_s: float
    clock_hz: float
    predicted_s: float
    event_time_s: float
    unstable: str

    @property
    def clocks(self) -> float:
        """SM clocks of the counted launch."""
        return self.kernel_time_s * self.clock_hz

    @property
    def problem(self) -> str:
        """M x N x K."""
        return f"{self.m} x {self.n} x {self.k}"


@dataclass(frozen=True)
class Sweep:
    """One problem and tile in every group_m that was counted, ascending from 1."""

    launches: tuple[Launch, ...]

    @property
    def rowwise(self) -> Launch:
        """group_m 1: row by row."""
        return self.launches[0]

    def least(self, what: str) -> Launch:
        """The launch whose figure of this name is the least."""
        return min(self.launches, key=lambda x: float(getattr(x, what)))

    def gain(self, what: str, at: Launch) -> float:
        """How much less of a figure the launch `at` takes than row by row: 0.05 is 5 % faster."""
        return float(getattr(self.rowwise, what)) / float(getattr(at, what)) - 1


def read(path: Path, asked: Document) -> RasterStudy:
    """The study with its rows. Raises GemmsimError where they cannot be read, or a row was not counted."""
    timed = str(path.parent / asked.rows)
    rows, table = at("rows", read_measured, timed), read_csv(timed)
    counters = at("counters", read_csv, str(path.parent / asked.counters))
    if "group_m" not in rows.config.values:
        raise GemmsimError(f"rows: {timed}: no column group_m: expected launches that differ in it")
    place = at("counters", partial(_places, rows), counters)
    counted = at("counters", partial(_counted, place), counters)
    status = table.columns.get("status", ["ok"] * len(table))
    words = table.columns.get("unstable", [""] * len(table))
    unstable = tuple(word for word, ran in zip(words, status, strict=True) if ran == "ok")
    study = RasterStudy(path.stem, str(path), asked.title, asked.question, rows, counted, unstable)
    for problem, tile in {_group(rows, i) for i in range(len(rows))} - {
        _group(rows, i) for i in np.flatnonzero(rows.config["group_m"] == 1).tolist()
    }:
        raise GemmsimError(f"rows: {timed}: {problem}, {tile}: no row has group_m 1: expected it, which the "
                           "others are held against")  # fmt: skip
    return study


def _counted(place: np.ndarray, counters: Table) -> dict[str, FloatArray]:
    """The columns of COUNTED at these rows."""
    return {ours: counters.number(theirs, place, low=low) for theirs, (ours, low) in COUNTED.items()}


def _places(rows: Measured, counters: Table) -> np.ndarray:
    """Where each row stands among the counters. Raises GemmsimError for one that does not."""
    names = list(rows.config.values)
    columns = [counters.whole(name, low=0) for name in ("m", "n", "k", *names)]
    there = {key: i for i, key in enumerate(zip(*(c.tolist() for c in columns), strict=True))}
    q, found = rows.problem, []
    for i in range(len(rows)):
        key = tuple(int(x[i]) for x in (q.m, q.n, q.k, *(rows.config[name] for name in names)))
        if key not in there:
            what = f"{' x '.join(map(str, key[:3]))}, {config_key(rows.config.row(i))}"
            raise GemmsimError(f"{counters.path}: no row is of {what}, which was timed: expected the same launches")
        found.append(there[key])
    return np.asarray(found, np.intp)


def _group(rows: Measured, i: int) -> tuple[str, str]:
    """Problem and tile of a row: its configuration without group_m."""
    q, config = rows.problem, rows.config.row(i)
    config.pop("group_m")
    return f"{q.m[i]} x {q.n[i]} x {q.k[i]}", config_key(config)


def sweeps(study: RasterStudy, progress: Progress = quiet) -> list[Sweep]:
    """Every launch simulated and predicted, in the order of the rows; progress is told of each."""
    rows, q = study.rows, study.rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.dtype, family=rows.config.family, config=rows.config,
                facts=rows.facts, l2=rows.l2)  # fmt: skip
    found: dict[tuple[str, str], list[Launch]] = {}
    for i, launch in enumerate(_launches(study, p)):
        found.setdefault(_group(rows, i), []).append(launch)
        progress(1)
    return [Sweep(tuple(sorted(launches, key=lambda x: x.group_m))) for launches in found.values()]


def _launches(study: RasterStudy, p: Prediction) -> Iterator[Launch]:
    from gemmsim.simulate.launch import closed_form, simulate

    said, rows = closed_form(p, profiled=True), study.rows
    for i in range(len(p)):
        t = simulate(p, i, profiled=True, said=said).bytes
        yield Launch(
            m=int(p.problem.m[i]), n=int(p.problem.n[i]), k=int(p.problem.k[i]), tile=_group(rows, i)[1],
            group_m=int(p.config["group_m"][i]), simulated_read_bytes=t["dram_read_bytes"],
            closed_read_bytes=float(said["dram_read_bytes"][i]), simulated_write_bytes=t["dram_write_bytes"],
            closed_write_bytes=float(said["dram_write_bytes"][i]),
            predicted_s=float(p.time_s[i]), event_time_s=float(rows.time_s[i]), unstable=study.unstable[i],
            **{name: float(column[i]) for name, column in study.counted.items()},
        )  # fmt: skip
