"""A study that compares GPUs by their hardware files: times of the same GEMMs, why, what if, what time hangs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from gemmsim import families
from gemmsim.comparison import Comparison, compare
from gemmsim.comparison.compare import steps
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.problem import dtype_name, form_of
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.document import L2, Texts
from gemmsim.study.picks.plan import read_kernels, read_spaces
from gemmsim.study.workload import Work, Workload, at, once, read_gpus, read_workload
from gemmsim.whatif import changed_gpu
from gemmsim.workload import Product

#: configurations of a GEMM that are tried again for speed-ups and elasticities: fewer than `gemmsim compare` takes, as
#: a study asks for thousands of trials
SHORTLIST = 12
_Changes = dict[document.Text, dict[document.Text, float]]


class Document(document.Document):
    """A study of GPUs, as written.

    families: those with a kernel of the dtypes if left out; each GPU takes its fastest. vary: as of a study of picks.
    baseline: the GPU that speed-ups are over, the first if left out. what_if: GPU -> figures of its hardware file with
    other values. sensitivity: the elasticity of the time to each figure.
    """

    workload: Workload
    gpus: Texts
    dtypes: Texts
    families: Texts | None = None
    vary: Any = "space"
    baseline: document.Text | None = None
    what_if: Annotated[_Changes, Field(default_factory=dict)]
    sensitivity: bool = False
    l2: L2 = "cold_clean"


@dataclass(frozen=True)
class Pass:
    """One variant of the workload in one type on every GPU."""

    variant: str
    dtype: str
    found: Comparison


@dataclass(frozen=True)
class ComparisonStudy(Study):
    """A checked study of GPUs. names: as written; gpus: what they are; spaces: the configurations a family."""

    kind: ClassVar[str] = "comparison"
    subject: str
    works: tuple[Work, ...]
    names: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    dtypes: tuple[str, ...]
    spaces: Mapping[str, Config]
    baseline: str
    what_if: Mapping[str, Mapping[str, float]]
    sensitivity: bool
    l2: str

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants in the file's order."""
        return tuple(dict.fromkeys(work.variant for work in self.works))

    def with_gpus(self, names: Sequence[str]) -> Self:
        """On other GPUs, the first the baseline, nothing changed. Raises GemmsimError for an unknown one."""
        gpus = read_gpus(names, "--gpus", self.dtypes)
        _enough("--gpus", gpus, self.sensitivity)
        return replace(self, names=tuple(names), gpus=gpus, baseline=gpus[0].name, what_if={})

    def steps(self) -> int:
        """What `compare` tells of, over all variants and types."""
        chips = len(self.gpus) + len(self.what_if)
        sizes = [sum(work.variant == variant for work in self.works) for variant in self.variants]
        return len(self.dtypes) * sum(steps(size, chips, self.sensitivity) for size in sizes)

    def run(self, progress: Progress = quiet) -> tuple[Pass, ...]:
        """Every variant in every type compared. Raises GemmsimError where no configuration fits a GPU."""
        return tuple(self._pass(variant, dtype, progress) for dtype in self.dtypes for variant in self.variants)

    def _pass(self, variant: str, dtype: str, progress: Progress) -> Pass:
        form = form_of(dtype)
        products = [
            Product(variant, w.name, w.m, w.n, w.k, w.count, form) for w in self.works if w.variant == variant
        ]  # fmt: skip
        found = compare(
            products, gpus=self.names, dtype=dtype, family="all", l2=self.l2, baseline=self.baseline,
            what_if=self.what_if, sensitivity=self.sensitivity, spaces=self.spaces, shortlist=SHORTLIST,
            progress=progress,
        )  # fmt: skip
        return Pass(variant, dtype, found)


def read(path: Path, asked: Document) -> ComparisonStudy:
    """The study. Raises GemmsimError for a key whose value does not fit the others."""
    subject, works = read_workload(path, asked.workload)
    dtypes = [at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(once("dtypes", asked.dtypes))]
    gpus = read_gpus(asked.gpus, "gpus", once("dtypes", dtypes))
    _enough("gpus", gpus, asked.sensitivity or asked.what_if)
    names = asked.families or list(dict.fromkeys(f for dtype in dtypes for f in families.families_for(dtype)))
    kernels = read_kernels(once("families", names), dtypes)
    return ComparisonStudy(
        name=path.stem, path=str(path), title=asked.title, question=asked.question, subject=subject, works=works,
        names=tuple(asked.gpus), gpus=gpus, dtypes=tuple(dtypes), spaces=read_spaces(asked.vary, kernels),
        baseline=_baseline(asked.baseline, gpus), what_if=_what_if(asked.what_if, gpus),
        sensitivity=asked.sensitivity, l2=asked.l2,
    )  # fmt: skip


def _enough(key: str, gpus: Sequence[Gpu], more: object) -> None:
    """Raise GemmsimError for one GPU that nothing is compared with."""
    if len(gpus) == 1 and not more:
        raise GemmsimError(
            f"{key} is {gpus[0].name} alone: expected two or more, or sensitivity or what_if in the study"
        )


def _baseline(name: str | None, gpus: Sequence[Gpu]) -> str:
    wanted = gpus[0].name if name is None else at("baseline", load_gpu, name).name
    if wanted not in [gpu.name for gpu in gpus]:
        raise GemmsimError(f"baseline is {name!r}: expected one of gpus, {', '.join(gpu.name for gpu in gpus)}")
    return str(wanted)


def _what_if(asked: Mapping[str, Mapping[str, float]], gpus: Sequence[Gpu]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, figures in asked.items():
        gpu = at(f"what_if.{name}", load_gpu, name)
        if gpu.name not in [one.name for one in gpus] or gpu.name in found:
            raise GemmsimError(f"what_if.{name}: expected GPUs of gpus, each once")
        if not figures:
            raise GemmsimError(f"what_if.{name} is {{}}: expected figures of its hardware file")
        at(f"what_if.{name}", lambda one, given=figures: changed_gpu(one, given), name)
        found[name] = dict(figures)
    return found
