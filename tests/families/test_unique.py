"""Work once a unique configuration gives what work on every row gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from gemmsim.families.unique import FEW, per_unique, unique_rows

Columns = dict[str, npt.NDArray[np.int64]]


def drawn(rows: int, high: int, seed: int = 0) -> Columns:
    generator = np.random.default_rng(seed)
    return {name: generator.integers(-3, high, rows) for name in "abc"}


@pytest.mark.parametrize("high", [3, 40, 2**40])
@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 5000])
def test_as_if_every_row_were_computed(rows: int, high: int) -> None:
    """High 2**40: the packed key would overflow, and rows are compared as rows."""
    columns, seen = drawn(rows, high), []

    def compute(u: Mapping[str, npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.float64], ...]:
        seen.append(len(u["a"]))
        return u["a"] * 1.5 + u["b"], u["c"] - u["a"] / 7

    found = per_unique(columns, rows, compute)
    distinct = len({*zip(*(c.tolist() for c in columns.values()), strict=True)})
    assert seen == [rows if rows <= FEW else distinct]
    for got, expected in zip(found, compute(columns), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_first_and_inverse() -> None:
    columns = {"x": np.asarray([5, 1, 5, 1, 9]), "y": np.asarray([0, 0, 0, 1, 0])}
    first, inverse = unique_rows(columns)
    rows = np.stack([columns["x"], columns["y"]], 1)
    np.testing.assert_array_equal(rows[first][inverse], rows)
    assert len(first) == 4
    assert sorted(first.tolist()) == [0, 1, 3, 4]
