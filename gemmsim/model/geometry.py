"""Tiles, k-steps and waves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray


def tiles(size: npt.ArrayLike, tile: npt.ArrayLike) -> FloatArray:
    """Tiles along one dimension: ceil(size / tile)."""
    return np.asarray(np.ceil(np.asarray(size, np.float64) / np.asarray(tile, np.float64)), np.float64)


def launched_tiles(
    tiles_m: FloatArray, tiles_n: FloatArray, cluster_m: FloatArray, cluster_n: FloatArray
) -> FloatArray:
    """Tiles that are computed: those of whole clusters, of which some may lie outside of C and cost as much.

    Clusters of 2 along M add a row of tiles where there is an odd number: 9 rows take as long as 10.
    """
    return np.asarray(np.ceil(tiles_m / cluster_m) * cluster_m * np.ceil(tiles_n / cluster_n) * cluster_n)


def waves(blocks: npt.ArrayLike, sm_count: npt.ArrayLike, blocks_per_sm: npt.ArrayLike) -> FloatArray:
    """Waves of blocks: ceil(blocks / (SMs x blocks an SM)); one block more than a wave holds is a wave more."""
    return tiles(blocks, np.asarray(sm_count, np.float64) * np.asarray(blocks_per_sm, np.float64))


def wave_efficiency(blocks: npt.ArrayLike, sm_count: npt.ArrayLike, blocks_per_sm: npt.ArrayLike) -> FloatArray:
    """Share of the slots of whole waves that hold a block."""
    slots = np.asarray(sm_count, np.float64) * np.asarray(blocks_per_sm, np.float64)
    return np.asarray(np.asarray(blocks, np.float64) / (waves(blocks, sm_count, blocks_per_sm) * slots))


def useful_share(m: npt.ArrayLike, n: npt.ArrayLike, bm: npt.ArrayLike, bn: npt.ArrayLike) -> FloatArray:
    """Share of the tiles' area that lies inside the result; the rest is work for nothing."""
    covered = tiles(m, bm) * np.asarray(bm) * tiles(n, bn) * np.asarray(bn)
    return np.asarray(np.asarray(m, np.float64) * np.asarray(n, np.float64) / covered)
