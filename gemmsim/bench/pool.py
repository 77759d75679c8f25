"""Processes that live on and answer one question at a time, in JSON; one that dies or hangs costs one question."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

#: seconds after which a question counts as never to be answered: ptxas can be busy for minutes with a Triton tile
#: that spills thousands of words, which is no candidate anyway
LIMIT_S = 60.0
#: who is told an answer, a Died or what kept a worker from starting
Tell = Callable[[Any], object]
_PACKAGE = Path(__file__).resolve().parents[2]


class Died(Exception):
    """A process ended, or was ended for its silence, before it answered."""


class Worker:
    """One process of a module that answers each line of JSON on its input with one on its output."""

    def __init__(self, module: str, limit_s: float = LIMIT_S) -> None:
        """Start it, told this process' number; it ends when its input does, so also when this process is killed."""
        path = os.pathsep.join([str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._limit_s = limit_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._errors, env=os.environ | {"PYTHONPATH": path}, text=True, encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches the one who asks, not those who answer
            )  # fmt: skip
        except OSError:
            self._errors.close()
            raise

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The answer. Raises Died if the process ends first, or is silent for limit_s and killed."""
        silent = threading.Event()

        def end() -> None:
            silent.set()
            self.kill()

        timer = threading.Timer(self._limit_s, end)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(json.dumps(question))
        finally:
            timer.cancel()
        if line.endswith("\n"):
            return json.loads(line)
        code = self._process.wait()
        raise Died(f"no answer within {self._limit_s:g} s" if silent.is_set() else self._ending(code))

    def _ending(self, code: int) -> str:
        """How it ended, with the last line of what it wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return _ending(code) + (f": {last}" if last else "")

    def _exchange(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except (OSError, ValueError):  # a broken pipe, a closed file
            return ""

    def kill(self) -> None:
        """End it now, whatever it does, and what it started: an assembler can be busy for minutes."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its own group, see start_new_session

    def close(self) -> None:
        """End it and take back its pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # a question that nobody took
                continue


def _ending(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"


class Pool:
    """So many workers of a module, each started when there is something to do for it, and alive until `close`.

    Several threads may ask at once. As a context manager it closes itself.
    """

    def __init__(self, module: str, jobs: int, limit_s: float = LIMIT_S) -> None:
        self._module, self._jobs, self._limit_s = module, jobs, limit_s
        self._todo: queue.SimpleQueue[tuple[Mapping[str, Any], Tell] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = False
        self._open = 0  # questions without an answer
        self._threads: list[threading.Thread] = []
        self._workers: set[Worker] = set()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self, count: int) -> None:
        """Have so many workers, or as many as there may be, before there is anything to do for them."""
        with self._lock:
            while not self._stopped and len(self._threads) < min(self._jobs, count):
                self._threads.append(threading.Thread(target=self._serve, daemon=True))
                self._threads[-1].start()

    def answers(self, questions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Any]]:
        """Position and answer of each question as they come; a Died where the process died.

        Raises what keeps a worker from starting.
        """
        done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        for i, question in enumerate(questions):
            self._put(question, functools.partial(_tell, done, i))
        for _ in questions:
            i, answer = done.get()
            if isinstance(answer, BaseException) and not isinstance(answer, Died):
                raise answer
            yield i, answer

    def close(self) -> None:
        """End every process; questions without an answer get a Died."""
        with self._lock:
            self._stopped = True
        for worker in tuple(self._workers):
            worker.kill()
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._todo.get_nowait()
                if item is not None:
                    item[1](Died("nobody waits for it"))

    def _put(self, question: Mapping[str, Any], tell: Tell) -> None:
        with self._lock:
            stopped, self._open = self._stopped, self._open + 1
            if not stopped:
                self._todo.put((question, tell))
        if stopped:
            tell(Died("nobody waits for it"))
        self.start(self._open)

    def _serve(self) -> None:
        """A thread's life: one worker, begun at once, and another where it died. The worker dies with this thread."""
        worker: Worker | None = None
        with contextlib.suppress(OSError):  # the first question says so
            worker = self._started()
        while not self._stopped:
            item = self._todo.get()
            if item is None:
                break
            worker = self._answer(worker, *item)
        if worker is not None:
            self._ended(worker)

    def _answer(self, worker: Worker | None, question: Mapping[str, Any], tell: Tell) -> Worker | None:
        """Tell what the worker says to a question; the worker, None if it died of it."""
        answer: Any
        try:
            worker = worker or self._started()
            answer = worker.ask(question)
        except Died as died:
            answer = died
        except BaseException as error:  # a thread has nobody else to tell
            answer = error
        if isinstance(answer, BaseException) and worker is not None:
            self._ended(worker)
            worker = None
        with self._lock:
            self._open -= 1
        tell(answer)
        return worker

    def _started(self) -> Worker:
        worker = Worker(self._module, self._limit_s)
        self._workers.add(worker)
        if self._stopped:  # meanwhile: nobody else ends this one
            worker.kill()
        return worker

    def _ended(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.close()


def pool_of(given: Pool | None, module: str, jobs: int) -> contextlib.AbstractContextManager[Pool]:
    """The pool that is given and stays, or one that ends with the block."""
    return Pool(module, jobs) if given is None else contextlib.nullcontext(given)


def _tell(done: queue.SimpleQueue[tuple[int, Any]], i: int, answer: Any) -> None:
    done.put((i, answer))
