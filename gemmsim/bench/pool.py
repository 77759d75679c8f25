"""Processes that live on and answer one question at a time, in JSON; one that dies or hangs costs one question."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

#: seconds after which a question counts as never to be answered: ptxas can be busy for minutes with a Triton tile
#: that spills thousands of words, which is no candidate anyway
LIMIT_S = 60.0
_PACKAGE = Path(__file__).resolve().parents[2]


class Died(Exception):
    """A process ended, or was ended for its silence, before it answered."""


class Worker:
    """One process of a module that answers each line of JSON on its input with one on its output."""

    def __init__(self, module: str, limit_s: float = LIMIT_S) -> None:
        """Start it; it ends when its input does, so also when this process is killed."""
        path = os.pathsep.join([str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._limit_s = limit_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
            self._process.kill()

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
        """End it now, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """End it and take back its pipes."""
        self._process.kill()
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
    """So many workers of a module, each started when there is something to do for it."""

    def __init__(self, module: str, jobs: int, limit_s: float = LIMIT_S) -> None:
        self._module, self._jobs, self._limit_s = module, jobs, limit_s
        self._stopped = False
        self._workers: set[Worker] = set()

    def answers(self, questions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Any]]:
        """Position and answer of each question as they come; a Died where the process died.

        Raises what keeps a worker from starting. However it is left, no process stays.
        """
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        for i in range(len(questions)):
            todo.put(i)
        threads = [
            threading.Thread(target=self._serve, args=(questions, todo, done), daemon=True)
            for _ in range(min(self._jobs, len(questions)))
        ]
        try:
            for thread in threads:
                thread.start()
            for _ in questions:
                i, answer = done.get()
                if i < 0:
                    raise answer
                yield i, answer
        finally:
            self._stop(threads)

    def _stop(self, threads: Sequence[threading.Thread]) -> None:
        self._stopped = True
        for worker in tuple(self._workers):
            worker.kill()
        for thread in threads:
            if thread.ident is not None:
                thread.join()

    def _serve(
        self,
        questions: Sequence[Mapping[str, Any]],
        todo: queue.SimpleQueue[int],
        done: queue.SimpleQueue[tuple[int, Any]],
    ) -> None:
        worker: Worker | None = None
        try:
            while not self._stopped:
                i = todo.get_nowait()
                worker = worker or self._started()
                try:
                    done.put((i, worker.ask(questions[i])))
                except Died as died:
                    self._ended(worker)
                    worker = None
                    done.put((i, died))
        except queue.Empty:
            pass
        except BaseException as error:  # a thread has nobody else to tell
            done.put((-1, error))
        finally:
            if worker is not None:
                self._ended(worker)

    def _started(self) -> Worker:
        worker = Worker(self._module, self._limit_s)
        self._workers.add(worker)
        if self._stopped:  # meanwhile: nobody else ends this one
            worker.kill()
        return worker

    def _ended(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.close()
