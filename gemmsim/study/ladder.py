"""A study of a ladder of kernels: each stage timed in turn with the library, beside its prediction and its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from gemmsim.config import config_key
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, measured_rows
from gemmsim.model.parts import parts
from gemmsim.model.predict import predict
from gemmsim.rows import Table, read_csv
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.document import Text, Texts
from gemmsim.study.recorded import Recorded
from gemmsim.study.workload import at, once

#: shares of the library above it are rather percent
MOST_SHARE = 10


class Document(document.Document):
    """A study of a ladder, as written.

    rows: files beside it in the columns of `gemmsim measure --against cublas`, and `stage`; stages: their order, from
    the first step, the rows' own if left out; quoted: stage -> the share of the library that is often quoted for it.
    """

    rows: Texts
    stages: Texts | None = None
    quoted: Annotated[dict[Text, float], Field(default_factory=dict)]


@dataclass(frozen=True)
class Timed:
    """One stage at one shape, measured. library_s: of the library timed in turn with it, NaN where there was none."""

    stage: str
    family: str
    dtype: str
    config: str
    m: int
    n: int
    k: int
    time_s: float
    library_s: float
    unstable: str

    @property
    def shape(self) -> str:
        """M x N x K."""
        return f"{self.m} x {self.n} x {self.k}"

    @property
    def flops(self) -> float:
        """2 m n k."""
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Rung(Timed):
    """The same with its prediction, made with the rows' compiler facts: bounds, resources, what the time consists of.

    parts: term -> s; what predicted_s has besides is no term's alone (gemmsim.model.parts).
    """

    predicted_s: float
    bound_by: str
    blocks_per_sm: int
    threads: int
    regs_per_thread: int
    smem_bytes: int
    extrapolated: bool
    basis: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Kernel:
    """The rows of one family and type of a file, and what they are of."""

    file: str
    rows: Measured
    timed: tuple[Timed, ...]


@dataclass(frozen=True)
class Ladder:
    """The rungs, a shape after another, each from the first stage to the last."""

    rungs: tuple[Rung, ...]

    @property
    def shapes(self) -> list[str]:
        """The shapes: those with the most stages first, of these the largest."""
        found = [r.shape for r in self.rungs]
        sizes = {r.shape: r.flops for r in self.rungs}
        return sorted(sizes, key=lambda shape: (-found.count(shape), -sizes[shape]))

    @property
    def dtypes(self) -> list[str]:
        """The types in the order of the stages."""
        return list(dict.fromkeys(r.dtype for r in self.rungs))

    def of(self, shape: str, dtype: str) -> list[Rung]:
        """The rungs of one ladder: one shape and type."""
        return [r for r in self.rungs if (r.shape, r.dtype) == (shape, dtype)]

    def steps(self) -> Iterator[tuple[Rung, Rung]]:
        """Every two neighbours of one shape and type."""
        for shape in self.shapes:
            for dtype in self.dtypes:
                yield from pairwise(self.of(shape, dtype))


@dataclass(frozen=True)
class LadderStudy(Study):
    """A checked study of a ladder. stages: from the first step; quoted: stage -> share of the library."""

    kind: ClassVar[str] = "ladder"
    kernels: tuple[Kernel, ...]
    stages: tuple[str, ...]
    quoted: Mapping[str, float]

    @property
    def gpu(self) -> Gpu:
        """Where the rows were recorded."""
        return self.kernels[0].rows.gpu

    @property
    def l2(self) -> str:
        """The L2 condition of the rows."""
        return self.kernels[0].rows.l2

    @property
    def timed(self) -> list[Timed]:
        """Every measured stage, a shape after another, from the first step."""
        return sorted((t for kernel in self.kernels for t in kernel.timed), key=self._place)

    def _place(self, one: Timed) -> tuple[int, int]:
        shapes = list(dict.fromkeys(t.shape for kernel in self.kernels for t in kernel.timed))
        return shapes.index(one.shape), self.stages.index(one.stage)

    def steps(self) -> int:
        """A step a kernel."""
        return len(self.kernels)

    def run(self, progress: Progress = quiet) -> Ladder:
        """Every stage predicted, with what its time consists of."""
        found = []
        for kernel in self.kernels:
            found += list(_rungs(kernel))
            progress(1)
        return Ladder(tuple(sorted(found, key=self._place)))


def read(path: Path, asked: Document) -> LadderStudy:
    """The study with its rows. Raises GemmsimError where they cannot be read, or a stage is there twice or nowhere."""
    kernels = [
        k for i, name in enumerate(once("rows", asked.rows)) for k in at(f"rows[{i}]", _read, path.parent / name)
    ]
    _check_one(kernels)
    have = list(dict.fromkeys(t.stage for kernel in kernels for t in kernel.timed))
    for key, names in {"stages": asked.stages or (), "quoted": asked.quoted}.items():
        for name in names:
            if name not in have:
                raise unknown("stage", name, have, where=key)
    for name, share in asked.quoted.items():
        if not 0 < share <= MOST_SHARE:
            raise GemmsimError(f"quoted.{name} is {share:g}: expected a share above 0, such as 0.25, to {MOST_SHARE}")
    stages = once("stages", asked.stages or have)
    for name in have:
        if name not in stages:
            raise GemmsimError(f"stages has no {name!r}, which the rows have: expected every stage")
    return LadderStudy(path.stem, str(path), asked.title, asked.question, tuple(kernels), tuple(stages), asked.quoted)


def _read(path: Path) -> list[Kernel]:
    """The rows of a file that ran, a kernel at a time."""
    table = read_csv(str(path))
    status = table.columns.get("status", ["ok"] * len(table))
    table = table.take(np.flatnonzero([word == "ok" for word in status]))
    if not len(table):
        raise GemmsimError(f"{path}: no row has the status ok: expected at least one that was timed")
    names = list(zip(table.text("family"), table.text("dtype"), strict=True))
    return [
        _kernel(path.name, table.take(np.flatnonzero([one == name for one in names]))) for name in dict.fromkeys(names)
    ]


def _kernel(file: str, table: Table) -> Kernel:
    rows = measured_rows(table)
    library = table.number("cublas_time_s", blank_ok=True, low=1e-9)
    unstable = table.columns.get("unstable", [""] * len(table))
    timed = (
        Timed(stage, rows.config.family, rows.problem.dtype, config_key(rows.config.row(i)), *_size(rows, i),
              float(rows.time_s[i]), float(library[i]), unstable[i])
        for i, stage in enumerate(table.text("stage"))
    )  # fmt: skip
    return Kernel(file, rows, tuple(timed))


def _size(rows: Measured, i: int) -> tuple[int, int, int]:
    q = rows.problem
    return int(q.m[i]), int(q.n[i]), int(q.k[i])


def _check_one(kernels: Sequence[Kernel]) -> None:
    """Raise GemmsimError for rows of several GPUs or conditions, a stage in two types, or twice at one shape."""
    for what, found in {
        "GPU": [k.rows.gpu.name for k in kernels],
        "L2 condition": [k.rows.l2 for k in kernels],
    }.items():
        if len(set(found)) > 1:
            raise GemmsimError(f"rows are of {what} {' and '.join(dict.fromkeys(found))}: expected one")
    dtypes: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for one in (t for kernel in kernels for t in kernel.timed):
        if dtypes.setdefault(one.stage, one.dtype) != one.dtype:
            raise GemmsimError(
                f"rows: stage {one.stage!r} is of {dtypes[one.stage]} and {one.dtype}: expected one type"
            )
        if (one.stage, one.shape) in seen:
            raise GemmsimError(f"rows: stage {one.stage!r} is there twice at {one.shape}: expected it once")
        seen.add((one.stage, one.shape))


def _rungs(kernel: Kernel) -> Iterator[Rung]:
    rows, q = kernel.rows, kernel.rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.form, family=rows.config.family, config=rows.config,
                facts=rows.facts, l2=rows.l2, terms=True)  # fmt: skip
    basis, of_time = Recorded(kernel.file, rows, p).basis, parts(p)
    bounds, beyond = p.bound_by, p.extrapolated
    launch, terms = p.launch, [{term: float(s) for term, s in row.items()} for row in of_time]
    for i, timed in enumerate(kernel.timed):
        yield Rung(
            **vars(timed), predicted_s=float(p.time_s[i]), bound_by=bounds[i], extrapolated=bool(beyond[i]),
            basis=basis, parts=terms[i], blocks_per_sm=int(p.blocks_per_sm[i]), threads=int(launch.threads[i]),
            regs_per_thread=int(launch.regs_per_thread[i]), smem_bytes=int(launch.smem_bytes[i]),
        )  # fmt: skip
