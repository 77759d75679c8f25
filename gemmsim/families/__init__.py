"""Kernel families, one module each: NAME, DTYPES, PARAMETERS, PRIORS, FIXED, launch, refusals, traits, group_m."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np

from gemmsim.config import Config, Launch
from gemmsim.errors import GemmsimError, unknown
from gemmsim.families.refuse import Refusals, layout_lacking
from gemmsim.families.traits import Parameter, Prior, Traits
from gemmsim.hardware import Arch
from gemmsim.problem import FloatArray, Form, Gemm

FAMILIES = ("triton", "simt", "wgmma", "mma", "register_tile", "wmma", "smem_tile", "naive")


class Family(Protocol):
    """What a family's module offers."""

    NAME: str
    DTYPES: tuple[str, ...]
    WEIGHT_DTYPES: tuple[str, ...]
    LAYOUTS: tuple[str, ...]
    EPILOGUES: bool
    BATCH: bool
    PARAMETERS: tuple[Parameter, ...]
    PRIORS: Mapping[str, Prior]
    FIXED: Mapping[str, float]

    def launch(self, problem: Gemm, config: Config, arch: Arch) -> Launch:
        """What a block takes, estimated from its tile."""

    def refusals(self, problem: Gemm, config: Config, launch: Launch, arch: Arch) -> Refusals:
        """Why a configuration cannot run."""

    def traits(self, problem: Gemm, config: Config, launch: Launch, arch: Arch, align: bool = False) -> Traits:
        """Counts that the model reads; align: as if every row stride were aligned."""

    def group_m(self, config: Config) -> FloatArray:
        """Tile rows that the raster walks together."""


def family(name: str, *, where: str = "") -> Family:
    """The family of that name. Raises GemmsimError for an unknown one."""
    if name not in FAMILIES:
        raise unknown("family", name, FAMILIES, where=where)
    return cast(Family, importlib.import_module(f"gemmsim.families.{name}"))


def families_for(dtype: str) -> list[str]:
    """Families that have a kernel for the dtype."""
    return [name for name in FAMILIES if dtype in family(name).DTYPES]


def would_do(names: Sequence[str]) -> str:
    """What an error ends with: the families that do what one does not; empty if none does."""
    return f"; family {' or '.join(names)} would do" if names else ""


def check_dtype(name: str, dtype: str, *, where: str = "") -> None:
    """Raise GemmsimError if the family has no kernel for the dtype."""
    have = family(name).DTYPES
    if dtype not in have:
        place, others = f" ({where})" if where else "", would_do(families_for(dtype))
        raise GemmsimError(f"family {name} has no {dtype} kernel{place}: it has {', '.join(have)}{others}")


def layouts(name: str, dtype: str) -> tuple[str, ...]:
    """Layouts that the family has a kernel for where A is of that dtype: its own for each, or LAYOUTS for all."""
    module = family(name)
    own: Mapping[str, tuple[str, ...]] = getattr(module, "LAYOUTS_OF", {})
    return own.get(dtype, module.LAYOUTS)


def check(name: str, problem: Gemm) -> None:
    """Raise GemmsimError if the family has no kernel for the problem's types, layout, batch, beta or epilogue."""
    check_dtype(name, problem.dtype)
    lacking = _lacking(name, problem)
    if lacking:
        raise GemmsimError(f"family {name} has no kernel {lacking}{would_do(that_do(problem))}")


def _lacking(name: str, problem: Gemm) -> str:
    """What of the problem, its type aside, the family has no kernel for, and what it has; empty if nothing."""
    module = family(name)
    if problem.dtype_b != problem.dtype and problem.dtype_b not in module.WEIGHT_DTYPES:
        return f"for B in {problem.dtype_b}: it has {', '.join((problem.dtype, *module.WEIGHT_DTYPES))}"
    have = layouts(name, problem.dtype)
    if problem.layout not in have:
        return layout_lacking(problem.layout, have, getattr(module, "LAYOUT_RULE", ""))
    extras = [*(["beta"] if problem.beta else []), *problem.epilogue]
    if extras and not module.EPILOGUES:
        return f"with {extras[0]}: it does the plain product alone"
    return _batch_lacking(name, problem)


def _batch_lacking(name: str, problem: Gemm) -> str:
    module = family(name)
    if module.BATCH or (problem.batch == 1).all():
        return ""
    return f"with batch: it does {'one problem a launch' if module.EPILOGUES else 'the plain product alone'}"


def check_batch(name: str, problem: Gemm) -> None:
    """Raise GemmsimError for a batch if the family does one problem a launch."""
    lacking = _batch_lacking(name, problem)
    if lacking:
        raise GemmsimError(f"family {name} has no kernel {lacking}")


def does(name: str, problem: Gemm) -> bool:
    """Whether the family has a kernel for the problem's types, layout, batch, beta and epilogue."""
    return problem.dtype in family(name).DTYPES and not _lacking(name, problem)


def that_do(problem: Gemm) -> list[str]:
    """Families that have a kernel for the problem's types, layout, batch, beta and epilogue."""
    return [name for name in FAMILIES if does(name, problem)]


def config(name: str, values: Mapping[str, object], rows: int = 1) -> Config:
    """A Config from numbers or arrays; parameters left out take the family's defaults.

    Raises GemmsimError for an unknown parameter or a value that is no whole number >= 1.
    """
    parameters = family(name).PARAMETERS
    known = [p.name for p in parameters]
    for given in values:
        if given not in known:
            raise unknown(f"parameter of family {name}", given, known)
    columns = {p.name: _whole(p, values.get(p.name, p.default)) for p in parameters}
    rows = max(rows, *(len(c) for c in columns.values()))
    return Config(name, {k: np.broadcast_to(v, rows) if len(v) == 1 else v for k, v in columns.items()})


def fitted(name: str, m: int, n: int, k: int, config: Mapping[str, int], form: Form) -> dict[str, int]:
    """The configuration that is compiled for a problem: itself, unless the family adapts it to the sizes."""
    adapt = getattr(family(name), "fitted", None)
    return dict(adapt(m, n, k, config, form) if adapt else config)


def space(name: str) -> Config:
    """The configurations that are searched: the family's own enumeration, else every combination of its choices.

    Refused ones are included.
    """
    module = family(name)
    own: Callable[[], Config] | None = getattr(module, "space", None)
    if own is not None:
        return own()
    parameters = module.PARAMETERS
    grid = np.meshgrid(*(np.asarray(p.choices, np.int64) for p in parameters), indexing="ij")
    return Config(name, {p.name: g.ravel() for p, g in zip(parameters, grid, strict=True)})


def least(p: Parameter) -> int:
    """The least number that is a value at all: 0 for switches and paddings, else 1."""
    return min(1, p.low)


def _whole(p: Parameter, value: object) -> np.ndarray:
    raw = np.atleast_1d(np.asarray(value))
    if raw.dtype.kind not in "iuf" or not np.all((raw >= least(p)) & (raw == np.floor(raw)) & (raw < 2**31)):
        raise GemmsimError(f"{p.name} = {value!r}: expected a whole number from {least(p)} to {2**31 - 1}")
    if raw.ndim > 1 or not raw.size:
        raise GemmsimError(f"{p.name} has the shape {raw.shape}: expected a number or a list of numbers")
    return raw.astype(np.int64)
