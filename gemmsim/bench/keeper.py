"""One measuring process at a time, another where it is lost: which job is lost with it, and which come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gemmsim.bench.child import AHEAD, Child
from gemmsim.bench.task import Job, Place, Turns
from gemmsim.errors import GemmsimError

#: a child that is not ready by then never will be, s
START_S = 180.0
#: children in a row that may end without a row before it is given up
LOST_CHILDREN = 3
#: the number a child gives to what is no single task: the rounds of kernels in turn
ROUNDS = -1


@dataclass(frozen=True)
class News:
    """What a child's line means: it is ready on `place`, jobs are done, jobs come back unmeasured."""

    place: Place | None = None
    done: tuple[tuple[Job, Mapping[str, Any]], ...] = ()
    back: tuple[Job, ...] = field(default=())


class Keeper:
    """Starts a child, gives it jobs, ends it when a task takes longer than timeout_s; hear as in Child."""

    def __init__(self, device: int, timeout_s: float, hear: Callable[[Child, Mapping[str, Any] | None], None]) -> None:
        self._device, self._timeout_s, self._hear = device, timeout_s, hear
        self._child: Child | None = None
        self._deadline = float("inf")
        self._timed_out = False
        self._lost = 0
        self._ever = False  # a child was ready

    @property
    def running(self) -> bool:
        """Whether there is a child, ready or not."""
        return self._child is not None

    @property
    def held(self) -> list[Job]:
        """What the child has and is not done with."""
        return [] if self._child is None else self._child.held

    @property
    def room(self) -> int:
        """How many more jobs the child takes now; none where it is not ready."""
        return AHEAD - len(self._child.held) if self._child is not None and self._child.ready else 0

    def start(self) -> None:
        """Start a child where there is none."""
        if self._child is None:
            self._child = Child(self._device, self._hear)
            self._deadline = time.monotonic() + START_S

    def give(self, job: Job) -> None:
        """Hand a job to the child that is there."""
        assert self._child is not None
        self._child.give(job)

    def wait_s(self) -> float | None:
        """Seconds until the child's time runs out; None: it has all the time."""
        return None if self._deadline == float("inf") else max(0.0, self._deadline - time.monotonic())

    def expire(self) -> None:
        """End a child whose time has run out. Raises GemmsimError for one that was never ready."""
        if self._child is None or self.wait_s() != 0.0:
            return
        if not self._child.ready:
            raise GemmsimError(f"the GPU did not answer within {START_S:.0f} s: expected a device at rest")
        self._timed_out, self._deadline = True, float("inf")
        self._child.kill()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def news(self, child: Child, message: Mapping[str, Any] | None) -> News:
        """What a line of a child means, None being its end.

        Raises GemmsimError where a child cannot start, or one after another ends without a row.
        """
        if child is not self._child:  # of one that is given up
            return News()
        if message is None:
            return self._ended(child)
        if "fatal" in message:
            raise GemmsimError(str(message["fatal"]))
        if "hello" in message:
            child.ready, self._ever, self._deadline = True, True, float("inf")
            return News(place=Place(**message["hello"]))
        if "start" in message:
            child.at = int(message["start"])
            first = child.held[0]
            rounds_s = first.budget_s if isinstance(first, Turns) and child.at == ROUNDS else 0.0
            self._deadline = time.monotonic() + self._timeout_s + rounds_s
            return News()
        child.at, self._deadline, self._lost = None, float("inf"), 0
        return News(done=((child.held.pop(0), message["done"]),))

    def _ended(self, child: Child) -> News:
        """The child is gone: the job it was at is lost, those handed over beyond it go back."""
        how, held, at = child.ending(), tuple(child.held), child.at
        if not self._ever:
            raise GemmsimError(f"the measuring process ended before it began ({how})")
        outcome: dict[str, Any] = {"status": "crash", "reason": f"the measuring process was lost: {how}"}
        if self._timed_out:
            outcome = {"status": "timeout", "reason": f"not done after {self._timeout_s:g} s"}
        self._deadline, self._timed_out = float("inf"), False
        self.close()
        self._lost = 0 if at is not None else self._lost + 1
        if self._lost >= LOST_CHILDREN:
            raise GemmsimError(f"the measuring process ended {self._lost} times without a row ({how})")
        if at is None:
            return News(back=held)
        lost = outcome | ({"lost": at} if isinstance(held[0], Turns) else {})
        return News(done=((held[0], lost),), back=held[1:])
