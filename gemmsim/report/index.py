"""A page that links the reports of several studies: title, question, and the answer in a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gemmsim import __version__
from gemmsim.report.page import css, template


@dataclass(frozen=True)
class Entry:
    """A study. link: address of its report, "" where there is none; failed: why there is no answer, else ""."""

    name: str
    kind: str
    title: str
    question: str
    link: str
    answer: str
    failed: str


def render(entries: Sequence[Entry]) -> str:
    """The page as HTML that loads nothing else."""
    return template("index.html.j2").render(entries=entries, version=__version__, css=Markup(css()))
