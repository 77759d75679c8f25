"""In which order tiles are computed: row by row, column by column, rows in groups, along a Hilbert curve."""

from __future__ import annotations

import numpy as np

from gemmsim.errors import unknown
from gemmsim.problem import IntArray

ROW, COLUMN, GROUPED, HILBERT = "row", "column", "grouped", "hilbert"
RASTERS = (ROW, COLUMN, GROUPED, HILBERT)


def order(raster: str, tiles_m: int, tiles_n: int, group_m: int = 1) -> tuple[IntArray, IntArray]:
    """Row and column of each tile, in the order in which blocks are numbered.

    grouped: group_m rows of tiles together, column by column (kernels/common/raster.cuh, Triton's GROUP_SIZE_M).
    Raises GemmsimError for a raster that is none.
    """
    tile = np.arange(tiles_m * tiles_n, dtype=np.int64)
    if raster == COLUMN:
        return tile % tiles_m, tile // tiles_m
    if raster == HILBERT:
        return _hilbert(tiles_m, tiles_n)
    if raster not in RASTERS:
        raise unknown("raster", raster, RASTERS)
    height = 1 if raster == ROW else min(group_m, tiles_m)
    first = tile // (height * tiles_n) * height
    within = tile - first * tiles_n
    rows = np.minimum(tiles_m - first, height)
    return first + within % rows, within // rows


def _hilbert(tiles_m: int, tiles_n: int) -> tuple[IntArray, IntArray]:
    """The tiles of the grid along a Hilbert curve over the next square of a power of two, the others left out."""
    bits = max(1, (max(tiles_m, tiles_n) - 1).bit_length())
    left = np.arange(4**bits, dtype=np.int64)
    x, y = np.zeros_like(left), np.zeros_like(left)
    for bit in range(bits):
        side = 1 << bit
        right, up = (left // 2) & 1, (left ^ (left // 2)) & 1
        flip = (up == 0) & (right == 1)
        x, y = np.where(flip, side - 1 - x, x), np.where(flip, side - 1 - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
        x, y, left = x + side * right, y + side * up, left // 4
    inside = (x < tiles_m) & (y < tiles_n)
    return x[inside], y[inside]
