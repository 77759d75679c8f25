"""The curves of a sweep: of one configuration, or of the fastest of several at each size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.problem import IntArray, dtype_name, gemm
from gemmsim.study.document import Strict, Text, show
from gemmsim.study.picks.plan import read_grid
from gemmsim.study.workload import at


class CurveDocument(Strict):
    """A curve, as written: family -> parameter -> a value or several, of which the fastest is taken at each size.

    config: parameters that are not named are at their defaults; space: they take every value of the family's space.
    dtype: if not the study's.
    """

    name: Text
    dtype: Text | None = None
    config: Any = None
    space: Any = None


@dataclass(frozen=True)
class Kernel:
    """Configurations of one family. held: parameter -> values that a measured row of the curve has."""

    config: Config
    held: Mapping[str, IntArray]

    def admits(self, config: Config) -> np.ndarray:
        """Which of these configurations belong to the curve: true or false for each."""
        inside = np.ones(len(config), bool)
        if config.family != self.config.family:
            return ~inside
        for name, values in self.held.items():
            inside &= np.isin(config[name], values)
        return inside


@dataclass(frozen=True)
class Curve:
    """A named curve: at each size the fastest configuration of its kernels."""

    name: str
    dtype: str
    kernels: tuple[Kernel, ...]

    def __len__(self) -> int:
        return sum(len(kernel.config) for kernel in self.kernels)

    @property
    def alone(self) -> bool:
        """Whether it is of one configuration."""
        return len(self) == 1

    @property
    def families(self) -> str:
        """Its families' names."""
        return ", ".join(kernel.config.family for kernel in self.kernels)


def read_curve(asked: CurveDocument, key: str, dtype: str) -> Curve:
    """A curve of the document at this key. Raises GemmsimError, the key named."""
    own = dtype if asked.dtype is None else at(f"{key}.dtype", dtype_name, asked.dtype)
    given = {name: said for name in ("config", "space") if (said := getattr(asked, name)) is not None}
    if len(given) != 1:
        found = "both" if given else "neither"
        raise GemmsimError(f"{key} has {found} of config and space: expected exactly one of them")
    [(way, said)] = given.items()
    if not isinstance(said, dict) or not said:
        raise GemmsimError(f"{key}.{way} is {show(said)}: expected a mapping family -> parameter -> value or values")
    read = _of_values if way == "config" else _of_space
    return Curve(asked.name, own, tuple(read(name, said[name], f"{key}.{way}", own) for name in said))


def _of_values(name: Any, values: Any, key: str, dtype: str) -> Kernel:
    """Every combination of the given values, the rest at their defaults."""
    config = read_grid(_family(name, key, dtype), _listed(values), f"{key}.{name}")
    return Kernel(config, {p: np.unique(column) for p, column in config.values.items()})


def _of_space(name: Any, values: Any, key: str, dtype: str) -> Kernel:
    """The configurations of the family's space that have the given values."""
    listed = _listed(values)
    read_grid(_family(name, key, dtype), listed, f"{key}.{name}")
    held = {p: np.unique(np.asarray(choices, np.int64)) for p, choices in listed.items()}
    space = families.space(name)
    config = space.take(np.flatnonzero(Kernel(space, held).admits(space)))
    if not len(config):
        raise GemmsimError(f"{key}.{name} is {show(values)}: no configuration of the family's space has these values")
    return Kernel(config, held)


def _listed(values: Any) -> Any:
    """Parameter -> list of values, a single value as a list of one; no parameter where nothing is said."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        return values
    return {p: choices if isinstance(choices, list) else [choices] for p, choices in values.items()}


def _family(name: Any, key: str, dtype: str) -> str:
    """The family's name. Raises GemmsimError for an unknown one, or one without a row-major kernel of the dtype."""
    at(key, families.family, str(name))
    at(key, lambda text: families.check(text, gemm(1, 1, 1, dtype)), str(name))
    return str(name)
