"""The report of a study of searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.search import numbers
from gemmsim.study.search import Curve, SearchStudy

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: SearchStudy) -> Plan:
    """What the recorded curves say."""
    return Plan({"searches": numbers.summary(study.curves)}, "Recorded curves: nothing is predicted.")


def report(study: SearchStudy, curves: Sequence[Curve]) -> Report:
    """What each sampler needs, the curves and the page."""
    summary = numbers.summary(curves)

    def page() -> Page:
        from gemmsim.report.search import page

        return page.page(study)

    return Report({"searches": summary}, {"searches": summary, "curves": numbers.points(curves)}, page)
