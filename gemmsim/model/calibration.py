"""Fitted coefficients: calibration/<gpu>.<family>.yaml, the rows they come from and the range they hold in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.families import family
from gemmsim.hardware import Gpu
from gemmsim.model.coefficients import COEFFICIENTS, LEAST, complete
from gemmsim.model.intervals import CLASSES, Spread, uncalibrated
from gemmsim.problem import DTYPE_BYTES

#: what a prediction without fitted coefficients says of itself
UNCALIBRATED = "uncalibrated"
#: more than any coefficient, dimension or parameter
_MOST = 2.0**32


@dataclass(frozen=True)
class Calibration:
    """Coefficients of one family on one GPU. `ranges` holds low and high of every parameter in the fitted rows."""

    name: str  # the file's name, or "uncalibrated"
    values: Mapping[str, float]
    gpu: str = ""  # whose rows were fitted
    dtypes: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    spread: Spread = field(default_factory=uncalibrated)

    @property
    def fitted(self) -> bool:
        """Whether the coefficients come from measured rows."""
        return self.name != UNCALIBRATED


def defaults(family_name: str) -> Calibration:
    """Physical defaults of a family: the priors, which the GPU's own figures scale."""
    module = family(family_name)
    values = {name: prior.value for name, prior in module.PRIORS.items()} | dict(module.FIXED)
    return Calibration(UNCALIBRATED, complete(values))


def find(gpu: Gpu, family_name: str, choice: str = "auto", dtype: str = "") -> Calibration:
    """The calibration for a GPU and family: choice is 'auto', 'none' or a file.

    auto looks beside the GPU's own file for calibration/<gpu>.<family>.<dtype>.yaml, then <gpu>.<family>.yaml; without
    either, the defaults.
    """
    if choice == "none":
        return defaults(family_name)
    if choice != "auto":
        return load(Path(choice), family_name)
    folder = Path(gpu.path).parent / "calibration"
    whole = gpu.name.partition(":")[0]  # a MIG slice has its GPU's SMs, and its calibration
    for name in (f"{whole}.{family_name}.{dtype}.yaml", f"{whole}.{family_name}.yaml"):
        if (folder / name).is_file():
            return load(folder / name, family_name)
    return defaults(family_name)


def load(path: Path, family_name: str) -> Calibration:
    """Read a calibration file. Raises GemmsimError for what is no calibration of this family."""
    try:
        stamp = os.stat(path).st_mtime_ns
    except (OSError, ValueError) as error:  # ValueError: a null character
        why = getattr(error, "strerror", None) or error
        raise GemmsimError(f"calibration {path}: {why}, expected a readable file") from None
    return _load(path, stamp, family_name)


@lru_cache(maxsize=64)
def _load(path: Path, stamp: int, family_name: str) -> Calibration:
    document = _read(path)
    found = document.get("family")
    if found != family_name:
        raise GemmsimError(f"calibration {path}: family is {found!r}, expected {family_name!r}")
    fitted = _mapping(document, "coefficients", path)
    values = dict(family(family_name).FIXED)
    for name, value in fitted.items():
        if name not in COEFFICIENTS:
            raise unknown("coefficient", str(name), COEFFICIENTS, where=str(path))
        values[name] = _number(value, f"coefficients.{name}", path, LEAST.get(name, 0))
    missing = [name for name in family(family_name).PRIORS if name not in values]
    if missing:
        raise GemmsimError(f"calibration {path}: coefficients.{missing[0]} is missing")
    ranges = _mapping(document, "range", path)
    spans = {str(k): _span(v, f"range.{k}", path) for k, v in ranges.items()}
    dtypes = document.get("dtypes")
    if not isinstance(dtypes, list) or not all(d in DTYPE_BYTES for d in map(str, dtypes)):
        known = ", ".join(DTYPE_BYTES)
        raise GemmsimError(f"calibration {path}: dtypes is {dtypes!r:.60}, expected a list of dtype names, of {known}")
    return Calibration(path.name, complete(values), _gpu(document, path), tuple(dtypes), spans, _spread(document, path))


def _gpu(document: dict[str, Any], path: Path) -> str:
    gpu = document.get("gpu")
    if not isinstance(gpu, str) or not gpu:
        raise GemmsimError(f"calibration {path}: gpu is {gpu!r:.40}, expected the name of the GPU it was fitted on")
    return gpu


def _spread(document: dict[str, Any], path: Path) -> Spread:
    """Factors by class; those of uncalibrated predictions where the file has none."""
    if "intervals" not in document:
        return uncalibrated()
    sides = _mapping(document, "intervals", path)
    tables = {}
    for side in ("facts", "tile"):
        given = _mapping(sides, side, path)
        missing = [name for name in CLASSES if name not in given]
        if missing:
            raise GemmsimError(f"calibration {path}: intervals.{side}.{missing[0]} is missing")
        tables[side] = {name: _span(given[name], f"intervals.{side}.{name}", path) for name in CLASSES}
    return Spread(tables["facts"], tables["tile"])


def _read(path: Path) -> dict[str, Any]:
    from gemmsim.yamlfile import read_yaml

    try:
        return read_yaml(path)
    except GemmsimError as error:
        raise GemmsimError(f"calibration {error}") from None


def _mapping(document: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise GemmsimError(f"calibration {path}: {key} is {value!r:.40}, expected a mapping")
    return value


def _number(value: object, key: str, path: Path, least: float = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < _MOST:
        raise GemmsimError(f"calibration {path}: {key} is {value!r:.40}, expected a number >= {least:g}, < {_MOST:g}")
    return float(value)


def _span(value: object, key: str, path: Path) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise GemmsimError(f"calibration {path}: {key} is {value!r:.40}, expected [low, high]")
    low, high = (_number(v, key, path) for v in value)
    if low > high:
        raise GemmsimError(f"calibration {path}: {key} is {value!r}, expected [low, high] with low <= high")
    return low, high
