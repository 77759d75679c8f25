"""The closed queue, the soft maximum, and what a Demand becomes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.model.pnorm import soft_max
from gemmsim.model.solver import queue

positive = st.floats(1e-3, 1e9)
noises = st.floats(0, 1)
few = settings(max_examples=100, deadline=None, derandomize=True)


def time(blocks: float, work: float, alone: float, noise: float) -> float:
    return float(queue(np.asarray([blocks]), np.asarray([work]), np.asarray([alone]), noise)[0])


@few
@given(positive, st.floats(1, 1e4), noises)
def test_one_block_takes_its_own_time(work: float, times: float, noise: float) -> None:
    assert time(1, work, work * times, noise) == pytest.approx(work * times, rel=1e-6)


@few
@given(positive, st.floats(1, 50), noises)
def test_many_blocks_take_their_work(work: float, times: float, noise: float) -> None:
    """n W, up to noise W: the last block still has to leave."""
    n = 1e6
    assert n * work * (1 - 1e-9) <= time(n, work, work * times, noise) <= n * work * (1 + 1e-3)


@few
@given(st.integers(1, 40), positive, st.floats(1, 1e3), noises)
def test_more_blocks_or_more_noise_are_never_quicker(n: int, work: float, times: float, noise: float) -> None:
    here = time(n, work, work * times, noise)
    assert here >= max(n * work, work * times) * (1 - 1e-9)
    assert here <= (n * work + work * times) * (1 + 1e-9)
    assert time(n + 1, work, work * times, noise) >= here * (1 - 1e-9)
    assert time(n, work, work * times, min(1.0, noise + 0.1)) >= here * (1 - 1e-9)


def test_in_step_they_take_the_longer_and_at_random_as_schweitzer_has_it() -> None:
    assert time(4, 1, 10, 0) == 10
    assert time(40, 1, 10, 0) == 40
    # (t - 4)(t - 10) = 13 - t: t = (13 + sqrt(169 - 108)) / 2
    assert time(4, 1, 10, 1) == pytest.approx((13 + 61**0.5) / 2)


@few
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5), st.floats(1, 40))
def test_soft_maximum_lies_between_maximum_and_sum(terms: list[float], sharpness: float) -> None:
    found = float(soft_max(sharpness, *(np.asarray([t]) for t in terms))[0])
    assert max(terms) * (1 - 1e-9) <= found <= sum(terms) * (1 + 1e-9)
    assert found <= max(terms) * len(terms) ** (1 / sharpness) * (1 + 1e-9)


def test_soft_maximum_sharpens_and_takes_a_sharpness_a_row() -> None:
    a, b = np.asarray([3.0, 3.0]), np.asarray([4.0, 4.0])
    assert soft_max(1.0, a, b).tolist() == pytest.approx([7, 7])
    assert soft_max(2.0, a, b).tolist() == pytest.approx([5, 5])
    assert soft_max(200.0, a, b).tolist() == pytest.approx([4, 4], rel=1e-3)
    assert soft_max(np.asarray([1.0, 2.0]), a, b).tolist() == pytest.approx([7, 5])
    fast, slow = soft_max(4.0, a, b), soft_max(np.asarray([4.0, 4.0]), a, b)
    np.testing.assert_allclose(fast, slow, rtol=1e-14)
    assert soft_max(3.0, np.zeros(1), np.zeros(1)).tolist() == [0]


def test_soft_maximum_of_seconds_at_any_sharpness() -> None:
    """Seconds to the 60th are no longer numbers; the maximum still is."""
    terms = np.asarray([2e-6]), np.asarray([3e-6])
    for sharpness in (10.0, 60.0, 1000.0):
        assert float(soft_max(sharpness, *terms)[0]) == pytest.approx(3e-6, rel=2e-3)
