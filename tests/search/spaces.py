"""Spaces and objectives that the tests of the search share."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gemmsim.problem import FloatArray
from gemmsim.search.replay import Replay
from gemmsim.search.space import Space, space_of


@lru_cache
def whole() -> Space:
    return space_of(512, 1024, 2048, gpu="h200_sxm", family="triton", dtype="bf16")


def small(count: int = 24) -> Space:
    space = whole()
    some = np.linspace(0, len(space) - 1, count).astype(np.intp)
    return Space([space.parts[0].take(some)], space.predicted_s[some], space.identity)


def replay(space: Space, time_s: FloatArray | None = None) -> Replay:
    noise = np.exp(0.1 * np.random.default_rng(1).normal(size=len(space)))
    return Replay((512, 1024, 2048), space, space.predicted_s * noise if time_s is None else time_s)
