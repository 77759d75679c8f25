"""`gemmsim study run`: a question in YAML -> its answer: tables, CSV files and a page."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from gemmsim.cli.options import HELP
from gemmsim.cli.tables import FORMATS, Column, emit, progress, send
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.report.kinds import Plan, Report
    from gemmsim.report.table import Table
    from gemmsim.study import Study

REPORTS = "gemmsim-reports"
PAGE = "report.html"
#: what the page needs and the tables do not
_DRAWING = ("altair", "vl_convert", "jinja2", "markupsafe")


@click.group(context_settings=HELP)
def command() -> None:
    """A question about tiles, written down in YAML, and its answer."""


@command.command(context_settings=HELP)
@click.argument("study", metavar="NAME|FILE")
@click.option("--out", metavar="FOLDER", help=f"Page and CSV go there.  [default: {REPORTS}/NAME]")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--gpus", metavar="A,B,...", help="These GPUs instead of the study's.")
def run(study: str, out: str | None, dry_run: bool, format: str, gpus: str | None) -> None:
    """Answer a study: predict what it asks for, compare with recorded rows, write a page and CSV files. Needs no GPU.

    NAME is a study that ships with gemmsim, FILE one of your own.
    """
    from gemmsim.report.kinds import plan_of
    from gemmsim.study import open_study

    asked = open_study(study)
    if gpus is not None:
        asked = asked.with_gpus([name.strip() for name in gpus.split(",")])
    if dry_run:
        _plan(asked, plan_of(asked), format)
        return
    folder = _folder(out, asked.name)
    found = _answered(asked)
    _print(asked, found.shown, format, found.more)
    _write(found, folder)


def _answered(study: Study) -> Report:
    """The report of a study, made under a progress bar."""
    from gemmsim.report.kinds import report_of

    with progress(study.steps(), study.doing) as update:
        answer = study.run(update)
    return report_of(study, answer)


def _folder(out: str | None, name: str) -> Path:
    """Where the page goes; refused before any work if it cannot be made."""
    if out == "":
        raise GemmsimError("--out is '': expected the name of a folder")
    folder = Path(REPORTS, name) if out is None else Path(out)
    if folder.exists() and not folder.is_dir():
        raise GemmsimError(f"--out {folder}: expected a folder, found a file")
    if out is not None and not folder.parent.is_dir():
        raise GemmsimError(
            f"--out {out}: expected a folder in an existing one, found none called {str(folder.parent)!r}"
        )
    return folder


def _plan(study: Study, plan: Plan, format: str) -> None:
    _print(study, plan.tables, format, plan.more)
    if format == "table" and plan.sentence:
        click.echo(f"\n{plan.sentence}")


def _print(study: Study, tables: Mapping[str, Table], format: str, more: Mapping[str, Any]) -> None:
    if format == "json":
        document: dict[str, Any] = {"study": study.name, "question": study.question, **more}
        document |= {name: [_plain(row) for row in table.rows()] for name, table in tables.items()}
        send(json.dumps(document, indent=2, ensure_ascii=False) + "\n", None)
    elif format == "csv":
        _csv(next(iter(tables.values())), None)
    else:
        click.echo(study.title)
        for table in tables.values():
            click.echo(f"\n{table.title}")
            _show(table)


def _show(table: Table) -> None:
    """A table as text: the cells of the page, its notes below."""
    titles = [c.title for c in table.shown]
    right = [table.numeric(c.key) for c in table.shown]
    lines = [titles, *table.text()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    padded = [[t.rjust(w) if r else t for t, w, r in zip(line, widths, right, strict=True)] for line in lines]
    columns = [Column(str(i), title) for i, title in enumerate(padded[0])]
    rows = [{str(i): text for i, text in enumerate(line)} for line in padded[1:]]
    room = max(60, min(shutil.get_terminal_size().columns, 120))
    emit(rows, columns, "table", None, notes=[line for note in table.notes for line in textwrap.wrap(note, room)])


def _write(answer: Report, folder: Path) -> None:
    """The page and the CSV files, and a line on stderr that says where they are."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GemmsimError(f"--out {folder}: cannot be made: {error.strerror}") from None
    for name, table in answer.files.items():
        _csv(table, folder / f"{name}.csv")
    page = _page(answer, folder)
    names = ", ".join(f"{name}.csv" for name in answer.files)
    if page:
        click.echo(f"\nPage: {page}. Rows: {names} beside it.", err=True)
    else:
        click.echo(f"\nRows: {names} in {folder}. For the page: pip install 'gemmsim[report]'.", err=True)


def _page(answer: Report, folder: Path) -> Path | None:
    """Write the page; None where the packages that draw it are not installed."""
    from gemmsim.rows import whole_file

    try:
        from gemmsim.report.page import render

        html = render(answer.page()).encode()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _DRAWING:
            raise
        return None
    with whole_file(str(folder / PAGE)) as file:
        file.write(html)
    return folder / PAGE


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
