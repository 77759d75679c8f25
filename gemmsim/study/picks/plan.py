"""A study of picks: its GEMMs by variant, its GPUs, kernels and the configurations to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu
from gemmsim.problem import dtype_name
from gemmsim.study import document
from gemmsim.study.base import Launch, Measure, Progress, Study, quiet
from gemmsim.study.document import L2, Texts
from gemmsim.study.workload import Work, Workload, at, once, read_gpus, read_workload

if TYPE_CHECKING:
    from gemmsim.study.picks.outcome import Outcome
    from gemmsim.study.timed import Timings

#: configurations of a family in a study; more are rather a slip in a list than a question
MOST_CONFIGURATIONS = 1_000_000


class Document(document.Document):
    """A study of picks, as written."""

    workload: Workload
    gpus: Texts
    families: Texts
    dtypes: Texts
    vary: Any = "space"
    measure: Measure = "none"
    top: Annotated[int, Field(ge=1, le=1000)] = 5
    l2: L2 = "cold_clean"


@dataclass(frozen=True)
class PicksStudy(Study):
    """A checked study. `kernels` are the (family, dtype) pairs that exist; `spaces` the configurations a family."""

    kind: ClassVar[str] = "picks"
    subject: str  # the model's name, or "the given shapes"
    works: tuple[Work, ...]
    gpus: tuple[Gpu, ...]
    kernels: tuple[tuple[str, str], ...]
    spaces: Mapping[str, Config]
    measure: str
    top: int
    l2: str

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants in the file's order."""
        return tuple(dict.fromkeys(work.variant for work in self.works))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Dtypes in the file's order."""
        return tuple(dict.fromkeys(dtype for _, dtype in self.kernels))

    def flops(self, variant: str) -> float:
        """Of one pass, all launches counted."""
        return sum(work.flops * work.count for work in self.works if work.variant == variant)

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
        return replace(self, gpus=read_gpus(names, "--gpus", self.dtypes))

    def steps(self) -> int:
        """A step a GEMM, GPU and dtype, one a pair of GPUs compared, one for the rows and one for the terms."""
        compared = (len(self.gpus) - 1) * len(self.dtypes) * len(self.variants)
        return len(self.gpus) * len(self.works) * len(self.dtypes) + compared + 2

    def run(self, progress: Progress = quiet) -> Outcome:
        """Predict everything the study asks for. Raises GemmsimError where no configuration fits a GPU."""
        from gemmsim.study.picks.outcome import run

        return run(self, progress)

    @property
    def measures(self) -> bool:
        """Whether its file says measure: run."""
        return self.measure == "run"

    @property
    def timed_on(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple(gpu.name for gpu in self.gpus)

    def timing(self) -> str:
        """The first few of each GEMM, of all kernels together."""
        cases = len({(work.m, work.n, work.k) for work in self.works}) * len(self.dtypes)
        names = self.timed_on
        where = names[0] if len(names) == 1 else f"the one of {', '.join(names)} that is in the machine"
        return f"the first {self.top} of {cases} GEMMs, up to {self.top * cases} launches, on {where}, L2 {self.l2}"

    def launches(self, answer: Outcome) -> tuple[Launch, ...]:
        """Every candidate."""
        return tuple(Launch(c.gpu, c.m, c.n, c.k, c.family, c.dtype, self.l2, c.parameters) for c in answer.candidates)

    def with_timings(self, answer: Outcome, timings: Timings) -> Outcome:
        """The outcome with the rows of its kernels and GPUs, in its L2 condition."""
        rows = tuple(timings.of(self.gpus, self.l2, self.kernels))
        return replace(answer, timings=timings, timed=rows)


def read(path: Path, asked: Document) -> PicksStudy:
    """The study. Raises GemmsimError for a key whose value does not fit the others."""
    subject, works = read_workload(path, asked.workload)
    dtypes = [at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(once("dtypes", asked.dtypes))]
    kernels = read_kernels(once("families", asked.families), once("dtypes", dtypes))
    return PicksStudy(
        name=path.stem, path=str(path), title=asked.title, question=asked.question, subject=subject, works=works,
        gpus=read_gpus(asked.gpus, "gpus", dtypes), kernels=kernels, spaces=read_spaces(asked.vary, kernels),
        measure=asked.measure, top=asked.top, l2=asked.l2,
    )  # fmt: skip


def read_kernels(names: Sequence[str], dtypes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Every (family, dtype) with a kernel. Raises GemmsimError for a family or dtype that is in none."""
    for i, name in enumerate(names):
        have = at(f"families[{i}]", families.family, name).DTYPES
        if not set(have) & set(dtypes):
            raise GemmsimError(f"families[{i}]: {name} has no {' or '.join(dtypes)} kernel: it has {', '.join(have)}")
    for i, dtype in enumerate(dtypes):
        if not any(dtype in families.family(name).DTYPES for name in names):
            raise GemmsimError(f"dtypes[{i}]: no {dtype} kernel in {', '.join(names)}")
    return tuple((name, d) for d in dtypes for name in names if d in families.family(name).DTYPES)


def read_spaces(vary: Any, kernels: Sequence[tuple[str, str]]) -> Mapping[str, Config]:
    """The configurations to search, a family: its whole space, or a grid. Raises GemmsimError for what is neither."""
    names = list(dict.fromkeys(family for family, _ in kernels))
    if vary == "space":
        return {name: families.space(name) for name in names}
    if not isinstance(vary, dict) or not vary:
        raise GemmsimError(f"vary is {vary!r}: expected space, or a mapping family -> parameter -> values")
    for name in vary:
        if name not in names:
            raise unknown("family", str(name), names, where="vary")
    return {name: read_grid(name, vary.get(name, {}), f"vary.{name}") for name in names}


def read_grid(name: str, values: Any, key: str) -> Config:
    """Every combination of the given values; parameters not given stay at the family's defaults.

    Raises GemmsimError for what is no parameter or no value of it, and for more combinations than memory holds.
    """
    if not isinstance(values, dict):
        raise GemmsimError(f"{key} is {values!r}: expected a mapping of parameters to lists of values")
    known = {p.name: p for p in families.family(name).PARAMETERS}
    for parameter, choices in values.items():
        if parameter not in known:
            raise unknown(f"parameter of family {name}", str(parameter), known, where=key)
        low = families.least(known[parameter])
        good = isinstance(choices, list) and choices and all(type(c) is int and low <= c < 2**31 for c in choices)
        if not good:
            raise GemmsimError(
                f"{key}.{parameter} is {choices!r}: expected a list of whole numbers from {low}, not empty"
            )
        once(f"{key}.{parameter}", choices)
    count = prod(len(choices) for choices in values.values())
    if count > MOST_CONFIGURATIONS:
        raise GemmsimError(f"{key} has {count} combinations: expected at most {MOST_CONFIGURATIONS}")
    grid = np.meshgrid(*(np.asarray(c, np.int64) for c in values.values()), indexing="ij")
    return families.config(name, {p: g.ravel() for p, g in zip(values, grid, strict=True)})
