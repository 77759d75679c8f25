"""What every verb prints: rows as a table for people, as JSON or CSV with SI numbers for programs; to stdout or a file.

A row is a mapping of plain values in SI base units. A `Column` says what it is called and its unit, and only the table
turns it into what people read: TFLOP/s, GB/s (base 10), MiB, us below 1 ms.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from gemmsim.rows import check_out, whole_file

FORMATS = ("table", "json", "csv")
Row = Mapping[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])
#: unit -> (below this, divide by, decimals, shown unit); the first line that fits is taken
_SCALES: Mapping[str, tuple[tuple[float, float, int, str], ...]] = {
    "FLOP": ((1e9, 1e6, 1, "MFLOP"), (1e12, 1e9, 2, "GFLOP"), (float("inf"), 1e12, 3, "TFLOP")),
    "FLOP/s": ((float("inf"), 1e12, 1, "TFLOP/s"),),
    "B/s": ((float("inf"), 1e9, 0, "GB/s"),),
    "Hz": ((float("inf"), 1e6, 0, "MHz"),),
    "B": ((2**10, 1, 0, "B"), (2**20, 2**10, 1, "KiB"), (2**30, 2**20, 1, "MiB"), (float("inf"), 2**30, 1, "GiB")),
    "s": ((1e-3, 1e-6, 2, "us"), (1, 1e-3, 3, "ms"), (float("inf"), 1, 3, "s")),
    "J": ((1, 1e-3, 1, "mJ"), (1e3, 1, 1, "J"), (float("inf"), 1e3, 2, "kJ")),
    "x": ((float("inf"), 1, 2, "x"),),
    "1": ((float("inf"), 0.01, 1, "%"),),
}


@dataclass(frozen=True)
class Column:
    """A column: `key` in the rows, `title` in the table, `unit` of its numbers, or `unit_from`, a key of the row."""

    key: str
    title: str = ""
    unit: str = ""
    unit_from: str = ""

    def text(self, row: Row) -> str:
        """The cell as a person reads it."""
        return human(row.get(self.key), row[self.unit_from] if self.unit_from else self.unit)


def output_options(default: str | None = "table") -> Callable[[_F], _F]:
    """Options --format and --out (parameters `format`, `out`); a missing output folder is refused before any work.

    With a default, a format that is not asked for is what the name of --out says, else that; without, it is None, and
    the verb asks `said_format`, or writes csv with --batch.
    """

    def add(command: _F) -> _F:
        out = click.option("--out", metavar="FILE", callback=_folder_exists, is_eager=True,
                           help="Write there instead of to stdout.")  # fmt: skip
        kind = click.option("--format", type=click.Choice(FORMATS), callback=_named if default else None,
                            help="[default: json or csv where --out ends so, else table]")  # fmt: skip
        return kind(out(command))

    return add


def _named(ctx: click.Context, parameter: click.Parameter, format: str | None) -> str:
    return said_format(format, ctx.params.get("out"))


def _folder_exists(ctx: click.Context, parameter: click.Parameter, out: str | None) -> str | None:
    if out is not None:
        check_out(out)
    return out


def said_format(format: str | None, out: str | None) -> str:
    """The format that was asked for, else the one that the name of `out` says, else table."""
    return format or next((kind for kind in ("json", "csv") if str(out).endswith(f".{kind}")), "table")


@contextlib.contextmanager
def progress(length: int, label: str) -> Iterator[Callable[[int], object]]:
    """A bar on stderr where a person looks at it; gives the function that is told of each step done."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr, show_pos=True) as bar:
        yield bar.update


def emit(
    rows: Sequence[Row], columns: Sequence[Column], format: str, out: str | None, *, notes: Sequence[str] = ()
) -> None:
    """Print rows, or write them to the file `out`, complete or not at all. `notes` follow the table as lines.

    Raises GemmsimError where the file cannot be written.
    """
    if format == "json":
        text = _json([_plain_row(row, columns) for row in rows])
    elif format == "csv":
        text = _csv(rows, columns)
    else:
        text = "\n".join([*table_lines(rows, columns, wrap=out is None), *notes]) + "\n"
    send(text, out)


def emit_record(
    record: Row, columns: Sequence[Column], format: str, out: str | None, *, notes: Sequence[str] = ()
) -> None:
    """One row: a line a column as a table, one object as JSON, a header and a line as CSV."""
    if format == "json":
        send(_json(_plain_row(record, columns)), out)
    elif format == "csv":
        send(_csv([record], columns), out)
    else:
        width = max(len(c.title or c.key) for c in columns)
        cells, room = [(c.title or c.key, c.text(record)) for c in columns], _room(wrap=out is None)
        lines = [line for cell in cells for line in _lines(cell, (width, 0), (False, False), room)]
        send("\n".join([*lines, *notes]) + "\n", out)


def send(text: str, out: str | None) -> None:
    """Text to stdout, or to a file that appears only once it is complete. Raises GemmsimError where that fails."""
    if out is None:
        sys.stdout.write(text)
        return
    with whole_file(out) as file:
        file.write(text.encode())


def human(value: Any, unit: str = "") -> str:
    """A value as a person reads it, with its unit; `-` for None. Unit "1" is a fraction, shown as percent."""
    value = _plain(value)
    if value is None or value == [] or value == ():
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        texts = [human(v, unit) for v in value]
        return ", ".join(texts) if isinstance(value[0], str) else f"{texts[0]} to {texts[-1]}, {len(texts)} values"
    return _number(value, unit)


def _number(value: float, unit: str) -> str:
    for below, factor, decimals, shown in _SCALES.get(unit, ()):
        if abs(value) < below:
            number = f"{value / factor:.{decimals}f}"
            return f"{number.removesuffix('.0')} {shown}"
    number = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f"{number} {unit}".rstrip()


def _plain(value: Any) -> Any:
    """A value JSON knows: numpy's scalars as Python's, no NaN, no infinity."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _plain_row(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    return {c.key: _plain(row.get(c.key)) for c in columns}


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([c.key for c in columns])
    writer.writerows([_cell(row.get(c.key)) for c in columns] for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(str(v) for v in value)
    return _plain(value)


def table_lines(rows: Sequence[Row], columns: Sequence[Column], *, wrap: bool) -> list[str]:
    """Lines of a table: numbers to the right, and, with wrap, a last column of text broken to the terminal's width."""
    cells = [[c.title or c.key for c in columns], *([c.text(row) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    right = [any(isinstance(_plain(row.get(c.key)), int | float) for row in rows) for c in columns]
    room = _room(wrap=wrap)
    return [text for line in cells for text in _lines(line, widths, right, room)]


def _room(*, wrap: bool) -> int:
    """The terminal's width where a person looks at it and lines may be broken, else 0."""
    return shutil.get_terminal_size().columns if wrap and sys.stdout.isatty() else 0


def _lines(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], room: int) -> list[str]:
    padded = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(cells, widths, right, strict=True)]
    start = "".join(f"{cell}  " for cell in padded[:-1])
    last = [padded[-1]]
    if room - len(start) >= 30 and not right[-1]:
        last = textwrap.wrap(cells[-1], room - len(start), break_long_words=False, break_on_hyphens=False)
    return [((start if i == 0 else " " * len(start)) + text).rstrip() for i, text in enumerate(last or [""])]
