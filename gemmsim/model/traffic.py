"""Bytes that leave L2 for the SMs and DRAM for the L2: closed forms over waves, raster order and a two-sided cache.

Three models, named as what they are:

textbook_bytes  M N K (1/BN + 1/BM): what tiles ask for. Nearly what leaves L2, 5 to 50 times what leaves DRAM.
l2_read_bytes   the same less the requests of neighbouring SMs for the same line that are merged on their way
dram_bytes      stack distances between waves: a panel of A or B touched again after D distinct bytes misses with
                logistic((D - side) / (0.07 side)). An L2 of two partitions keeps a copy on each side of what its SMs
                read, so one side's capacity is what counts.

The raster walks group_m tile rows together, column by column (group_m = 1: row-major, N fastest).
Source: derived from hardware counters of 39 GEMM launches on an H200. DRAM reads of launches that read more than 1.1
times their operands (11 of each kernel) are 14.4 % off on average for triton, 5.6 % for register_tile; 9.5 and 1.2 %
without the one of each whose blocks drift apart along K, which is not modelled (tests/model/test_traffic.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray

#: how much of the far half of a panel a side holds less, for each reader that happens to sit on the other side
FAR_HALF = 0.5
#: share of C that one side holds while it is written
C_SHARE = 0.75
#: width of the miss edge, as a share of the capacity: sets and slices fill unevenly
EDGE = 0.07
#: share of a side that dirty lines may fill before they are written back
DIRTY_SHARE = 0.75


@dataclass(frozen=True)
class Grid:
    """A launch as the cache sees it: float64 arrays of one length. Problems of a batch follow one another."""

    m: FloatArray
    n: FloatArray
    k: FloatArray
    batch: FloatArray
    tiles_m: FloatArray
    tiles_n: FloatArray
    group_m: FloatArray  # at most tiles_m
    slots: FloatArray  # blocks that run at once: SMs x blocks an SM
    a_bytes: float
    b_bytes: float
    c_bytes: float
    side_bytes: float  # capacity of one L2 partition
    partitions: int


@dataclass(frozen=True)
class Traffic:
    """DRAM bytes of a launch on a cold L2, and the largest share of rows and columns of tiles that one wave spans."""

    read_bytes: FloatArray
    write_bytes: FloatArray
    wave_rows: FloatArray
    wave_columns: FloatArray
    cold_a: FloatArray  # of the waves that touch a panel of A (of B), the share that finds it in DRAM
    cold_b: FloatArray
    stays: FloatArray  # share of A, B and C that the same launch finds in L2 if it runs again


def textbook_bytes(
    m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, bm: npt.ArrayLike, bn: npt.ArrayLike, element_bytes: float
) -> FloatArray:
    """M N K (1/BN + 1/BM) elements, in bytes: every tile reads its rows of A and columns of B for itself."""
    volume = np.asarray(m, np.float64) * np.asarray(n, np.float64) * np.asarray(k, np.float64)
    return np.asarray(element_bytes * volume * (1 / np.asarray(bn, np.float64) + 1 / np.asarray(bm, np.float64)))


def dram_traffic(g: Grid) -> Traffic:
    """Bytes read from and written to DRAM by a launch that finds nothing of its own in L2."""
    a, b, c = g.m * g.k * g.a_bytes, g.k * g.n * g.b_bytes, g.m * g.n * g.c_bytes
    tiles = g.tiles_m * g.tiles_n
    slots = np.minimum(g.slots, tiles)
    panel_a, panel_b, tile_c = a / g.tiles_m, b / g.tiles_n, c / tiles
    touches_a, touches_b, per_group = _touches(g, tiles, slots)
    held_a = panel_a * (1 - _far(g) * np.exp2(-g.tiles_n / touches_a))
    held_b = panel_b * (1 - _far(g) * np.exp2(-g.tiles_m / touches_b))
    share_c = C_SHARE if g.partitions > 1 else 1.0
    common = _gcd(per_group, slots)

    def distance(waves: FloatArray | float) -> FloatArray:
        """Distinct bytes one side sees between two touches that lie so many waves apart."""
        blocks = waves * slots
        rows = np.minimum(g.tiles_m, g.group_m * (blocks + per_group - common) / per_group)
        columns = np.minimum(g.tiles_n, np.ceil(blocks / g.group_m))
        return np.asarray(held_a * rows + held_b * columns + share_c * blocks * tile_c)

    next_wave = distance(1.0)
    miss_a = miss_share(next_wave, g.side_bytes)
    gap = np.where(slots > per_group, 1.0, per_group / slots)  # waves between two touches of a panel of B
    whole = np.floor(gap)
    miss_b = miss_share(distance(whole), g.side_bytes)
    miss_b = miss_b + (gap - whole) * (miss_share(distance(whole + 1), g.side_bytes) - miss_b)
    footprint = next_wave - share_c * slots * tile_c
    reads_a, reads_b = 1 + (touches_a - 1) * miss_a, 1 + (touches_b - 1) * miss_b
    return Traffic(
        read_bytes=g.batch * (a * reads_a + b * reads_b),
        write_bytes=g.batch * _written(g, tiles, slots, tile_c, (panel_a, panel_b), footprint, share_c),
        wave_rows=np.minimum(
            g.tiles_m, np.where(slots >= per_group, g.group_m * np.ceil(slots / per_group), g.group_m)
        ),
        wave_columns=np.minimum(g.tiles_n, np.where(slots >= per_group, g.tiles_n, np.ceil(slots / g.group_m))),
        cold_a=reads_a / touches_a,
        cold_b=reads_b / touches_b,
        stays=1 - miss_share(g.batch * (held_a * g.tiles_m + held_b * g.tiles_n + share_c * c), g.side_bytes),
    )


def merged_share(shared: FloatArray | float, sharers: FloatArray) -> FloatArray:
    """Share of an operand's L2->SM bytes left after merging: `shared` with many blocks that read it, 1 with one."""
    return np.asarray(shared + (1 - shared) / sharers)


def _far(g: Grid) -> float:
    return FAR_HALF if g.partitions > 1 else 0.0


def _touches(g: Grid, tiles: FloatArray, slots: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Waves that touch a panel of A, of B (means), and tiles in one group of rows.

    A: (wave, group) incidences = waves + groups - 1 - boundaries that coincide. B: every wave if a wave covers more
    than a group, else once a group.
    """
    per_group = g.group_m * g.tiles_n
    groups, waves = np.ceil(g.tiles_m / g.group_m), np.ceil(tiles / slots)
    coincide = np.floor((tiles - 1) * _gcd(per_group, slots) / (per_group * slots))
    incidences = waves + groups - 1 - coincide
    last = waves - np.floor((groups - 1) * per_group / slots)
    rows_last = g.tiles_m - (groups - 1) * g.group_m
    touches_a = ((incidences - last) * g.group_m + last * rows_last) / g.tiles_m
    tail = tiles - (waves - 1) * slots
    touches_b = np.where(slots > per_group, waves - 1 + np.minimum(1, (tail + g.group_m - 1) / per_group), groups)
    return touches_a, touches_b, per_group


def _written(
    g: Grid,
    tiles: FloatArray,
    slots: FloatArray,
    tile_c: FloatArray,
    panels: tuple[FloatArray, FloatArray],
    footprint: FloatArray,
    share_c: float,
) -> FloatArray:
    """C less what still lies in L2 when the launch ends: the tail wave's tiles, and whole waves that had room."""
    c = tile_c * tiles
    wave_c = np.minimum(slots * tile_c, c)
    tail = np.mod(tiles, slots)
    tail_blocks = np.where(tail > 0, tail, slots)
    tail_c = tail_blocks * tile_c
    room = DIRTY_SHARE * g.side_bytes - share_c * tail_c
    rows = np.minimum(g.tiles_m, tail_blocks / g.tiles_n + g.group_m)
    columns = np.minimum(g.tiles_n, np.ceil(tail_blocks / g.group_m))
    tail_footprint = np.minimum(footprint, panels[0] * rows + panels[1] * columns)
    fresh = np.minimum(footprint, (panels[0] * g.tiles_m + panels[1] * g.tiles_n) * slots / tiles) + share_c * wave_c
    last_stays = _logistic((room - share_c * wave_c - tail_footprint) / (EDGE * g.side_bytes))
    earlier = np.maximum((room - footprint - share_c * wave_c) / fresh + 0.5, 0)
    tail_stays = _logistic((DIRTY_SHARE * g.side_bytes - share_c * tail_c) / (EDGE * g.side_bytes))
    kept = tail_c * tail_stays + last_stays * (1 + earlier) * wave_c
    return np.asarray(c - np.minimum(c, kept))


def miss_share(distance: FloatArray, capacity: float) -> FloatArray:
    """Share of what is touched again after so many distinct bytes that is gone: logistic((D - cap) / (EDGE cap))."""
    return _logistic((distance - capacity) / (EDGE * capacity))


def _logistic(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _gcd(x: FloatArray, y: FloatArray) -> FloatArray:
    return np.gcd(x.astype(np.int64), y.astype(np.int64)).astype(np.float64)
