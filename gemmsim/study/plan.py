"""A study made ready to run: its GEMMs by variant, its GPUs, kernels and the configurations to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.paths import data_folder
from gemmsim.problem import dtype_name, gemm
from gemmsim.study.curves import SearchStudy, search_study
from gemmsim.study.orders import RasterStudy, raster_study

if TYPE_CHECKING:
    from gemmsim.study.document import StudyDocument, Workload

#: the one variant of a study whose shapes are given
AS_GIVEN = "all"
#: configurations of a family in a study; more are rather a slip in a list than a question
MOST_CONFIGURATIONS = 1_000_000


@dataclass(frozen=True)
class Work:
    """One GEMM of a variant, `count` times in a pass."""

    variant: str
    name: str
    m: int
    n: int
    k: int
    count: int

    @property
    def flops(self) -> float:
        """2 m n k of one launch."""
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Study:
    """A checked study. `kernels` are the (family, dtype) pairs that exist; `spaces` the configurations a family."""

    name: str
    path: str
    title: str
    question: str
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


def study_names() -> list[str]:
    """Studies that ship with gemmsim."""
    return sorted(path.stem for path in data_folder("studies").glob("*.yaml"))


def find_study(name_or_path: str) -> Path:
    """The file of a shipped study's name, or the path as it is. Raises GemmsimError for an unknown name."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path or "\\" in name_or_path:
        return Path(name_or_path)
    if name_or_path not in study_names():
        raise unknown("study", name_or_path, study_names())
    return data_folder("studies") / f"{name_or_path}.yaml"


def load_study(name_or_path: str) -> Study:
    """Read and check a study of picks. Raises GemmsimError: file, key, what was found, what was expected."""
    study = open_study(name_or_path)
    if not isinstance(study, Study):
        kind = "search" if isinstance(study, SearchStudy) else "raster"
        raise GemmsimError(f"{study.path}: kind is {kind}: expected a study of picks")
    return study


def open_study(name_or_path: str) -> Study | SearchStudy | RasterStudy:
    """Read and check a study of any kind. Raises GemmsimError: file, key, what was found, what was expected."""
    from gemmsim.study.document import RasterDocument, SearchDocument, read_document

    path = find_study(name_or_path)
    document = read_document(path)
    try:
        if isinstance(document, SearchDocument):
            return search_study(path, document)
        return raster_study(path, document) if isinstance(document, RasterDocument) else _study(path, document)
    except GemmsimError as error:
        sentence = str(error)
        raise GemmsimError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None


def with_gpus(study: Study, names: Sequence[str]) -> Study:
    """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
    return replace(study, gpus=_gpus(names, "--gpus", study.dtypes))


def _study(path: Path, document: StudyDocument) -> Study:
    subject, works = _workload(path, document.workload)
    for work in works:
        try:
            gemm(work.m, work.n, work.k)
        except GemmsimError as error:
            raise GemmsimError(f"workload: GEMM {work.name}: {error}") from None
    dtypes = [_at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(_once("dtypes", document.dtypes))]
    kernels = _kernels(_once("families", document.families), _once("dtypes", dtypes))
    return Study(
        name=path.stem, path=str(path), title=document.title, question=document.question, subject=subject, works=works,
        gpus=_gpus(document.gpus, "gpus", dtypes), kernels=kernels, spaces=_spaces(document.vary, kernels),
        measure=document.measure, top=document.top, l2=document.l2,
    )  # fmt: skip


def _at(key: str, read: Any, value: Any) -> Any:
    """read(value), its error led by the key."""
    try:
        return read(value)
    except GemmsimError as error:
        raise GemmsimError(f"{key}: {error}") from None


def _once(key: str, names: Sequence[str]) -> Sequence[str]:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise GemmsimError(f"{key}[{i}] is {name!r}: expected each once, it is there twice")
    return names


def _workload(path: Path, asked: Workload) -> tuple[str, tuple[Work, ...]]:
    """What the GEMMs are of, and the GEMMs."""
    if (asked.config is None) == (asked.shapes is None):
        found = "neither" if asked.config is None else "both"
        raise GemmsimError(f"workload has {found} of config and shapes: expected exactly one of them")
    if asked.config is not None:
        return _model(path.parent / asked.config, asked)
    for key in ("name", "tokens", "tp"):
        if getattr(asked, key) is not None:
            raise GemmsimError(f"workload.{key} is given with workload.shapes: expected it only with workload.config")
    shapes = asked.shapes or []
    _once("workload.shapes: name", [s.name for s in shapes])
    return "the given shapes", tuple(Work(AS_GIVEN, s.name, s.m, s.n, s.k, s.count) for s in shapes)


def _model(path: Path, asked: Workload) -> tuple[str, tuple[Work, ...]]:
    """The products with weights of a model's pass, row-major, experts one by one; attention's own are left out."""
    from gemmsim.integrations.huggingface import read_model
    from gemmsim.workload import linears

    if asked.tokens is None:
        raise GemmsimError(
            "missing key workload.tokens: expected a mapping of variants to tokens, such as prefill: 2048"
        )
    model = _at("workload.config", read_model, str(path))
    works = [
        Work(variant, x.name, x.m, x.n, x.k, x.count * x.batch)
        for variant, rows in asked.tokens.items()
        for x in _at("workload.tp", partial(linears, model, rows), asked.tp or 1)
    ]
    return asked.name or model.name, tuple(works)


def _gpus(names: Sequence[str], key: str, dtypes: Sequence[str]) -> tuple[Gpu, ...]:
    gpus = []
    for i, name in enumerate(names):
        gpu = _at(f"{key}[{i}]", load_gpu, name)
        for dtype in dtypes:
            if gpu.arch.fma_per_clk_per_sm.get(dtype) is None:
                have = ", ".join(gpu.arch.fma_per_clk_per_sm)
                raise GemmsimError(f"{key}[{i}]: GPU {gpu.name} has no {dtype} path: it has {have}")
        gpus.append(gpu)
    _once(key, [gpu.name for gpu in gpus])
    return tuple(gpus)


def _kernels(names: Sequence[str], dtypes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Every (family, dtype) with a kernel; each family and each dtype must have one."""
    for i, name in enumerate(names):
        have = _at(f"families[{i}]", families.family, name).DTYPES
        if not set(have) & set(dtypes):
            raise GemmsimError(f"families[{i}]: {name} has no {' or '.join(dtypes)} kernel: it has {', '.join(have)}")
    for i, dtype in enumerate(dtypes):
        if not any(dtype in families.family(name).DTYPES for name in names):
            raise GemmsimError(f"dtypes[{i}]: no {dtype} kernel in {', '.join(names)}")
    return tuple((name, d) for d in dtypes for name in names if d in families.family(name).DTYPES)


def _spaces(vary: Any, kernels: Sequence[tuple[str, str]]) -> Mapping[str, Config]:
    names = list(dict.fromkeys(family for family, _ in kernels))
    if vary == "space":
        return {name: families.space(name) for name in names}
    if not isinstance(vary, dict) or not vary:
        raise GemmsimError(f"vary is {vary!r}: expected space, or a mapping family -> parameter -> values")
    for name in vary:
        if name not in names:
            raise unknown("family", str(name), names, where="vary")
    return {name: _grid(name, vary.get(name, {})) for name in names}


def _grid(name: str, values: Any) -> Config:
    """Every combination of the given values; parameters not given stay at the family's defaults.

    Raises GemmsimError for what is no parameter or no value of it, and for more combinations than memory holds.
    """
    if not isinstance(values, dict):
        raise GemmsimError(f"vary.{name} is {values!r}: expected a mapping of parameters to lists of values")
    known = {p.name: p for p in families.family(name).PARAMETERS}
    for parameter, choices in values.items():
        if parameter not in known:
            raise unknown(f"parameter of family {name}", str(parameter), known, where=f"vary.{name}")
        low = families.least(known[parameter])
        good = isinstance(choices, list) and choices and all(type(c) is int and low <= c < 2**31 for c in choices)
        if not good:
            raise GemmsimError(
                f"vary.{name}.{parameter} is {choices!r}: expected a list of whole numbers from {low}, not empty"
            )
    count = prod(len(choices) for choices in values.values())
    if count > MOST_CONFIGURATIONS:
        raise GemmsimError(f"vary.{name} has {count} combinations: expected at most {MOST_CONFIGURATIONS}")
    grid = np.meshgrid(*(np.asarray(c, np.int64) for c in values.values()), indexing="ij")
    return families.config(name, {p: g.ravel() for p, g in zip(values, grid, strict=True)})
