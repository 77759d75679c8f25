"""Predicted against measured: errors, rank correlation and regret, by shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray

#: a shape with fewer configurations has no ranking to speak of
LEAST_CONFIGURATIONS = 5
TOP = (1, 5, 10)


@dataclass(frozen=True)
class Errors:
    """Error figures of rows; shares, not per cent. Rankings are means over the shapes that have enough configurations."""

    rows: int
    shapes: int
    mape: float
    median: float
    p90: float
    bias: float  # median of predicted / measured - 1
    spearman: float
    regret: Mapping[int, float]  # best of the model's first n against the best measured, mean over shapes
    worst_regret: float  # of the first pick

    def columns(self) -> dict[str, float]:
        """Flat, for tables: shares in per cent where the name says so."""
        flat = {
            "rows": self.rows, "shapes": self.shapes, "mape_pct": 100 * self.mape, "median_pct": 100 * self.median,
            "p90_pct": 100 * self.p90, "bias_pct": 100 * self.bias, "spearman": self.spearman,
        }  # fmt: skip
        flat |= {f"top{n}_regret_pct": 100 * r for n, r in self.regret.items()}
        return flat | {"worst_top1_regret_pct": 100 * self.worst_regret}


def errors(predicted_s: FloatArray, measured_s: FloatArray, shape: npt.NDArray[np.int64]) -> Errors:
    """Errors of these rows; shape: the number of each row's problem (rows of one problem are ranked against each other)."""
    if not len(measured_s):
        nan = float("nan")
        return Errors(0, 0, nan, nan, nan, nan, nan, dict.fromkeys(TOP, nan), nan)
    off = predicted_s / measured_s - 1
    rho, regret = _rankings(predicted_s, measured_s, shape)
    nan = float("nan")
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
    )


def _rankings(
    predicted_s: FloatArray, measured_s: FloatArray, shape: npt.NDArray[np.int64]
) -> tuple[list[float], list[list[float]]]:
    """Spearman's rho and regrets of the first 1, 5, 10, for each shape with enough configurations."""
    from scipy.stats import spearmanr

    rho, regret = [], []
    for number in np.unique(shape):
        rows = shape == number
        p, t = predicted_s[rows], measured_s[rows]
        if len(t) < LEAST_CONFIGURATIONS:
            continue
        rho.append(float(spearmanr(p, t).statistic))
        order = np.argsort(p, kind="stable")
        regret.append([float(t[order[:n]].min() / t.min() - 1) for n in TOP])
    return rho, regret
