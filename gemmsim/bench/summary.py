"""A row's time from its samples, and whether it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
