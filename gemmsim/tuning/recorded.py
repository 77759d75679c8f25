"""Recorded rows in the place of a GPU: the configurations of a shape that were measured, and their times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.model.predict import predict
from gemmsim.problem import FloatArray, Form
from gemmsim.search.replay import Replay
from gemmsim.search.space import Space, identity_of


@dataclass(frozen=True)
class Rows:
    """Rows of one GPU, form and L2 condition, a Measured a family; files: where they come from."""

    files: tuple[str, ...]
    parts: tuple[Measured, ...]

    @property
    def gpu(self) -> Gpu:
        """The GPU of all rows."""
        return self.parts[0].gpu

    @property
    def form(self) -> Form:
        """What all rows multiply, but the size."""
        return self.parts[0].problem.form

    @property
    def l2(self) -> str:
        """The L2 condition of all rows."""
        return self.parts[0].l2

    @property
    def families(self) -> tuple[str, ...]:
        """The families that have rows."""
        return tuple(part.config.family for part in self.parts)

    @property
    def digest(self) -> str:
        """SHA-256 of the files, shortened."""
        return hashlib.sha256(b"".join(Path(file).read_bytes() for file in self.files)).hexdigest()[:16]

    def refuse_missing(self, shapes: Iterable[tuple[int, int, int]]) -> None:
        """Raise GemmsimError for a shape without rows."""
        there = {shape for part in self.parts for shape in zip(*(getattr(part.problem, d).tolist() for d in "mnk"),
                                                               strict=True)}  # fmt: skip
        for m, n, k in shapes:
            if (m, n, k) not in there:
                raise GemmsimError(f"{', '.join(self.files)}: no row is of {m} x {n} x {k}: expected one of the "
                                   f"shapes there, such as {self._example()}")  # fmt: skip

    def replay(self, m: int, n: int, k: int) -> Replay:
        """The rows of a shape, predicted with the shipped coefficients from tile parameters alone.

        Of rows of one configuration the fastest stands; one that could not launch by its tile alone is left out. Raises
        GemmsimError for a shape without rows.
        """
        self.refuse_missing([(m, n, k)])
        found = [part for part in (_of_shape(part, (m, n, k)) for part in self.parts) if part is not None]
        if not found:
            raise GemmsimError(f"{', '.join(self.files)}: by its tile alone no configuration of {m} x {n} x {k} could "
                               "launch: expected one that can")  # fmt: skip
        predicted = np.concatenate([_predicted(part) for part in found])
        identity = identity_of(m, n, k, self.gpu, self.form, self.l2)
        space = Space([part.config for part in found], predicted, identity)
        return Replay((m, n, k), space, np.concatenate([part.time_s for part in found]))

    def _example(self) -> str:
        p = self.parts[0].problem
        return f"{p.m[0]} x {p.n[0]} x {p.k[0]}"


def read_rows(
    files: Sequence[str], *, gpu: str | None = None, family: str | None = None, dtype: str | None = None,
    l2: str | None = None,
) -> Rows:  # fmt: skip
    """The rows of the files, of which each has one family. Arguments say what the files do not, as in read_measured.

    Raises GemmsimError for files that differ in GPU, form or L2 condition, and for wrong ones.
    """
    by_family: dict[str, list[Measured]] = {}
    first: Measured | None = None
    for file in files:
        rows = read_measured(file, gpu=gpu, family=family, dtype=dtype, l2=l2)
        first = first or rows
        _refuse_mix(first, rows, file)
        by_family.setdefault(rows.config.family, []).append(rows)
    return Rows(tuple(files), tuple(joined(parts) for parts in by_family.values()))


def _refuse_mix(first: Measured, rows: Measured, file: str) -> None:
    said = {"GPU": (first.gpu.name, rows.gpu.name), "L2 condition": (first.l2, rows.l2),
            "problem": (first.problem.form, rows.problem.form)}  # fmt: skip
    for what, (held, found) in said.items():
        if held != found:
            raise GemmsimError(f"{file}: rows of {what} {found}, and those before are of {held}: expected one {what}")


def _of_shape(rows: Measured, shape: tuple[int, int, int]) -> Measured | None:
    """The fastest row of each configuration of a shape that can launch by its tile alone; None if there is none."""
    p = rows.problem
    here = np.flatnonzero((p.m == shape[0]) & (p.n == shape[1]) & (p.k == shape[2]))
    if not len(here):
        return None
    here = here[np.argsort(rows.time_s[here], kind="stable")]
    _, first = np.unique(rows.configurations[here], return_index=True)
    found = rows.take(here[np.sort(first)])
    good = np.isfinite(_predicted(found))
    return found.take(good) if good.any() else None


def _predicted(rows: Measured) -> FloatArray:
    p = rows.problem
    return predict(p.m, p.n, p.k, gpu=rows.gpu, dtype=p.form, family=rows.config.family, config=rows.config,
                   l2=rows.l2).time_s  # fmt: skip
