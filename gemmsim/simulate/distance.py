"""Which visits miss: stack distances between visits to the same piece, on an L2 of two sides that each keep copies.

Each line has a home side and may have a copy on the other; an SM reads through its own side. The home place is touched
by readers of that side, and by those of the other that find no copy there; the far place by readers of the far side.
With n readers on either side by chance, a place is left untouched with probability 2**-n, and its distance reaches back
to the visit before: the mean over the last DEPTH visits. What a side has seen since in distinct bytes, D, decides: a
miss with probability logistic((D - capacity) / (EDGE capacity)). C is held like a piece with one reader: C_SHARE of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.model.traffic import C_SHARE, DIRTY_SHARE, miss_share
from gemmsim.problem import FloatArray, IntArray
from gemmsim.simulate.blocks import Stores, Visits
from gemmsim.simulate.launched import Launched

#: visits that a distance may reach back
DEPTH = 3
#: bins of time: so many for what fills one side, at least and at most
BINS_A_SIDE, LEAST_BINS, MOST_BINS = 8, 64, 600
Place = tuple[IntArray, FloatArray]


@dataclass(frozen=True)
class Window:
    """Distinct bytes that one side sees between two times, by linear interpolation between the edges of bins."""

    seen: FloatArray  # [i, j]: bytes of visits before bin i whose last visit was before bin j - 1, or never
    bins: int

    def since(self, begin: FloatArray, end: FloatArray) -> FloatArray:
        """Bytes first seen after `begin`, up to `end`; times in bins."""
        first, until = _place(begin, self.bins), _place(end, self.bins)
        return np.maximum(self.before(until, first) - self.before(first, first), 0)

    def before(self, end: Place, last: Place) -> FloatArray:
        """Bytes of visits before `end` whose last visit was before `last`."""
        (i, u), (j, v), width, seen = end, last, self.seen.shape[1], self.seen.ravel()
        corner = i * width + j
        low, high = seen.take(corner), seen.take(corner + width)
        low += (seen.take(corner + 1) - low) * v
        high += (seen.take(corner + width + 1) - high) * v
        return np.asarray(low + (high - low) * u)


def _place(time: FloatArray, bins: int) -> Place:
    """The bin of each time, and how far into it."""
    whole = np.minimum(time.astype(np.int64), bins - 1)
    return whole, time - whole


@dataclass(frozen=True)
class _Back:
    """The DEPTH visits before each visit to the same piece: their positions, and whether there are so many."""

    at: list[IntArray]
    there: list[np.ndarray]

    def weights(self, touched: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """Probability that a place was touched last by each of them, and that no visit touched it before."""
        left, out = np.ones(len(touched)), []
        for depth, (at, there) in enumerate(zip(self.at, self.there, strict=True)):
            share = left if depth == DEPTH - 1 else left * touched[at]
            out.append(np.where(there, share, 0.0))
            left = left - out[-1]
        return out, left


@dataclass(frozen=True)
class Found:
    """Shares of each visit's bytes that DRAM has to bring, and that the readers' own sides have to fetch (misses)."""

    cold: FloatArray
    missed: FloatArray  # in multiples of the piece
    window: Window
    scale: float  # bins a unit of time


def find(x: Launched, v: Visits, s: Stores, end: float) -> Found:
    """What of the visits misses."""
    volume = float(v.size_bytes.sum() + s.size_bytes.sum())
    gangs = max(1.0, float(x.tiles) / x.slots)
    bins = int(np.clip(BINS_A_SIDE * max(gangs, volume / x.side_bytes), LEAST_BINS, MOST_BINS))
    scale = bins / end * (1 - 1e-12)
    time, stored = v.time * scale, s.time * scale
    place = _place(time, bins)
    back = _back(v.piece)
    lonely = np.exp2(-v.readers) if x.partitions > 1 else np.zeros(len(time))  # no reader on a side
    cold = np.where(back.there[0], 0.0, 1.0)
    for _ in range(2 if x.partitions > 1 else 1):
        touched = 1 - lonely * (1 - cold), 1 - lonely
        weights = [back.weights(t) for t in touched]
        window = _window(bins, time, v.size_bytes, back, touched, weights, (stored, _stored(x, s)))
        misses = _misses(x, window, place, back)
        gone = [_gone(misses, w) for w in weights]
        cold = gone[0] * (1 - lonely + lonely * gone[1])
    both = 1 - np.exp2(1 - v.seen(cold)) if x.partitions > 1 else 0.0  # requests on either side: two places look it up
    missed = cold * (1 + both * gone[1]) + (1 - cold) * 0.5 * gone[1] * (1 + both) if x.partitions > 1 else cold
    return Found(cold, missed, window, scale)


def _back(piece: IntArray) -> _Back:
    place = np.arange(len(piece))
    begin = np.concatenate([[True], piece[1:] != piece[:-1]])
    begin_at = np.maximum.accumulate(np.where(begin, place, 0))
    there = [place - depth >= begin_at for depth in range(1, DEPTH + 1)]
    return _Back([np.where(ok, place - depth - 1, 0) for depth, ok in enumerate(there)], there)


def _stored(x: Launched, s: Stores) -> FloatArray:
    return s.size_bytes * (C_SHARE if x.partitions > 1 else 1.0)


def _window(
    bins: int,
    time: FloatArray,
    size: FloatArray,
    back: _Back,
    touched: tuple[FloatArray, FloatArray],
    weights: list[tuple[list[FloatArray], FloatArray]],
    stored: tuple[FloatArray, FloatArray],
) -> Window:
    """Visits by bin and by the bin of the last visit that touched the place; stores are new to everybody."""
    width = bins + 2
    row = (np.minimum(time.astype(np.int64), bins - 1) + 1) * width
    bin_of_store = (np.minimum(stored[0].astype(np.int64), bins - 1) + 1) * width
    seen = np.bincount(bin_of_store, stored[1], minlength=width * width)
    half = 0.5 * size
    never = half * (touched[0] * weights[0][1] + touched[1] * weights[1][1])
    seen += np.bincount(row, never, minlength=width * width)
    last = row // width  # bin of the visit, plus one
    for depth, (at, there) in enumerate(zip(back.at, back.there, strict=True)):
        again = half * (touched[0] * weights[0][0][depth] + touched[1] * weights[1][0][depth])
        seen += np.bincount((row + last[at])[there], again[there], minlength=width * width)
    return Window(seen.reshape(width, width).cumsum(0).cumsum(1), bins)


def _misses(x: Launched, window: Window, place: Place, back: _Back) -> list[FloatArray]:
    """Probability that a place is lost that was touched last by the visit before, the one before that, and so on."""
    begun, (whole, rest), out = window.before(place, place), place, []
    for at, there in zip(back.at, back.there, strict=True):
        lost = np.zeros(len(whole))
        at = at[there]
        seen = window.before((whole[there], rest[there]), (whole[at], rest[at])) - begun[at]
        lost[there] = miss_share(seen, x.side_bytes)
        out.append(lost)
    return out


def _gone(misses: list[FloatArray], weights: tuple[list[FloatArray], FloatArray]) -> FloatArray:
    """Probability that a visit does not find the piece in a place."""
    gone = weights[1].copy()
    for lost, share in zip(misses, weights[0], strict=True):
        gone += share * lost
    return gone


def kept_dirty(x: Launched, s: Stores, found: Found, end: float, further_bytes: float = 0.0) -> FloatArray:
    """Bytes of each store that are still in L2, not yet written back, when the launch ends."""
    since = found.window.since(s.time * found.scale, np.full(len(s.time), end * found.scale)) + further_bytes
    return s.size_bytes * (1 - miss_share(since, DIRTY_SHARE * x.side_bytes))
