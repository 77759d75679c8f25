"""Many rows on one GPU: compiled ahead, measured in a child process, stored one by one as they come.

Whatever happens to a row in the child, an illegal address, a hang, a kill, costs that row alone: it gets a status, and
a fresh child goes on with the next. A row is in the store from the moment the child has reported it, so a campaign that
is killed and started again measures what is missing and nothing twice.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gemmsim import __version__
from gemmsim.bench.backend import backend
from gemmsim.bench.child import AHEAD, Child
from gemmsim.bench.lock import gpu_lock
from gemmsim.bench.refusal import refused
from gemmsim.bench.task import CUBLAS, Ask, Kernel, Place, Task
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.store import Row, Store, identity

#: a child that is not ready by then never will be, s
START_S = 180.0
#: children in a row that may end without a row before the campaign gives up
LOST_CHILDREN = 3
#: outcomes that the compiler or the child adds to, by the kernel's fields
_FACTS = ("regs_per_thread", "spill_bytes", "smem_bytes", "stack_bytes", "compiler")
Progress = Callable[[int, Row | None], object]


@dataclass(frozen=True)
class Settings:
    """What holds for a campaign. gpu: "auto" or a hardware file's name; again: measure what is there once more."""

    campaign: str
    gpu: str = "auto"
    device: int = 0
    timeout_s: float = 30.0
    again: bool = False
    jobs: int | None = None


@dataclass
class Result:
    """What a campaign did: the GPU's name, rows there before, new rows by status, unstable ones among them, seconds."""

    gpu: str = ""
    kept: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    unstable: int = 0
    wall_s: float = 0.0
    keys: list[str] = field(default_factory=list)  # of the asks, "" where not known yet


def chip(place: Place, name: str) -> Gpu:
    """The hardware file of a device. Raises GemmsimError where none fits."""
    if name == "auto":
        try:
            return load_gpu(place.product)
        except GemmsimError:
            raise GemmsimError(
                f"no hardware file knows the GPU {place.product!r}: name one that fits it with --gpu, or make one "
                "with gemmsim probe"
            ) from None
    gpu = load_gpu(name)
    if gpu.arch.compute_capability != place.compute_capability:
        raise GemmsimError(
            f"--gpu {name} has compute capability {gpu.arch.compute_capability}, and the device is {place.product!r} "
            f"with {place.compute_capability}: expected the same"
        )
    return gpu


def run(
    asks: Sequence[Ask], settings: Settings, store: Store, result: Result,
    progress: Progress = lambda done, row: None,
) -> None:  # fmt: skip
    """Measure every ask that the store does not have, each once; `result` says at any moment what came of it so far.

    progress is told the asks done with and the row that did it, None for those that were there. Raises GemmsimError
    where there is no GPU to measure on, where it is taken, or where the store fails; rows so far are in the store.
    """
    campaign = _Campaign(list(asks), settings, store, progress, result)
    began = time.monotonic()
    try:
        campaign.run()
    finally:
        campaign.close()
        result.wall_s = time.monotonic() - began


class _Campaign:
    def __init__(
        self, asks: list[Ask], settings: Settings, store: Store, progress: Progress, result: Result
    ) -> None:  # fmt: skip
        self.asks, self.settings, self.store, self.progress = asks, settings, store, progress
        self.result = result
        self.result.keys[:] = [""] * len(asks)
        self.heard: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self.child: Child | None = None
        self.deadline = float("inf")
        self.timed_out = False
        self.lost = 0
        self.ready: dict[tuple[Any, ...], list[Task]] = {}  # by problem, in the order in which problems first come
        self.left = 0  # asks without a row
        self.compiling = False
        self.stop = threading.Event()
        self.place: Place
        self.gpu: Gpu

    def run(self) -> None:
        self.child = self._started()
        with gpu_lock(self.place.uuid):
            self.gpu = chip(self.place, self.settings.gpu)
            self.result.gpu = self.gpu.name
            self.known = self.store.keys(self.settings.campaign)
            self._prepare()
            while self.left:
                self._feed()
                self._next()

    def close(self) -> None:
        """End child and compiler."""
        self.stop.set()
        if self.child is not None:
            self.child.close()

    def _started(self) -> Child:
        """A child that said hello. Raises GemmsimError where it cannot."""
        child = Child(self.settings.device, self._heard_of)
        self.child = child
        until = time.monotonic() + START_S
        while True:
            try:
                kind, who, message = self.heard.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise GemmsimError(
                    f"the GPU did not answer within {START_S:.0f} s: expected a device at rest"
                ) from None
            if kind != "child" or id(who) != id(child):
                self._later(kind, who, message)
                continue
            if message is None:
                raise GemmsimError(f"the measuring process ended before it began ({child.ending()})")
            if "fatal" in message:
                raise GemmsimError(str(message["fatal"]))
            self.place = Place(**message["hello"])
            return child

    def _heard_of(self, child: Child, message: Mapping[str, Any] | None) -> None:
        self.heard.put(("child", child, message))

    def _later(self, kind: str, who: Any, message: Any) -> None:
        """What is heard of the compiler while a child starts."""
        if kind != "child":
            self._hear(kind, who, message)

    def _prepare(self) -> None:
        """Refused rows are stored, kernels compiled ahead, cuBLAS is ready at once."""
        for ask in self.asks:
            self.ready.setdefault(_problem(ask), [])
        self.left = len(self.asks)
        reasons = refused(self.asks, self.gpu)
        compiled: list[int] = []
        with self._together() as add:
            for i, (ask, reason) in enumerate(zip(self.asks, reasons, strict=True)):
                if reason:
                    if not self._there(i, ""):
                        add(self._row(i, Kernel(), {"status": "refused", "reason": reason}))
                elif ask.family == CUBLAS:
                    self._queue(i, Kernel(key=f"cublas-{self.place.cuda}"))
                else:
                    compiled.append(i)
        self._compile(compiled)

    @contextlib.contextmanager
    def _together(self) -> Iterator[Callable[[Row], None]]:
        """Rows that are stored in one transaction."""
        rows: list[Row] = []
        yield rows.append
        self.store.add(rows, again=self.settings.again)
        for row in rows:
            self._count(row)

    def _there(self, i: int, kernel_hash: str) -> bool:
        """Whether ask i has its row already; it is done with then."""
        row = self.asks[i].identity(self.settings.campaign, self.gpu.name, kernel_hash)
        self.result.keys[i] = identity(row)
        if self.settings.again or not self.known.get(self.result.keys[i]):
            return False
        self.result.kept += 1
        self.left -= 1
        self.progress(len(self.asks) - self.left, None)
        return True

    def _queue(self, i: int, kernel: Kernel) -> None:
        if not self._there(i, kernel.key):
            self.ready[_problem(self.asks[i])].append(Task(i, self.asks[i], kernel))

    def _compile(self, where: Sequence[int]) -> None:
        """Start the compiler in a thread, a request a kernel; `kernel` is heard for each."""
        by_kernel: dict[Any, list[int]] = {}
        for i in where:
            by_kernel.setdefault(self.asks[i].kernel, []).append(i)
        groups = list(by_kernel.values())
        if not groups:
            return
        self.compiling = True
        first = [self.asks[group[0]] for group in groups]
        threading.Thread(target=self._compile_thread, args=(first, groups), daemon=True).start()

    def _compile_thread(self, asks: Sequence[Ask], groups: Sequence[Sequence[int]]) -> None:
        try:
            with contextlib.closing(backend().compile_ahead(asks, self.gpu, self.settings.jobs)) as kernels:
                for i, error, kernel in kernels:
                    if self.stop.is_set():
                        return
                    self.heard.put(("kernel", groups[i], (error, kernel)))
            self.heard.put(("compiled", None, None))
        except Exception as error:
            self.heard.put(("broken", error, None))

    def _feed(self) -> None:
        """Hand tasks to the child, those of the problem it has first."""
        child = self.child
        if child is None:
            if not any(self.ready.values()):
                return
            child = self._started()
        while len(child.held) < AHEAD:
            task = self._pick(child.held[-1] if child.held else None)
            if task is None:
                return
            child.give(task)

    def _pick(self, last: Task | None) -> Task | None:
        """The next task: of the problem whose data the child has made, else of the first with any."""
        if last is not None and self.ready[_problem(last.ask)]:
            return self.ready[_problem(last.ask)].pop(0)
        return next((tasks.pop(0) for tasks in self.ready.values() if tasks), None)

    def _next(self) -> None:
        """Wait for what comes first: a line of the child, a kernel, or a row's time to run out."""
        if not self.compiling and self.child is None and not any(self.ready.values()):
            raise AssertionError("rows are left, and nothing that could bring them")
        wait = None if self.deadline == float("inf") else max(0.0, self.deadline - time.monotonic())
        try:
            kind, who, message = self.heard.get(timeout=wait)
        except queue.Empty:
            self.timed_out, self.deadline = True, float("inf")
            if self.child is not None:
                self.child.kill()
            return
        self._hear(kind, who, message)

    def _hear(self, kind: str, who: Any, message: Any) -> None:
        if kind == "child":
            if self.child is not None and who is self.child:
                self._answer(self.child, message)
        elif kind == "kernel":
            self._kernel(who, *message)
        elif kind == "compiled":
            self.compiling = False
        else:
            raise who if isinstance(who, GemmsimError) else RuntimeError("the compiler broke") from who

    def _kernel(self, where: Sequence[int], error: str, kernel: Kernel) -> None:
        if not error:
            for i in where:
                self._queue(i, kernel)
            return
        with self._together() as add:
            for i in where:
                if not self._there(i, kernel.key):
                    add(self._row(i, kernel, {"status": "compile", "reason": error}))

    def _answer(self, child: Child, message: Mapping[str, Any] | None) -> None:
        if message is None:
            self._ended(child)
        elif "start" in message:
            child.started = True
            self.deadline = time.monotonic() + self.settings.timeout_s
        elif "done" in message:
            task = child.held.pop(0)
            child.started, self.deadline, self.lost = False, float("inf"), 0
            self._store(task, message["row"])

    def _ended(self, child: Child) -> None:
        """The child is gone: the row it was at is lost, those handed over beyond it go back."""
        how = child.ending()
        self.deadline = float("inf")
        held, was_at = child.held, child.started
        if was_at:
            outcome = {"status": "crash", "reason": f"the measuring process was lost: {how}"}
            if self.timed_out:
                outcome = {"status": "timeout", "reason": f"not done after {self.settings.timeout_s:g} s"}
            self._store(held[0], outcome)
        for task in reversed(held[1:] if was_at else held):
            self.ready[_problem(task.ask)].insert(0, task)
        self.timed_out = False
        child.close()
        self.child = None
        self.lost = 0 if was_at else self.lost + 1
        if self.lost >= LOST_CHILDREN:
            raise GemmsimError(f"the measuring process ended {self.lost} times without a row ({how})")

    def _store(self, task: Task, outcome: Mapping[str, Any]) -> None:
        row = self._row(task.number, task.kernel, outcome)
        self.store.add([row], again=self.settings.again)
        self._count(row)

    def _row(self, i: int, kernel: Kernel, outcome: Mapping[str, Any]) -> Row:
        """A whole row: who it is, what was compiled, what came of it, where and when."""
        facts = {name: getattr(kernel, name) for name in _FACTS}
        return {
            **self.asks[i].identity(self.settings.campaign, self.gpu.name, kernel.key), **facts,
            "warnings": "; ".join(kernel.warnings), **outcome, **self.place.columns(), "gemmsim": __version__,
            "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }  # fmt: skip

    def _count(self, row: Row) -> None:
        self.left -= 1
        self.result.statuses[str(row["status"])] += 1
        self.result.unstable += bool(row.get("unstable"))
        self.progress(len(self.asks) - self.left, row)


def _problem(ask: Ask) -> tuple[Any, ...]:
    """What tasks share whose data are the same."""
    return ask.m, ask.n, ask.k, ask.form
