"""A study of searches: recorded curves of regret against trials, of each set of rows and each sampler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from gemmsim.problem import FloatArray
from gemmsim.rows import Table, read_csv
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.document import Text
from gemmsim.study.workload import at

#: a search is done when its best is within this of the best recorded
DONE = 0.01


@dataclass(frozen=True)
class Curve:
    """Searches by one sampler, an entry a trial: regret, and the share of searches within DONE of the best."""

    rows: str
    sampler: str
    searches: int
    mean: FloatArray
    median: FloatArray
    done_share: FloatArray

    def trials_to(self, share: float) -> int | None:
        """Trials after which this share of the searches is done; None if that is later than was recorded."""
        done = self.done_share >= share - 1e-9
        return int(done.argmax()) + 1 if done.any() else None


def read_curves(table: Table) -> list[Curve]:
    """The curves in a file that `search_efficiency.py record` wrote, in its order. Raises GemmsimError for another."""
    names = [table.text(column) for column in ("family", "dtype", "sampler")]
    searched = [(f"{family} {dtype}", sampler) for family, dtype, sampler in zip(*names, strict=True)]
    searches, trial = table.whole("searches"), table.whole("trial")
    values = [table.number(name) for name in ("mean_regret", "median_regret", "done_share")]
    curves = []
    for key in dict.fromkeys(searched):
        here = np.asarray([pair == key for pair in searched])
        order = np.flatnonzero(here)[np.argsort(trial[here])]
        curves.append(Curve(*key, int(searches[order[0]]), *(value[order] for value in values)))
    return curves


class Document(document.Document):
    """A study of searches, as written; rows: the recorded curves, a file beside the study's."""

    rows: Text


@dataclass(frozen=True)
class SearchStudy(Study):
    """A checked study of searches."""

    kind: ClassVar[str] = "search"
    curves: tuple[Curve, ...]

    def steps(self) -> int:
        """One: the curves are there."""
        return 1

    def run(self, progress: Progress = quiet) -> tuple[Curve, ...]:
        """The recorded curves."""
        progress(1)
        return self.curves


def read(path: Path, asked: Document) -> SearchStudy:
    """The study with its curves. Raises GemmsimError where they cannot be read."""
    curves = at("rows", lambda file: read_curves(read_csv(file)), str(path.parent / asked.rows))
    return SearchStudy(path.stem, str(path), asked.title, asked.question, tuple(curves))
