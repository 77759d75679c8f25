"""Blocks on SMs, event by event: which SM runs which piece of work, from when to when.

A piece starts where a slot is free, in launch order; pieces that start together go to the SMs with most room first, and
each SM gets one before any gets two. Pieces that share an SM slow each other down: with n of them there, one of kind k
goes through 1 / clk[k][n - 1] of itself a clock, so a piece that is left with fewer speeds up. A cluster of c pieces
starts on c neighbouring SMs at once, when all have a free slot. With a stride the launch is persistent: the slot
that ended piece i goes on with piece i + stride.

Whole waves of equal pieces at the start keep in step by this rule and are filled in at once; all else is an event an SM
and end of a piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from gemmsim.problem import FloatArray, IntArray

#: of a piece, what may be left of it at its end for rounding
LEFT = 1e-9
#: ends that lie no further apart, as a share of the time, are one event
SAME = 1e-12


@dataclass(frozen=True)
class Sms:
    """The SMs of a launch: how many, pieces that each holds at once, and SMs that a cluster takes together."""

    count: int
    slots: int
    cluster: int = 1

    @property
    def groups(self) -> int:
        """Places for clusters side by side; SMs that are left over stay empty."""
        return self.count // self.cluster

    @property
    def wave(self) -> int:
        """Pieces that run at once."""
        return self.groups * self.cluster * self.slots


@dataclass(frozen=True)
class Placed:
    """Where and when each piece ran, in launch order, clocks from the first start; busy_clk: of each SM, not empty."""

    sm: IntArray
    start_clk: FloatArray
    end_clk: FloatArray
    busy_clk: FloatArray


def run(
    kind: IntArray, clk: FloatArray, sms: Sms, *, stride: int = 0, together: bool = False, slack: float = 0.0,
    skip: bool = True,
) -> Placed:  # fmt: skip
    """Run all pieces. kind: of each, a row of clk; clk[k, n - 1]: clocks of a piece of kind k with n pieces on its SM.

    stride: 0, or pieces of a persistent launch that start first, no more than a wave. together: slots that become free
    at once are filled SM by SM. slack: ends that follow the first of them by no more than this share of the shortest
    piece's clocks are no sooner than each other: which SM a piece goes to is then a matter of room, not of who came
    first. skip: fill in whole waves at the start, the same result sooner.
    """
    table = np.maximum(clk, 1.0)
    pieces = _in_step(kind, sms) if skip else 0
    wave_clk = float(table[kind[0], sms.slots - 1])
    chip = _Chip(kind.tolist(), table.tolist(), sms, pieces, pieces // sms.wave * wave_clk)
    chip.go(stride, together, slack * float(table[:, -1].min()))
    sm, start, end, busy = (np.asarray(column) for column in (chip.sm, chip.start, chip.end, chip.busy))
    place = np.arange(pieces)
    sm[:pieces] = place // sms.cluster % sms.groups * sms.cluster + place % sms.cluster
    start[:pieces], end[:pieces] = place // sms.wave * wave_clk, (place // sms.wave + 1) * wave_clk
    return Placed(sm, start, end, busy)


def _in_step(kind: IntArray, sms: Sms) -> int:
    """Pieces of the whole waves that a launch begins with, all of one kind."""
    other = np.flatnonzero(kind != kind[0])
    equal = int(other[0]) if len(other) else len(kind)
    return equal // sms.wave * sms.wave


class _Chip:
    """SMs with their residents, each (piece, share left of it); events are (clock, SM, version of the SM)."""

    def __init__(self, kind: list[int], clk: list[list[float]], sms: Sms, first: int, began: float) -> None:
        self.clk, self.sms, self.began, self.next = [clk[k] for k in kind], sms, began, first
        self.residents: list[list[tuple[int, float]]] = [[] for _ in range(sms.count)]
        used = sms.groups * sms.cluster
        self.busy = [began if sm < used else 0.0 for sm in range(sms.count)]
        self.at, self.version = [began] * sms.count, [0] * sms.count
        self.changed: set[int] = set()
        self.events: list[tuple[float, int, int]] = []
        self.sm, self.start, self.end = [0] * len(kind), [0.0] * len(kind), [0.0] * len(kind)

    def go(self, stride: int, together: bool, slack_clk: float) -> None:
        """Run to the last end."""
        pieces = len(self.clk)
        last = min(self.next + stride, pieces) if stride else pieces
        self._hand_out(range(self.sms.groups), last, together and self.began > 0)
        self._foresee()
        while self.events:
            ended = self._due(slack_clk)
            if stride:
                for sm, piece in ended:
                    if piece + stride < pieces:
                        self._admit(sm, piece + stride)
            elif self.next < pieces:
                self._hand_out(sorted({sm // self.sms.cluster for sm, _ in ended}), pieces, together)
            self._foresee()

    def _due(self, slack_clk: float) -> list[tuple[int, int]]:
        """The pieces that end next, and those that end as soon within the slack, each with its SM."""
        until, ended = self.events[0][0] * (1 + SAME) + slack_clk, []
        while self.events and self.events[0][0] <= until:
            clock, sm, version = heappop(self.events)
            if version != self.version[sm]:
                continue
            ended += [(sm, piece) for piece in self._advance(sm, clock)]
            self.changed.add(sm)
            following = self._next_end(sm)
            if following <= until:
                heappush(self.events, (following, sm, version))
        return ended

    def _advance(self, sm: int, now: float) -> list[int]:
        """Bring an SM up to a clock; gives the pieces that end by then."""
        residents, passed = self.residents[sm], now - self.at[sm]
        self.at[sm] = now
        if not residents or passed <= 0:
            return []
        self.busy[sm] += passed
        place, clk = len(residents) - 1, self.clk
        left = [(piece, share - passed / clk[piece][place]) for piece, share in residents]
        over = [piece for piece, share in left if share <= LEFT]
        self.residents[sm] = [resident for resident in left if resident[1] > LEFT] if over else left
        for piece in over:
            self.end[piece] = now
        return over

    def _admit(self, sm: int, piece: int) -> None:
        self.residents[sm].append((piece, 1.0))
        self.sm[piece], self.start[piece] = sm, self.at[sm]
        self.changed.add(sm)

    def _hand_out(self, groups: Iterable[int], last: int, together: bool) -> None:
        """Start pieces before `last` on groups of SMs that have room: level by level, or group by group."""
        room = [(group, self._room(group)) for group in groups]
        turns = room
        if not together:
            turns = [(g, 1) for level in range(self.sms.slots, 0, -1) for g, r in room if r >= level]
        for group, clusters in turns:
            for _ in range(clusters):
                if self.next >= last:
                    return
                for sm in self._group(group):
                    self._admit(sm, self.next)
                    self.next += 1

    def _group(self, group: int) -> range:
        return range(group * self.sms.cluster, (group + 1) * self.sms.cluster)

    def _room(self, group: int) -> int:
        """Free slots that all SMs of a group have, once all are brought up to the latest of them."""
        if self.sms.cluster == 1:
            return self.sms.slots - len(self.residents[group])
        now = max(self.at[sm] for sm in self._group(group))
        for sm in self._group(group):
            self._advance(sm, now)
        return self.sms.slots - max(len(self.residents[sm]) for sm in self._group(group))

    def _next_end(self, sm: int) -> float:
        """When the next piece ends on an SM; never on an empty one."""
        residents, clk = self.residents[sm], self.clk
        place = len(residents) - 1
        return self.at[sm] + min([share * clk[piece][place] for piece, share in residents], default=float("inf"))

    def _foresee(self) -> None:
        """Note when the next piece ends on each SM that changed."""
        for sm in self.changed:
            self.version[sm] += 1
            if self.residents[sm]:
                heappush(self.events, (self._next_end(sm), sm, self.version[sm]))
        self.changed.clear()
