"""The GEMMs of a study: of a model by its config.json, or shapes as given."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.problem import gemm
from gemmsim.study.document import Size, Strict, Text

T = TypeVar("T", bound=Hashable)

#: the one variant of a study whose shapes are given
AS_GIVEN = "all"


class Shape(Strict):
    """One GEMM, `count` times in a pass."""

    name: Text
    m: Size
    n: Size
    k: Size
    count: Size = 1


class Workload(Strict):
    """A model or a list of shapes.

    config: a model's config.json, beside the study's file; name: what the page calls it, if not by the file's name;
    tokens: variant -> M of each GEMM; tp: GPUs that share the model by tensor parallelism.
    """

    config: Text | None = None
    name: Text | None = None
    tokens: Annotated[dict[Text, Size], Field(min_length=1)] | None = None
    tp: Size | None = None
    shapes: Annotated[list[Shape], Field(min_length=1)] | None = None


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


def read_workload(path: Path, asked: Workload) -> tuple[str, tuple[Work, ...]]:
    """What the GEMMs are of, and the GEMMs; path: the study's file. Raises GemmsimError, the key named."""
    subject, works = _works(path, asked)
    for work in works:
        try:
            gemm(work.m, work.n, work.k)
        except GemmsimError as error:
            raise GemmsimError(f"workload: GEMM {work.name}: {error}") from None
    return subject, works


def at(key: str, read: Any, value: Any) -> Any:
    """read(value), its error led by the key."""
    try:
        return read(value)
    except GemmsimError as error:
        raise GemmsimError(f"{key}: {error}") from None


def once(key: str, names: Sequence[T]) -> Sequence[T]:
    """The names. Raises GemmsimError where one is there twice; key: of the list, with [] of what is in its entries."""
    seen: set[T] = set()
    for i, name in enumerate(names):
        if name in seen:
            place = key.replace("[]", f"[{i}]") if "[]" in key else f"{key}[{i}]"
            raise GemmsimError(f"{place} is {name!r}: expected each once, it is there twice")
        seen.add(name)
    return names


def read_gpus(names: Sequence[str], key: str, dtypes: Sequence[str]) -> tuple[Gpu, ...]:
    """The GPUs of a list. Raises GemmsimError for an unknown one, one twice, and one without a path for a dtype."""
    gpus = []
    for i, name in enumerate(names):
        gpu = at(f"{key}[{i}]", load_gpu, name)
        for dtype in dtypes:
            if gpu.arch.fma_per_clk_per_sm.get(dtype) is None:
                have = ", ".join(gpu.arch.fma_per_clk_per_sm)
                raise GemmsimError(f"{key}[{i}]: GPU {gpu.name} has no {dtype} path: it has {have}")
        gpus.append(gpu)
    once(key, [gpu.name for gpu in gpus])
    return tuple(gpus)


def _works(path: Path, asked: Workload) -> tuple[str, tuple[Work, ...]]:
    if (asked.config is None) == (asked.shapes is None):
        found = "neither" if asked.config is None else "both"
        raise GemmsimError(f"workload has {found} of config and shapes: expected exactly one of them")
    if asked.config is not None:
        return _model(path.parent / asked.config, asked)
    for key in ("name", "tokens", "tp"):
        if getattr(asked, key) is not None:
            raise GemmsimError(f"workload.{key} is given with workload.shapes: expected it only with workload.config")
    shapes = asked.shapes or []
    once("workload.shapes[].name", [s.name for s in shapes])
    return "the given shapes", tuple(Work(AS_GIVEN, s.name, s.m, s.n, s.k, s.count) for s in shapes)


def _model(path: Path, asked: Workload) -> tuple[str, tuple[Work, ...]]:
    """The products with weights of a model's pass, row-major, experts one by one; attention's own are left out."""
    from gemmsim.integrations.huggingface import read_model
    from gemmsim.workload import linears

    if asked.tokens is None:
        raise GemmsimError(
            "missing key workload.tokens: expected a mapping of variants to tokens, such as prefill: 2048"
        )
    model = at("workload.config", read_model, str(path))
    works = [
        Work(variant, x.name, x.m, x.n, x.k, x.count * x.batch)
        for variant, rows in asked.tokens.items()
        for x in at("workload.tp", partial(linears, model, rows), asked.tp or 1)
    ]
    return asked.name or model.name, tuple(works)
