"""From measured rows to a family's coefficients: robust least squares in log time, with bounds and priors.

The residual of a row is log(predicted / measured). Coefficients move in log space between the bounds of the family's
priors and are pulled to the prior's value with a weight small against the rows (PRIOR_WEIGHT a quarter of the range).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.config import Config, Launch
from gemmsim.errors import GemmsimError
from gemmsim.families.traits import Prior
from gemmsim.hardware import Gpu
from gemmsim.model import effects, solver
from gemmsim.model.case import make_case
from gemmsim.model.coefficients import complete
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.predict import with_facts
from gemmsim.problem import FloatArray, Gemm

PRIOR_WEIGHT = 0.1
#: residuals beyond this (10 %) count less and less
ROBUST_SCALE = 0.1
MAX_EVALUATIONS = 60
#: rows needed for each free coefficient
ROWS_PER_COEFFICIENT = 3
Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Measured:
    """Measured rows of one family, GPU, dtype and L2 condition. facts: compiler facts by name (may be empty)."""

    problem: Gemm
    config: Config
    facts: Mapping[str, FloatArray]
    time_s: FloatArray
    gpu: Gpu
    l2: str

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, index: Index) -> Measured:
        """The rows at these positions."""
        p = self.problem
        problem = Gemm(p.m[index], p.n[index], p.k[index], p.dtype)
        facts = {name: column[index] for name, column in self.facts.items()}
        return Measured(problem, self.config.take(index), facts, self.time_s[index], self.gpu, self.l2)

    def launch(self) -> Launch:
        """Launches with the facts where known."""
        module = families.family(self.config.family)
        return with_facts(module.launch(self.problem, self.config, self.gpu.arch), self.facts)


@dataclass(frozen=True)
class Fit:
    """Fitted coefficients, those that ended on a bound, and whether the solver converged."""

    values: Mapping[str, float]
    on_bound: tuple[str, ...]
    converged: bool
    rows: int


class Model:
    """The time of fixed rows as a function of the coefficients."""

    def __init__(self, rows: Measured) -> None:
        launch = rows.launch()
        arch = rows.gpu.arch
        blocks = blocks_per_sm(arch, launch.threads, launch.regs_per_thread, launch.smem_bytes).blocks_per_sm
        self._case = make_case(rows.problem, rows.config, launch, blocks, rows.gpu, {}, rows.l2)
        self._fixed = dict(families.family(rows.config.family).FIXED)

    def time_s(self, values: Mapping[str, float]) -> FloatArray:
        """Seconds of each row with these coefficients."""
        from dataclasses import replace

        case = replace(self._case, c=complete({**self._fixed, **values}))
        return solver.time_s(case, effects.fill(case))


def fit(rows: Measured, priors: Mapping[str, Prior] | None = None) -> Fit:
    """Coefficients of the rows' family. Raises GemmsimError if there are too few rows for the free coefficients."""
    from scipy.optimize import least_squares

    priors = priors or families.family(rows.config.family).PRIORS
    names = list(priors)
    need = ROWS_PER_COEFFICIENT * len(names)
    if len(rows) < need:
        raise GemmsimError(
            f"{len(rows)} rows for the {len(names)} coefficients of {rows.config.family}: need {need} or more"
        )
    start, low, high = (np.log([getattr(priors[n], which) for n in names]) for which in ("value", "low", "high"))
    width, target, model = (high - low) / 4, np.log(rows.time_s), Model(rows)

    def residuals(x: FloatArray) -> FloatArray:
        predicted = model.time_s(dict(zip(names, np.exp(x), strict=True)))
        return np.concatenate([np.log(predicted) - target, PRIOR_WEIGHT * (x - start) / width])

    s = least_squares(
        residuals, start, bounds=(low - 1e-9, high + 1e-9), loss="soft_l1", f_scale=ROBUST_SCALE, x_scale=width,
        max_nfev=MAX_EVALUATIONS,
    )  # fmt: skip
    near = 0.01 * (high - low)
    bound = [n for n, x, lo, hi, e in zip(names, s.x, low, high, near, strict=True) if min(x - lo, hi - x) < e]
    values = {n: float(f"{v:.4g}") for n, v in zip(names, np.exp(s.x), strict=True)}
    return Fit(values, tuple(bound), bool(s.success), len(rows))


def predicted_s(rows: Measured, values: Mapping[str, float]) -> FloatArray:
    """Seconds that the model gives these rows with these coefficients."""
    return Model(rows).time_s(values)


def groups(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """For each row the number of its distinct combination of the columns."""
    _, inverse = np.unique(np.stack(list(columns), axis=1), axis=0, return_inverse=True)
    return np.asarray(inverse.ravel(), np.int64)


def configurations(rows: Measured) -> npt.NDArray[np.int64]:
    """Number of each row's configuration."""
    return groups(list(rows.config.values.values()))


def shapes(rows: Measured) -> npt.NDArray[np.int64]:
    """Number of each row's problem."""
    return groups([rows.problem.m, rows.problem.n, rows.problem.k])


def halves(rows: Measured, seed: int, by: Sequence[str] = ("config", "shape")) -> tuple[Index, Index]:
    """Positions of rows to fit and rows to score: half of the configurations x half of the shapes, and the other halves.

    by: 'config', 'shape' or both; rows of one half of one and the other half of the other are in neither part.
    """
    generator = np.random.default_rng(seed)
    fitted = scored = np.ones(len(rows), bool)
    for which in by:
        ids = configurations(rows) if which == "config" else shapes(rows)
        count = int(ids.max()) + 1
        chosen = np.zeros(count, bool)
        chosen[generator.permutation(count)[: (count + 1) // 2]] = True
        fitted, scored = fitted & chosen[ids], scored & ~chosen[ids]
    return np.flatnonzero(fitted), np.flatnonzero(scored)
