"""The configurations of kernels/wgmma.cu that `rank` searches: structurally valid, and no two that say the same.

Swapped where it lets M be cut into 8s. Of buffers the most that fit beside one another on an SM, for operands of 1, 2
and 4 bytes, up to DEEP: more do not shorten a k-step. Clusters, split and shared tiles where a tile is large enough for
them to pay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemmsim.config import Config
from gemmsim.families.combinations import Columns, grid, times, where
from gemmsim.families.traits import Parameter
from gemmsim.families.wgmma_resources import (
    ALIGNMENT_BYTES,
    BARRIER_BYTES,
    ROWS,
    ends_bytes,
    lacking,
    padded,
    starts,
    x_side,
    y_side,
)
from gemmsim.problem import IntArray

#: shared memory of an SM, and what the driver keeps of it for each block
SMEM_BYTES, RESERVED_BYTES = 233472, 1024
#: buffers beyond which a pipeline is no better, and with which it is no pipeline yet
DEEP, SHALLOW = 8, 2
#: elements of wgmma's M side for so many consumers that share it, or that take turns
X_SIDES = {(1, 0): (64, 128), (2, 0): (128, 256), (3, 0): (192,), (2, 1): (64, 128)}
#: bytes of operands, each with the k-steps that it takes
STEPS = {1: (64, 128), 2: (32, 64, 128), 4: (32,)}
#: the least elements of a tile that a cluster is formed for, or that is split into many slices
CLUSTERED = 64 * 64
#: columns of wgmma up to which each eighth counts, and up to which each sixteenth
FINE, MEDIUM = 64, 192
TAIL_SLICES = (2, 4)


def space(parameters: Sequence[Parameter]) -> Config:
    """All combinations, in the order of the parameters' choices."""
    choices = {p.name: p.choices for p in parameters}
    columns = _tiles(choices)
    columns = _pipelined(times(columns, grid(choices, "bk", "stages", "blocks")))
    columns = _clustered(times(columns, grid(choices, "cluster_m", "cluster_n")))
    columns = times(columns, _ways(choices))
    return Config("wgmma", {p.name: columns[p.name] for p in parameters})


def _tiles(choices: Mapping[str, Sequence[int]]) -> Columns:
    both = grid(choices, "bm", "bn", "consumers", "pingpong", "swap")
    x, y = x_side(both), y_side(both)
    known = np.zeros(len(x), bool)
    for (count, turns), sides in X_SIDES.items():
        known |= (both["consumers"] == count) & (both["pingpong"] == turns) & np.isin(x, sides)
    coarse = (y <= FINE) | ((y <= MEDIUM) & (y % 16 == 0)) | (y % 32 == 0)
    turned = (both["swap"] == 0) | (both["bm"] % ROWS != 0)
    return where(both, known & coarse & turned)


def _pipelined(columns: Columns) -> Columns:
    """Buffers: for each size of element the most that fit; blocks: as many as leave registers for the sums."""
    keep = np.zeros(len(columns["blocks"]), bool)
    for width, depths in STEPS.items():
        for along_k in (True, False):
            most = _most(columns, width, padded(y_side(columns), along_k))
            keep |= np.isin(columns["bk"], depths) & (columns["stages"] == most)
    few = (columns["consumers"] == 3) & (columns["blocks"] == 2)  # 64 registers: an epilogue that reads C spills
    return where(columns, keep & ~few & (lacking(columns) == 0) & starts(columns))


def _most(columns: Columns, width: int, y: IntArray) -> IntArray:
    """Buffers that fit with operands of so many bytes, DEEP at most; 0 where no two do. y: elements loaded of Y."""
    ends = ends_bytes(columns, width < 4)
    one = -(-(x_side(columns) + y) * columns["bk"] * width // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + BARRIER_BYTES
    most = np.minimum(DEEP, (SMEM_BYTES // columns["blocks"] - RESERVED_BYTES - ends) // one)
    return np.where(most >= SHALLOW, most, 0)


def _clustered(columns: Columns) -> Columns:
    """One block, or two; two share a tile worth sharing."""
    cluster = columns["cluster_m"] * columns["cluster_n"]
    large = columns["bm"] * columns["bn"] >= CLUSTERED
    return where(columns, (cluster == 1) | ((cluster == 2) & large & (columns["blocks"] == 1)))


def _ways(choices: Mapping[str, Sequence[int]]) -> Columns:
    """Orders of whole tiles; and, in groups of rows, all tiles split, or the tail; or stream-K."""
    both = grid(choices, "group_m", "hilbert", "split_k", "split_tail", "stream_k")
    split, stream, tail = both["split_k"] > 1, both["stream_k"] == 1, both["split_tail"] == 1
    whole = ~(split & stream) & (~tail | np.isin(both["split_k"], TAIL_SLICES))
    return where(both, whole & (~(split | stream) | (both["group_m"] == max(choices["group_m"]))))
