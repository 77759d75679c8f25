"""How far apart the blocks drift that share an SM: what makes a panel be read once a block of the SM instead of once.

All SMs run alike, so blocks that start together on different SMs walk K in step. Residents of one SM do not:

- A scheduler that has CHOICE warps or more prefers older ones. Where residents want more than the SM has (blocks x
  busy_share > 1), PRIORITY of its time goes by age and the rest evenly: in the extreme the eldest runs as if alone. A
  scheduler with two warps hands over at every stall: on an H200, fp32 with 256 x 64 tiles and two blocks of four warps
  stays in step, 64 x 128 with four blocks of four warps reads B again for each of the four. Tensor cores serve warps
  in turn, whatever the scheduler prefers.
- With one k-step in flight the block ahead waits for DRAM and those behind it, which find its tiles in L2, do not: they
  catch up by that wait, which has to be outdone by age. With several in flight nothing brings residents together again,
  and each gains LEAD on the next for every k-step in flight beyond the first.

PRIORITY and LEAD are set by a few counters of an H200: PRIORITY by 4096^3 with 32 x 32 tiles (register_tile), LEAD by
triton's 64 x 64 tiles and 4 stages at 8192^3 and 2048 x 11008 x 4096. That LEAD grows with the k-steps in flight, and
that by age counts neither for tensor cores nor where L2 keeps an SM waiting, is read off times (docs/traffic.md).
"""

from __future__ import annotations

import numpy as np

from gemmsim.families.traits import FMA, Traits
from gemmsim.problem import FloatArray

#: share of an oversubscribed SM's time that is given out by age
PRIORITY = 0.75
#: how much faster a resident walks K than the next younger one, for each k-step in flight beyond the first
LEAD = 0.015
#: warps that a scheduler must have to choose from so that age counts
CHOICE = 3.0


def by_age(
    busy_share: FloatArray, blocks_per_sm: FloatArray, traits: Traits, schedulers: int, catching_up: FloatArray
) -> FloatArray:
    """Share of an SM's time that is given out by age: PRIORITY, less what those behind catch up.

    busy_share: of an SM's time that a block keeps its busiest unit at work, but for others at that unit; catching_up:
    share of K that blocks behind gain on the first while a tile is computed.
    """
    most = PRIORITY * _gain(busy_share, blocks_per_sm)
    chosen = (traits.path == FMA) & (blocks_per_sm * traits.warps / schedulers >= CHOICE)
    chosen = chosen & (blocks_per_sm * busy_share > 1)
    return np.where(chosen, PRIORITY * np.maximum(0, 1 - catching_up / np.maximum(most, 1e-9)), 0)


def groups(
    busy_share: FloatArray, blocks_per_sm: FloatArray, share_by_age: FloatArray, depth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Residents of an SM that stay together at first, and the share of K that each gains on the next in a tile's time.

    By age, the eldest run as if alone, as many as fit; what k-steps in flight (depth) gain parts them all.
    """
    together = np.where(share_by_age > 0, np.clip(np.floor(1 / busy_share), 1, blocks_per_sm), 1)
    gained = share_by_age * _gain(busy_share, blocks_per_sm) + LEAD * (depth - 1)
    return together, np.where(blocks_per_sm > together, gained, 0)


def _gain(busy_share: FloatArray, blocks_per_sm: FloatArray) -> FloatArray:
    """Share of K that a resident gains on the next, mean over residents, where all of the time goes by age."""
    r = np.maximum(blocks_per_sm, 2)
    return np.asarray(r / (r - 1) * (busy_share - np.maximum(0, 1 - (r - 1) * busy_share)))
