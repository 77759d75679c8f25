"""Hilbert's curve over a grid of tiles: an order in which any run of tiles lies close together."""

from __future__ import annotations

import numpy as np

from gemmsim.problem import IntArray


def along_curve(row: IntArray, column: IntArray, size: int) -> IntArray:
    """Distance along the curve over the smallest square of 2^n that holds `size`, quadrant by quadrant.

    Source: xy2d of Wikipedia, "Hilbert curve".
    """
    x, y = row.copy(), column.copy()
    distance = np.zeros(len(row), np.int64)
    half = 1 << max(int(size - 1).bit_length() - 1, 0)
    while half:
        right, up = (x & half) > 0, (y & half) > 0
        distance += half * half * ((3 * right) ^ up)
        x, y = x & (half - 1), y & (half - 1)
        flip = ~up & right
        x, y = np.where(flip, half - 1 - x, x), np.where(flip, half - 1 - y, y)
        x, y = np.where(up, x, y), np.where(up, y, x)
        half >>= 1
    return distance


def curve(rows: int, columns: int) -> IntArray:
    """Tiles of a grid, numbered row by row, in the order of the curve: those outside of the grid are skipped."""
    tile = np.arange(rows * columns, dtype=np.int64)
    return np.argsort(along_curve(tile // columns, tile % columns, max(rows, columns)), kind="stable")
