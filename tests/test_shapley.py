"""Shapley's value against games whose value is known."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.shapley import shapley


@given(st.lists(st.floats(-9, 9), min_size=16, max_size=16))
def test_it_is_the_mean_over_all_orders(worths: list[float]) -> None:
    players = ("a", "b", "c", "d")

    def value(mine: tuple[str, ...]) -> float:
        return worths[sum(1 << players.index(p) for p in mine)]

    expected = dict.fromkeys(players, 0.0)
    for order in permutations(players):
        for i, player in enumerate(order):
            before = tuple(p for p in players if p in order[:i])
            after = tuple(p for p in players if p in order[: i + 1])
            expected[player] += (value(after) - value(before)) / factorial(4)
    assert shapley(players, value) == pytest.approx(expected, abs=1e-9)


def test_nobody_and_one() -> None:
    assert shapley((), lambda mine: 1.0) == {}
    assert shapley(("a",), lambda mine: 3.0 * len(mine)) == {"a": 3.0}
