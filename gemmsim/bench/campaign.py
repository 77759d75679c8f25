"""Many rows on one GPU: a session that is given all of them at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemmsim.bench.session import Session, Settings, chip
from gemmsim.bench.task import Ask
from gemmsim.store import Row, Store

__all__ = ["Progress", "Result", "Settings", "chip", "run"]

Progress = Callable[[int, Row | None], object]


@dataclass
class Result:
    """What a campaign did: the GPU's name, rows there before, new rows by status, unstable ones among them, seconds."""

    gpu: str = ""
    kept: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    unstable: int = 0
    wall_s: float = 0.0
    keys: list[str] = field(default_factory=list)  # of the asks, "" where not known yet


def run(
    asks: Sequence[Ask], settings: Settings, store: Store, result: Result,
    progress: Progress = lambda done, row: None,
) -> None:  # fmt: skip
    """Measure every ask that the store does not have, each once; `result` says at any moment what came of it so far.

    progress is told the asks done with and the row that did it, None for those that were there. Raises GemmsimError
    where there is no GPU to measure on, where it is taken, or where the store fails; rows so far are in the store.
    """
    began = time.monotonic()
    try:
        with Session(settings, store) as session:
            result.keys = session.keys
            session.submit_all(asks)
            result.gpu = session.gpu.name
            for done in range(1, len(asks) + 1):
                _, row = session.finished()
                _count(result, row)
                progress(done, row)
    finally:
        result.wall_s = time.monotonic() - began


def _count(result: Result, row: Row | None) -> None:
    if row is None:
        result.kept += 1
        return
    result.statuses[str(row["status"])] += 1
    result.unstable += bool(row.get("unstable"))
