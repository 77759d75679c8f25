"""The configurations of kernels/mma.cu that `rank` searches: structurally valid, and no two that say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemmsim.config import Config
from gemmsim.families.combinations import Columns, grid, times, where
from gemmsim.families.traits import Parameter
from gemmsim.families.wavefronts import LANES

#: results a thread: fewer read too many fragments for what they multiply, more do not fit into registers
RESULTS = (8, 128)
#: warps of a block
WARPS = (1, 2, 4, 8, 12)
#: how much longer than wide a tile may be
ASPECT = 4
#: threads of an SM that suffice: more blocks at once than that leave too few registers
THREADS = 512
#: elements of A and B in flight or being multiplied: less hides no latency, more leaves no room for a second block
BUFFERED = (6 * 1024, 104 * 1024)
#: results of a tile from which on its slices need not be many
LARGE, FEW_SLICES = 128 * 128, 4


def space(parameters: Sequence[Parameter]) -> Config:
    """All combinations, in the order of the parameters' choices."""
    choices = {p.name: p.choices for p in parameters}
    columns = _piped(times(_tiles(choices), grid(choices, "bk", "stages", "blocks")))
    columns = _split(times(columns, grid(choices, "group_m", "split_k")))
    columns = times(columns, grid(choices, "copy_a", "copy_b", "copy_c"))
    return Config("mma", {p.name: columns[p.name] for p in parameters})


def _tiles(choices: Mapping[str, Sequence[int]]) -> Columns:
    """Warp tiles that fill the block tile, lying as it lies: of two that are each other turned, one stands for both."""
    both = grid(choices, "bm", "bn", "wm", "wn")
    bm, bn, wm, wn = (both[p] for p in ("bm", "bn", "wm", "wn"))
    warps = bm // wm * (bn // wn)
    fills = (bm % wm == 0) & (bn % wn == 0) & np.isin(warps, WARPS)
    results = wm * wn // LANES
    compact = (np.maximum(bm, bn) <= ASPECT * np.minimum(bm, bn)) & (np.maximum(wm, wn) <= 2 * np.minimum(wm, wn))
    lies = (wm <= wn) | (bm > bn)
    few = (results >= RESULTS[0]) & (results <= RESULTS[1]) & ((warps > 1) | (bm < 64))
    return where(both, fills & compact & lies & few)


def _piped(columns: Columns) -> Columns:
    """Buffers and resident blocks that suit the tile."""
    threads = columns["bm"] // columns["wm"] * (columns["bn"] // columns["wn"]) * LANES
    results = columns["wm"] * columns["wn"] // LANES
    buffered = columns["stages"] * columns["bk"] * (columns["bm"] + columns["bn"])
    fits = (buffered >= BUFFERED[0]) & (buffered * columns["blocks"] <= BUFFERED[1])
    many = (columns["blocks"] == 1) | ((threads * columns["blocks"] <= THREADS) & (results < RESULTS[1]))
    lone = (columns["blocks"] > 1) | (threads * 2 > THREADS // 2)
    return where(columns, fits & many & lone)


def _split(columns: Columns) -> Columns:
    """Many slices of small tiles only."""
    large = columns["bm"] * columns["bn"] >= LARGE
    return where(columns, ~large | (columns["split_k"] <= FEW_SLICES))
