"""What a study of any kind is shown as; a kind's module of this room gives `plan` and `report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gemmsim.report.table import Table
from gemmsim.study import Study

if TYPE_CHECKING:
    from gemmsim.report.page import Page


@dataclass(frozen=True)
class Plan:
    """What would be done: tables by their name in JSON, a sentence below them, and what JSON has besides."""

    tables: Mapping[str, Table]
    sentence: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What an answer comes to.

    shown: tables to print, by their name in JSON; files: tables to write, by the file's name; page: made when asked
    for, as it needs the packages that draw; more: what JSON has besides; answer: the answer to the question in a
    sentence, where it is not the page's first line.
    """

    shown: Mapping[str, Table]
    files: Mapping[str, Table]
    page: Callable[[], Page]
    more: Mapping[str, Any] = field(default_factory=dict)
    answer: str = ""


def plan_of(study: Study) -> Plan:
    """What a study would do."""
    found: Plan = import_module(f"gemmsim.report.{study.kind}").plan(study)
    return found


def report_of(study: Study, answer: Any) -> Report:
    """The report of what `study.run` gave."""
    found: Report = import_module(f"gemmsim.report.{study.kind}").report(study, answer)
    return found
