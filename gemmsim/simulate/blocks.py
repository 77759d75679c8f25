"""What blocks read and store, and when: visits to pieces of the panels of A and B, stores of tiles and partial results.

A panel is the rows of A, or the columns of B, of one row or column of tiles; it is cut into pieces along K. Blocks of a
gang that read the same piece are one visit with several readers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.model.traffic import reach, unmerged
from gemmsim.problem import FloatArray, IntArray
from gemmsim.simulate import progress
from gemmsim.simulate.launched import Launched, TooLarge
from gemmsim.simulate.raster import order

#: pieces along K of a panel, or of each slice of it; of a panel that blocks walk in shares
PIECES, STREAM_PIECES = 16, 48
#: visits that are looked at, and the fewest pieces of a panel, or of a slice of it, that make them fewer
MAX_VISITS, LEAST_PIECES = 1 << 21, 4


@dataclass(frozen=True)
class Visits:
    """Visits in the order of piece and time: arrays of one length."""

    piece: IntArray
    time: FloatArray
    readers: FloatArray
    requests: FloatArray  # of them that L2 sees, if it holds the piece: others are merged on their way
    cold_requests: FloatArray  # the same if DRAM has to bring it
    size_bytes: FloatArray
    asked_bytes: FloatArray  # of L2 by one reader: what lies past the edge too
    of_a: np.ndarray  # true: of A, false: of B

    def seen(self, cold: FloatArray) -> FloatArray:
        """Requests that L2 sees, in multiples of the piece, where DRAM brings this share of it."""
        return np.asarray(self.requests + cold * (self.cold_requests - self.requests))


@dataclass(frozen=True)
class Stores:
    """Tiles of C and partial results as they are stored, and the times at which partial results are read again.

    read_again: NaN for what the launch does not read again.
    """

    time: FloatArray
    size_bytes: FloatArray
    read_again: FloatArray


@dataclass(frozen=True)
class Parts:
    """The parts of tiles that blocks compute, in the order of blocks: arrays of one length.

    Parts of a gang with the same `code` walk together: the same stretch of K, begun at the same point of their block.
    """

    gang: IntArray
    tile: IntArray
    code: IntArray
    first: FloatArray  # where along K it begins and ends, 0 to 1
    last: FloatArray
    begin: FloatArray  # work that its block has done before


def parts(x: Launched) -> Parts:
    """Every part of a tile that some block computes."""
    return _streamed(x) if x.streams else _sliced(x)


def _sliced(x: Launched) -> Parts:
    """A block a tile, then a block a slice of each tile that is left, slice after slice or tile after tile."""
    tiles, slices = np.arange(x.whole, x.tiles), np.arange(x.slices)
    rest, cut = (a.ravel() for a in np.meshgrid(tiles, slices, indexing="ij" if x.abreast else "xy"))
    tile = np.concatenate([np.arange(x.whole), rest])
    code = np.concatenate([np.zeros(x.whole, np.int64), 1 + cut])
    first = np.concatenate([np.zeros(x.whole), cut / x.slices])
    last = np.concatenate([np.ones(x.whole), (cut + 1) / x.slices])
    sliced = Parts(np.arange(len(tile)) // x.sms, tile, code, first, last, np.zeros(len(tile)))
    return _in_turn(x, sliced) if x.abreast and x.slices > 1 else sliced


def _in_turn(x: Launched, p: Parts) -> Parts:
    """The same parts where as many blocks as run at once stay and compute them in turn.

    A part that is handed over, and those that the block with a tile's last slice takes up, take time. Where slices
    divide the blocks the same of them have last slices all along, and fall behind the others.
    """
    turn, block = np.divmod(np.arange(len(p.tile)), x.slots)
    sums = np.where(p.last < 1, x.handing, x.taking * (x.slices - 1)) * (p.code > 0)
    work = np.zeros((int(turn[-1]) + 1, x.slots))
    work[turn, block] = p.last - p.first + sums
    begin = (np.cumsum(work, 0) - work)[turn, block]
    same = np.stack([turn, p.code, np.round(begin, 6)])
    _, code = np.unique(same, axis=1, return_inverse=True)
    return Parts(block // x.sms, p.tile, code.ravel(), p.first, p.last, begin)


def _streamed(x: Launched) -> Parts:
    """Persistent blocks: whole tiles in turn, then each its share of the k-steps of the others, cut at tiles' ends."""
    rounds, block = x.whole // x.streams, np.arange(x.streams)
    whole = np.arange(x.whole)
    total = (x.tiles - x.whole) * x.k_steps
    edges = total * np.arange(x.streams + 1) // x.streams / x.k_steps
    cuts = np.unique(np.concatenate([edges, np.arange(x.tiles - x.whole + 1)]))
    first, last = cuts[:-1], cuts[1:]
    owner = np.searchsorted(edges, first, side="right") - 1
    tile = np.floor(first).astype(np.int64)
    return Parts(
        gang=np.concatenate([whole % x.streams, owner]) // x.sms,
        tile=np.concatenate([whole, x.whole + tile]),
        code=np.concatenate([whole // x.streams, rounds + np.arange(len(first))]),
        first=np.concatenate([np.zeros(x.whole), first - tile]),
        last=np.concatenate([np.ones(x.whole), last - tile]),
        begin=np.concatenate([(whole // x.streams).astype(np.float64), rounds + first - edges[block[owner]]]),
    )


def work_of_gangs(p: Parts) -> list[float]:
    """What the blocks of each gang have to do, in tiles' worth of K: the longest of them."""
    work = np.zeros(int(p.gang.max()) + 1)
    np.maximum.at(work, p.gang, p.begin + p.last - p.first)
    return [float(w) for w in work]


def visits(x: Launched, p: Parts, when: progress.Progress) -> Visits:
    """What blocks read of A and B. Raises TooLarge for more visits than are looked at."""
    row, column = order(x.raster, x.tiles_m, x.tiles_n, x.group_m)
    problem, tile = np.divmod(p.tile, x.tiles_m * x.tiles_n)
    panels = x.tiles_m + x.tiles_n
    of_a, of_b = problem * panels + row[tile], problem * panels + x.tiles_m + column[tile]
    codes = int(p.code.max()) + 1
    together = p.gang * codes + p.code
    key = np.concatenate([together * panels * x.batch + panel for panel in (of_a, of_b)])
    _, first, visit, readers = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    panel, part = np.concatenate([of_a, of_b])[first], first % len(tile)
    pieces = _pieces(x, (p.last - p.first)[part])
    begin, end = (np.ceil(edge[part] * pieces - 0.5).astype(np.int64) for edge in (p.first, p.last))
    count = end - begin
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(begin, count) + within
    which = np.repeat(part, count)
    done = p.begin[which] + (at + 0.5) / pieces - p.first[which]
    time = when.at(p.gang[which], done)
    panel = np.repeat(panel, count)
    piece = panel * pieces + at
    sort = np.lexsort((time, piece))
    panel = panel[sort] % panels
    asked = (np.bincount(visit, share) for share in _requests(x, p, np.concatenate([of_a, of_b])))
    requests, cold_requests = (np.repeat(share, count)[sort].astype(np.float64) for share in asked)
    sizes, asked_sizes = panel_bytes(x) / pieces, asked_bytes(x) / pieces
    return Visits(
        piece[sort],
        time[sort],
        np.repeat(readers, count)[sort].astype(np.float64),
        requests,
        cold_requests,
        sizes[panel],
        asked_sizes[panel],
        panel < x.tiles_m,
    )


def _requests(x: Launched, p: Parts, panels: IntArray) -> tuple[FloatArray, FloatArray]:
    """Of what the part of each block asks of its panel, the share that L2 sees: A of all parts, then B.

    All of it for the first of its wave; of others what is not merged with the one before and, if DRAM has to bring it
    (the second array), with the first.
    """
    block = np.tile(np.arange(len(p.tile)), 2)
    wave = (p.gang // x.blocks_per_sm * (int(p.code.max()) + 1) + p.code)[block]
    sort = np.lexsort((block, panels, wave))
    block = block[sort].astype(np.float64)
    begins = np.concatenate([[True], (np.diff(wave[sort]) != 0) | (np.diff(panels[sort]) != 0)])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(sort)), 0))
    reached = float(reach(x.crowding, x.blocks / x.sms, x.copied)) / x.cluster
    gap: FloatArray = np.where(begins, 1.0, np.diff(block, prepend=0))
    alone: FloatArray = np.where(begins, 1.0, unmerged(gap, reached))
    far: FloatArray = np.where(begins, 1.0, unmerged(block - block[first], reached * x.dram_wait))
    seen, cold = np.empty(len(sort)), np.empty(len(sort))
    seen[sort], cold[sort] = alone, alone * far
    return seen, cold


def _pieces(x: Launched, lengths: FloatArray) -> int:
    """Pieces of a panel, as many of each slice where tiles are sliced. lengths: of all walks, in panels.

    Raises TooLarge.
    """
    finest = STREAM_PIECES if x.streams else PIECES
    length = float(lengths.sum()) * x.slices
    wanted = int(np.clip(MAX_VISITS / length, LEAST_PIECES, finest))
    if length * wanted > 2 * MAX_VISITS:
        most = int(2 * MAX_VISITS / (length * wanted) * len(lengths))
        raise TooLarge(f"{len(lengths)} walks along a panel, more than the {most} that are walked")
    return wanted * x.slices


def panel_bytes(x: Launched) -> FloatArray:
    """Bytes of each panel of A, then of B: the last ones may be cut off."""
    rows = np.minimum(x.bm, x.m - np.arange(x.tiles_m) * x.bm)
    columns = np.minimum(x.bn, x.n - np.arange(x.tiles_n) * x.bn)
    return np.concatenate([rows * x.a_bytes, columns * x.b_bytes]) * float(x.k)


def asked_bytes(x: Launched) -> FloatArray:
    """Bytes of each panel that a block asks L2 for: what lies past the edge or beside a tile may be asked for as well.

    Rows past M that are other rows again (repeats_rows) count evenly with all panels.
    """
    again = np.asarray([1 + x.padded_a, 1 + x.padded_b])
    if x.repeats_rows:
        again = np.asarray([x.tiles_m * x.bm / x.m, x.tiles_n * x.bn / x.n])
    below = np.maximum(0, (np.arange(x.tiles_m) + 1) * x.bm - x.m) * x.a_bytes * x.filled_a
    right = np.maximum(0, (np.arange(x.tiles_n) + 1) * x.bn - x.n) * x.b_bytes * x.filled_b
    return np.asarray(panel_bytes(x) * np.repeat(again, [x.tiles_m, x.tiles_n]) + np.concatenate([below, right]) * x.k)


def tile_bytes(x: Launched) -> FloatArray:
    """Bytes of C in each tile, in the order of tiles."""
    row, column = order(x.raster, x.tiles_m, x.tiles_n, x.group_m)
    rows = np.minimum(x.bm, x.m - row * x.bm)
    columns = np.minimum(x.bn, x.n - column * x.bn)
    return np.tile(rows * columns * x.c_bytes, x.batch)


def stores(x: Launched, p: Parts, when: progress.Progress) -> Stores:
    """What blocks store at the end of each part: C of tiles that they own, partial results of others.

    With slices every part leaves a partial result; abreast those that do not end at a tile's last k-step, and with
    streams those that do not begin at its first: the block that does sums the tile up when all of it is done.
    """
    done = when.at(p.gang, p.begin + p.last - p.first)
    partial = p.first > 0 if x.streams else p.last < 1 if x.abreast else p.code > 0
    sizes = np.where(partial, x.bm * x.bn * x.partial_bytes, tile_bytes(x)[p.tile])
    again = np.full(len(done), np.nan)
    if x.streams or x.abreast:
        owner = ~partial
        finished = np.zeros(x.tiles)
        np.maximum.at(finished, p.tile, done)
        again = np.where(partial, finished[p.tile], again)
        done = np.where(owner, finished[p.tile], done)
    return Stores(done, sizes, again)
