"""Shared-memory wavefronts from lane addresses: how many passes of the data pipe one warp's request takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray

BANKS = 32  # of 4 bytes
LANES = 32
#: the word or byte of a lane that takes no part
IDLE = -1
Words = npt.NDArray[np.int64]


def wavefronts(word: Words, width: int) -> FloatArray:
    """Passes of each request: `passes` without what could not be fewer."""
    return passes(word, width)[0]


def passes(word: Words, width: int) -> tuple[FloatArray, FloatArray]:
    """Passes of each request, and those that no layout without bank conflicts would save.

    word (requests, 32): first 4-byte word of each lane, IDLE for one that takes no part; width: words a lane (1, 2 or
    4). A pass serves each bank one word; lanes that read the same word share it. LDS.64 goes as two half-warps and
    LDS.128 as four quarter-warps; two neighbouring parts merge only if every lane has the address of lane i^1, or every
    lane that of lane i^2. A request of which no lane takes part is a pass all the same. Source: read off hardware
    counters of the register-tile and simt kernels on an H200 (docs/shared_memory.md).
    """
    together = {1: LANES, 2: LANES, 4: LANES // 2}[width]
    total, least = np.zeros(len(word)), np.zeros(len(word))
    lane = np.arange(together)
    for first in range(0, LANES, together):
        part = word[:, first : first + together]
        same = _agree(part, part[:, lane ^ 1]) | _agree(part, part[:, lane ^ 2]) | (width == 1)
        half = together // 2
        one, two = (_fullest_bank(x, width) for x in (part[:, :half], part[:, half:]))
        total += np.where(same, _fullest_bank(part, width), one + two)
        least += np.where(same, np.maximum(one, two) > 0, (one > 0) * 1.0 + (two > 0))
    return np.maximum(total, 1), np.maximum(least, 1)


def _agree(word: Words, other: Words) -> npt.NDArray[np.bool_]:
    """Requests whose lanes have the addresses of their partners, as far as both take part."""
    return np.asarray(((word == other) | (word < 0) | (other < 0)).all(1))


def _fullest_bank(word: Words, width: int) -> FloatArray:
    """Distinct words in the bank that holds most of them."""
    words = np.where(word[:, :, None] < 0, IDLE, word[:, :, None] + np.arange(width))
    words = np.sort(words.reshape(len(word), -1), axis=1)
    fresh = words >= 0
    fresh[:, 1:] &= words[:, 1:] != words[:, :-1]
    request = np.broadcast_to(np.arange(len(word))[:, None], words.shape)
    counts = np.bincount((request * BANKS + words % BANKS)[fresh], minlength=len(word) * BANKS)
    return np.asarray(counts.reshape(-1, BANKS).max(axis=1), np.float64)


def distinct_runs(key: Words) -> FloatArray:
    """Distinct values in each row of keys, negative ones left out: lines or sectors that a request touches."""
    ordered = np.sort(key, axis=1)
    fresh = ordered[:, 1:] != ordered[:, :-1]
    return np.asarray((ordered[:, 0] >= 0) + 1.0 * (fresh & (ordered[:, 1:] >= 0)).sum(1))
