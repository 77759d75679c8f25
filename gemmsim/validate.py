"""Predicted against measured: errors, rank correlation and regret, by shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.calibrate import Index, Model, drawn, enough, fit, halves, spread
from gemmsim.conditions import NOISE_FLOOR
from gemmsim.measured import Measured, joined
from gemmsim.model.calibration import Calibration
from gemmsim.model.predict import check_time, predict
from gemmsim.problem import FloatArray, IntArray

#: elements that a row stride must be a multiple of for whole 16-byte accesses in every family
ALIGNED = 16
#: a shape with fewer configurations has no ranking to speak of
LEAST_CONFIGURATIONS = 5
TOP = (1, 5, 10)
RESAMPLES = 1000
#: a half x half of a half x half has about one of so many rows
INNER_PARTS = 20


@dataclass(frozen=True)
class Errors:
    """Error figures of rows; shares, not per cent. Rankings: means over the shapes with enough configurations."""

    rows: int
    shapes: int
    mape: float
    median: float
    p90: float
    bias: float  # median of predicted / measured - 1
    spearman: float
    regret: Mapping[int, float]  # best of the model's first n against the best measured, mean over shapes
    worst_regret: float  # of the first pick
    mape_within: tuple[float, float] = (
        float("nan"),
        float("nan"),
    )  # 90 % interval, shapes drawn again with replacement
    regret_within: tuple[float, float] = (float("nan"), float("nan"))  # of the first pick
    coverage: float = float("nan")  # share of rows inside the interval (80 % asked for)
    width: float = float("nan")  # of the interval over the time, median

    def columns(self) -> dict[str, float]:
        """Flat, for tables: shares in per cent where the name says so."""
        flat = {
            "rows": self.rows,
            "shapes": self.shapes,
            "mape_pct": 100 * self.mape,
            "median_pct": 100 * self.median,
            "p90_pct": 100 * self.p90,
            "bias_pct": 100 * self.bias,
            "spearman": self.spearman,
        }
        flat |= {f"top{n}_regret_pct": 100 * r for n, r in self.regret.items()}
        flat["worst_top1_regret_pct"] = 100 * self.worst_regret
        for name, (low, high) in {"mape": self.mape_within, "top1": self.regret_within}.items():
            flat |= {f"{name}_low_pct": 100 * low, f"{name}_high_pct": 100 * high}
        return flat | {"coverage_pct": 100 * self.coverage, "width": self.width}


def errors(
    predicted_s: FloatArray,
    measured_s: FloatArray,
    shape: npt.NDArray[np.int64],
    interval_s: tuple[FloatArray, FloatArray] | None = None,
    noise: float = 0.0,
) -> Errors:
    """Errors of these rows. shape: number of each row's problem; rows of one problem are ranked against each other.

    interval_s: low and high of each row, for the coverage. noise: a regret up to this counts as none.
    """
    if not len(measured_s):
        nan = float("nan")
        return Errors(0, 0, nan, nan, nan, nan, nan, dict.fromkeys(TOP, nan), nan)
    off = predicted_s / measured_s - 1
    rho, regret = _rankings(predicted_s, measured_s, shape, noise)
    nan = float("nan")
    low, high = interval_s or (predicted_s, predicted_s)
    return Errors(
        rows=len(off),
        shapes=len(np.unique(shape)),
        mape=float(np.mean(np.abs(off))),
        median=float(np.median(np.abs(off))),
        p90=float(np.quantile(np.abs(off), 0.9)),
        bias=float(np.median(off)),
        spearman=float(np.mean(rho)) if rho else nan,
        regret={n: float(np.mean([r[i] for r in regret])) if regret else nan for i, n in enumerate(TOP)},
        worst_regret=max((r[0] for r in regret), default=nan),
        mape_within=_within(*(_sums(shape, weight) for weight in (np.abs(off), np.ones(len(off))))),
        regret_within=_within(np.asarray([r[0] for r in regret]), np.ones(len(regret))),
        coverage=float(np.mean((low <= measured_s) & (measured_s <= high))) if interval_s else nan,
        width=float(np.median((high - low) / predicted_s)) if interval_s else nan,
    )


def _sums(shape: npt.NDArray[np.int64], weight: FloatArray) -> FloatArray:
    """Sum of the weights of each shape's rows."""
    number = np.unique(shape, return_inverse=True)[1].ravel()
    return np.asarray(np.bincount(number, weight), np.float64)


def _within(total: FloatArray, count: FloatArray) -> tuple[float, float]:
    """90 % bootstrap interval of sum(total) / sum(count), whole shapes drawn again: rows of one shape err together."""
    if len(total) < 2:
        return float("nan"), float("nan")
    from scipy.stats import bootstrap

    def mean(parts: FloatArray, weights: FloatArray, axis: int = -1) -> FloatArray:
        return np.asarray(parts.sum(axis) / weights.sum(axis))

    found = bootstrap(
        (total, count), mean, paired=True, vectorized=True, n_resamples=RESAMPLES, confidence_level=0.9,
        method="percentile", rng=np.random.default_rng(0),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _rankings(
    predicted_s: FloatArray, measured_s: FloatArray, shape: npt.NDArray[np.int64], noise: float
) -> tuple[list[float], list[list[float]]]:
    """Spearman's rho and regrets of the first 1, 5, 10, for each shape with enough configurations."""
    from scipy.stats import spearmanr

    rho, regret = [], []
    for number in np.unique(shape):
        rows = shape == number
        p, t = predicted_s[rows], measured_s[rows]
        if len(t) < LEAST_CONFIGURATIONS:
            continue
        if np.ptp(p) > 0 and np.ptp(t) > 0:  # times that are all equal have no order
            rho.append(float(spearmanr(p, t).statistic))
        regret.append([0.0 if r <= noise else r for r in lost(p, t)])
    return rho, regret


def lost(predicted_s: FloatArray, measured_s: FloatArray) -> list[float]:
    """Of one problem: how much slower than the best measured the best of the model's first 1, 5, 10 is; shares."""
    order = np.argsort(predicted_s, kind="stable")
    return [float(measured_s[order[:n]].min() / measured_s.min() - 1) for n in TOP]


def shape_class(m: IntArray, n: IntArray, k: IntArray) -> npt.NDArray[np.str_]:
    """skinny (M or N up to 64), deep (K 4 times both), shallow (K up to 256), small (all up to 2048), else large."""
    small = np.maximum(np.maximum(m, n), k) <= 2048
    classes = [np.minimum(m, n) <= 64, k >= 4 * np.maximum(m, n), k <= 256, small]
    return np.select(classes, ["skinny", "deep", "shallow", "small"], "large")


def slices(rows: Measured) -> dict[str, npt.NDArray[np.bool_]]:
    """Rows by what makes them hard, then by class of shape; those without any row are left out."""
    p = rows.problem
    spills, aligned = rows.spills, (p.n % ALIGNED == 0) & (p.k % ALIGNED == 0)
    classes = shape_class(p.m, p.n, p.k)
    parts = {
        "all": np.ones(len(rows), bool),
        "no spills, aligned": ~spills & aligned,
        "spills": spills,
        "unaligned N or K": ~aligned,
    }
    parts |= {f"shape: {name}": (classes == name) & ~spills & aligned for name in np.unique(classes)}
    return {name: mask for name, mask in parts.items() if mask.any()}


def score(
    rows: Measured,
    calibration: Calibration,
    *,
    facts: bool = True,
    without: Set[str] = frozenset(),
    wanted: Collection[str] | None = None,
) -> dict[str, Errors]:
    """Errors of each slice of rows, predicted with a calibration; facts: use the rows' compiler facts.

    wanted: names of slices; left out, all.
    """
    p = predict(
        rows.problem.m,
        rows.problem.n,
        rows.problem.k,
        gpu=rows.gpu,
        dtype=rows.problem.form,
        family=rows.config.family,
        config=rows.config,
        facts=rows.facts if facts else None,
        l2=rows.l2,
        calibrated=calibration,
        without=without,
    )
    check_time(p.time_s, sorted(without))
    low, high = p.interval_s
    pooled = _Pool(rows, wanted)
    pooled.add(np.arange(len(rows)), p.time_s, low, high, 0)
    return pooled.errors()


def held_out(
    rows: Measured,
    *,
    seeds: int,
    by: Sequence[str] = ("config", "shape"),
    fit_with: Measured | None = None,
    facts: bool = True,
    sample: int | None = None,
    intervals: int = 0,
    without: Set[str] = frozenset(),
    wanted: Collection[str] | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> dict[str, Errors]:
    """Errors of rows that were not fitted on: for each seed fit one half (and `fit_with`), score the other.

    by: halves of configurations, of shapes or of both, when only new shapes with new configurations are scored. facts:
    whether scoring uses compiler facts; fitting does, always. sample: fit so many rows drawn at random and score all
    others, whatever `by` says. intervals: splits of the fitted half that give its intervals (0: none). without: terms
    that cost nothing, in the fit too: an ablation. wanted: names of slices; left out, all. Slices are pooled over the
    seeds.
    """
    asked = rows if facts else rows.without_facts()
    pooled = _Pool(rows, wanted)
    if fit_with is None and not enough(rows, INNER_PARTS):
        intervals = 0
    for seed in progress(range(seeds)):
        fitted, scored = halves(rows, seed, by) if sample is None else drawn(rows, seed, sample)
        train = rows.take(fitted) if fit_with is None else joined([fit_with, rows.take(fitted)])
        values = fit(train, of=rows, free=without).values
        model = Model(asked.take(scored), without)
        predicted = model.time_s(values)
        if intervals:
            known = np.full(len(scored), facts)
            low, high = spread(train, intervals).factors(model.kinds(), known)
            pooled.add(scored, predicted, predicted * low, predicted * high, seed)
        else:
            pooled.add(scored, predicted, None, None, seed)
    return pooled.errors()


class _Pool:
    """Scored rows, slice by slice, over all seeds."""

    def __init__(self, rows: Measured, wanted: Collection[str] | None = None) -> None:
        self._rows, self._shapes = rows, rows.shapes
        self._parts = {name: mask for name, mask in slices(rows).items() if wanted is None or name in wanted}
        self._found: dict[str, list[list[FloatArray]]] = {name: [] for name in self._parts}

    def add(
        self, index: Index, predicted: FloatArray, low: FloatArray | None, high: FloatArray | None, seed: int
    ) -> None:
        """Rows at these positions, with their predictions and intervals."""
        shape = (self._shapes + seed * len(self._rows))[index].astype(np.float64)
        columns = [predicted, self._rows.time_s[index], shape, *(x for x in (low, high) if x is not None)]
        for name, mask in self._parts.items():
            self._found[name].append([column[mask[index]] for column in columns])

    def errors(self) -> dict[str, Errors]:
        """Errors of each slice that has rows; a regret inside the noise floor is none."""
        out, noise = {}, NOISE_FLOOR.get(self._rows.problem.dtype, 0.0)
        for name, parts in self._found.items():
            predicted, measured, shape, *interval = (np.concatenate(x) for x in zip(*parts, strict=True))
            if len(measured):
                within = (interval[0], interval[1]) if interval else None
                out[name] = errors(predicted, measured, shape.astype(np.int64), within, noise)
        return out
