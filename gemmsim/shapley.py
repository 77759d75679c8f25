"""Shapley's value: what each of several causes adds, on average over the orders in which they come (Shapley 1953)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial

Players = tuple[str, ...]


def shapley(players: Sequence[str], value: Callable[[Players], float]) -> dict[str, float]:
    """The part of each player; together value(all) - value(none). value is asked once for each of 2^n coalitions."""
    count = len(players)
    values = {mine: value(mine) for size in range(count + 1) for mine in combinations(players, size)}
    parts = dict.fromkeys(players, 0.0)
    for before, worth in values.items():
        for player in (p for p in players if p not in before):
            weight = factorial(len(before)) * factorial(count - len(before) - 1) / factorial(count)
            after = tuple(p for p in players if p in before or p == player)
            parts[player] += weight * (values[after] - worth)
    return parts
