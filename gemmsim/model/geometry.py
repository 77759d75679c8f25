"""Tiles, k-steps and waves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray


def tiles(size: npt.ArrayLike, tile: npt.ArrayLike) -> FloatArray:
    """Tiles along one dimension: ceil(size / tile)."""
    return np.asarray(np.ceil(np.asarray(size, np.float64) / np.asarray(tile, np.float64)), np.float64)


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
