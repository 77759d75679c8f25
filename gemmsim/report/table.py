"""A table of a report: plain columns in SI units that a test, a chart, a CSV and the page all read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmsim.report.units import human


@dataclass(frozen=True)
class Column:
    """A column: `key` of the data, `title` and `unit` for people (gemmsim.report.units)."""

    key: str
    title: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """Columns of one length. `data` may hold more columns than are shown: charts and CSV have them all."""

    name: str
    title: str
    shown: tuple[Column, ...]
    data: Mapping[str, Sequence[Any]]
    notes: tuple[str, ...] = ()

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

    def text(self) -> list[list[str]]:
        """The shown cells as people read them, a list a row."""
        return [[human(row[c.key], c.unit) for c in self.shown] for row in self.rows()]


def table(name: str, title: str, shown: Iterable[Column], rows: Sequence[Mapping[str, Any]], *notes: str) -> Table:
    """A Table from rows that share their keys."""
    columns = tuple(shown)
    keys = list(rows[0]) if rows else [c.key for c in columns]
    return Table(name, title, columns, {k: [row[k] for row in rows] for k in keys}, notes)


def slug(text: str) -> str:
    """Letters, digits and underscores, for names of files and elements."""
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_") or "x"
