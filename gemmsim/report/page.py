"""One self-contained HTML page: sections of charts and tables, no network, dark and light, phone and paper."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from gemmsim import __version__
from gemmsim.report import look
from gemmsim.report.table import Table
from gemmsim.report.units import human

_HERE = Path(__file__).parent
#: a text cell longer than this may break
_LONG = 34
#: a table of more rows than this scrolls in a box of its own on a screen
_TALL = 40


@dataclass(frozen=True)
class Chart:
    """A chart with the name of its element and its caption."""

    name: str
    title: str
    chart: look.Chart

    @property
    def spec(self) -> Markup:
        """Vega-Lite as JSON that no HTML parser takes for markup."""
        text = json.dumps(self.chart.to_dict(validate=False), separators=(",", ":"), ensure_ascii=False)
        return Markup(text.replace("<", "\\u003c"))


@dataclass(frozen=True)
class Section:
    """A heading, sentences, charts with the tables they draw, and tables folded away.

    beside: charts stand beside one another where each has at least so many pixels.
    """

    title: str
    lines: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[Table] = ()
    beside: int = 420


@dataclass(frozen=True)
class Page:
    """What a page holds. `words`: terms and their meaning, at its end."""

    title: str
    question: str
    lines: Sequence[str]
    sections: Sequence[Section]
    words: Sequence[tuple[str, str]] = field(default_factory=tuple)


def render(page: Page) -> str:
    """The page as HTML that loads nothing else."""
    return template("page.html.j2").render(
        title=page.title, question=page.question, lines=page.lines, sections=page.sections, words=page.words,
        version=__version__, heads=_heads, cells=_cells, css=Markup(css()), script=Markup(_text("page.js")),
        bundle=Markup(_bundle()), tall=_TALL,
    )  # fmt: skip


def css() -> str:
    """The look of every page."""
    return _text("page.css")


@lru_cache
def template(name: str) -> jinja2.Template:
    """A template of this folder; what is put into it is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


@lru_cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed, of the version that Altair writes."""
    major, minor, *_ = alt.SCHEMA_VERSION.split(".")
    bundle: Any = vl_convert.javascript_bundle
    text: str = bundle(vl_version=f"{major}.{minor}")
    return re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE)  # nothing in it can end the script element


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _heads(table: Table) -> list[dict[str, Any]]:
    return [{"title": c.title, "number": table.numeric(c.key)} for c in table.shown]


def _cells(table: Table) -> list[list[dict[str, Any]]]:
    numeric = {c.key: table.numeric(c.key) for c in table.shown}
    return [[_cell(row[c.key], human(row[c.key], c.unit), numeric[c.key]) for c in table.shown] for row in table.rows()]


def _cell(value: Any, text: str, number: bool) -> dict[str, Any]:
    """number: right-aligned and sorted by its value, text by what it says; missing ones sort last."""
    known = value is not None and value == value
    if not number:
        return {"text": text, "kind": "long" if len(text) > _LONG else "", "value": None if known else ""}
    return {"text": text, "kind": "number", "value": repr(float(value)) if known else ""}
