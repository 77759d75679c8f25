"""Bytes that leave L2 for the SMs and DRAM for the L2: closed forms over waves, raster order and a two-sided cache.

Three models, named as what they are:

textbook_bytes  M N K (1/BN + 1/BM): what tiles ask for. Nearly what leaves L2, 5 to 50 times what leaves DRAM.
l2_read_bytes   the same less the requests of other SMs for the same line that are merged on their way (reach)
dram_bytes      stack distances between waves: a panel of A or B touched again after D distinct bytes misses with
                logistic((D - side) / (0.07 side)). An L2 of two partitions keeps a copy on each side of what its SMs
                read, so one side's capacity is what counts. Blocks that share an SM may drift apart (`drifted`).

The raster walks group_m tile rows together, column by column (group_m = 1: row-major, N fastest).
gemmsim.simulate walks the same launch block by block. Errors of both against hardware counters: docs/traffic.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
#: how many sides must lie between residents of an SM that drift apart before each reads by itself, and waves in which
#: the eldest of them still stay together; both read off gemmsim.simulate
APART, EARLY = 1.5, 1.5
#: visits to a panel that are told apart, spans of time that are tried, and the share of a piece that a side sees at a
#: visit of one reader: half if the other has a copy, three quarters if not
MOST_VISITS, SPANS, SEEN = 48, 16, 0.65
#: blocks back in the raster from which half of the requests for a line in L2 arrive in time to be merged, where
#: residents want all of their SM's busiest unit and each SM runs one block; how it falls with crowding, and with the
#: blocks that an SM has to run; and the least crowding. Fitted on counters of an H200 (docs/traffic.md)
REACH, CROWDED, LATER, LEAST_CROWDING = 0.9, 1.2, 0.2, 0.05
#: the reach of requests that a copy engine makes (TMA), as a share of that of others; and the bytes that it asks L2 for
#: where a row of a box lies past the edge and comes as zeros: a sector, a line if it goes to all of a cluster
COPIED, FILLED_BYTES, SHARED_FILLED_BYTES = 0.28, 32.0, 128.0


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
    stored_bytes: FloatArray  # C, and partial results
    sms: int
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
    readers_a: FloatArray  # blocks of a wave that read the same panel of A, of B; means
    readers_b: FloatArray
    cold_a: FloatArray  # of the waves that touch a panel of A (of B), the share that finds it in DRAM
    cold_b: FloatArray
    gang_bytes: FloatArray  # distinct bytes that one side sees while one block an SM walks along K
    wave_bytes: FloatArray  # the same from one wave to the next
    stays: FloatArray  # share of A, B and C that the same launch finds in L2 if it runs again


def textbook_bytes(
    m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, bm: npt.ArrayLike, bn: npt.ArrayLike, element_bytes: float
) -> FloatArray:
    """M N K (1/BN + 1/BM) elements, in bytes: every tile reads its rows of A and columns of B for itself."""
    volume = np.asarray(m, np.float64) * np.asarray(n, np.float64) * np.asarray(k, np.float64)
    return np.asarray(element_bytes * volume * (1 / np.asarray(bn, np.float64) + 1 / np.asarray(bm, np.float64)))


def dram_traffic(g: Grid) -> Traffic:
    """Bytes read from and written to DRAM by a launch that finds nothing of its own in L2."""
    w = _waves(g)
    held_a = w.panel_a * (1 - _far(g) * np.exp2(-g.tiles_n / w.touches_a))
    held_b = w.panel_b * (1 - _far(g) * np.exp2(-g.tiles_m / w.touches_b))
    share_c = _c_share(g)

    def seen(waves: FloatArray | float, rows: FloatArray) -> FloatArray:
        """Distinct bytes one side sees between two touches that lie so many waves apart."""
        c = share_c * waves * w.slots * w.tile_c
        return np.asarray(held_a * rows + held_b * w.columns(waves) + c)

    def missed(waves: FloatArray | float) -> FloatArray:
        """Share of them that miss: so many waves lie in as few groups of rows as can be, or in one more."""
        groups = w.groups(waves)
        fewest = np.floor(groups)
        rows = np.minimum(g.tiles_m, g.group_m * fewest)
        low, more = seen(waves, rows), held_a * np.minimum(g.tiles_m - rows, g.group_m)
        few = miss_share(low, g.side_bytes)
        return np.asarray(few + (groups - fewest) * (miss_share(low + more, g.side_bytes) - few))

    next_wave = seen(1.0, w.rows(1.0))
    miss_a = missed(1.0)
    gap = np.where(w.slots > w.per_group, 1.0, w.per_group / w.slots)  # waves between two touches of a panel of B
    whole = np.floor(gap)
    miss_b = missed(whole)
    miss_b = miss_b + (gap - whole) * (missed(whole + 1) - miss_b)
    footprint = next_wave - share_c * w.slots * w.tile_c
    reads_a, reads_b = 1 + (w.touches_a - 1) * miss_a, 1 + (w.touches_b - 1) * miss_b
    a, b = w.panel_a * g.tiles_m, w.panel_b * g.tiles_n
    wide, gang = w.slots >= w.per_group, np.minimum(1.0, g.sms / w.slots)
    return Traffic(
        read_bytes=g.batch * (a * reads_a + b * reads_b),
        write_bytes=_written(g, w, footprint, share_c),
        wave_rows=np.minimum(g.tiles_m, np.where(wide, g.group_m * np.ceil(w.slots / w.per_group), g.group_m)),
        wave_columns=np.minimum(g.tiles_n, np.where(wide, g.tiles_n, np.ceil(w.slots / g.group_m))),
        readers_a=g.tiles_n / w.touches_a,
        readers_b=g.tiles_m / w.touches_b,
        cold_a=reads_a / w.touches_a,
        cold_b=reads_b / w.touches_b,
        stays=1
        - miss_share(g.batch * (held_a * g.tiles_m + held_b * g.tiles_n + share_c * w.tiles * w.tile_c), g.side_bytes),
        gang_bytes=seen(gang, w.rows(gang)),
        wave_bytes=next_wave,
    )


def drifted(g: Grid, in_step: Traffic, together: FloatArray, lag: FloatArray) -> Traffic:
    """The same launch when residents of an SM leave each other behind, by `lag` of K a tile (gemmsim.model.drift).

    One block on every SM sees D distinct bytes in its walk along K; with n residents so far apart that n x lag x D is
    well over a side, each reads all panels by itself, as if it were alone. Until the lag has grown so far, waves are in
    step. In the first wave or two, groups of `together` residents stay in step.
    """
    resident, waves = np.maximum(g.slots / g.sms, 1), g.tiles_m * g.tiles_n / g.slots
    alone = dram_traffic(replace(g, slots=np.minimum(g.slots, g.sms * np.where(waves < EARLY, together, 1))))
    begins = APART * g.side_bytes / (resident * np.maximum(lag, 1e-9) * alone.wave_bytes)
    share = np.maximum(0, 1 - begins / waves) * miss_share(alone.wave_bytes, g.side_bytes)
    mixed = {name: v + share * (getattr(alone, name) - v) for name, v in vars(in_step).items()}
    return Traffic(**mixed)


def streamed(g: Grid, before: Traffic, whole: FloatArray, parts: FloatArray, part_bytes: FloatArray) -> Traffic:
    """The same launch where `parts` blocks share out the k-steps of all but `whole` tiles evenly (stream-K).

    Every share takes as long; k-steps lie end to end, so tile t comes to a piece of K at (t + piece) modulo a share's
    length. From these times follow the gaps between visits to a piece of a panel, the distinct bytes that a side sees
    in so long, and the gap from which on a visit misses. part_bytes: of a partial result.
    """
    w = _waves(g)
    on = parts > 0
    tiles = np.where(on, w.tiles - whole, 1)
    rows, columns = w.rows(tiles / w.slots), w.columns(tiles / w.slots)
    a, b, length = w.panel_a * rows, w.panel_b * columns, tiles / np.maximum(parts, 1)
    visit, group = np.arange(MOST_VISITS), w.group_m[:, None]
    times_a = _times(visit * group, tiles / rows, length)
    times_b = _times(visit // group * w.per_group[:, None] + visit % group, tiles / columns, length)
    stored = _c_share(g) * (tiles * w.tile_c + parts * part_bytes)
    span = _span((a, times_a), (b, times_b), stored, g.side_bytes)
    again = a * (1 + _lost(times_a, span, g.partitions))
    again = again + b * (np.maximum(1 - whole / w.tiles, before.cold_b) + _lost(times_b, span, g.partitions))
    read = np.where(on, whole / w.tiles * before.read_bytes + g.batch * again, before.read_bytes)
    return replace(before, read_bytes=read)


def _times(offset: FloatArray, visits: FloatArray, length: FloatArray) -> FloatArray:
    """Sorted times of visits, as shares of the time that all take: (rows, MOST_VISITS), 2 where there are no more."""
    when = np.mod(offset, length[:, None]) / length[:, None]
    return np.sort(np.where(np.arange(MOST_VISITS) < np.maximum(np.round(visits), 1)[:, None], when, 2.0), axis=1)


def _gaps(times: FloatArray) -> FloatArray:
    """Gaps behind each visit, round the end: 0 where there is no visit."""
    there = times < 2
    last = np.max(np.where(there, times, 0), axis=1)
    before = np.concatenate([(last - 1)[:, None], times[:, :-1]], axis=1)
    return np.where(there, times - before, 0)


def _span(
    a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray], stored: FloatArray, side_bytes: float
) -> FloatArray:
    """The time, as a share of all, in which a side sees as many distinct bytes as it holds; over 1 if never."""
    grid = np.square(np.linspace(0, 1, SPANS))
    seen = stored[:, None] * grid
    for size, times in (a, b):
        unseen = np.maximum(_gaps(times)[:, :, None] - grid, 0).sum(1)
        seen = seen + SEEN * size[:, None] * (1 - unseen)
    fits = (seen <= side_bytes).sum(1)
    low, high = np.maximum(fits - 1, 0), np.minimum(fits, SPANS - 1)
    at = np.arange(len(fits))
    part = (side_bytes - seen[at, low]) / np.maximum(seen[at, high] - seen[at, low], 1)
    return np.where(fits == SPANS, 2.0, grid[low] + np.clip(part, 0, 1) * (grid[high] - grid[low]))


def _lost(times: FloatArray, span: FloatArray, partitions: int) -> FloatArray:
    """Visits that miss, beside the first: one gap in the circle, the longer the likelier, has the first behind it."""
    gap = _gaps(times)
    counted, over = np.where(times < 2, 1 - gap, 0), gap > span[:, None]
    if partitions > 1:
        two, three = gap + np.roll(gap, 1, axis=1), gap + np.roll(gap, 1, axis=1) + np.roll(gap, 2, axis=1)
        missed = 0.5 * over + 0.25 * (two > span[:, None]) + 0.25 * (three > span[:, None])
        return np.asarray((counted * missed * (0.5 + 0.5 * missed)).sum(1))
    return np.asarray((counted * over).sum(1))


@dataclass(frozen=True)
class _Waves:
    """Waves of a launch: how often they touch a panel, and what so many of them span."""

    tiles_m: FloatArray
    tiles_n: FloatArray
    group_m: FloatArray
    tiles: FloatArray
    slots: FloatArray
    per_group: FloatArray  # tiles in a group of rows
    beyond: FloatArray  # tiles that a wave reaches into the next group, mean
    touches_a: FloatArray  # waves that touch a panel of A, of B; means
    touches_b: FloatArray
    panel_a: FloatArray  # bytes
    panel_b: FloatArray
    tile_c: FloatArray

    def groups(self, waves: FloatArray | float) -> FloatArray:
        """Groups of rows of tiles that so many waves span, mean."""
        return np.asarray((waves * self.slots + self.beyond) / self.per_group)

    def rows(self, waves: FloatArray | float) -> FloatArray:
        """Rows of tiles that so many waves span, mean."""
        return np.minimum(self.tiles_m, self.group_m * self.groups(waves))

    def columns(self, waves: FloatArray | float) -> FloatArray:
        """Columns of tiles that so many waves span."""
        return np.minimum(self.tiles_n, np.ceil(waves * self.slots / self.group_m))


def _waves(g: Grid) -> _Waves:
    """The waves of a launch.

    A: (wave, group) incidences = waves + groups - 1 - boundaries that coincide. B: every wave if a wave covers more
    than a group, else once a group.
    """
    tiles = g.tiles_m * g.tiles_n
    slots = np.minimum(g.slots, tiles)
    per_group = g.group_m * g.tiles_n
    common = _gcd(per_group, slots)
    groups, waves = np.ceil(g.tiles_m / g.group_m), np.ceil(tiles / slots)
    incidences = waves + groups - 1 - np.floor((tiles - 1) * common / (per_group * slots))
    last = waves - np.floor((groups - 1) * per_group / slots)
    rows_last = g.tiles_m - (groups - 1) * g.group_m
    touches_a = ((incidences - last) * g.group_m + last * rows_last) / g.tiles_m
    tail = tiles - (waves - 1) * slots
    touches_b = np.where(slots > per_group, waves - 1 + np.minimum(1, (tail + g.group_m - 1) / per_group), groups)
    panel_a, panel_b, tile_c = (
        g.m * g.k * g.a_bytes / g.tiles_m, g.k * g.n * g.b_bytes / g.tiles_n, g.m * g.n * g.c_bytes / tiles
    )  # fmt: skip
    beyond = per_group - common
    return _Waves(
        g.tiles_m, g.tiles_n, g.group_m, tiles, slots, per_group, beyond, touches_a, touches_b, panel_a, panel_b, tile_c
    )


def kept_of_stream(stored: FloatArray, touched: FloatArray, side_bytes: float) -> FloatArray:
    """Of bytes stored evenly over a run that touches so many, each once: those not yet written back at its end."""
    return np.asarray(stored * np.minimum(1, DIRTY_SHARE * side_bytes / np.maximum(C_SHARE * touched, 1)))


def reach(crowding: FloatArray | float, blocks_an_sm: FloatArray | float, copied: npt.ArrayLike = False) -> FloatArray:
    """How many blocks back in the raster another may be so that half of the requests for a line in L2 are merged.

    Blocks start in raster order as slots fall free, so neighbours start together and come to a common line at nearly
    the same time; who asks while the first still waits is answered with it. They part the sooner, the more residents of
    an SM wait for each other, and block by block. crowding: what residents want of an SM's busiest unit, 1: all of it;
    blocks_an_sm: that an SM runs in the whole launch. A line that comes from DRAM is waited for longer, by as much the
    reach is longer. copied: a copy engine asks.
    """
    crowded = np.maximum(np.asarray(crowding, np.float64), LEAST_CROWDING)
    most = REACH * np.where(copied, COPIED, 1.0)
    return np.asarray(most * crowded**-CROWDED * np.maximum(blocks_an_sm, 1.0) ** -LATER)


def filled(fills: npt.ArrayLike, row_bytes: FloatArray, shared: npt.ArrayLike) -> FloatArray:
    """Bytes that L2 is asked for, for each byte of an operand's rows past the edge.

    fills: a copy engine asks for them, in boxes of rows of row_bytes; shared: by all of a cluster.
    """
    return np.where(fills, np.where(shared, SHARED_FILLED_BYTES, FILLED_BYTES) / row_bytes, 0.0)


def unmerged(gap: npt.ArrayLike, reached: FloatArray | float) -> FloatArray:
    """Share of a block's requests that L2 sees although a block `gap` before it asks for the same."""
    blocks = np.asarray(gap, np.float64)
    return np.asarray(blocks / (blocks + reached))


def requested(g: Grid, t: Traffic, reached: FloatArray, from_dram: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Shares of what blocks ask for of A and of B that L2 sees: of the first reader of a wave all, of others some.

    Readers of a panel of A lie group_m blocks apart; those of B are neighbours within a group of rows, and a whole
    group apart from one group to the next. from_dram: the reach where the first reader waits for DRAM.
    """
    first_a, first_b = 1 / np.maximum(t.readers_a, 1), 1 / np.maximum(t.readers_b, 1)
    late_a = 1 - t.cold_a * _in_time(t.readers_a - 1, from_dram / g.group_m)
    seen_a = first_a + (1 - first_a) * unmerged(g.group_m, reached) * late_a
    group, next_group = np.minimum(g.group_m, np.maximum(t.readers_b, 1)), g.group_m * g.tiles_n
    groups = t.readers_b / group
    far = _in_time(groups - 1, from_dram / next_group)
    close = far + (_in_time(group - 1, from_dram) - far) / np.maximum(groups, 1)
    near, apart = 1 - 1 / group, 1 / group - first_b
    seen_b = near * unmerged(1.0, reached) * (1 - t.cold_b * close)
    seen_b = seen_b + apart * unmerged(next_group - group + 1, reached) * (1 - t.cold_b * far)
    return seen_a, first_b + seen_b


def _in_time(count: FloatArray, reached: FloatArray | float) -> FloatArray:
    """Share merged with a first one of those 1, 2 ... count steps behind it, mean; reached in steps."""
    count = np.maximum(count, 1e-3)
    return np.asarray(reached / count * np.log1p(count / (reached + 0.5)))


def merged_share(shared: FloatArray | float, sharers: FloatArray) -> FloatArray:
    """Share of an operand's L2->SM bytes left after merging: `shared` with many blocks that read it, 1 with one."""
    return np.asarray(shared + (1 - shared) / sharers)


def _far(g: Grid) -> float:
    return FAR_HALF if g.partitions > 1 else 0.0


def _c_share(g: Grid) -> float:
    return C_SHARE if g.partitions > 1 else 1.0


def _written(g: Grid, w: _Waves, footprint: FloatArray, share_c: float) -> FloatArray:
    """What is stored less what still lies in L2 at the end: the tail wave's tiles, and whole waves that had room.

    Of partial results, which are older than C, what has room beside it.
    """
    tiles, slots, tile_c = w.tiles, w.slots, w.tile_c
    wave_c = slots * tile_c
    tail = np.mod(tiles * g.batch, slots)
    tail_blocks = np.where(tail > 0, tail, slots)
    tail_c = tail_blocks * tile_c
    room = DIRTY_SHARE * g.side_bytes - share_c * tail_c
    rows = np.minimum(g.tiles_m, tail_blocks / g.tiles_n + g.group_m)
    columns = np.minimum(g.tiles_n, np.ceil(tail_blocks / g.group_m))
    tail_footprint = np.minimum(footprint, w.panel_a * rows + w.panel_b * columns)
    fresh = np.minimum(footprint, (w.panel_a * g.tiles_m + w.panel_b * g.tiles_n) * slots / tiles) + share_c * wave_c
    last_stays = _logistic((room - share_c * wave_c - tail_footprint) / (EDGE * g.side_bytes))
    earlier = np.maximum((room - footprint - share_c * wave_c) / fresh + 0.5, 0)
    tail_stays = _logistic((DIRTY_SHARE * g.side_bytes - share_c * tail_c) / (EDGE * g.side_bytes))
    kept = tail_c * tail_stays + last_stays * (1 + earlier) * wave_c
    result = tiles * g.batch * tile_c
    older = np.minimum(np.maximum(0, g.stored_bytes - result), np.maximum(0, room - result - footprint))
    return np.asarray(np.maximum(0, g.stored_bytes - kept - older))


def miss_share(distance: FloatArray, capacity: float) -> FloatArray:
    """Share of what is touched again after so many distinct bytes that is gone: logistic((D - cap) / (EDGE cap))."""
    return _logistic((distance - capacity) / (EDGE * capacity))


def _logistic(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _gcd(x: FloatArray, y: FloatArray) -> FloatArray:
    return np.gcd(x.astype(np.int64), y.astype(np.int64)).astype(np.float64)
