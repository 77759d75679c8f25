"""What a kernel's warps ask of memory: the addresses of all lanes, and how many such requests there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.families.wavefronts import IDLE, LANES
from gemmsim.problem import FloatArray, IntArray

#: requests of each kind that are looked at: of several warps, or of one warp at several places
SAMPLE = 8


@dataclass(frozen=True)
class Access:
    """One kind of request of one warp, for every configuration.

    shared, memory: first byte of each lane in the block's shared memory and in the matrix, (rows, requests, 32), IDLE
    for a lane that takes no part; None: none of that memory. With both it is a cp.async. The requests stand for all of
    the kind. width: bytes a lane. steps: requests of a block a k-step; ends: those beside them, each time that a block
    walks along K.
    """

    name: str
    shared: IntArray | None
    memory: IntArray | None
    width: IntArray
    steps: FloatArray
    ends: FloatArray


def access(
    name: str,
    steps: npt.ArrayLike,
    width: npt.ArrayLike,
    *,
    shared: IntArray | None = None,
    memory: IntArray | None = None,
    ends: npt.ArrayLike = 0.0,
) -> Access:
    """An Access whose counts are broadcast to the rows of the addresses."""
    addresses = shared if shared is not None else memory
    assert addresses is not None
    rows = len(addresses)

    def each(values: npt.ArrayLike, kind: type) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, kind), rows)

    return Access(name, shared, memory, each(width, np.int64), each(steps, np.float64), each(ends, np.float64))


def idle(name: str, steps: FloatArray, ends: npt.ArrayLike = 0.0) -> Access:
    """Requests to shared memory of which no lane takes part."""
    return access(name, steps, 4, shared=np.full((len(steps), 1, LANES), IDLE), ends=ends)


def threads(rows: int, apart: npt.ArrayLike = 1) -> IntArray:
    """Threads of SAMPLE warps, so many apart, numbered on past the block's last: (rows, SAMPLE, 32)."""
    warp = np.arange(SAMPLE)[:, None] * column(apart) * LANES + np.arange(LANES)
    return np.asarray(np.broadcast_to(warp, (rows, SAMPLE, LANES)))


def column(values: npt.ArrayLike) -> IntArray:
    """A value a row, beside arrays of addresses."""
    return np.asarray(values, np.int64).reshape(-1, 1, 1)


def across(flat: IntArray, lanes: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Row and place of each lane where so many lie in a row."""
    row, place = np.divmod(flat, np.asarray(lanes, np.int64))
    return np.asarray(row, np.int64), np.asarray(place, np.int64)
