"""Rows one by one on one GPU: compiled ahead, measured in a child process, in the store before they are handed out.

Whatever happens to a row in the child, an illegal address, a hang, a kill, costs that row alone: it gets a status, and
a fresh child goes on with the next. A row is in the store from the moment the child's report is heard, so what is
killed and started again measures what is missing and nothing twice.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from gemmsim import __version__
from gemmsim.bench.backend import Compiler, backend
from gemmsim.bench.keeper import Keeper, News
from gemmsim.bench.lock import gpu_lock
from gemmsim.bench.refusal import refused
from gemmsim.bench.task import CUBLAS, Ask, Job, Kernel, Place, Task, Turns
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.store import Row, Store, identity

#: outcomes that the compiler or the child adds to, by the kernel's fields
_FACTS = ("regs_per_thread", "spill_bytes", "smem_bytes", "stack_bytes", "compiler")


@dataclass(frozen=True)
class Settings:
    """What holds for a campaign. gpu: "auto" or a hardware file's name; again: measure what is there once more."""

    campaign: str
    gpu: str = "auto"
    device: int = 0
    timeout_s: float = 30.0
    again: bool = False
    jobs: int | None = None


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


class Session:
    """A GPU that is held, its measuring process and its compilers, from the block's beginning to its end.

    Asks go in with `submit`, rows come out of `next` in the order in which they are done. The compilers work by
    themselves; the child has some tasks ahead and gets more whenever a method is called. Every method raises
    GemmsimError where there is no GPU to measure on, where it is taken, where a compiler is missing, or where the store
    fails; rows so far are in the store. Use one from the thread that opened it: the child goes with that thread.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        #: of the rows by ticket, "" where not known yet
        self.keys: list[str] = []
        #: asks submitted and not yet handed out by `next`
        self.pending = 0
        self._asks: list[Ask] = []
        self._heard: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._keeper = Keeper(settings.device, settings.timeout_s, self._hear_child)
        self._compilers: Compiler | None = None
        self._lock = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._early: list[int] = []  # submitted before the chip was known
        self._compiling = 0  # threads
        self._ready: dict[tuple[Any, ...], deque[Task]] = {}  # by problem, in the order in which problems first come
        self._under_way: dict[str, list[int]] = {}  # key of a row to be measured -> those who asked for it
        self._done: deque[tuple[int, Row | None]] = deque()
        self._alone = False  # what is ready waits
        self._found: Mapping[str, Any] | None = None  # of kernels in turn
        self._place: Place | None = None
        self._gpu: Gpu | None = None

    def __enter__(self) -> Session:
        self._keeper.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        try:
            self._keeper.close()
        finally:
            self._lock.close()
            if self._compilers is not None:
                self._compilers.close()

    @property
    def gpu(self) -> Gpu:
        """The chip; waited for."""
        while self._gpu is None:
            self._step()
        return self._gpu

    @property
    def place(self) -> Place:
        """The device; waited for."""
        while self._place is None:
            self._step()
        return self._place

    def submit(self, ask: Ask) -> int:
        """Have a row measured; its ticket, at once. It may be submitted before the GPU is ready."""
        return self.submit_all([ask])[0]

    def submit_all(self, asks: Sequence[Ask]) -> Sequence[int]:
        """As submit, of many."""
        tickets = range(len(self._asks), len(self._asks) + len(asks))
        self._asks += asks
        self.keys += [""] * len(asks)
        self.pending += len(asks)
        for ask in asks:
            self._ready.setdefault(_problem(ask), deque())
        if self._gpu is None:
            self._early += tickets
            self._expect([self._asks[i] for i in self._early])
        else:
            self._prepare(tickets)
        while self._step(wait=False):
            pass
        return tickets

    def next(self) -> tuple[int, Row]:
        """Ticket and row of an ask that is done, waited for: its new row, or the one that the store had.

        Every ticket comes once. Raises ValueError where none is pending.
        """
        ticket, row = self.finished()
        return ticket, self._store.rows(self._settings.campaign, key=self.keys[ticket])[-1] if row is None else row

    def finished(self) -> tuple[int, Row | None]:
        """As next, with None for a row that the store had."""
        if not self.pending:
            raise ValueError("no ask is pending: expected one that was submitted and has not come back")
        while not self._done:
            self._step()
        self.pending -= 1
        return self._done.popleft()

    def turns(self, asks: Sequence[Ask], rounds: int, budget_s: float) -> list[Row]:
        """Kernels of one problem timed in turn: a row an ask, in their order, always measured anew and stored.

        Up to so many rounds of one sample each, in an order that changes with the round, and no more than budget_s
        holds, but six at least: `samples_s` of the rows, all as long, are to be compared sample by sample. What fails
        gets its status and leaves the others alone. The rows' `against` is "turns". Raises ValueError for asks of
        several problems or L2 conditions.
        """
        from gemmsim.bench.turns import as_turn, in_turn

        asked = [as_turn(ask) for ask in asks]
        if len({(_problem(ask), ask.conditions.l2) for ask in asks}) > 1:
            raise ValueError("asks differ in problem or L2 condition: expected kernels of one problem")
        tasks, outcomes = self._kernels(asked, refused(asked, self.gpu))
        outcomes |= in_turn(tasks, lambda left: self._run_alone(Turns(tuple(left), rounds, budget_s)))
        kernels = {task.number: task.kernel for task in tasks}
        rows = [self._row(ask, kernels.get(i, Kernel()), outcomes[i]) for i, ask in enumerate(asked)]
        self._store.add(rows, again=True)
        return rows

    @property
    def _compiler(self) -> Compiler:
        """The compiler, opened for the first ask that needs it."""
        if self._compilers is None:
            self._compilers = backend().open_compiler(self._settings.jobs)
        return self._compilers

    def _expect(self, asks: Sequence[Ask]) -> None:
        """Have the compiler ready for asks by the time that the chip is known."""
        compiled = [ask for ask in asks if ask.family != CUBLAS]
        if compiled:
            self._compiler.expect(compiled)

    def _hear_child(self, child: Any, message: Mapping[str, Any] | None) -> None:
        self._heard.put(("child", child, message))

    def _step(self, wait: bool = True) -> bool:
        """Feed the child, then take what comes first: its line, a kernel, its time run out. Whether anything came."""
        self._feed()
        if wait and not self._compiling and not self._keeper.running:
            raise AssertionError("rows are waited for, and nothing that could bring them is there")
        try:
            kind, who, message = self._heard.get(block=wait, timeout=self._keeper.wait_s())
        except queue.Empty:
            self._keeper.expire()
            return False
        if kind == "child":
            self._child(self._keeper.news(who, message))
        elif kind == "kernel":
            self._kernel(who, *message)
        elif kind == "compiled":
            self._compiling -= 1
        else:
            raise who if isinstance(who, GemmsimError) else RuntimeError("the compiler broke") from who
        return True

    def _feed(self) -> None:
        """Hand tasks to the child, those of the problem it has first."""
        if self._alone or not any(self._ready.values()):
            return
        self._keeper.start()
        while self._keeper.room > 0:
            held = self._keeper.held
            task = self._pick(held[-1] if held else None)
            if task is None:
                return
            self._keeper.give(task)

    def _pick(self, last: Job | None) -> Task | None:
        """The next task: of the problem whose data the child has made, else of the first with any."""
        if isinstance(last, Task) and self._ready[_problem(last.ask)]:
            return self._ready[_problem(last.ask)].popleft()
        return next((tasks.popleft() for tasks in self._ready.values() if tasks), None)

    def _child(self, news: News) -> None:
        if news.place is not None and self._gpu is None:
            self._open(news.place)
        for job, outcome in news.done:
            if isinstance(job, Task):
                self._keep(job, outcome)
            else:
                self._found = outcome
        for job in reversed(news.back):
            if isinstance(job, Task):
                self._ready[_problem(job.ask)].appendleft(job)

    def _open(self, place: Place) -> None:
        """The device is known: hold it, and prepare what was submitted before."""
        self._lock.enter_context(gpu_lock(place.uuid))
        self._place, self._gpu = place, chip(place, self._settings.gpu)
        self._known = set(self._store.keys(self._settings.campaign))
        early, self._early = self._early, []
        self._prepare(early)

    def _prepare(self, tickets: Sequence[int]) -> None:
        """Refused rows are stored, kernels compiled ahead, cuBLAS is ready at once."""
        compiled: list[int] = []
        reasons = refused([self._asks[i] for i in tickets], self.gpu)
        with self._together() as add:
            for i, reason in zip(tickets, reasons, strict=True):
                if reason:
                    add(i, Kernel(), {"status": "refused", "reason": reason})
                elif self._asks[i].family == CUBLAS:
                    self._queue(i, self._library())
                else:
                    compiled.append(i)
        self._compile(compiled)

    def _library(self) -> Kernel:
        return Kernel(key=f"cublas-{self.place.cuda}")

    @contextlib.contextmanager
    def _together(self) -> Iterator[Callable[[int, Kernel, Mapping[str, Any]], None]]:
        """Rows of tickets that are not there yet, stored in one transaction."""
        rows: dict[int, Row] = {}

        def add(i: int, kernel: Kernel, outcome: Mapping[str, Any]) -> None:
            if not self._there(i, kernel.key):
                rows[i] = self._row(self._asks[i], kernel, outcome)

        yield add
        self._store.add(list(rows.values()), again=self._settings.again)
        self._known |= {row["key"] for row in rows.values()}
        self._done += rows.items()

    def _there(self, i: int, kernel_hash: str) -> bool:
        """Whether a ticket has its row already; it is done with then."""
        self.keys[i] = identity(self._asks[i].identity(self._settings.campaign, self.gpu.name, kernel_hash))
        if self._settings.again or self.keys[i] not in self._known:
            return False
        self._done.append((i, None))
        return True

    def _queue(self, i: int, kernel: Kernel) -> None:
        if self._there(i, kernel.key):
            return
        asked = self._under_way.setdefault(self.keys[i], [])
        asked.append(i)
        if len(asked) == 1:
            self._ready[_problem(self._asks[i])].append(Task(i, self._asks[i], kernel))

    def _compile(self, tickets: Sequence[int]) -> None:
        """Ask the compiler in a thread, once a kernel; `kernel` is heard for each."""
        by_kernel: dict[Any, list[int]] = {}
        for i in tickets:
            by_kernel.setdefault(self._asks[i].kernel, []).append(i)
        if not by_kernel:
            return
        self._compiling += 1
        groups = list(by_kernel.values())
        first = [self._asks[group[0]] for group in groups]
        threading.Thread(target=self._compile_thread, args=(self._compiler, first, groups), daemon=True).start()

    def _compile_thread(self, compiler: Compiler, asks: Sequence[Ask], groups: Sequence[Sequence[int]]) -> None:
        try:
            for i, error, kernel in compiler.compiled(asks, self.gpu):
                if self._stopped.is_set():
                    return
                self._heard.put(("kernel", groups[i], (error, kernel)))
            self._heard.put(("compiled", None, None))
        except Exception as error:
            self._heard.put(("broken", error, None))

    def _kernel(self, tickets: Sequence[int], error: str, kernel: Kernel) -> None:
        if not error:
            for i in tickets:
                self._queue(i, kernel)
            return
        with self._together() as add:
            for i in tickets:
                add(i, kernel, {"status": "compile", "reason": error})

    def _kernels(
        self, asks: Sequence[Ask], reasons: Sequence[str]
    ) -> tuple[list[Task], dict[int, dict[str, Any]]]:  # fmt: skip
        """Asks with their kernels, numbered; and the outcome of those that have none."""
        outcomes = {i: {"status": "refused", "reason": reason} for i, reason in enumerate(reasons) if reason}
        tasks = [Task(i, ask, self._library()) for i, ask in enumerate(asks) if ask.family == CUBLAS and not reasons[i]]
        where = [i for i, ask in enumerate(asks) if ask.family != CUBLAS and not reasons[i]]
        if not where:
            return tasks, outcomes
        for at, error, kernel in self._compiler.compiled([asks[i] for i in where], self.gpu):
            if error:
                outcomes[where[at]] = {"status": "compile", "reason": error}
            else:
                tasks.append(Task(where[at], asks[where[at]], kernel))
        return sorted(tasks, key=lambda task: task.number), outcomes

    def _run_alone(self, job: Turns) -> Mapping[str, Any]:
        """What comes of a job that the child gets when it has no other; again where it was lost before it began."""
        self._found, self._alone = None, True
        try:
            while self._found is None:
                self._keeper.start()
                if self._keeper.room and not self._keeper.held:
                    self._keeper.give(job)
                self._step()
        finally:
            self._alone = False
        return self._found

    def _keep(self, task: Task, outcome: Mapping[str, Any]) -> None:
        row = self._row(task.ask, task.kernel, outcome)
        self._store.add([row], again=self._settings.again)
        self._known.add(row["key"])
        self._done += [(i, row) for i in self._under_way.pop(row["key"])]

    def _row(self, ask: Ask, kernel: Kernel, outcome: Mapping[str, Any]) -> Row:
        """A whole row: who it is, what was compiled, what came of it, where and when."""
        facts = {name: getattr(kernel, name) for name in _FACTS}
        who = ask.identity(self._settings.campaign, self.gpu.name, kernel.key)
        return {
            "key": identity(who), **who, **facts, "warnings": "; ".join(kernel.warnings), **outcome,
            **self.place.columns(), "gemmsim": __version__,
            "measured_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }  # fmt: skip


def _problem(ask: Ask) -> tuple[Any, ...]:
    """What tasks share whose data are the same."""
    return ask.m, ask.n, ask.k, ask.form
