"""What is searched for one problem: the configurations that can launch, in what order the model likes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Space:
    """Configurations of one family, all different, with the model's time of each, s; identity: what they are for.

    The parameters of a trial are the family's, each a choice among the values that occur. Not every combination of them
    is a configuration: `nearest` maps a proposal to one that is.
    """

    config: Config
    predicted_s: FloatArray
    identity: Mapping[str, str]

    def __post_init__(self) -> None:
        if not len(self.config) or not np.all(np.isfinite(self.predicted_s) & (self.predicted_s > 0)):
            raise GemmsimError("a search space needs one configuration or more, each with a predicted time > 0")
        if len(self._places) != len(self.config):
            raise GemmsimError(f"{len(self)} configurations, {len(self._places)} different: expected all to differ")

    def __len__(self) -> int:
        return len(self.config)

    @cached_property
    def choices(self) -> dict[str, tuple[int, ...]]:
        """Parameter -> the values that occur, ascending."""
        return {name: tuple(np.unique(column).tolist()) for name, column in self.config.values.items()}

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        rows = np.stack(list(self.config.values.values()), 1).tolist()
        return {tuple(row): i for i, row in enumerate(rows)}

    def place(self, config: Mapping[str, int]) -> int | None:
        """Position of a configuration, None if it is none of the space."""
        return self._places.get(tuple(config.get(name, -1) for name in self.config.values))

    @cached_property
    def features(self) -> FloatArray:
        """A row a configuration, a column a parameter with more than one value: its step among them, 0 to 1."""
        columns = [np.searchsorted(values, self.config[name]) / (len(values) - 1)
                   for name, values in self.choices.items() if len(values) > 1]  # fmt: skip
        return np.stack(columns, 1) if columns else np.zeros((len(self), 1))

    @cached_property
    def tiles(self) -> IntArray:
        """A number for the block and thread tile of each configuration."""
        _, tile = unique_rows({name: self.config[name] for name in TILE if name in self.config.values})
        return np.asarray(tile, np.int64)

    def nearest(self, config: Mapping[str, int], free: Mask, generator: np.random.Generator) -> int:
        """Position of the free configuration with the fewest steps of parameters to this one; of several one drawn."""
        asked = [np.searchsorted(values, config[name]) / (len(values) - 1)
                 for name, values in self.choices.items() if len(values) > 1]  # fmt: skip
        steps = np.abs(self.features - (np.asarray(asked) if asked else 0.0)).sum(1)
        steps[~free] = np.inf
        return int(generator.choice(np.flatnonzero(steps <= steps.min() + 1e-9)))

    def shortlist(self, count: int) -> list[int]:
        """Positions to measure first: the fastest predicted, and last the family's default or what is nearest to it.

        Of each block and thread tile the fastest alone, so that the list does not stand and fall with the model's error
        on one tile.
        """
        order = np.argsort(self.predicted_s, kind="stable")
        _, first = np.unique(self.tiles[order], return_index=True)
        best = order[np.sort(first)].tolist()
        others = [place for place in best if place != self.default]
        return [*others[: count - 1], self.default] if count > 1 else best[:1]

    @cached_property
    def default(self) -> int:
        """Position of the family's default configuration, or of what is nearest to it."""
        default = {p.name: p.default for p in families.family(self.config.family).PARAMETERS}
        every = np.ones(len(self), bool)
        return self.nearest({n: default.get(n, v[0]) for n, v in self.choices.items()}, every, np.random.default_rng(0))

    @cached_property
    def described(self) -> dict[str, str]:
        """What a study's trials were measured for: the identity, and a digest of the configurations."""
        text = repr([(name, column.tolist()) for name, column in self.config.values.items()])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return {**self.identity, "family": self.config.family, "configurations": f"{len(self)}, sha256 {digest}"}


def space_of(
    m: int, n: int, k: int, *, gpu: str | Gpu, family: str, dtype: str | Form = "bf16", l2: str = DEFAULT_L2,
    calibrated: str | Calibration = "auto",
) -> Space:  # fmt: skip
    """All configurations of the family's space that can launch the problem; the options are `predict`'s.

    Raises GemmsimError for wrong input, and where none can launch.
    """
    chip, form = gpu if isinstance(gpu, Gpu) else load_gpu(gpu), form_of(dtype)
    every = predict(m, n, k, gpu=chip, dtype=form, family=family, config=families.space(family), l2=l2,
                    calibrated=calibrated)  # fmt: skip
    good = np.flatnonzero(every.feasible)
    if not len(good):
        raise GemmsimError(f"no configuration of {family} can launch {m} x {n} x {k} on {chip.name}")
    identity = {"gpu": chip.name, "problem": f"{m} x {n} x {k}", "form": _spelled(form), "l2": l2}
    return Space(every.config.take(good), every.time_s[good], identity)


def _spelled(form: Form) -> str:
    """A form in words that differ where forms do."""
    extras = [*(["beta"] if form.beta else []), *form.epilogue, *([f"batch {form.batch}"] if form.batch > 1 else [])]
    return " ".join([f"{form.dtype} x {form.dtype_b} -> {form.dtype_c}", form.layout, *extras])
