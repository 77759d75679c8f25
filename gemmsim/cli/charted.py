"""--chart: one chart into a file, .html with its table, .svg or .png."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.report.look import Chart
    from gemmsim.report.table import Table

_F = TypeVar("_F", bound=Callable[..., Any])


def chart_option(what: str) -> Callable[[_F], _F]:
    """The option --chart (parameter `chart`)."""
    return click.option("--chart", metavar="FILE", help=f"Draw {what} into FILE: .html (with the table), .svg or .png.")


def check_chart(path: str | None) -> None:
    """Refuse, before any work, a chart that cannot be drawn or written."""
    from importlib.util import find_spec

    from gemmsim.rows import check_out

    if path is None:
        return
    if Path(path).suffix.lower() not in (".html", ".svg", ".png"):
        raise GemmsimError(f"--chart {path}: expected a name that ends in .html, .svg or .png")
    check_out(path, "--chart")
    missing = [name for name in ("altair", "vl_convert", "jinja2") if find_spec(name) is None]
    if missing:
        raise GemmsimError(f"--chart needs {', '.join(missing)}: install gemmsim[report]")


def draw(path: str, drawn: Chart, tables: Sequence[Table], notes: Sequence[str], **said: str) -> None:
    """Write the chart: said are the page's title and question, its section and the chart's caption."""
    from gemmsim.report import look
    from gemmsim.rows import whole_file

    kind = Path(path).suffix.lower()
    with whole_file(path) as file:
        if kind == ".html":
            from gemmsim.report.page import Chart, Page, Section, render

            chart = Chart("chart", said["caption"], drawn)
            section = Section(said["section"], charts=[chart], tables=list(tables))
            file.write(render(Page(said["title"], said["question"], list(notes), [section])).encode())
        else:
            file.write(look.picture(drawn, kind[1:]))
