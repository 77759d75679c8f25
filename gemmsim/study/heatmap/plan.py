"""A study of heat maps: its GEMMs, GPUs and kernels, the two parameters that span the map, and rows to hold beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured
from gemmsim.problem import dtype_name, gemm
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.beside import read_rows
from gemmsim.study.document import L2, Text, Texts
from gemmsim.study.picks.plan import read_kernels, read_spaces
from gemmsim.study.workload import Work, Workload, at, once, read_gpus, read_workload

if TYPE_CHECKING:
    from gemmsim.study.heatmap.outcome import Outcome

#: more maps (a GEMM, GPU and kernel each) are no page that anybody reads
MOST_MAPS = 60
#: values of a parameter along an axis: more columns cannot be told apart
MOST_VALUES = 64


class Document(document.Document):
    """A study of heat maps, as written. x, y: parameters; rows: files of measured rows beside it."""

    workload: Workload
    gpus: Texts
    families: Texts
    dtypes: Texts
    x: Text = "bn"
    y: Text = "bm"
    vary: Any = "space"
    rows: Texts | None = None
    l2: L2 = "cold_clean"


@dataclass(frozen=True)
class HeatmapStudy(Study):
    """A checked study. spaces: the configurations a family; rows: measured ones, one entry a GPU, kernel and L2."""

    kind: ClassVar[str] = "heatmap"
    works: tuple[Work, ...]
    gpus: tuple[Gpu, ...]
    kernels: tuple[tuple[str, str], ...]
    spaces: Mapping[str, Config]
    x: str
    y: str
    rows: tuple[Measured, ...]
    l2: str

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
        study = replace(self, gpus=read_gpus(names, "--gpus", [dtype for _, dtype in self.kernels]))
        _few_maps(study)
        return study

    def steps(self) -> int:
        """A step a map."""
        return len(self.works) * len(self.gpus) * len(self.kernels)

    def run(self, progress: Progress = quiet) -> Outcome:
        """Every map predicted, and those with rows measured."""
        from gemmsim.study.heatmap.outcome import run

        return run(self, progress)

    def tile(self, x: int, y: int) -> str:
        """A cell's name: 128x256 where the axes are bm and bn."""
        sides = {self.x: x, self.y: y}
        return f"{sides['bm']}x{sides['bn']}" if set(sides) == {"bm", "bn"} else f"{self.y} {y}, {self.x} {x}"


def read(path: Path, asked: Document) -> HeatmapStudy:
    """The study. Raises GemmsimError for a key whose value does not fit the others."""
    _, works = read_workload(path, asked.workload)
    dtypes = [at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(once("dtypes", asked.dtypes))]
    kernels = read_kernels(once("families", asked.families), once("dtypes", dtypes))
    for family, dtype in kernels:
        at("families", lambda problem, name=family: families.check(name, problem), gemm(1, 1, 1, dtype))
    spaces = read_spaces(asked.vary, kernels)
    _axes(asked, spaces)
    gpus = read_gpus(asked.gpus, "gpus", dtypes)
    study = HeatmapStudy(
        name=path.stem, path=str(path), title=asked.title, question=asked.question, works=_once(works),
        gpus=gpus, kernels=kernels, spaces=spaces, x=asked.x, y=asked.y,
        rows=read_rows(path, asked.rows or (), gpus, kernels), l2=asked.l2,
    )  # fmt: skip
    _few_maps(study)
    return study


def _once(works: Sequence[Work]) -> tuple[Work, ...]:
    """One GEMM of each size: equal sizes have equal maps."""
    return tuple({(w.m, w.n, w.k): w for w in reversed(works)}.values())[::-1]


def _few_maps(study: HeatmapStudy) -> None:
    if study.steps() > MOST_MAPS:
        counts = f"{len(study.works)} GEMMs x {len(study.gpus)} GPUs x {len(study.kernels)} kernels"
        raise GemmsimError(f"workload: {counts} are {study.steps()} maps: expected at most {MOST_MAPS}")


def _axes(asked: Document, spaces: Mapping[str, Config]) -> None:
    """Raise GemmsimError unless x and y are two parameters of every family, neither with too many values."""
    if asked.x == asked.y:
        raise GemmsimError(f"y is {asked.y!r}, as x is: expected two parameters")
    for key, name in (("x", asked.x), ("y", asked.y)):
        for family, space in spaces.items():
            if name not in space.values:
                raise unknown(f"parameter of family {family}", name, space.values, where=key)
            count = len(set(space[name].tolist()))
            if count > MOST_VALUES:
                raise GemmsimError(f"{key}: {family} has {count} values of {name}: expected at most {MOST_VALUES}")
