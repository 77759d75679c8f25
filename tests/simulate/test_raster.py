"""Raster orders: every tile once, in the order that kernels number their blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.simulate.raster import COLUMN, GROUPED, HILBERT, RASTERS, ROW, order


@given(st.sampled_from(RASTERS), st.integers(1, 40), st.integers(1, 40), st.integers(1, 50))
def test_every_tile_is_computed_once(raster: str, tiles_m: int, tiles_n: int, group_m: int) -> None:
    row, column = order(raster, tiles_m, tiles_n, group_m)
    assert sorted(zip(row.tolist(), column.tolist(), strict=True)) == [
        (i, j) for i in range(tiles_m) for j in range(tiles_n)
    ]


def loads(raster: str, group_m: int, first: int) -> int:
    """Tiles of A and of B that the first blocks of a 9 x 9 grid with nine k-steps load, each once."""
    row, column = (places[:first] for places in order(raster, 9, 9, group_m))
    return 9 * (len(set(row.tolist())) + len(set(column.tolist())))


def test_nine_blocks_of_nine_by_nine_load_90_tiles_row_by_row_and_54_in_groups_of_three() -> None:
    assert loads(ROW, 1, 9) == 90
    assert loads(GROUPED, 3, 9) == 54


def test_groups_are_those_of_the_kernels() -> None:
    """kernels/common/raster.cuh, by hand: five rows in groups of two, three columns; the last group has one row."""
    row, column = order(GROUPED, 5, 3, 2)
    assert row.tolist() == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 4, 4]
    assert column.tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 2]


def test_columns_are_rows_of_the_transposed_grid() -> None:
    row, column = order(COLUMN, 4, 7)
    assert (column.tolist(), row.tolist()) == tuple(x.tolist() for x in order(ROW, 7, 4))


def test_a_hilbert_curve_goes_from_neighbour_to_neighbour() -> None:
    row, column = order(HILBERT, 16, 16)
    assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1).all()


def test_an_unknown_raster_is_refused() -> None:
    with pytest.raises(GemmsimError, match="zigzag"):
        order("zigzag", 2, 2)
