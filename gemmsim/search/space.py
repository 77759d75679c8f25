"""What is searched for one problem: the configurations that can launch, in what order the model likes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.calibration import Calibration
from gemmsim.model.predict import predict
from gemmsim.problem import FloatArray, Form, IntArray, form_of
from gemmsim.ranking import TILE

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
#: a parameter's value in a trial; None: the family has no such parameter
Value = int | str | None
#: parameter of a trial, where a space is of several families
FAMILY = "family"
_ABSENT = -1


class Candidate(NamedTuple):
    """One configuration of one family."""

    family: str
    config: dict[str, int]


@dataclass(frozen=True)
class Space:
    """Configurations, all different, a part a family, with the model's time of each, s; identity: what they are for.

    predicted_s: part after part. The parameters of a trial are those of the families, each a choice among the values
    that occur, and the family where there are several. Not every combination of them is a configuration: `nearest` maps
    a proposal to one that is.
    """

    parts: Sequence[Config]
    predicted_s: FloatArray
    identity: Mapping[str, str]

    def __post_init__(self) -> None:
        count = sum(map(len, self.parts))
        if not count or not np.all(np.isfinite(self.predicted_s) & (self.predicted_s > 0)):
            raise GemmsimError("a search space needs one configuration or more, each with a predicted time > 0")
        if len(self._places) != count:
            raise GemmsimError(f"{count} configurations, {len(self._places)} different: expected all to differ")

    def __len__(self) -> int:
        return len(self.predicted_s)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k. Raises GemmsimError where the identity does not say."""
        sizes = [int(text) for text in self.identity.get("problem", "").split(" x ") if text.isdecimal()]
        if len(sizes) != 3:
            raise GemmsimError(f"problem of a space is {self.identity.get('problem')!r}: expected m x n x k")
        return sizes[0], sizes[1], sizes[2]

    @cached_property
    def _columns(self) -> dict[str, IntArray]:
        """Every parameter of every family, _ABSENT where a family lacks it."""
        names = dict.fromkeys(name for part in self.parts for name in part.values)
        return {
            name: np.concatenate([part.values.get(name, np.full(len(part), _ABSENT)) for part in self.parts])
            for name in names
        }

    @cached_property
    def part(self) -> IntArray:
        """Which part each configuration is of."""
        return np.repeat(np.arange(len(self.parts)), [len(part) for part in self.parts])

    @cached_property
    def choices(self) -> dict[str, tuple[Value, ...]]:
        """Parameter -> the values that occur, ascending, None first; families in the order of the parts."""
        found: dict[str, tuple[Value, ...]] = {}
        if len(self.parts) > 1:
            found[FAMILY] = tuple(part.family for part in self.parts)
        for name, column in self._columns.items():
            found[name] = tuple(None if v == _ABSENT else v for v in np.unique(column).tolist())
        return found

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        rows = np.stack([self.part, *self._columns.values()], 1).tolist()
        return {tuple(row): i for i, row in enumerate(rows)}

    def candidate(self, place: int) -> Candidate:
        """The configuration at a position."""
        part = self.parts[self.part[place]]
        return Candidate(part.family, {name: int(self._columns[name][place]) for name in part.values})

    def params(self, place: int) -> dict[str, Value]:
        """The configuration at a position, as a trial has it."""
        family, config = self.candidate(place)
        return {name: family if name == FAMILY else config.get(name) for name in self.choices}

    def place(self, params: Mapping[str, Value]) -> int | None:
        """Position of a configuration, as a trial has it; None if it is none of the space."""
        if any(name not in params or params[name] not in values for name, values in self.choices.items()):
            return None
        values = [_ABSENT if params[name] is None else params[name] for name in self._columns]
        return self._places.get((self._part_of(params), *values))  # type: ignore[arg-type]

    def place_of(self, candidate: Candidate) -> int | None:
        """Position of a candidate; None if it is none of the space."""
        values = {name: candidate.config.get(name) for name in self._columns}
        known = candidate.family in [part.family for part in self.parts]
        return self.place({FAMILY: candidate.family, **values}) if known else None

    def _part_of(self, params: Mapping[str, Value]) -> int:
        names = [part.family for part in self.parts]
        return names.index(str(params[FAMILY])) if FAMILY in self.choices else 0

    @cached_property
    def features(self) -> FloatArray:
        """A row a configuration, a column a parameter with more than one value: its step among them, 0 to 1.

        With several families, a column for each, too.
        """
        columns = [self._step(name, column) for name, column in self._columns.items() if len(self.choices[name]) > 1]
        if len(self.parts) > 1:
            columns += [(self.part == i).astype(np.float64) for i in range(len(self.parts))]
        return np.stack(columns, 1) if columns else np.zeros((len(self), 1))

    def _step(self, name: str, values: IntArray) -> FloatArray:
        steps = np.unique(self._columns[name])
        return np.asarray(np.searchsorted(steps, values) / (len(steps) - 1))

    @cached_property
    def tiles(self) -> IntArray:
        """A number for the family, block and thread tile of each configuration."""
        _, tile = unique_rows({"": self.part, **{n: self._columns[n] for n in TILE if n in self._columns}})
        return np.asarray(tile, np.int64)

    def nearest(self, params: Mapping[str, Value], free: Mask, generator: np.random.Generator) -> int:
        """Position of the free configuration with the fewest steps of parameters to this one; of several one drawn.

        One of the same family, while one is free.
        """
        own = free & (self.part == self._part_of(params))
        free = own if own.any() else free
        steps = np.zeros(len(self))
        for name, column in self._columns.items():
            if len(self.choices[name]) > 1:
                value = _ABSENT if params[name] is None else params[name]
                steps += np.abs(self._step(name, column) - self._step(name, np.asarray(value, np.int64)))
        steps[~free] = np.inf
        return int(generator.choice(np.flatnonzero(steps <= steps.min() + 1e-9)))

    def shortlist(self, count: int) -> list[int]:
        """Positions to measure first: the fastest predicted, and last the family's default or what is nearest to it.

        Of each block and thread tile the fastest alone, so that the list does not stand and fall with the model's error
        on one tile.
        """
        order = np.argsort(self.predicted_s, kind="stable")
        _, first = np.unique(self.tiles[order], return_index=True)
        best = order[np.sort(first)][:count].tolist()
        return best if count == 1 or self.default in best else [*best[: count - 1], self.default]

    @cached_property
    def default(self) -> int:
        """Position of the default of the family that the model likes best, or of what is nearest to it."""
        part = self.part[int(np.argmin(self.predicted_s))]
        family = self.parts[part].family
        known: dict[str, Value] = {p.name: p.default for p in families.family(family).PARAMETERS}
        known |= {FAMILY: family}
        params = {name: known.get(name, values[0]) for name, values in self.choices.items()}
        return self.nearest(params, np.ones(len(self), bool), np.random.default_rng(0))

    @cached_property
    def described(self) -> dict[str, str]:
        """What a study's trials were measured for: the identity, and a digest of the configurations."""
        text = repr([(p.family, [(n, column.tolist()) for n, column in p.values.items()]) for p in self.parts])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        named = ", ".join(part.family for part in self.parts)
        return {**self.identity, "family": named, "configurations": f"{len(self)}, sha256 {digest}"}


def space_of(
    m: int, n: int, k: int, *, gpu: str | Gpu, family: str | Sequence[str], dtype: str | Form = "bf16",
    l2: str = DEFAULT_L2, calibrated: str | Calibration = "auto",
) -> Space:  # fmt: skip
    """All configurations of a family's space, or of several families', that can launch; the options are `predict`'s.

    Raises GemmsimError for wrong input, and where none can launch.
    """
    chip, form = gpu if isinstance(gpu, Gpu) else load_gpu(gpu), form_of(dtype)
    names = [family] if isinstance(family, str) else family
    parts, predicted = [], []
    for name in names:
        every = predict(m, n, k, gpu=chip, dtype=form, family=name, config=families.space(name), l2=l2,
                        calibrated=calibrated)  # fmt: skip
        good = np.flatnonzero(every.feasible)
        if len(good):
            parts.append(every.config.take(good))
            predicted.append(every.time_s[good])
    if not parts:
        raise GemmsimError(f"no configuration of {', '.join(names)} can launch {m} x {n} x {k} on {chip.name}")
    return Space(parts, np.concatenate(predicted), identity_of(m, n, k, chip, form, l2))


def identity_of(m: int, n: int, k: int, gpu: Gpu, form: Form, l2: str) -> dict[str, str]:
    """What configurations are for, in words that differ where it does."""
    return {"gpu": gpu.name, "problem": f"{m} x {n} x {k}", "form": _spelled(form), "l2": l2}


def _spelled(form: Form) -> str:
    """A form in words that differ where forms do."""
    extras = [*(["beta"] if form.beta else []), *form.epilogue, *([f"batch {form.batch}"] if form.batch > 1 else [])]
    return " ".join([f"{form.dtype} x {form.dtype_b} -> {form.dtype_c}", form.layout, *extras])
