"""A study of padding: its problems, the sizes to draw time against, its GPUs and kernels, and measured rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from gemmsim import families
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured
from gemmsim.problem import dtype_name, gemm
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.beside import read_rows
from gemmsim.study.document import L2, Size, Strict, Text, Texts
from gemmsim.study.workload import at, once, read_gpus

if TYPE_CHECKING:
    from gemmsim.study.padding.outcome import Outcome

#: problems x GPUs x kernels x dtypes; more are no page that anybody reads
MOST_CASES = 120
#: sizes along one curve
MOST_SIZES = 200


class Problem(Strict):
    """One GEMM; curve: one of m, n, k -> its first and last size, and the step if it is not 1."""

    name: Text
    m: Size
    n: Size
    k: Size
    curve: Annotated[dict[Text, list[Size]], Field(min_length=1)] | None = None


class Document(document.Document):
    """A study of padding, as written. kernels: name -> families, of which the fastest is taken; rows: measured ones."""

    problems: Annotated[list[Problem], Field(min_length=1)]
    gpus: Texts
    kernels: Annotated[dict[Text, Texts], Field(min_length=1)]
    dtypes: Texts
    rows: Texts | None = None
    l2: L2 = "cold_clean"


@dataclass(frozen=True)
class Asked:
    """One GEMM, and the sizes of one dimension (M, N or K) to draw its time against; none without a curve."""

    name: str
    m: int
    n: int
    k: int
    dimension: str
    sizes: tuple[int, ...]

    @property
    def size(self) -> str:
        """M x N x K."""
        return f"{self.m} x {self.n} x {self.k}"

    @property
    def size_asked(self) -> int:
        """The size of the curve's dimension as asked."""
        return {"M": self.m, "N": self.n, "K": self.k}[self.dimension]

    def at(self, value: int) -> tuple[int, int, int]:
        """M, N, K with the curve's dimension at a value."""
        sizes = {"M": self.m, "N": self.n, "K": self.k} | {self.dimension: value}
        return sizes["M"], sizes["N"], sizes["K"]


@dataclass(frozen=True)
class PaddingStudy(Study):
    """A checked study. rows: measured ones, one entry a GPU, family, dtype and L2 condition."""

    kind: ClassVar[str] = "padding"
    problems: tuple[Asked, ...]
    gpus: tuple[Gpu, ...]
    kernels: Mapping[str, tuple[str, ...]]
    dtypes: tuple[str, ...]
    rows: tuple[Measured, ...]
    l2: str

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
        study = replace(self, gpus=read_gpus(names, "--gpus", self.dtypes))
        _few(study)
        return study

    def steps(self) -> int:
        """A step a problem, GPU, kernel and dtype."""
        return len(self.problems) * len(self.gpus) * len(self.kernels) * len(self.dtypes)

    def run(self, progress: Progress = quiet) -> Outcome:
        """Every case padded and every curve predicted. Raises GemmsimError where no configuration can launch."""
        from gemmsim.study.padding.outcome import run

        return run(self, progress)


def read(path: Path, asked: Document) -> PaddingStudy:
    """The study. Raises GemmsimError for a key whose value does not fit the others."""
    once("problems[].name", [p.name for p in asked.problems])
    dtypes = tuple(at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(once("dtypes", asked.dtypes)))
    once("dtypes", dtypes)
    gpus, kernels = read_gpus(asked.gpus, "gpus", dtypes), _kernels(asked.kernels, dtypes)
    pairs = [(family, dtype) for names in kernels.values() for family in names for dtype in dtypes]
    study = PaddingStudy(
        name=path.stem, path=str(path), title=asked.title, question=asked.question,
        problems=tuple(_problem(f"problems[{i}]", p) for i, p in enumerate(asked.problems)),
        gpus=gpus, kernels=kernels, dtypes=dtypes,
        rows=read_rows(path, asked.rows or (), gpus, pairs), l2=asked.l2,
    )  # fmt: skip
    _few(study)
    return study


def _few(study: PaddingStudy) -> None:
    """Raise GemmsimError if a study has too many cases."""
    if study.steps() > MOST_CASES:
        kinds = f"{len(study.gpus)} GPUs x {len(study.kernels)} kernels x {len(study.dtypes)} dtypes"
        found = f"{len(study.problems)} x {kinds} are {study.steps()} cases"
        raise GemmsimError(f"problems: {found}: expected at most {MOST_CASES}")


def _problem(key: str, p: Problem) -> Asked:
    at(key, lambda p: gemm(p.m, p.n, p.k), p)
    if p.curve is None:
        return Asked(p.name, p.m, p.n, p.k, "", ())
    if len(p.curve) > 1 or next(iter(p.curve)) not in ("m", "n", "k"):
        raise GemmsimError(f"{key}.curve is of {', '.join(p.curve)}: expected one of m, n, k")
    ((name, span),) = p.curve.items()
    if len(span) not in (2, 3) or span[0] >= span[1]:
        raise GemmsimError(f"{key}.curve.{name} is {span}: expected [first, last], or [first, last, step]")
    sizes = range(span[0], span[1] + 1, span[2] if len(span) == 3 else 1)
    if len(sizes) > MOST_SIZES:
        raise GemmsimError(f"{key}.curve.{name} has {len(sizes)} sizes: expected at most {MOST_SIZES}")
    return Asked(p.name, p.m, p.n, p.k, name.upper(), tuple(sizes))


def _kernels(asked: Mapping[str, Sequence[str]], dtypes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name -> families. Raises GemmsimError for one that does not do the plain product in every dtype."""
    for kernel, names in asked.items():
        for i, name in enumerate(once(f"kernels.{kernel}", names)):
            key = f"kernels.{kernel}[{i}]"
            if name not in families.FAMILIES:
                raise unknown("family", name, families.FAMILIES, where=key)
            for dtype in dtypes:
                at(key, lambda problem, name=name: families.check(name, problem), gemm(1, 1, 1, dtype))
    return {kernel: tuple(names) for kernel, names in asked.items()}
