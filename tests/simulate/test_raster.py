"""Orders in which tiles are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.simulate.raster import RASTERS, order, panel_loads

sides = st.integers(1, 40)
few = settings(max_examples=100, deadline=None, derandomize=True)


@few
@given(st.sampled_from(RASTERS), sides, sides, st.integers(1, 50))
def test_every_tile_once(raster: str, tiles_m: int, tiles_n: int, group_m: int) -> None:
    rows, columns = order(raster, tiles_m, tiles_n, group_m)
    assert sorted((rows * tiles_n + columns).tolist()) == list(range(tiles_m * tiles_n))
    assert 0 <= rows.min() <= rows.max() < tiles_m
    assert 0 <= columns.min() <= columns.max() < tiles_n


@few
@given(sides, sides, st.integers(1, 50))
def test_grouped_is_what_the_kernels_do(tiles_m: int, tiles_n: int, group_m: int) -> None:
    """kernels/common/raster.cuh, number by number."""
    rows, columns = order("grouped", tiles_m, tiles_n, group_m)
    for tile in range(tiles_m * tiles_n):
        group = tile // (group_m * tiles_n)
        first = group * group_m
        height, within = min(tiles_m - first, group_m), tile - group * group_m * tiles_n
        assert (rows[tile], columns[tile]) == (first + within % height, within // height)


@few
@given(st.integers(0, 5))
def test_hilbert_walks_to_a_neighbour_on_a_square_of_two_to_the_n(power: int) -> None:
    rows, columns = order("hilbert", 2**power, 2**power)
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    assert rows[0] == columns[0] == 0


def test_one_group_is_columns_and_groups_of_one_are_rows() -> None:
    np.testing.assert_array_equal(order("grouped", 5, 7, 1), order("row", 5, 7))
    np.testing.assert_array_equal(order("grouped", 5, 7, 99), order("column", 5, 7))


def test_a_long_grid_takes_no_square_of_memory() -> None:
    rows, columns = order("hilbert", 1, 100_000)
    assert rows.max() == 0
    assert len(np.unique(columns)) == 100_000


@pytest.mark.parametrize(("raster", "group_m", "loads"), [("row", 1, 90), ("column", 1, 90), ("grouped", 3, 54)])
def test_first_nine_of_nine_by_nine(raster: str, group_m: int, loads: int) -> None:
    rows, columns = order(raster, 9, 9, group_m)
    assert 9 * panel_loads(rows[:9], columns[:9]) == loads


@pytest.mark.parametrize(
    ("given", "named"),
    [(("spiral", 4, 4, 1), "'spiral'"), (("row", 0, 4, 1), "tiles_m = 0"), (("grouped", 4, 4, 0), "group_m = 0")],
)
def test_a_grid_that_is_none(given: tuple[str, int, int, int], named: str) -> None:
    with pytest.raises(GemmsimError, match=named):
        order(*given)
