"""How far the blocks of an SM have come: residents share it, the next starts where one ends, older ones run ahead.

Blocks that start together on each SM, a gang, walk K in step; residents of one SM drift apart (gemmsim.model.drift).

Time is in units of what one tile takes an SM that is fully busy; only ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmsim.model.drift import LEAD
from gemmsim.problem import FloatArray, IntArray
from gemmsim.simulate.launched import Launched

_DONE = 1e-9


@dataclass(frozen=True)
class Progress:
    """When gang g has done so much of its work: piecewise linear, all gangs end to end."""

    place: FloatArray  # gang x stride + work done
    time: FloatArray
    stride: float
    end: float

    def at(self, gang: IntArray, done: FloatArray) -> FloatArray:
        """Times at which these gangs have done so many tiles' worth of K."""
        return np.interp(gang * self.stride + done, self.place, self.time)


def walk(x: Launched, work: Sequence[float]) -> Progress:
    """Progress of gangs with so much work each (1: all of K), started in order as slots fall free."""
    speeds = {count: _speeds(x, count) for count in range(1, x.blocks_per_sm + 1)}
    if all(len(set(s)) == 1 for s in speeds.values()) and len(set(work)) == 1:
        return _in_step(x, work, speeds)
    stride, waiting, now = max(work) + 1.0, 0, 0.0
    live: list[list[float]] = []
    marks: list[list[tuple[float, float]]] = [[] for _ in work]
    while live or waiting < len(work):
        while waiting < len(work) and len(live) < x.blocks_per_sm:
            live.append([float(waiting), 0.0])
            marks[waiting].append((0.0, now))
            waiting += 1
        speed = speeds[len(live)]
        step = min((work[int(g)] - done) / s for (g, done), s in zip(live, speed, strict=True))
        now += step
        for block, s in zip(live, speed, strict=True):
            block[1] += s * step
            marks[int(block[0])].append((block[1], now))
        live = [block for block in live if block[1] < work[int(block[0])] - _DONE]
    flat = [(g * stride + done, at) for g, each in enumerate(marks) for done, at in each]
    place, time = np.asarray(flat, np.float64).T
    return Progress(place, time, stride, now)


def _in_step(x: Launched, work: Sequence[float], speeds: dict[int, list[float]]) -> Progress:
    """Waves: gangs of equal work and speed start and end together."""
    count, r, each = len(work), x.blocks_per_sm, work[0]
    wave = np.arange(count) // r
    last = count - int(wave[-1]) * r
    full, rest = each / speeds[r][0], each / speeds[last][0]
    start = wave * full
    end = start + np.where(wave == wave[-1], rest, full)
    gang, stride = np.arange(count), each + 1.0
    place = np.stack([gang * stride, gang * stride + each], 1).ravel()
    return Progress(place, np.stack([start, end], 1).ravel(), stride, float(end[-1]))


def _speeds(x: Launched, count: int) -> list[float]:
    """Speed of each of so many residents, eldest first."""
    left, alone = 1.0, []
    for _ in range(count):
        alone.append(min(x.busy_share, left))
        left -= alone[-1]
    even = sum(alone) / count
    lead = LEAD * (x.depth - 1)
    ahead = (1 + lead * ((count - 1) / 2 - i) for i in range(count))
    return [max((x.by_age * s + (1 - x.by_age) * even) * more, _DONE) for s, more in zip(alone, ahead, strict=True)]
