"""The report of a study of padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.padding import measured, numbers
from gemmsim.study.padding import PaddingStudy
from gemmsim.study.padding.outcome import Outcome

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: PaddingStudy) -> Plan:
    """The problems and kernels."""
    names = [gpu.name for gpu in study.gpus]
    kernels = ", ".join(f"{name} ({' or '.join(of)})" for name, of in study.kernels.items())
    sentence = (
        f"GPUs: {', '.join(names)}. Kernels: {kernels}. {study.steps()} cases, {sum(map(len, study.rows)):,} rows."
    )
    return Plan({"problems": numbers.plan(study)}, sentence, {"l2": study.l2, "gpus": names})


def report(study: PaddingStudy, outcome: Outcome) -> Report:
    """Gains, what was measured of them, recorded neighbours, every size tried, curves and the page."""
    shown = {"gains": numbers.gains(outcome)}
    if outcome.held:
        shown["padded"] = measured.padded(outcome)
    if outcome.neighbours:
        shown["recorded"] = measured.recorded(outcome)
    files = {**shown, "candidates": numbers.candidates(outcome)}
    if outcome.curves:
        files["curves"] = numbers.curves(outcome)

    def page() -> Page:
        from gemmsim.report.padding import page

        return page.page(outcome)

    return Report(shown, files, page, {"l2": study.l2})
