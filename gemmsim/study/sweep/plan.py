"""A study of a sweep: what varies and how far, what stays, the GPUs, the curves and the measured rows beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, read_measured
from gemmsim.problem import MAX_DIMENSION, Gemm, dtype_name, gemm
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.beside import check_asked
from gemmsim.study.document import L2, Size, Strict, Text, Texts
from gemmsim.study.sweep.curves import Curve, CurveDocument, read_curve
from gemmsim.study.workload import at, once, read_gpus

if TYPE_CHECKING:
    from gemmsim.study.sweep.outcome import Outcome

DIMENSIONS = ("m", "n", "k")
#: sizes along the axis; more are no longer told apart in a chart
MOST_SIZES = 2000
#: predictions of a study; more are rather a slip in a list than a question
MOST_PREDICTIONS = 5_000_000
#: points of all lines together; more make a page too heavy to open
MOST_POINTS = 10_000
#: from the first size to the last: a list of sizes further apart than this is drawn on a log axis
LOG_FROM = 16


class Range(Strict):
    """Sizes from the first to the last: step apart, or each so many times the one before."""

    first: Size
    last: Size
    step: Size | None = None
    times: Annotated[int, Field(ge=2, le=64)] | None = None


class Product(Strict):
    """The two dimensions that stay."""

    name: Text
    m: Size | None = None
    n: Size | None = None
    k: Size | None = None


class Document(document.Document):
    """A study of a sweep, as written. sizes: a list, or range: one of both; baseline: the curve that others are held
    against, whose waves are marked if it is one configuration; show: a chart each; rows: files beside the study's.
    """

    vary: Literal["m", "n", "k"]
    sizes: Annotated[list[Size], Field(min_length=2)] | None = None
    range: Range | None = None
    products: Annotated[list[Product], Field(min_length=1)]
    gpus: Texts
    dtype: Text
    l2: L2 = "cold_clean"
    curves: Annotated[list[CurveDocument], Field(min_length=1)]
    baseline: Text | None = None
    show: Annotated[list[Literal["rate", "time", "memory"]], Field(min_length=1)] = Field(default=["rate"])
    rows: Texts | None = None


@dataclass(frozen=True)
class Fixed:
    """One product of the study: a size for each dimension that does not vary."""

    name: str
    sides: tuple[tuple[str, int], ...]

    @property
    def title(self) -> str:
        """gate, N 11008, K 4096."""
        return ", ".join((self.name, *(f"{side.upper()} {size}" for side, size in self.sides)))

    def sized(self, vary: str, sizes: Sequence[int], dtype: str) -> Gemm:
        """The problems of these sizes. Raises GemmsimError for one that is none."""
        sides = {**dict(self.sides), vary: np.asarray(sizes, np.int64)}
        m, n, k = (sides[side] for side in DIMENSIONS)
        return gemm(m, n, k, dtype)


@dataclass(frozen=True)
class SweepStudy(Study):
    """A checked study of a sweep. sizes: ascending; log: whether their axis is; rows: a file's name and its rows."""

    kind: ClassVar[str] = "sweep"
    vary: str
    sizes: tuple[int, ...]
    log: bool
    products: tuple[Fixed, ...]
    gpus: tuple[Gpu, ...]
    l2: str
    curves: tuple[Curve, ...]
    baseline: str
    show: tuple[str, ...]
    rows: tuple[tuple[str, Measured], ...]

    @property
    def predictions(self) -> int:
        """How many predictions `run` makes, give or take those that are made again."""
        cases = len(self.gpus) * len(self.products) * len(self.sizes)
        return cases * sum(len(curve) for curve in self.curves)

    def curve(self, name: str) -> Curve:
        """The curve of that name."""
        return next(curve for curve in self.curves if curve.name == name)

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
        return replace(self, gpus=read_gpus(names, "--gpus", [curve.dtype for curve in self.curves]))

    def steps(self) -> int:
        """A step a curve and GPU, and one for what is held against it."""
        return len(self.curves) * len(self.gpus) + 1

    def run(self, progress: Progress = quiet) -> Outcome:
        """Predict every curve. Raises GemmsimError where none of a GPU can launch."""
        from gemmsim.study.sweep.outcome import run

        return run(self, progress)


def read(path: Path, asked: Document) -> SweepStudy:
    """The study. Raises GemmsimError for a key whose value does not fit the others."""
    sizes, log = _sizes(asked)
    dtype = at("dtype", dtype_name, asked.dtype)
    once("curves[].name", [curve.name for curve in asked.curves])
    curves = tuple(read_curve(curve, f"curves[{i}]", dtype) for i, curve in enumerate(asked.curves))
    study = SweepStudy(
        name=path.stem, path=str(path), title=asked.title, question=asked.question, vary=asked.vary, sizes=sizes,
        log=log, products=_products(asked, sizes), l2=asked.l2, curves=curves, baseline=_baseline(asked),
        gpus=read_gpus(asked.gpus, "gpus", [curve.dtype for curve in curves]),
        show=tuple(once("show", list(asked.show))), rows=(),
    )  # fmt: skip
    _bounded(study)
    return replace(study, rows=tuple(_rows(path, asked, study)))


def _bounded(study: SweepStudy) -> None:
    """Raise GemmsimError for a study of more predictions or points than one can wait for or look at."""
    cases = f"{len(study.gpus)} GPUs x {len(study.products)} products x {len(study.sizes)} sizes"
    points = len(study.gpus) * len(study.products) * len(study.sizes) * len(study.curves)
    if points > MOST_POINTS:
        raise GemmsimError(f"{cases} x {len(study.curves)} curves are {points:,} points: expected at most "
                           f"{MOST_POINTS:,}, so fewer sizes or products")  # fmt: skip
    if study.predictions > MOST_PREDICTIONS:
        raise GemmsimError(f"{cases} x the configurations of all curves are {study.predictions:,} predictions: "
                           f"expected at most {MOST_PREDICTIONS:,}, so fewer sizes or values in curves")  # fmt: skip


def _sizes(asked: Document) -> tuple[tuple[int, ...], bool]:
    """The sizes, and whether their axis is logarithmic."""
    if (asked.sizes is None) == (asked.range is None):
        found = "neither" if asked.sizes is None else "both"
        raise GemmsimError(f"study has {found} of sizes and range: expected exactly one of them")
    if asked.range is not None:
        return _ranged(asked.range), asked.range.times is not None
    sizes = asked.sizes or []
    for i, (a, b) in enumerate(pairwise(sizes), 1):
        if b <= a:
            raise GemmsimError(f"sizes[{i}] is {b}: expected more than {a}, the one before it")
    if len(sizes) > MOST_SIZES:
        raise GemmsimError(f"sizes has {len(sizes)} entries: expected at most {MOST_SIZES}")
    return tuple(sizes), sizes[-1] >= LOG_FROM * sizes[0]


def _ranged(asked: Range) -> tuple[int, ...]:
    if (asked.step is None) == (asked.times is None):
        found = "neither" if asked.step is None else "both"
        raise GemmsimError(f"range has {found} of step and times: expected exactly one of them")
    if asked.last <= asked.first:
        raise GemmsimError(f"range.last is {asked.last}: expected more than range.first, {asked.first}")
    if asked.step is not None:
        count = (asked.last - asked.first) // asked.step + 1
        if not 2 <= count <= MOST_SIZES:
            raise GemmsimError(f"range.step is {asked.step}, which makes {count} sizes: expected 2 to {MOST_SIZES}")
        return tuple(range(asked.first, asked.last + 1, asked.step))
    sizes = [asked.first]
    while sizes[-1] * (asked.times or 2) <= asked.last:
        sizes.append(sizes[-1] * (asked.times or 2))
    if len(sizes) < 2:
        raise GemmsimError(f"range.times is {asked.times}, which makes one size: expected 2 or more")
    return tuple(sizes)


def _products(asked: Document, sizes: Sequence[int]) -> tuple[Fixed, ...]:
    once("products[].name", [product.name for product in asked.products])
    found = []
    for i, product in enumerate(asked.products):
        sides = {side: getattr(product, side) for side in DIMENSIONS}
        if sides.pop(asked.vary) is not None:
            raise GemmsimError(f"products[{i}].{asked.vary} is given: expected none, since vary is {asked.vary}")
        missing = [side for side, size in sides.items() if size is None]
        if missing:
            raise GemmsimError(f"missing key products[{i}].{missing[0]}: expected a whole number from 1 to "
                               f"{MAX_DIMENSION}")  # fmt: skip
        found.append(Fixed(product.name, tuple(sides.items())))
        at(f"products[{i}]", lambda one: one.sized(asked.vary, sizes, "bf16"), found[-1])
    return tuple(found)


def _baseline(asked: Document) -> str:
    names = [curve.name for curve in asked.curves]
    if asked.baseline is not None and asked.baseline not in names:
        raise unknown("curve", asked.baseline, names, where="baseline")
    return asked.baseline or ""


def _rows(path: Path, asked: Document, study: SweepStudy) -> list[tuple[str, Measured]]:
    """The measured rows. Raises GemmsimError for a file of another L2 condition, GPU or kernel than the study's."""
    found = []
    for i, name in enumerate(once("rows", asked.rows or [])):
        rows = at(f"rows[{i}]", read_measured, str(path.parent / name))
        if rows.l2 != study.l2:
            raise GemmsimError(f"rows[{i}]: {name} was timed with L2 {rows.l2}: expected {study.l2}, the study's l2")
        kernels = [(kernel.config.family, curve.dtype) for curve in study.curves for kernel in curve.kernels]
        check_asked(f"rows[{i}]", name, rows, study.gpus, kernels)
        found.append((name, rows))
    return found
