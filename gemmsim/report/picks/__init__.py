"""The report of a study of picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.picks import numbers
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Outcome

if TYPE_CHECKING:
    from gemmsim.report.page import Page

#: tables that are printed, and those that are written, by the file's name
_SHOWN = ("picks", "totals", "speedups", "errors", "timed")
_FILES = {
    "picks": "picks", "candidates": "candidates", "terms": "terms", "errors": "errors", "timed": "timed",
    "points": "predicted_against_measured",
}  # fmt: skip


def plan(study: PicksStudy) -> Plan:
    """The GEMMs, and how much is searched."""
    spaces = {name: len(space) for name, space in study.spaces.items()}
    names = [gpu.name for gpu in study.gpus]
    kernels = ", ".join(f"{name}: {count:,} configurations" for name, count in spaces.items())
    searches = len(study.works) * len(study.dtypes) * len(names)
    sentence = f"GPUs: {', '.join(names)}. {kernels}. {searches} searches, measure: {study.measure}."
    return Plan({"gemms": numbers.plan(study)}, sentence, {"l2": study.l2, "gpus": names, "configurations": spaces})


def report(study: PicksStudy, outcome: Outcome) -> Report:
    """Picks, totals, speed-ups, errors, what was timed and the page."""
    tables = numbers.tables(outcome)
    shown = {name: tables[name] for name in _SHOWN if name in tables}
    files = {file: tables[name] for name, file in _FILES.items() if name in tables}

    def page() -> Page:
        from gemmsim.report.picks import page

        return page.page(outcome, tables)

    return Report(shown, files, page, {"l2": study.l2})
