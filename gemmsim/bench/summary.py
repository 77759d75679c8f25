"""A row's time from its samples, whether it can be trusted, and which of several kernels is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsim.conditions import NOISE_FLOOR
from gemmsim.problem import FloatArray

#: (p80 - p20) / p50 above which the samples are spread
SPREAD = 0.05
#: the last third's median over the first's, minus 1, above which they drift
DRIFT = 0.03
#: an event's resolution, s: differences of this size are none
RESOLUTION_S = 1.0e-6
#: change of the SM clock from before to after that marks a row
CLOCK = 0.02
#: reasons NVML gives for a lower clock that are the card's trouble; idle and the user's own settings are not
TROUBLE = ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake", "sync_boost")
#: of the interval of a ratio
CONFIDENCE = 0.95
#: kernels nearer than that are as good as each other, whatever an interval says: the same kernel differs by as much on
#: another card at another hour. One figure for all types: in turn they share what makes the floor of bf16 larger, the
#: card's power and temperature
TIE = NOISE_FLOOR["fp32"]


def summary(samples_s: Sequence[float]) -> dict[str, float | int]:
    """time_s, the median; p20_s, p80_s, min_s; sample_count."""
    p20, p50, p80 = np.percentile(np.asarray(samples_s, np.float64), (20, 50, 80)).tolist()
    return {"time_s": p50, "p20_s": p20, "p80_s": p80, "min_s": min(samples_s), "sample_count": len(samples_s)}


def unstable(samples_s: Sequence[float], before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Why the row should not be leaned on, in words with a space between; empty if nothing speaks against it.

    spread: the middle three fifths of the samples span more than SPREAD of the median. drift: the last third is slower
    or faster than the first by more than DRIFT. clock: the SM clock changed by more than CLOCK. A name of TROUBLE: the
    driver held the clock down for that reason before or after. before, after: what environment.read gives.
    """
    found = [*_words(np.asarray(samples_s, np.float64)), *_clock(before, after)]
    reasons = {r for reading in (before, after) for r in str(reading.get("throttle") or "").split()}
    return " ".join([*found, *(r for r in TROUBLE if r in reasons)])


def _words(samples: np.ndarray) -> list[str]:
    p20, p50, p80 = np.percentile(samples, (20, 50, 80))
    found = ["spread"] if p80 - p20 > max(SPREAD * p50, RESOLUTION_S) else []
    third = len(samples) // 3
    if third >= 2:
        change = abs(np.median(samples[-third:]) - np.median(samples[:third]))
        found += ["drift"] if change > max(DRIFT * p50, RESOLUTION_S) else []
    return found


def _clock(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    first, last = before.get("sm_clock_hz"), after.get("sm_clock_hz")
    if not first or not last:
        return []
    return ["clock"] if abs(last - first) > CLOCK * max(first, last) else []


@dataclass(frozen=True)
class Compared:
    """A kernel against the best one it took turns with: medians of its times and of their ratios, round by round.

    low, high: interval of the ratio at CONFIDENCE, 0 and infinity where the rounds are too few for one. tie: nothing
    speaks for the best: the interval does not lie above 1, or the ratio does so by TIE at most.
    """

    time_s: float
    ratio: float
    low: float
    high: float
    tie: bool


def compared(samples_s: Mapping[str, Sequence[float]]) -> dict[str, Compared]:
    """Each kernel against the best, the best by median first; samples of one round stand at one place.

    The interval is that of the sign test, exact whatever the times' distribution (scipy.stats.quantile_test): the
    ratios of a round share its clock and temperature, and rounds are taken as independent. The best is chosen by the
    same samples: of many kernels that are alike, one looks best by chance. Raises ValueError for samples of different
    counts, or none.
    """
    times = {name: np.asarray(samples, np.float64) for name, samples in samples_s.items()}
    counts = {times_s.size for times_s in times.values()}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(f"samples of {sorted(counts)} rounds: expected as many of each kernel, one at least")
    order = sorted(times, key=lambda name: float(np.median(times[name])))
    return {name: _compared(times[name], times[order[0]]) for name in order}


def _compared(mine_s: FloatArray, best_s: FloatArray) -> Compared:
    from scipy.stats import quantile_test

    ratios = mine_s / best_s
    found: Any = quantile_test(ratios, q=0, p=0.5).confidence_interval(CONFIDENCE)
    low, high = float(np.nan_to_num(found.low, nan=0.0)), float(np.nan_to_num(found.high, nan=np.inf))
    ratio = float(np.median(ratios))
    return Compared(float(np.median(mine_s)), ratio, low, high, tie=low <= 1 or ratio - 1 <= TIE)
