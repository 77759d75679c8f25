"""A table of a report: plain columns in SI units that a test, a chart, a CSV and the page all read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemmsim.report.units import human

#: a table of more rows is cut where a person reads it from end to end, in a terminal or a chart
LONG = 48
#: rows that a cut table keeps
KEPT = 20


@dataclass(frozen=True)
class Column:
    """A column: `key` of the data, `title` and `unit` for people (gemmsim.report.units)."""

    key: str
    title: str
    unit: str = ""


@dataclass(frozen=True)
class Telling:
    """Rows that say most where all are too many, at most KEPT of them; which: what they are, in words."""

    rows: tuple[int, ...]
    which: str


@dataclass(frozen=True)
class Table:
    """Columns of one length. `data` may hold more columns than are shown: charts and CSV have them all.

    telling: the rows that a reader sees of a long table; the first ones where nothing is said.
    """

    name: str
    title: str
    shown: tuple[Column, ...]
    data: Mapping[str, Sequence[Any]]
    notes: tuple[str, ...] = ()
    telling: Telling | None = None

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def numeric(self, key: str) -> bool:
        """Whether every value of a column that is there is a number."""
        there = [v for v in self.data[key] if v is not None]
        return bool(there) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in there)

    def rows(self) -> list[dict[str, Any]]:
        """A mapping a row, plain Python values."""
        names = list(self.data)
        return [dict(zip(names, values, strict=True)) for values in zip(*self.data.values(), strict=True)]

    def take(self, places: Sequence[int]) -> Table:
        """The table with these rows alone, in this order."""
        data = {key: [values[i] for i in places] for key, values in self.data.items()}
        return replace(self, data=data, telling=None)

    @property
    def told(self) -> Telling:
        """The rows that stand for the table: all of a short one."""
        if len(self) <= LONG:
            return Telling(tuple(range(len(self))), "all")
        return self.telling or Telling(tuple(range(KEPT)), "the first")

    @property
    def brief(self) -> Table:
        """What a reader sees of it: all of a short table, of a long one the telling rows."""
        return self.take(self.told.rows)

    def text(self) -> list[list[str]]:
        """The shown cells as people read them, a list a row."""
        return [[human(row[c.key], c.unit) for c in self.shown] for row in self.rows()]


def table(
    name: str,
    title: str,
    shown: Iterable[Column],
    rows: Sequence[Mapping[str, Any]],
    *notes: str,
    telling: Telling | None = None,
) -> Table:
    """A Table from rows that share their keys."""
    columns = tuple(shown)
    keys = list(rows[0]) if rows else [c.key for c in columns]
    return Table(name, title, columns, {k: [row[k] for row in rows] for k in keys}, notes, telling)


def largest(values: Sequence[float], count: int = KEPT) -> tuple[int, ...]:
    """Places of the largest values, the largest first."""
    return tuple(sorted(range(len(values)), key=lambda i: -values[i])[:count])


def slug(text: str) -> str:
    """Letters, digits and underscores, for names of files and elements."""
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_") or "x"
