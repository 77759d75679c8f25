"""`gemmsim study run`: a question in YAML -> picks, bounds, speed-ups, predicted against measured, a page and rows."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from gemmsim.cli.options import HELP
from gemmsim.cli.tables import FORMATS, Column, emit, progress, send
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.report.numbers import Table
    from gemmsim.study import Outcome, RasterStudy, SearchStudy, Study

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
@click.option("--dry-run", is_flag=True, help="Show what would be predicted, and stop.")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--gpus", metavar="A,B,...", help="These GPUs instead of the study's.")
def run(study: str, out: str | None, dry_run: bool, format: str, gpus: str | None) -> None:
    """Predict every configuration of every GEMM on every GPU; compare with recorded rows; write a page. Needs no GPU.

    NAME is a study that ships with gemmsim: llama2_7b, or search_efficiency and l2_raster, which are of recorded rows;
    FILE one of your own.
    """
    from gemmsim.study import Study, open_study, with_gpus

    asked = open_study(study)
    if not isinstance(asked, Study):
        what, answer = _recorded(asked)
        if gpus is not None:
            raise GemmsimError(f"--gpus {gpus}: study {asked.name} is of recorded {what}, expected none")
        if dry_run:
            _show(next(iter(answer().tables.values())))
            return
        folder = _folder(out, asked.name)
        _answer(answer(), asked, format, folder)
        return
    if gpus is not None:
        asked = with_gpus(asked, [name.strip() for name in gpus.split(",")])
    if dry_run:
        _plan(asked, format)
        return
    folder = _folder(out, asked.name)
    _answer(_picks(asked), asked, format, folder)


@dataclass(frozen=True)
class _Answer:
    """What a study of any kind comes to: tables to print, tables to write by the file's name, the page's HTML."""

    tables: Mapping[str, Table]
    files: Mapping[str, Table]
    page: Callable[[], str]


def _answer(answer: _Answer, study: Study | SearchStudy | RasterStudy, format: str, folder: Path) -> None:
    _print(answer.tables, study, format)
    _write(answer, folder)


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


def _recorded(study: SearchStudy | RasterStudy) -> tuple[str, Callable[[], _Answer]]:
    """What a study of recorded rows is of, and how it is answered."""
    from gemmsim.study import SearchStudy

    if isinstance(study, SearchStudy):
        return "searches", lambda: _searches(study)
    return "launches", lambda: _orders(study)


def _picks(study: Study) -> _Answer:
    """Predicts all that the study asks for."""
    from gemmsim.report import numbers
    from gemmsim.study import run as run_study
    from gemmsim.study import steps

    with progress(steps(study), "Predicting") as update:
        outcome = run_study(study, update)

    def page() -> str:
        from gemmsim.report.study_page import study_page

        return study_page(outcome)

    tables = _tables(outcome)
    files = {"picks": tables["picks"], "candidates": numbers.shortlist(outcome)}
    if outcome.recorded:
        files |= {"errors": tables["errors"], "predicted_against_measured": numbers.points(outcome)}
    return _Answer(tables, files, page)


def _searches(study: SearchStudy) -> _Answer:
    """What was recorded of searches."""
    from gemmsim.report import search_numbers

    def page() -> str:
        from gemmsim.report.search_page import search_page

        return search_page(study)

    summary = search_numbers.summary(study.curves)
    return _Answer({"searches": summary}, {"searches": summary, "curves": search_numbers.points(study.curves)}, page)


def _orders(study: RasterStudy) -> _Answer:
    """What was counted and timed of raster orders, and what both models say."""
    from gemmsim.report import raster_numbers
    from gemmsim.study.orders import sweeps

    with progress(len(study.rows), "Simulating") as update:
        found = sweeps(study, update)

    def page() -> str:
        from gemmsim.report.raster_page import raster_page

        return raster_page(study, found)

    gains, errors = raster_numbers.gains(found), raster_numbers.errors(found)
    launches = raster_numbers.launches(found)
    return _Answer({"gains": gains, "errors": errors}, {"gains": gains, "errors": errors, "launches": launches}, page)


def _tables(outcome: Outcome) -> dict[str, Table]:
    """The tables to print, by the name they have in JSON."""
    from gemmsim.report import numbers

    tables = {"picks": numbers.all_picks(outcome), "totals": numbers.totals(outcome)}
    if outcome.speedups:
        tables["speedups"] = numbers.speedups(outcome)
    if outcome.recorded:
        tables["errors"] = numbers.evidence(outcome)
        hand = numbers.at_hand(outcome)
        tables |= {"timed": hand} if len(hand) else {}
    return tables


def _plan(study: Study, format: str) -> None:
    from gemmsim.report import numbers

    plan = numbers.plan(study)
    spaces = {name: len(space) for name, space in study.spaces.items()}
    names = [gpu.name for gpu in study.gpus]
    if format != "table":
        _print({"gemms": plan}, study, format, gpus=names, configurations=spaces)
        return
    _show(plan)
    kernels = ", ".join(f"{name}: {count:,} configurations" for name, count in spaces.items())
    per_gpu = len(study.works) * len(study.dtypes)
    click.echo(f"\nGPUs: {', '.join(names)}. {kernels}. {per_gpu * len(names)} searches, measure: {study.measure}.")


def _print(tables: Mapping[str, Table], study: Study | SearchStudy | RasterStudy, format: str, **more: Any) -> None:
    from gemmsim.study import Study

    if format == "json":
        l2 = {"l2": study.l2} if isinstance(study, Study) else {}
        document: dict[str, Any] = {"study": study.name, "question": study.question, **l2, **more}
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


def _write(answer: _Answer, folder: Path) -> None:
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


def _page(answer: _Answer, folder: Path) -> Path | None:
    """Write the page; None where the packages that draw it are not installed."""
    from gemmsim.rows import whole_file

    try:
        html = answer.page().encode()
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
