"""From samples to a time, and when it is not to be leaned on."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsim.bench.environment import reasons
from gemmsim.bench.summary import compared, summary, unstable

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


def drawn(seed: int, *scales: float, rounds: int = 30, spread: float = 0.01) -> dict[str, list[float]]:
    """Kernels that share each round's clock, which wanders more than they differ."""
    draw = np.random.default_rng(seed)
    clock = 1e-3 * np.exp(np.cumsum(draw.normal(0, 0.02, rounds)))
    return {f"k{i}": (s * clock * np.exp(draw.normal(0, spread, rounds))).tolist() for i, s in enumerate(scales)}


def test_paired_rounds_see_what_a_wandering_clock_hides() -> None:
    found = compared(drawn(1, 1.05, 1.0, 1.02, spread=0.001))
    assert list(found) == ["k1", "k2", "k0"]
    assert (found["k1"].ratio, found["k1"].low, found["k1"].high, found["k1"].tie) == (1.0, 1.0, 1.0, True)
    for name, ratio in (("k2", 1.02), ("k0", 1.05)):
        one = found[name]
        assert one.low < ratio < one.high < one.low + 0.01
        assert one.ratio == pytest.approx(ratio, rel=0.002)
        assert not one.tie


def test_alike_kernels_tie_as_often_as_the_confidence_says() -> None:
    ties = [compared(drawn(seed, 1.0, 1.0, spread=0.05)) for seed in range(200)]
    assert 180 <= sum(all(one.tie for one in found.values()) for found in ties) < 200


def test_what_differs_by_less_than_the_noise_floor_ties() -> None:
    near, far = compared(drawn(1, 1.0, 1.003, spread=1e-5)), compared(drawn(1, 1.0, 1.005, spread=1e-5))
    assert near["k1"].low > 1
    assert near["k1"].tie
    assert not far["k1"].tie


@pytest.mark.parametrize("rounds", [1, 5])
def test_too_few_rounds_say_nothing(rounds: int) -> None:
    found = compared(drawn(1, 1.0, 3.0, rounds=rounds))["k1"]
    assert (found.low, found.high, found.tie) == (0.0, float("inf"), True)
    assert not compared(drawn(1, 1.0, 3.0, rounds=6))["k1"].tie


def test_rounds_that_do_not_fit_together_are_refused() -> None:
    for samples in ({"a": [1.0, 2.0], "b": [1.0]}, {"a": []}, {}):
        with pytest.raises(ValueError, match="rounds"):
            compared(samples)
