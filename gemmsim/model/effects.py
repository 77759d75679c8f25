"""The effects in their declared order: geometry, traffic, shared memory, compute, latency. They fill the Demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim.families.traits import FMA, WGMMA
from gemmsim.model import compute, drift, geometry, latency, shared_memory, solver, split, traffic
from gemmsim.model.demand import Case, Demand, rows_of
from gemmsim.model.rates import dram_rate, l2_rate
from gemmsim.problem import FloatArray

#: fewer distinct lines of A than this in a k-step leave slices of the L2 idle while all SMs ask the others
HOT_LINES, LINE_BYTES = 64, 128
#: lines of one row that blocks walk along at a time, from which down their requests for it cost over twice as much
FEW_LINES = 4.0
#: dirty lines that a flush by writing leaves, as a share of the L2 (cold_dirty less cold_clean on an H200: half)
DIRTY_SHARE_OF_L2 = 0.5
#: of a side of the L2, what the blocks that start together fill, and of an SM's busiest unit, what its residents want,
#: before it can matter that they drift apart
NEARLY = 0.8
#: rows of tiles, columns of tiles, k-steps
_Tiles = tuple[FloatArray, FloatArray, FloatArray]


def fill(x: Case) -> Demand:
    """The Demand of a case."""
    tiles = _tiles(x)
    grid = _grid(x, tiles)
    dram = traffic.dram_traffic(grid)
    d = _demand(x, tiles, _bytes(x, tiles, dram))
    crowding = solver.crowding(x, d)
    parted = (x.traits.depth > 1) | ((crowding > NEARLY) & (x.traits.path == FMA))
    together = (x.blocks_per_sm > 1) & (d.tiles > x.gpu.sm_count) & (dram.gang_bytes > NEARLY * _side_bytes(x))
    parted = parted & together
    if x.traits.stream_k.any():
        parted = parted | (x.traits.stream_k & (d.units.parts > 0))
    apart = np.flatnonzero(parted)
    d = _out_of_step(x, d, dram, apart, *_drift(x, d, apart)) if len(apart) else d
    d.l2_read_bytes = _requested(x, d, grid, dram, crowding)
    return d


def _requested(x: Case, d: Demand, g: traffic.Grid, dram: traffic.Traffic, crowding: FloatArray) -> FloatArray:
    """Bytes of A and B that leave L2, requests merged: blocks of stream-K that share a tile are each on their own."""
    t = x.traits
    reach = traffic.reach(crowding, d.units.blocks / x.gpu.sm_count, t.boxes > 0) / (t.cluster_m * t.cluster_n)
    g, dram = _of_clusters(x, g, dram)
    seen_a, seen_b = traffic.requested(g, dram, reach, reach * latency.dram_wait(x.gpu))
    asked_a, asked_b = _beside(x, d.tiles_m, d.tiles_n, *_asked(x, d.tiles_m, d.tiles_n))
    if not x.traits.stream_k.any():
        return np.asarray(asked_a * seen_a + asked_b * seen_b)
    whole = np.where(x.traits.stream_k & (d.units.parts > 0), d.units.whole / d.tiles, 1)
    return np.asarray(asked_a * (1 - whole * (1 - seen_a)) + asked_b * (1 - whole * (1 - seen_b)))


def _beside(
    x: Case, tiles_m: FloatArray, tiles_n: FloatArray, asked_a: FloatArray, asked_b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What is asked of A and B with what boxes cover beside a tile, and what of them lies past the edge."""
    t = x.traits
    if not t.fills_edges.any():
        return asked_a, asked_b
    clusters_m, clusters_n = np.ceil(tiles_m / t.cluster_m), np.ceil(tiles_n / t.cluster_n)
    below = (clusters_m * t.cluster_m * x.bm / x.m - 1) * traffic.filled(t.fills_edges, t.a_row_bytes, t.cluster_n > 1)
    right = (clusters_n * t.cluster_n * x.bn / x.n - 1) * traffic.filled(t.fills_edges, t.b_row_bytes, t.cluster_m > 1)
    return asked_a * (1 + t.a_padded + below), asked_b * (1 + t.b_padded + right)


def _of_clusters(x: Case, g: traffic.Grid, dram: traffic.Traffic) -> tuple[traffic.Grid, traffic.Traffic]:
    """The same with a cluster as one that asks: its blocks share what they have in common, see `_asked`."""
    m, n = x.traits.cluster_m, x.traits.cluster_n
    grid = replace(g, tiles_n=np.ceil(g.tiles_n / n), group_m=np.maximum(g.group_m / m, 1))
    return grid, replace(dram, readers_a=dram.readers_a / n, readers_b=dram.readers_b / m)


def _drift(x: Case, d: Demand, apart: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Of these rows: residents of an SM that stay together at first, and by what share of K each leaves the next."""
    few, theirs = rows_of(x, apart, len(x.m)), rows_of(d, apart, len(x.m))
    share, catching_up = solver.contention(few, theirs)
    aged = drift.by_age(share, few.blocks_per_sm, few.traits, x.gpu.arch.sub_partitions, catching_up)
    together, lag = drift.groups(share, few.blocks_per_sm, aged, few.traits.depth)
    return np.broadcast_to(together, apart.shape), np.broadcast_to(lag, apart.shape)


def _out_of_step(
    x: Case, d: Demand, dram: traffic.Traffic, apart: npt.NDArray[np.intp], together: FloatArray, lag: FloatArray
) -> Demand:
    """The same with the traffic of these rows as it is once residents have drifted apart, or begin at their own k."""
    rows, moved = len(x.m), lag > 0
    if x.traits.stream_k.any():
        moved = moved | np.broadcast_to(x.traits.stream_k, rows)[apart]
    if not moved.any():
        return d
    apart = apart[moved]
    few, theirs = rows_of(x, apart, rows), rows_of(d, apart, rows)
    tiles = _tiles(few)
    grid = _grid(few, tiles)
    after = traffic.drifted(grid, rows_of(dram, apart, rows), together[moved], lag[moved])
    if few.traits.stream_k.any():
        parts = np.where(few.traits.stream_k, theirs.units.parts, 0) / few.batch  # of one problem, as the grid is
        whole = grid.tiles_m * grid.tiles_n * theirs.units.whole / theirs.tiles
        after = traffic.streamed(grid, after, whole, parts, few.bm * few.bn * few.traits.partial_bytes)
    found = _bytes(few, tiles, after)
    changed: dict[str, Any] = {name: np.array(np.broadcast_to(getattr(d, name), rows)) for name in found}
    for name, column in found.items():
        changed[name][apart] = column
    return replace(d, **changed)


def _bytes(x: Case, tiles_and_steps: _Tiles, dram: traffic.Traffic) -> dict[str, FloatArray]:
    """What of the Demand follows from the traffic: bytes, and clocks that blocks wait for them."""
    tiles_m, tiles_n, k_steps = tiles_and_steps
    tiles = _launched(x, tiles_and_steps)
    stored = split.stored_bytes(x, tiles, k_steps)
    read, write, writeback = _condition(x, dram, stored)
    cold = 1 - dram.stays if x.l2 == "warm" else np.ones(1)
    l2_cost = _l2_cost(x, dram, tiles_m, tiles_n) + _last_row_cost(x, tiles_m, tiles_n)
    blocks = split.units(x, tiles, k_steps).blocks
    return {
        "dram_read_bytes": read,
        "dram_write_bytes": write,
        "writeback_bytes": writeback,
        "l2_weighted_bytes": l2_cost + _result_bytes(x, tiles_m),
        "latency_clk": latency.latency_clk(x, cold * dram.cold_a, cold * dram.cold_b),
        "arrival_clk": latency.arrival_clk(x, l2_cost / (tiles * k_steps), blocks),
    }


def _tiles(x: Case) -> _Tiles:
    """Rows and columns of tiles, and k-steps."""
    return geometry.tiles(x.m, x.bm), geometry.tiles(x.n, x.bn), geometry.tiles(x.k, x.bk)


def _launched(x: Case, tiles_and_steps: _Tiles) -> FloatArray:
    """Tiles that are computed, of all problems."""
    tiles_m, tiles_n, _ = tiles_and_steps
    return geometry.launched_tiles(tiles_m, tiles_n, x.traits.cluster_m, x.traits.cluster_n) * x.batch


def _demand(x: Case, tiles_and_steps: _Tiles, found: Mapping[str, FloatArray]) -> Demand:
    """The Demand of a case with what follows from its traffic."""
    tiles_m, tiles_n, k_steps = tiles_and_steps
    tiles = _launched(x, tiles_and_steps)
    math, waits = compute.math_clk(x)
    units = split.units(x, tiles, k_steps)
    shared = split.cost(x, units, k_steps)
    resident = np.minimum(x.blocks_per_sm, np.ceil(units.blocks / x.sms))
    spill, spill_lone = shared_memory.spill_clk(x, resident)
    return Demand(
        tiles_m=tiles_m,
        tiles_n=tiles_n,
        tiles=tiles,
        units=units,
        k_steps=k_steps,
        useful_area=geometry.useful_share(x.m, x.n, x.bm, x.bn) * (tiles_m * tiles_n * x.batch / tiles),
        useful_depth=x.k / (k_steps * x.bk),
        workspace_bytes=shared.workspace_bytes,
        second_asked_bytes=shared.second_asked_bytes,
        second_read_bytes=shared.second_read_bytes,
        second_write_bytes=shared.second_write_bytes,
        math_clk=math,
        math_waits=waits,
        shared_clk=shared_memory.shared_clk(x),
        issue_clk=compute.issue_clk(x),
        integer_clk=compute.integer_clk(x),
        spill_clk=spill,
        spill_lone_clk=spill_lone,
        wgmma=x.traits.path == WGMMA,
        math_slots=compute.math_slots(x),
        fetch_clk=compute.fetch_clk(x),
        cold_code_clk=compute.cold_code_clk(x),
        exposed_clk=latency.exposed_clk(x),
        loader_clk=latency.loader_clk(x),
        fill_steps=x.traits.fill_steps,
        start_clk=np.full(1, x.c["start"] * latency.l2_latency_clk(x.gpu)),
        start_issue_clk=compute.start_issue_clk(x),
        epilogue_clk=compute.epilogue_clk(x),
        fixup_clk=shared.fixup_clk,
        lone_factor=compute.few_warps(x),
        l2_bytes_per_s=x.c["l2_rate"] * l2_rate(x.gpu),
        dram_bytes_per_s=dram_rate(x.gpu),
        launch_s=latency.launch_s(x.gpu),
        second_s=shared.second_s,
        clock_hz=x.gpu.clock_hz,
        **found,
    )


def _side_bytes(x: Case) -> float:
    return x.gpu.l2_bytes / x.gpu.l2_partitions


def _grid(x: Case, tiles_and_steps: _Tiles) -> traffic.Grid:
    tiles_m, tiles_n, k_steps = tiles_and_steps
    stored = split.stored_bytes(x, _launched(x, tiles_and_steps), k_steps)
    slots, group, side = x.sms * x.blocks_per_sm, np.minimum(x.group_m, tiles_m), _side_bytes(x)
    sizes = (float(x.a_bytes), float(x.b_bytes), float(x.c_bytes))
    slices, slots = split.slices(x), np.maximum(1, np.floor(slots / split.abreast(x)))
    return traffic.Grid(
        x.m, x.n, x.k / slices, x.batch * slices, tiles_m, tiles_n, group, slots, stored, x.gpu.sm_count, *sizes, side,
        x.gpu.l2_partitions,
    )  # fmt: skip


def _result_bytes(x: Case, tiles_m: FloatArray) -> FloatArray:
    """Bytes between L2 and the SMs for C: its stores, what beta and a residual read, and a bias once a tile row."""
    result = x.m * x.n * x.c_bytes * (1 + x.result_reads)
    return np.asarray(x.batch * (result + x.bias * tiles_m * x.n * x.c_bytes))


def _condition(x: Case, dram: traffic.Traffic, stored: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """DRAM bytes read, written, and written back for somebody else, under the L2 condition asked for.

    cold_dirty: a line that the launch needs room for pushes out one of the flush's dirty lines, until those are gone;
    and what C keeps in L2 at the end has taken the place of as many dirty lines.
    """
    write, nothing = dram.write_bytes, np.zeros(1)
    result = x.batch * x.m * x.n * x.c_bytes
    extra = result * x.result_reads + x.bias * x.n * x.c_bytes
    read = dram.read_bytes + extra
    if x.l2 == "cold_dirty":
        pushed = np.minimum(DIRTY_SHARE_OF_L2 * x.gpu.l2_bytes, read + stored)
        return read, write, pushed + stored - write
    if x.l2 == "warm":
        found = x.batch * (x.a_bytes * x.m * x.k + x.b_bytes * x.k * x.n) + extra
        return np.maximum(read - dram.stays * found, 0), write * (1 - dram.stays), nothing
    return read, write, nothing


def _asked(x: Case, tiles_m: FloatArray, tiles_n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bytes of A and of B that all blocks ask L2 for: M N K (1/BN + 1/BM) elements, once a cluster.

    Blocks of a cluster load a part of a tile they share each, and L2's answer goes to all of them (multicast): with two
    blocks along M half of what is asked for of B, and of 2 x 1 blocks of 128 x 256 a third of all (PTX ISA,
    cp.async.bulk.tensor .multicast::cluster). What comes through an SM's port, and what DRAM brings, stays.
    """
    rows = np.where(x.traits.repeats_rows, tiles_m * x.bm, x.m)  # rows past M are read again, or skipped
    columns = np.where(x.traits.repeats_rows, tiles_n * x.bn, x.n)
    readers_a, readers_b = np.ceil(tiles_n / x.traits.cluster_n), np.ceil(tiles_m / x.traits.cluster_m)
    return rows * readers_a * x.k * x.a_bytes * x.batch, columns * readers_b * x.k * x.b_bytes * x.batch


def _l2_cost(x: Case, dram: traffic.Traffic, tiles_m: FloatArray, tiles_n: FloatArray) -> FloatArray:
    """What the bytes of A and B cost that blocks ask L2 for.

    The cost has its own shares of what is left after merging, fitted to times: neighbouring blocks share the operand
    that does not change from one block id to the next, A along a row, B down a group. Short rows and narrow copies
    leave parts of sectors and requests unused.
    """
    c, t = x.c, x.traits
    grouped = np.minimum(x.group_m, tiles_m) > 1
    near, far = c["shared_near"], c["shared_far"]
    share_a = traffic.merged_share(np.where(grouped, far, near), dram.wave_columns)
    share_b = traffic.merged_share(np.where(grouped, near, far), dram.wave_rows)
    if c["merging"] > 0:
        share_a = share_a * np.maximum(1, dram.wave_columns / t.cluster_n) ** -c["merging"]
        share_b = share_b * np.maximum(1, dram.wave_rows / t.cluster_m) ** -c["merging"]
    bytes_a, bytes_b = _asked(x, tiles_m, tiles_n)
    again = 1 + c["repeated_rows"] * np.where(t.repeats_rows, 1 - x.m / (tiles_m * x.bm), 0)
    lines = x.m * np.maximum(1, t.a_row_bytes / LINE_BYTES)
    again = again + c["hot_lines"] * np.where(t.repeats_rows, np.maximum(0, HOT_LINES / lines - 1), 0)
    cost_a = again * _row_cost(x, t.a_row_bytes, t.a_copy_bytes, t.a_crossings) * (1 + t.a_extra)
    cost_b = _row_cost(x, t.b_row_bytes, t.b_copy_bytes, t.b_crossings) * (1 + t.b_extra)
    cost = share_a * bytes_a * cost_a + share_b * bytes_b * cost_b
    return np.asarray(cost + c["filled"] * _filled_bytes(x, tiles_m, tiles_n) if t.fills_edges.any() else cost)


def _filled_bytes(x: Case, tiles_m: FloatArray, tiles_n: FloatArray) -> FloatArray:
    """Bytes of tiles past the edge of C that come as zeros, each block's own: no cluster shares them.

    They cost L2 more than bytes in C: at 1 x 4096 x 4096 tiles of 128 x 32 take 64 us, and 37 us where 63 more of their
    rows are in C. Why, no source says.
    """
    t = x.traits
    rows, columns = np.ceil(tiles_m / t.cluster_m) * t.cluster_m, np.ceil(tiles_n / t.cluster_n) * t.cluster_n
    below = (rows * x.bm - x.m) * columns * x.a_bytes
    right = (columns * x.bn - x.n) * rows * x.b_bytes
    return np.asarray(np.where(t.fills_edges, (below + right) * x.k * x.batch, 0))


def _last_row_cost(x: Case, tiles_m: FloatArray, tiles_n: FloatArray) -> FloatArray:
    """Cost of the copies that stand for rows of A past M where each is the last row again.

    All blocks ask for the same few lines, which one slice of L2 answers: a tile of 128 rows asks at M = 16 112 times
    for one row. The more lines of it a k-step has, and the blocks that run at once walk along, the less. In mma's tiles
    of 256 x 128 x 32 a product with 16 rows takes 170 us on an H200, one with 128 rows 120 (docs/tensor_cores.md).
    """
    if not x.traits.repeats_last.any() or not x.c["last_row"]:
        return np.zeros(1)
    t = x.traits
    again = np.where(t.repeats_last, tiles_m * x.bm - x.m, 0) * tiles_n * x.k * x.a_bytes * x.batch
    lines = np.maximum(1, t.a_row_bytes / LINE_BYTES)
    abreast = np.clip(x.sms * x.blocks_per_sm / (tiles_m * tiles_n * x.batch), 1, t.split_k)
    walked = abreast * x.k / t.split_k * x.a_bytes / LINE_BYTES
    again = again * (1 + FEW_LINES / walked) / lines
    return np.asarray(x.c["last_row"] * again * _row_cost(x, t.a_row_bytes, t.a_copy_bytes, t.a_crossings))


def _row_cost(x: Case, row_bytes: FloatArray, copy_bytes: FloatArray, crossings: FloatArray) -> FloatArray:
    """Cost of a byte in L2 relative to one of a long row that begins on a line and is copied 16 B at a time."""
    c = x.c
    short = np.where(row_bytes <= 32, c["rows_32b"], np.where(row_bytes <= 64, c["rows_64b"], 0))
    return np.asarray(1 + short + c["narrow_copies"] * (copy_bytes < 16) + c["crossings"] * crossings)
