"""The parent's end of a child: start it, hand it tasks, hear its lines, end it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gemmsim.bench.task import Job

#: tasks handed over beyond the one being measured: the child never waits for the parent, and few are handed over twice
AHEAD = 4
_PACKAGE = Path(__file__).resolve().parents[2]


class Child:
    """A worker process. hear(child, message) is called from a thread with each line, and with None at its end."""

    def __init__(self, device: int, hear: Callable[[Child, Mapping[str, Any] | None], None]) -> None:
        command = [sys.executable, "-P", "-m", "gemmsim.bench.worker", str(device), str(os.getpid())]
        path = os.pathsep.join([str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
            errors="replace", env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C reaches the parent, which ends the child
        )  # fmt: skip
        self.held: list[Job] = []  # handed over, not done; the first is being measured once `at` says so
        self.at: int | None = None  # the number of the task that is being measured
        self.ready = False  # said hello
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, args=(hear,), daemon=True),
            threading.Thread(target=self._keep_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def give(self, job: Job) -> None:
        """Hand over a job; a child that is gone takes none, and its end is heard."""
        self.held.append(job)
        with contextlib.suppress(BrokenPipeError, OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(job.plain()) + "\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it, wait for it, and let go of its pipes."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(5)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def ending(self) -> str:
        """How it ended: the signal or exit status, and the last line it complained with."""
        status = self._process.wait()
        what = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return f"{what}: {self._errors[-1]}" if self._errors else what

    def _listen(self, hear: Callable[[Child, Mapping[str, Any] | None], None]) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                with contextlib.suppress(json.JSONDecodeError):  # a line cut off by the child's death
                    hear(self, json.loads(line))
        hear(self, None)

    def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stderr:
                if line.strip():
                    self._errors = [*self._errors[-20:], line.strip()[:300]]
