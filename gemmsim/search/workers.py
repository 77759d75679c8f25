"""Whether the worker that runs a trial lives: seen at once on its own machine, from elsewhere by its beats.

A trial under way holds its worker's name (user attribute `worker`) from the moment it exists, and a number that its
worker counts up (`beat`). A worker on the same machine is looked up among the processes there. One elsewhere, or where
processes cannot be looked up, is dead when its trial has not changed for GRACE_S on the watcher's own clock: no two
clocks are compared, and any storage will do. Optuna's own heartbeats are for relational databases and for
`study.optimize` alone, and experimental; a storage that has them on leaves trials that never had one alone.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

#: user attributes of a trial: who runs it, and a count that shows that it is being run
WORKER, BEAT = "worker", "beat"
#: s between two beats, and without a change until a worker counts as dead: three beats may be late
BEAT_S, GRACE_S = 15.0, 60.0


@dataclass(frozen=True)
class Worker:
    """A process. started: of the kernel's clock, so that a number given anew is another process.

    machine: digest of the boot, the process namespace and the user, among whom a process number means one process;
    empty where the system does not say.
    """

    host: str
    pid: int
    started: str
    machine: str

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started}:{self.machine}"

    @classmethod
    def this(cls) -> Self:
        """The process that asks."""
        return cls(platform.node(), os.getpid(), _started(os.getpid()) or "", _machine())

    @classmethod
    def of(cls, trial: FrozenTrial) -> Self | None:
        """Who runs a trial; None for trials that are not gemmsim's."""
        parts = str(trial.user_attrs.get(WORKER, "")).rsplit(":", 3)
        return cls(parts[0], int(parts[1]), *parts[2:]) if len(parts) == 4 and parts[1].isdigit() else None

    def gone(self, here: Worker) -> bool:
        """Whether it is known to be dead: it ran on the machine of `here` and no longer does."""
        if not here.machine or self.machine != here.machine:
            return False
        try:
            return _started(self.pid) != self.started
        except OSError:  # too many open files, say: nothing is known
            return False


def _started(pid: int) -> str | None:
    """When a process started, clock ticks after boot; None if there is none, or one that waits to be buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # the name may hold anything
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def _machine() -> str:
    try:
        boot, processes = Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {processes} {os.getuid()}".encode()).hexdigest()[:8]


class Watch:
    """Which trials under way have no worker any more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._here, self._clock = Worker.this(), clock
        self._seen: dict[int, tuple[object, float]] = {}

    def dead(self, trial: FrozenTrial) -> bool:
        """Of a running trial. One of another program's, with parameters and no worker, is left alone."""
        worker = Worker.of(trial)
        if worker is None and trial.params:
            return False
        return (worker is not None and worker.gone(self._here)) or self._silent(trial)

    def _silent(self, trial: FrozenTrial) -> bool:
        signs = trial.user_attrs.get(BEAT), len(trial.user_attrs), len(trial.params)
        before, since = self._seen.get(trial.number, (None, 0.0))
        if before != signs:
            self._seen[trial.number] = signs, self._clock()
            return False
        return self._clock() - since > GRACE_S


class Beats:
    """Shows every BEAT_S that the trials under way are being run, from a thread of its own."""

    def __init__(self, storage: BaseStorage, trial_ids: Callable[[], Iterable[int]]) -> None:
        self._storage, self._trial_ids = storage, trial_ids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gemmsim-beats", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a beat on its way is waited for."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        beat = 0
        while not self._stop.wait(BEAT_S):
            beat += 1
            for trial_id in self._trial_ids():
                self._beat(trial_id, beat)

    def _beat(self, trial_id: int, beat: int) -> None:
        try:
            self._storage.set_trial_user_attr(trial_id, BEAT, beat)
        except Exception:
            # one that ended meanwhile, or a storage that does not answer: the search finds out itself, and says so
            return
