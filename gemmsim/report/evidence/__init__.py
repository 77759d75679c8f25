"""The report of a study of evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.errors import errors
from gemmsim.report.evidence import numbers
from gemmsim.report.kinds import Plan, Report
from gemmsim.study.evidence import EvidenceStudy
from gemmsim.study.evidence.judged import Evidence

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: EvidenceStudy) -> Plan:
    """The files of rows."""
    files = numbers.files(study.recorded())
    return Plan({"files": files}, f"{sum(files.data['rows']):,} recorded rows are predicted.")


def report(study: EvidenceStudy, found: Evidence) -> Report:
    """Errors by kernel, file and class of shape, regrets, coverage, the worst rows, every row and the page."""
    shown = {"kernels": numbers.kernels(found), "classes": numbers.classes(found)}
    files = {
        **shown, "errors": errors(found.recorded), "coverage": numbers.coverage(found),
        "regrets": numbers.regrets(found), "worst": numbers.worst(found), "best": numbers.best(found),
        "rows": numbers.rows(found),
    }  # fmt: skip

    def page() -> Page:
        from gemmsim.report.evidence import page

        return page.page(study, found, files)

    return Report(shown, files, page)
