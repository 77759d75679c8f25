"""The report of a study of a ladder of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.ladder import numbers
from gemmsim.study.ladder import Ladder, LadderStudy

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: LadderStudy) -> Plan:
    """The stages, and where they were timed."""
    sentence = f"{len(study.timed)} recorded rows are predicted. Nothing is measured anew."
    return Plan({"stages": numbers.asked(study)}, sentence, {"gpu": study.gpu.name, "l2": study.l2})


def report(study: LadderStudy, ladder: Ladder) -> Report:
    """What each step buys, where the ladder ends, errors, every rung and the page."""
    shown = {"steps": numbers.steps(ladder), "ends": numbers.ends(ladder), "errors": numbers.errors(ladder)}
    files = {**shown, "rungs": numbers.rungs(study, ladder), "parts": numbers.parts(ladder)}

    def page() -> Page:
        from gemmsim.report.ladder import page

        return page.page(study, ladder)

    return Report(shown, files, page, {"gpu": study.gpu.name, "l2": study.l2})
