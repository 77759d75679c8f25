"""A launch as the L2 sees it: which blocks there are, what each computes, how many run at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.model import drift, effects, geometry, latency, solver, split, traffic
from gemmsim.model.case import make_case
from gemmsim.model.demand import Case, Demand
from gemmsim.model.predict import Prediction
from gemmsim.simulate.raster import COLUMN, GROUPED, HILBERT, ROW

#: tiles of C in a launch that is walked block by block; a larger one takes seconds
MAX_TILES = 1 << 18
#: blocks of such a launch, where slices are more than tiles
MAX_BLOCKS = 1 << 21


class TooLarge(GemmsimError):
    """A launch whose traffic would take too long to walk."""


@dataclass(frozen=True)
class Launched:
    """One launch. Sizes in elements, *_bytes of an element; tiles are numbered in raster order, problem by problem.

    The first `whole` tiles are computed in one go by a block each. What is left is cut along K: into `slices` each,
    slice after slice, or tile after tile (abreast); or, with `streams`, its k-steps are shared out evenly among so many
    persistent blocks, which also compute the whole tiles, one after another.

    A cluster counts as one block on one SM: its blocks start together on neighbouring SMs, walk K together, and what
    they share is asked for once. Tiles (bm, bn), sms and blocks are then those of clusters.
    """

    m: int
    n: int
    k: int
    batch: int
    bm: int
    bn: int
    k_steps: int
    a_bytes: float
    b_bytes: float
    c_bytes: float
    partial_bytes: float  # of an element of a partial result
    result_reads: int  # arrays of C's shape that the epilogue reads
    reads_c: bool  # C itself is one of them
    bias: bool
    raster: str
    group_m: int
    whole: int
    slices: int
    streams: int
    sms: int
    blocks_per_sm: int
    busy_share: float  # of an SM's time that a block keeps its busiest unit at work (solver.contention)
    by_age: float  # share of an SM's time that goes to its blocks by age (drift.by_age)
    depth: float  # k-steps whose loads are in flight together
    repeats_rows: bool  # rows past M and N are read again, not skipped
    side_bytes: float  # capacity of one L2 partition
    partitions: int
    dram_wait: float = 1.0  # how many times as long a request waits for DRAM as for L2
    cluster: int = 1  # blocks of a cluster
    copied: bool = False  # a copy engine asks for A and B
    padded_a: float = 0.0  # what it asks for beside a tile of A, as a share of its side; of B
    padded_b: float = 0.0
    filled_a: float = 0.0  # bytes that it asks for, for each of A past the edge, that comes as zero; of B
    filled_b: float = 0.0
    abreast: bool = False  # the slices of a tile follow one another, not the tiles of a slice, and the last sums them
    handing: float = 0.0  # to hand over a part of a tile's sums, and to take one up: of the time of a tile
    taking: float = 0.0
    store_sectors: float = 0.0  # 32 B sectors that the stores of a tile touch one by one; 0: each once

    @property
    def tiles_m(self) -> int:
        """Rows of tiles."""
        return -(-self.m // self.bm)

    @property
    def tiles_n(self) -> int:
        """Columns of tiles."""
        return -(-self.n // self.bn)

    @property
    def tiles(self) -> int:
        """Tiles of all problems."""
        return self.tiles_m * self.tiles_n * self.batch

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.streams or self.whole + (self.tiles - self.whole) * self.slices

    @property
    def second(self) -> bool:
        """Whether a second kernel sums slices: those of a tile that run side by side are summed by their last block."""
        return self.slices > 1 and self.whole < self.tiles and not self.abreast

    @property
    def crowding(self) -> float:
        """What the residents of an SM want of its busiest unit, 1: all of it."""
        return min(self.blocks_per_sm, -(-self.blocks // self.sms)) * self.busy_share

    @property
    def slots(self) -> int:
        """Blocks that run at once."""
        return self.sms * self.blocks_per_sm


def case_of(p: Prediction, rows: slice = slice(None), l2: str = "cold_clean") -> Case:
    """The Case of rows of a prediction, on a cold L2 unless another condition is asked for."""
    config = Config(p.config.family, {name: v[rows] for name, v in p.config.values.items()})
    launch, coefficients = p.launch.part(rows), p.calibration.values
    return make_case(p.problem.take(rows), config, launch, p.blocks_per_sm[rows], p.gpu, coefficients, l2)


def ordered(x: Case, raster: str, group_m: int | None = None) -> Case:
    """The Case with its tiles in another order: rows, columns, or groups of group_m.

    Hilbert's curve, which the closed form does not know, counts as the configuration's own order, or as group_m's.
    """
    if raster in (ROW, COLUMN):
        return replace(x, group_m=np.ones(1) if raster == ROW else geometry.tiles(x.m, x.bm))
    return x if group_m is None else replace(x, group_m=np.full(1, float(group_m)))


def own_raster(config: Config, row: int = 0) -> str:
    """The order that the kernel walks: Hilbert's curve where the parameter `hilbert` asks for it, else groups."""
    asked = config.values.get("hilbert")
    return HILBERT if asked is not None and asked[row] else GROUPED


def launched(p: Prediction, row: int = 0, raster: str = "", group_m: int | None = None) -> Launched:
    """The launch of a row of a prediction, raster and group_m its own unless others are given.

    Raises GemmsimError for one that cannot launch, TooLarge.
    """
    if not p.feasible[row]:
        raise GemmsimError(f"a launch that is refused has no traffic to simulate: {p.reasons[row]}")
    part = slice(row, row + 1)
    q, x = p.problem.take(part), ordered(case_of(p, part), raster, group_m)
    t, down, across = x.traits, round(_one(x.traits.cluster_m)), round(_one(x.traits.cluster_n))
    bm, bn, cluster = x.bm * down, x.bn * across, down * across
    tiles_m, tiles_n = (int(geometry.tiles(size, tile)[0]) for size, tile in ((x.m, bm), (x.n, bn)))
    tiles = tiles_m * tiles_n * int(q.batch[0])
    if tiles > MAX_TILES:
        raise TooLarge(f"{tiles} tiles, more than the {MAX_TILES} that are walked")
    steps = geometry.tiles(x.k, x.bk)
    units = split.units(x, np.full(1, float(tiles * cluster)), steps)
    whole, streams, slices = round(_one(units.whole) / cluster), 0, 1
    if _one(t.stream_k) and whole < tiles:
        streams = round(_one(units.parts) / cluster)
    elif whole < tiles:
        slices = round(min(_one(t.split_k), _one(steps)))
        whole = whole if slices > 1 else tiles
    blocks = whole + (tiles - whole) * slices
    if blocks > MAX_BLOCKS:
        raise TooLarge(f"{blocks} blocks, more than the {MAX_BLOCKS} that are walked")
    demand = effects.fill(x)
    share, catching_up = solver.contention(x, demand)
    handing, taking = _passing(x, demand) if slices > 1 and _one(t.sums_slices) else (0.0, 0.0)
    return Launched(
        m=int(q.m[0]),
        n=int(q.n[0]),
        k=int(q.k[0]),
        batch=int(q.batch[0]),
        bm=round(_one(bm)),
        bn=round(_one(bn)),
        k_steps=round(_one(steps)),
        a_bytes=x.a_bytes,
        b_bytes=x.b_bytes,
        c_bytes=x.c_bytes,
        partial_bytes=t.partial_bytes,
        result_reads=x.result_reads,
        reads_c=q.beta,
        bias=x.bias,
        raster=raster or own_raster(p.config, row),
        group_m=max(1, round(min(_one(x.group_m) // down, tiles_m))),
        whole=whole,
        slices=slices,
        cluster=cluster,
        copied=_one(t.boxes) > 0,
        padded_a=_one(t.a_padded),
        padded_b=_one(t.b_padded),
        filled_a=_one(traffic.filled(t.fills_edges, t.a_row_bytes, t.cluster_n > 1)),
        filled_b=_one(traffic.filled(t.fills_edges, t.b_row_bytes, t.cluster_m > 1)),
        abreast=bool(_one(t.sums_slices)),
        handing=handing,
        taking=taking,
        streams=streams,
        sms=int(_one(x.sms)) // cluster,
        blocks_per_sm=round(_one(x.blocks_per_sm)),
        busy_share=_one(share),
        by_age=_one(drift.by_age(share, x.blocks_per_sm, t, p.gpu.arch.sub_partitions, catching_up)),
        depth=_one(t.depth),
        repeats_rows=bool(_one(t.repeats_rows)),
        side_bytes=p.gpu.l2_bytes / p.gpu.l2_partitions,
        partitions=p.gpu.l2_partitions,
        dram_wait=latency.dram_wait(p.gpu),
        store_sectors=_one(t.store_sectors) * cluster,
    )


def _passing(x: Case, d: Demand) -> tuple[float, float]:
    """Time to hand over a part of a tile, and to take one up, as shares of that of a whole tile."""
    tile, _ = solver.blocks(x, d)
    clk = max(_one(tile.alone_clk), _one(tile.work_clk))
    return _one(split.fixup_clk(x, 1.0, np.zeros(1))) / clk, _one(split.fixup_clk(x, 0.0, np.ones(1))) / clk


def _one(values: np.ndarray) -> float:
    """The entry of an array of one."""
    return float(np.ravel(values)[0])
