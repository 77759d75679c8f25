"""From measured rows to a family's coefficients: robust least squares in log time, with bounds and priors.

The residual of a row is log(predicted / measured). Coefficients move in log space between the bounds of the family's
priors and are pulled to the prior's value with a weight small against the rows (PRIOR_WEIGHT a quarter of the range).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.errors import GemmsimError
from gemmsim.families.traits import Prior
from gemmsim.measured import Measured
from gemmsim.model import effects, solver
from gemmsim.model.case import make_case
from gemmsim.model.coefficients import COEFFICIENTS, complete
from gemmsim.model.demand import Case
from gemmsim.model.intervals import Spread, classify, spread_of
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.predict import check_time
from gemmsim.problem import FloatArray, IntArray

PRIOR_WEIGHT = 0.1
#: residuals beyond this (10 %) count less and less
ROBUST_SCALE = 0.1
MAX_EVALUATIONS = 60
#: rows needed for each free coefficient
ROWS_PER_COEFFICIENT = 3
Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Fit:
    """Fitted coefficients, those that ended on a bound, and whether the solver converged."""

    values: Mapping[str, float]
    on_bound: tuple[str, ...]
    converged: bool
    rows: int


class Model:
    """The time of fixed rows as a function of the coefficients; terms in `free` cost nothing."""

    def __init__(self, rows: Measured, free: Set[str] = frozenset()) -> None:
        self._free = free
        launch = rows.launch()
        arch = rows.gpu.arch
        blocks = blocks_per_sm(arch, launch.threads, launch.regs_per_thread, launch.smem_bytes).blocks_per_sm
        self._case = make_case(rows.problem, rows.config, launch, blocks, rows.gpu, {}, rows.l2)
        self._fixed = dict(families.family(rows.config.family).FIXED)

    def time_s(self, values: Mapping[str, float]) -> FloatArray:
        """Seconds of each row with these coefficients."""
        case = self._with(values)
        return solver.time_s(case, effects.fill(case), self._free)

    def kinds(self) -> IntArray:
        """What kind of case each row is, as intervals tell them apart."""
        case = self._with({})
        return classify(case, effects.fill(case))

    def _with(self, values: Mapping[str, float]) -> Case:
        return replace(self._case, c=complete({**self._fixed, **values}))


def enough(rows: Measured, parts: int = 1) -> bool:
    """Whether a part of the rows, one of so many, has enough for the family's coefficients."""
    return len(rows) // parts >= ROWS_PER_COEFFICIENT * len(families.family(rows.config.family).PRIORS)


def fit(
    rows: Measured,
    priors: Mapping[str, Prior] | None = None,
    *,
    of: Measured | None = None,
    free: Set[str] = frozenset(),
) -> Fit:
    """Coefficients of the rows' family; of: all rows, where these are a part of them; free: terms that cost nothing.

    Raises GemmsimError if there are too few rows for the free coefficients, or nothing is left that takes time.
    """
    from scipy.optimize import least_squares

    priors = priors or families.family(rows.config.family).PRIORS
    names = list(priors)
    need = ROWS_PER_COEFFICIENT * len(names)
    if len(rows) < need:
        part = f" of {len(of)}, the part that a split fits," if of is not None and len(of) > len(rows) else ""
        raise GemmsimError(
            f"{len(rows)} rows{part} for the {len(names)} coefficients of {rows.config.family} ({', '.join(names)}): "
            f"need {need} or more, {ROWS_PER_COEFFICIENT} a coefficient"
        )
    start, low, high = (np.log([getattr(priors[n], which) for n in names]) for which in ("value", "low", "high"))
    width, target, model = (high - low) / 4, np.log(rows.time_s), Model(rows, free)
    check_time(model.time_s(dict(zip(names, np.exp(start), strict=True))), sorted(free))

    def residuals(x: FloatArray) -> FloatArray:
        predicted = model.time_s(dict(zip(names, np.exp(x), strict=True)))
        return np.concatenate([np.log(predicted) - target, PRIOR_WEIGHT * (x - start) / width])

    s = least_squares(
        residuals,
        start,
        bounds=(low - 1e-9, high + 1e-9),
        loss="soft_l1",
        f_scale=ROBUST_SCALE,
        x_scale=width,
        max_nfev=MAX_EVALUATIONS,
    )
    near = 0.01 * (high - low)
    bound = [n for n, x, lo, hi, e in zip(names, s.x, low, high, near, strict=True) if min(x - lo, hi - x) < e]
    values = {n: float(f"{v:.4g}") for n, v in zip(names, np.exp(s.x), strict=True)}
    return Fit(values, tuple(bound), bool(s.success), len(rows))


def predicted_s(rows: Measured, values: Mapping[str, float]) -> FloatArray:
    """Seconds that the model gives these rows with these coefficients."""
    return Model(rows).time_s(values)


def halves(rows: Measured, seed: int, by: Sequence[str] = ("config", "shape")) -> tuple[Index, Index]:
    """Positions of rows to fit and rows to score: half of configurations x half of shapes, and the other halves.

    by: 'config', 'shape' or both; rows of one half of one and the other half of the other are in neither part.
    Raises GemmsimError if a part has no rows.
    """
    generator = np.random.default_rng(seed)
    fitted = scored = np.ones(len(rows), bool)
    for which in by:
        ids = rows.configurations if which == "config" else rows.shapes
        count = int(ids.max()) + 1
        chosen = np.zeros(count, bool)
        chosen[generator.permutation(count)[: (count + 1) // 2]] = True
        fitted, scored = fitted & chosen[ids], scored & ~chosen[ids]
    if not fitted.any() or not scored.any():
        counts = [int(ids.max()) + 1 for ids in (rows.configurations, rows.shapes)]
        raise GemmsimError(
            f"{len(rows)} rows of {counts[0]} configurations and {counts[1]} shapes: halves of {' and of '.join(by)} "
            f"leave {'none to score' if fitted.any() else 'none to fit'}: expected more of them"
        )
    return np.flatnonzero(fitted), np.flatnonzero(scored)


def drawn(rows: Measured, seed: int, count: int) -> tuple[Index, Index]:
    """Positions of `count` rows to fit, drawn at random, and of all others. Raises GemmsimError if none are left."""
    if count >= len(rows):
        raise GemmsimError(f"a sample of {count} of {len(rows)} rows leaves none to score: expected fewer")
    order = np.random.default_rng(seed).permutation(len(rows))
    return order[:count], order[count:]


def spread(rows: Measured, seeds: int) -> Spread:
    """How measured times scatter about predictions of rows not fitted on, by class, with facts and without."""
    sides = {"facts": Model(rows), "tile": Model(rows.without_facts())}
    pools: dict[str, list[tuple[FloatArray, IntArray, IntArray]]] = {side: [] for side in sides}
    shapes = rows.shapes
    kinds = {side: model.kinds() for side, model in sides.items()}
    for seed in range(seeds):
        fitted, scored = halves(rows, seed)
        values = fit(rows.take(fitted), of=rows).values
        for side, model in sides.items():
            ratio = rows.time_s / model.time_s(values)
            pools[side].append((ratio[scored], kinds[side][scored], shapes[scored]))
    found = {side: spread_of(*(np.concatenate(x) for x in zip(*pool, strict=True))) for side, pool in pools.items()}
    return Spread(found["facts"], found["tile"])


def _listed(table: Mapping[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {name: [round(low, 4), round(high, 4)] for name, (low, high) in table.items()}


def document(rows: Measured, found: Fit, within: Spread | None, provenance: Mapping[str, object]) -> dict[str, object]:
    """What a calibration file holds: coefficients, the range of parameters they hold in, where they come from."""
    p, family = rows.problem, families.family(rows.config.family)
    columns = {"m": p.m, "n": p.n, "k": p.k, **rows.config.values}
    return {
        "gpu": rows.gpu.name,
        "family": family.NAME,
        "dtypes": [p.dtype],
        "fitted": {
            "rows": found.rows,
            "l2": rows.l2,
            "configurations": int(rows.configurations.max()) + 1,
            "shapes": int(rows.shapes.max()) + 1,
            "converged": found.converged,
            "on_bound": list(found.on_bound),
            **provenance,
        },
        "range": {name: [int(v.min()), int(v.max())] for name, v in columns.items()},
        **({"intervals": {"facts": _listed(within.facts), "tile": _listed(within.tile)}} if within else {}),
        "coefficients": dict(found.values),
    }


def to_yaml(content: Mapping[str, object]) -> str:
    """A calibration file, each coefficient with its unit and meaning beside it."""
    import yaml

    coefficients = content["coefficients"]
    assert isinstance(coefficients, Mapping)
    head = {k: v for k, v in content.items() if k != "coefficients"}
    text = yaml.safe_dump(head, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    lines = [
        f"  {name}: {float(v)!r}  # {COEFFICIENTS[name][1]}: {COEFFICIENTS[name][2]}"
        for name, v in coefficients.items()
    ]
    return (
        "# Fitted by `gemmsim calibrate`; regenerate rather than edit.\n"
        + text
        + "coefficients:\n"
        + "\n".join(lines)
        + "\n"
    )
