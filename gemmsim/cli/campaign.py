"""A campaign run from the command line: its bar, its summary, and its rows by ask, whole or as far as they came."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.bench.campaign import Result, Settings
    from gemmsim.cli.asked import Asked
    from gemmsim.store import Row, Store


class Rows:
    """The rows of a campaign by ask, and what interrupted it."""

    def __init__(self, asked: Asked, store: Store, campaign: str, result: Result) -> None:
        known = {row["key"]: row for row in store.rows(campaign)}
        self.gpu = result.gpu
        self.by_ask: list[Row] = []
        for i, ask in enumerate(asked.asks):
            row = known.get(result.keys[i]) if i < len(result.keys) else None
            self.by_ask.append(row or {**ask.identity(campaign, result.gpu, ""), "status": "pending"})
        self.stopped: BaseException | None = None


def measured(asked: Asked, settings: Settings, store: Store, campaign: str) -> Rows:
    """Measure what is missing; the campaign's rows, whole or as far as they came."""
    from gemmsim.bench.campaign import Result, run

    if asked.gpu is not None:
        settings = replace(settings, gpu=asked.gpu)
    result, stopped = Result(), None
    try:
        with _bar(len(asked.asks)) as step:
            run(asked.asks, replace(settings, campaign=campaign), store, result, step)
    except (KeyboardInterrupt, GemmsimError) as error:
        if not result.gpu:
            raise
        stopped = error
    click.echo(_summary(result, len(asked.asks)), err=True)
    try:
        rows = Rows(asked, store, campaign, result)
    except GemmsimError as error:
        raise stopped or error from None
    rows.stopped = stopped
    return rows


def _summary(result: Result, asked: int) -> str:
    """Rows by status, unstable ones, rows a second."""
    new = sum(result.statuses.values())
    parts = [f"{count} {status}" for status, count in result.statuses.most_common()]
    parts += [f"{result.kept} were there"] if result.kept else []
    left = asked - new - result.kept
    parts += [f"{left} not measured"] if left else []
    rate = f"{new / result.wall_s:.1f} rows/s, {result.wall_s:.1f} s" if result.wall_s else ""
    return f"{asked} rows: {', '.join(parts)}; {result.unstable} unstable; {rate}"


@contextlib.contextmanager
def _bar(rows: int) -> Iterator[Any]:
    """A bar with rate and time left before a person; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda done, row: None
        return
    began, measured = time.monotonic(), [0]

    def rate(item: object) -> str:
        return f"{measured[0] / max(time.monotonic() - began, 1e-9):.1f} rows/s"

    with click.progressbar(
        length=rows, label="Measuring", file=sys.stderr, show_pos=True, item_show_func=rate
    ) as bar:  # fmt: skip

        def step(done: int, row: Any) -> None:
            measured[0] += row is not None
            bar.update(done - bar.pos)

        yield step
