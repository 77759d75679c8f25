"""A study of effects: how far off recorded rows are with one effect of the model costing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from gemmsim.calibrate import enough, halves
from gemmsim.conditions import NOISE_FLOOR
from gemmsim.errors import GemmsimError, unknown
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.model.demand import TERMS
from gemmsim.model.predict import predict
from gemmsim.problem import FloatArray
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.document import Strict, Texts
from gemmsim.study.workload import at, once
from gemmsim.validate import Errors, errors, held_out

#: an effect that moves no predicted time by more than this share moves none
_MOVED = 1e-9


class Rows(Strict):
    """Rows of one kernel: files beside the study's.

    refit: fit the coefficients again without each effect, on half of the tiles x half of the shapes (and all of
    fit_with), and score the other halves; splits: how often, each time other halves.
    """

    files: Texts
    fit_with: Texts | None = None
    refit: bool = False
    splits: Annotated[int, Field(ge=1, le=100)] | None = None


class Document(document.Document):
    """A study of effects, as written; effects: names that `gemmsim validate --without` takes, all if left out."""

    rows: Annotated[list[Rows], Field(min_length=1)]
    effects: Texts | None = None


@dataclass(frozen=True)
class Part:
    """Rows of one kernel. splits: 0 where coefficients are not fitted again; fit_with: always fitted, never scored."""

    files: tuple[str, ...]
    rows: Measured
    splits: int
    fit_with: Measured | None
    fitted_files: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """Family and dtype."""
        return f"{self.rows.config.family} {self.rows.problem.dtype}"


@dataclass(frozen=True)
class Ablated:
    """Errors of a part's rows, of the whole model and without each effect.

    whole, without: with the shipped coefficients, over all rows. refit_whole, refit_without: fitted again, over rows
    that were not fitted on; None and empty where that is not asked for. idle: effects that move no row of the part;
    a fit without one is the whole model's.
    """

    part: Part
    whole: Errors
    without: Mapping[str, Errors]
    refit_whole: Errors | None
    refit_without: Mapping[str, Errors]
    idle: tuple[str, ...]


@dataclass(frozen=True)
class AblationStudy(Study):
    """A checked study of effects."""

    kind: ClassVar[str] = "ablation"
    doing: ClassVar[str] = "Fitting"
    parts: tuple[Part, ...]
    effects: tuple[str, ...]

    def steps(self) -> int:
        """A step an effect and part, and one for the whole model, as often as the part is fitted."""
        return sum((len(self.effects) + 1) * max(part.splits, 1) for part in self.parts)

    def run(self, progress: Progress = quiet) -> list[Ablated]:
        """Errors with and without each effect, a part at a time."""
        return [ablated(part, self.effects, progress) for part in self.parts]


def ablated(part: Part, effects: Sequence[str], progress: Progress = quiet) -> Ablated:
    """Errors of a part with and without each effect. Raises GemmsimError where a fit has too few rows."""
    whole_s = _time_s(part.rows, frozenset())
    times = {effect: _time_s(part.rows, frozenset([effect])) for effect in effects}
    idle = tuple(effect for effect, time_s in times.items() if not (np.abs(time_s / whole_s - 1) > _MOVED).any())
    refit_whole = _refit(part, frozenset(), progress)
    refit = {effect: _refit_or(refit_whole, part, effect, idle, progress) for effect in effects}
    return Ablated(
        part, _errors(part.rows, whole_s), {effect: _errors(part.rows, time_s) for effect, time_s in times.items()},
        refit_whole, {effect: found for effect, found in refit.items() if found}, idle,
    )  # fmt: skip


def _time_s(rows: Measured, without: frozenset[str]) -> FloatArray:
    q = rows.problem
    p = predict(q.m, q.n, q.k, gpu=rows.gpu, dtype=q.form, family=rows.config.family, config=rows.config,
                facts=rows.facts, l2=rows.l2, without=without)  # fmt: skip
    return p.time_s


def _errors(rows: Measured, time_s: FloatArray) -> Errors:
    return errors(time_s, rows.time_s, rows.shapes, noise=NOISE_FLOOR.get(rows.problem.dtype, 0.0))


def _refit_or(whole: Errors | None, part: Part, effect: str, idle: Sequence[str], progress: Progress) -> Errors | None:
    """The errors of fits without an effect: the whole model's where it moves no row."""
    if effect not in idle:
        return _refit(part, frozenset([effect]), progress)
    progress(max(part.splits, 1))
    return whole


def _refit(part: Part, without: frozenset[str], progress: Progress) -> Errors | None:
    """Errors over rows held out of fits without an effect, all splits pooled; None where none are asked for."""
    if not part.splits:
        progress(1)
        return None

    def told(seeds: Iterable[int]) -> Iterator[int]:
        for seed in seeds:
            yield seed
            progress(1)

    found = held_out(
        part.rows, seeds=part.splits, fit_with=part.fit_with, without=without, wanted={"all"}, progress=told
    )
    return found["all"]


def read(path: Path, asked: Document) -> AblationStudy:
    """The study with its rows. Raises GemmsimError for an unknown effect, and rows that cannot be read or fitted."""
    effects = once("effects", asked.effects or TERMS)
    for effect in effects:
        if effect not in TERMS:
            raise unknown("effect", effect, TERMS, where="effects")
    once("rows", [", ".join(rows.files) for rows in asked.rows])
    parts = tuple(_part(path.parent, f"rows[{i}]", rows) for i, rows in enumerate(asked.rows))
    return AblationStudy(path.stem, str(path), asked.title, asked.question, parts, tuple(effects))


def _part(folder: Path, key: str, asked: Rows) -> Part:
    for name in ("fit_with", "splits"):
        if getattr(asked, name) is not None and not asked.refit:
            raise GemmsimError(f"{key}.{name} is given without refit: true: expected it only where rows are fitted")
    rows = _rows(folder, f"{key}.files", asked.files)
    extra = _rows(folder, f"{key}.fit_with", asked.fit_with) if asked.fit_with else None
    splits = (asked.splits or 1) if asked.refit else 0
    part = Part(_names(asked.files), rows, splits, extra, _names(asked.fit_with or ()))
    for seed in range(splits):
        _check_fit(key, part, seed)
    return part


def _rows(folder: Path, key: str, files: Sequence[str]) -> Measured:
    once(key, files)
    parts = [at(f"{key}[{i}]", read_measured, str(folder / name)) for i, name in enumerate(files)]
    rows: Measured = at(key, joined, parts)
    return rows


def _names(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(Path(name).name for name in files)


def _check_fit(key: str, part: Part, seed: int) -> None:
    """Raise GemmsimError where a split leaves too few rows to fit or none to score."""
    fitted, _ = at(f"{key}.files", lambda rows: halves(rows, seed), part.rows)
    train = part.rows.take(fitted)
    both = train if part.fit_with is None else at(f"{key}.fit_with", joined, [part.fit_with, train])
    if not enough(both):
        raise GemmsimError(f"{key}.files: {len(part.rows)} rows leave {len(both)} to fit: expected more of them, or "
                           "rows in fit_with")  # fmt: skip
