"""Work for several processes, each as new as Python starts them; an interrupt reaches them all, and each cleans up."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], tasks: Sequence[T], at_once: int, lost: Callable[[T, str], R]) -> Iterator[R]:
    """What work gives of each task, as they are done; lost: what it is of a task whose process was killed.

    work, tasks and results go between processes, and so must pickle.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=_deaf) as pool:
        futures = {pool.submit(_interruptible, work, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield _result(future, futures[future], lost)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid or 0, signal.SIGINT)
            raise


def _result(future: Future[R], task: T, lost: Callable[[T, str], R]) -> R:
    try:
        return future.result()
    except BrokenProcessPool:
        return lost(task, "its process ended before it was done: was it killed for its memory? --jobs 1 takes less")


def _deaf() -> None:
    """A process without work has nothing to interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interruptible(work: Callable[[T], R], task: T) -> R:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work(task)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
