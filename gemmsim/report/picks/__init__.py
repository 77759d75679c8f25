"""The report of a study of picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report import errors
from gemmsim.report.kinds import Plan, Report
from gemmsim.report.picks import numbers
from gemmsim.report.table import Table
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Outcome

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: PicksStudy) -> Plan:
    """The GEMMs, and how much is searched."""
    spaces = {name: len(space) for name, space in study.spaces.items()}
    names = [gpu.name for gpu in study.gpus]
    kernels = ", ".join(f"{name}: {count:,} configurations" for name, count in spaces.items())
    searches = len(study.works) * len(study.dtypes) * len(names)
    sentence = f"GPUs: {', '.join(names)}. {kernels}. {searches} searches, measure: {study.measure}."
    return Plan({"gemms": numbers.plan(study)}, sentence, {"l2": study.l2, "gpus": names, "configurations": spaces})


def report(study: PicksStudy, outcome: Outcome) -> Report:
    """Picks, totals, speed-ups, errors and the page."""
    shown = _shown(outcome)
    files = {"picks": shown["picks"], "candidates": numbers.shortlist(outcome)}
    if outcome.recorded:
        files |= {"errors": shown["errors"], "predicted_against_measured": errors.points(outcome.recorded)}

    def page() -> Page:
        from gemmsim.report.picks import page

        return page.page(outcome)

    return Report(shown, files, page, {"l2": study.l2})


def _shown(outcome: Outcome) -> dict[str, Table]:
    tables = {"picks": numbers.all_picks(outcome), "totals": numbers.totals(outcome)}
    if outcome.speedups:
        tables["speedups"] = numbers.speedups(outcome)
    if outcome.recorded:
        tables["errors"] = errors.errors(outcome.recorded)
        hand = numbers.at_hand(outcome)
        tables |= {"timed": hand} if len(hand) else {}
    return tables
