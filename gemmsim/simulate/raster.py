"""In which order the tiles of C are computed: block number -> tile row and tile column, a few array passes.

row      N fastest, as blockIdx.x walks it
column   M fastest
grouped  group_m tile rows together, column by column (kernels/common/raster.cuh, Triton's GROUP_SIZE_M)
hilbert  along Hilbert's curve over the smallest square of 2^n x 2^n tiles that holds the grid
"""

from __future__ import annotations

import numpy as np

from gemmsim.errors import GemmsimError, unknown
from gemmsim.families.hilbert import curve
from gemmsim.problem import IntArray

ROW, COLUMN, GROUPED, HILBERT = "row", "column", "grouped", "hilbert"
RASTERS = (ROW, COLUMN, GROUPED, HILBERT)


def order(raster: str, tiles_m: int, tiles_n: int, group_m: int = 1) -> tuple[IntArray, IntArray]:
    """Tile row and tile column of each block of one problem, int64 arrays of tiles_m x tiles_n, in launch order.

    group_m counts with `grouped` alone; more rows than there are mean all of them. Raises GemmsimError for an unknown
    raster, and for a grid or group that is none.
    """
    if raster not in RASTERS:
        raise unknown("raster", raster, RASTERS)
    for name, value in (("tiles_m", tiles_m), ("tiles_n", tiles_n), ("group_m", group_m)):
        if value < 1:
            raise GemmsimError(f"raster {raster}: {name} = {value}, expected a whole number >= 1")
    block = np.arange(tiles_m * tiles_n, dtype=np.int64)
    if raster == COLUMN:
        return block % tiles_m, block // tiles_m
    if raster == GROUPED:
        return _grouped(block, tiles_m, tiles_n, min(group_m, tiles_m))
    row, column = block // tiles_n, block % tiles_n
    if raster == HILBERT:
        along = curve(tiles_m, tiles_n)
        return row[along], column[along]
    return row, column


def panel_loads(rows: IntArray, columns: IntArray) -> int:
    """Distinct tile rows and tile columns of these blocks: panels of A and of B that they read between them.

    Times the blocks along K it is the loads that Triton's tutorial counts: 9 x 9 blocks, first nine, 90 against 54.
    """
    return len(np.unique(rows)) + len(np.unique(columns))


def _grouped(block: IntArray, tiles_m: int, tiles_n: int, group_m: int) -> tuple[IntArray, IntArray]:
    group, within = np.divmod(block, group_m * tiles_n)
    first = group * group_m
    height = np.minimum(group_m, tiles_m - first)
    return first + within % height, within // height
