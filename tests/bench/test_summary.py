"""From samples to a time, and when it is not to be leaned on."""

from __future__ import annotations

import pytest

from gemmsim.bench.environment import reasons
from gemmsim.bench.summary import summary, unstable

CALM = {"sm_clock_hz": 1.98e9, "throttle": "idle"}
STEADY = [1.0e-3] * 10


def test_percentiles() -> None:
    assert summary([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == pytest.approx(
        {"time_s": 3.5, "p20_s": 2.0, "p80_s": 5.0, "min_s": 1.0, "sample_count": 6}
    )


def test_steady_samples_are_stable() -> None:
    assert unstable(STEADY, CALM, CALM) == ""


@pytest.mark.parametrize(
    ("samples", "before", "after", "word"),
    [
        ([1e-3] * 5 + [1.2e-3] * 5, CALM, CALM, "spread drift"),
        ([1.2e-3, 1e-3] * 6, CALM, CALM, "spread"),
        ([1e-3] * 4 + [1.02e-3] * 4 + [1.04e-3] * 4, CALM, CALM, "drift"),
        (STEADY, CALM, CALM | {"sm_clock_hz": 1.7e9}, "clock"),
        (STEADY, CALM, CALM | {"throttle": "sw_power_cap"}, "sw_power_cap"),
        (STEADY, CALM | {"throttle": "hw_thermal idle"}, CALM, "hw_thermal"),
        (STEADY, {}, {}, ""),
        (STEADY, CALM, CALM | {"throttle": "application_clocks"}, ""),
    ],
)
def test_what_marks_a_row(samples: list[float], before: dict[str, object], after: dict[str, object], word: str) -> None:
    assert unstable(samples, before, after) == word


def test_less_than_an_events_resolution_is_no_spread() -> None:
    assert unstable([5.0e-6, 5.5e-6, 5.9e-6, 5.2e-6, 5.6e-6, 5.1e-6, 5.8e-6, 5.3e-6, 5.7e-6], CALM, CALM) == ""


def test_nvmls_bits() -> None:
    assert reasons(0x1 | 0x4 | 0x40) == "idle sw_power_cap hw_thermal"
    assert reasons(0) == ""
