"""What a study came to, shown and written: tables in the terminal, CSV files, pictures, and last of all the page."""

from __future__ import annotations

import json
import shutil
import tempfile
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from gemmsim.cli.tables import Column, emit, send
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.report.kinds import Report
    from gemmsim.report.page import Page
    from gemmsim.report.table import Table
    from gemmsim.study import Study

REPORTS = "gemmsim-reports"
PAGE = "report.html"
CHARTS = "charts"
PICTURES = ("svg", "png")
#: what the page needs and the tables do not
_DRAWING = ("altair", "vl_convert", "jinja2", "markupsafe")


@dataclass(frozen=True)
class Written:
    """The files of an answer. page: None where the packages that draw it are missing; first: the answer in a line."""

    folder: Path
    page: Path | None
    rows: tuple[str, ...]
    pictures: int
    first: str


def folder_of(out: str | None, name: str, within: str = REPORTS) -> Path:
    """Where the page of a study goes: out, or a folder of its name. Raises GemmsimError for what cannot be one."""
    folder = Path(within, name) if out is None else Path(out)
    if out is not None:
        check_parent(out)
    _check_folder(folder, "--out")
    return folder


def check_parent(out: str) -> None:
    """Raise GemmsimError for an --out that is nothing, a file, or in no existing folder."""
    if not out:
        raise GemmsimError("--out is '': expected the name of a folder")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise GemmsimError(f"--out {folder}: expected a folder, found a file")
    if not folder.parent.is_dir():
        raise GemmsimError(
            f"--out {out}: expected a folder in an existing one, found none called {str(folder.parent)!r}"
        )


def _check_folder(folder: Path, option: str) -> None:
    """Raise GemmsimError for a folder that could not be made or written."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise GemmsimError(f"{option} {folder}: expected a folder, found a file {str(there)!r}")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise GemmsimError(
            f"{option} {folder}: cannot be written: nothing can be, in {there}: {error.strerror}"
        ) from None


def made(folder: Path) -> Path:
    """The folder. Raises GemmsimError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GemmsimError(f"--out {folder}: cannot be made: {error.strerror}") from None
    return folder


def said_pictures(given: Collection[str]) -> tuple[str, ...]:
    """Kinds of pictures, each once. Raises GemmsimError for another kind, and where nothing can draw."""
    kinds = list(dict.fromkeys(kind.strip() for text in given for kind in text.split(",")))
    for kind in kinds:
        if kind not in PICTURES:
            raise GemmsimError(f"--pictures {kind}: expected {' or '.join(PICTURES)}")
    missing = [name for name in _DRAWING[:3] if kinds and find_spec(name) is None]
    if missing:
        raise GemmsimError(f"--pictures needs {', '.join(missing)}: pip install 'gemmsim[report]'")
    return tuple(kinds)


def document(study: Study, tables: Mapping[str, Table], more: Mapping[str, Any]) -> dict[str, Any]:
    """Tables as JSON has them."""
    found: dict[str, Any] = {"study": study.name, "question": study.question, **more}
    return found | {name: [_plain(row) for row in table.rows()] for name, table in tables.items()}


def send_json(value: Any) -> None:
    """To stdout."""
    send(json.dumps(value, indent=2, ensure_ascii=False) + "\n", None)


def show(
    study: Study, tables: Mapping[str, Table], format: str, more: Mapping[str, Any], files: Collection[str] = ()
) -> None:
    """Tables to stdout: as text, long ones cut, as JSON, or the first as CSV. files: tables that have a CSV file."""
    if format == "json":
        send_json(document(study, tables, more))
    elif format == "csv":
        _csv(next(iter(tables.values())), None)
    else:
        click.echo(study.title)
        for name, table in tables.items():
            click.echo(f"\n{table.title}")
            _show(table.brief, _cut(table, f"in {name}.csv" if name in files else "with --format json"))


def _cut(table: Table, where: str) -> tuple[str, ...]:
    """What is left out of a table that is too long for a terminal, and where it is: a line, or none."""
    told = table.told
    left = len(table) - len(told.rows)
    return (f"{len(told.rows)} of {len(table)} rows, {told.which}: {left} more {where}.",) if left else ()


def _show(table: Table, cut: Sequence[str]) -> None:
    """A table as text: the cells of the page, what was cut and its notes below."""
    titles = [c.title for c in table.shown]
    right = [table.numeric(c.key) for c in table.shown]
    lines = [titles, *table.text()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    padded = [[t.rjust(w) if r else t for t, w, r in zip(line, widths, right, strict=True)] for line in lines]
    columns = [Column(str(i), title) for i, title in enumerate(padded[0])]
    rows = [{str(i): text for i, text in enumerate(line)} for line in padded[1:]]
    room = max(60, min(shutil.get_terminal_size().columns, 120))
    emit(rows, columns, "table", None,
         notes=[line for note in (*cut, *table.notes) for line in textwrap.wrap(note, room)])  # fmt: skip


def write(answer: Report, folder: Path, pictures: Sequence[str]) -> Written:
    """The CSV files, the pictures and the page, each complete or not at all, the page last."""
    page = _drawn(answer)
    made(folder)
    for name, table in answer.files.items():
        _csv(table, folder / f"{name}.csv")
    drawn = 0 if page is None else _pictures(page, folder / CHARTS, pictures)
    first = answer.answer or (next(iter(page.lines), "") if page is not None else "")
    written = None if page is None else _page(page, folder / PAGE)
    return Written(folder, written, tuple(f"{name}.csv" for name in answer.files), drawn, first)


def said_written(written: Written) -> str:
    """Where everything is, in a line."""
    names = ", ".join(written.rows)
    if written.page is None:
        return f"Rows: {names} in {written.folder}. For the page: pip install 'gemmsim[report]'."
    drawn = f" Pictures: {written.pictures} in {written.folder / CHARTS}." if written.pictures else ""
    return f"Page: {written.page}. Rows: {names} beside it.{drawn}"


def _drawn(answer: Report) -> Page | None:
    """The page with its charts; None where the packages that draw it are not installed."""
    try:
        import_module("gemmsim.report.page")
        return answer.page()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _DRAWING:
            raise
        return None


def _page(page: Page, path: Path) -> Path:
    from gemmsim.report.page import render
    from gemmsim.rows import whole_file

    html = render(page).encode()
    with whole_file(str(path)) as file:
        file.write(html)
    return path


def _pictures(page: Page, folder: Path, kinds: Sequence[str]) -> int:
    """Every chart of a page in every kind; how many files."""
    from gemmsim.report.look import picture
    from gemmsim.rows import whole_file

    charts = [(chart, kind) for section in page.sections for chart in section.charts for kind in kinds]
    for chart, kind in charts:
        with whole_file(str(made(folder) / f"{chart.name}.{kind}")) as file:
            file.write(picture(chart.chart, kind))
    return len(charts)


def _csv(table: Table, path: Path | None) -> None:
    """Every column of a table in SI units."""
    from gemmsim.rows import write_csv

    columns = {name: _column(values, table.numeric(name)) for name, values in table.data.items()}
    write_csv(None if path is None else str(path), columns)


def _column(values: Sequence[Any], numeric: bool) -> Any:
    if numeric:
        whole = all(isinstance(v, int) for v in values)
        return np.asarray([np.nan if v is None else v for v in values], np.int64 if whole else np.float64)
    return ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in row.items()}
