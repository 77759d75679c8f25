"""How far apart the blocks drift that share an SM: what makes a panel be read once a block of the SM instead of once.

All SMs run alike, so blocks that start together on different SMs walk K in step. Residents of one SM do not:

- A scheduler with warps of three blocks or more to choose from prefers older ones. Where residents want more than the SM
  has (blocks x busy_share > 1), PRIORITY of its time goes by age and the rest evenly: in the extreme the eldest runs as
  if alone. A scheduler with two warps hands over at every stall: on an H200, fp32 with 256 x 64 tiles and two blocks of
  four warps stays in step, 64 x 128 with four blocks of four warps reads B once a gang.
- Where loads are asynchronous, a block that is ahead does not wait for DRAM, though those behind it find its tiles in
  L2: nothing brings residents together again, and each gains LEAD on the next. Loads that are waited for do: the block
  ahead waits for DRAM, the others for L2.

PRIORITY and LEAD are fitted, by eye, on counters of an H200: PRIORITY on 4096^3 with 32 x 32 tiles (register_tile), LEAD
on triton's 64 x 64 tiles at 8192^3 and 2048 x 11008 x 4096. Counters of simt's launches were not used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray

#: share of an oversubscribed SM's time that is given out by age
PRIORITY = 0.5
#: how much faster a resident walks K than the next younger one, where loads are asynchronous
LEAD = 0.02
#: warps that a scheduler must have to choose from so that age counts
CHOICE = 3.0


def lag(
    busy_share: FloatArray, blocks_per_sm: FloatArray, warps: FloatArray, schedulers: int, asynchronous: npt.ArrayLike
) -> FloatArray:
    """Share of K that a resident gains on the next younger one while a tile is computed, mean over residents.

    busy_share: of an SM's time that a lone block keeps its busiest unit at work; warps: of a block.
    """
    r, u = np.maximum(blocks_per_sm, 2), busy_share
    youngest = np.maximum(0, 1 - (r - 1) * u)
    by_age = np.where((r * u > 1) & (r * warps / schedulers >= CHOICE), PRIORITY * r / (r - 1) * (u - youngest), 0)
    return np.where(blocks_per_sm > 1, by_age + np.where(asynchronous, LEAD, 0), 0)
