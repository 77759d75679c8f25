"""The report of a study of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.sweep import measured, numbers
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.outcome import Outcome

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: SweepStudy) -> Plan:
    """The curves and the products, and how much is predicted."""
    sizes = f"{study.vary.upper()} from {study.sizes[0]} to {study.sizes[-1]}, {len(study.sizes)} sizes"
    gpus = [gpu.name for gpu in study.gpus]
    files = ", ".join(name for name, _ in study.rows) or "none"
    sentence = f"{sizes}. GPUs: {', '.join(gpus)}. {study.predictions:,} predictions. Measured rows: {files}."
    tables = {"curves": numbers.asked(study), "products": numbers.products(study)}
    return Plan(tables, sentence, {"vary": study.vary, "sizes": list(study.sizes), "l2": study.l2, "gpus": gpus})


def report(study: SweepStudy, outcome: Outcome) -> Report:
    """Curves in short, wave edges and reach, predicted and measured, measured rows, every point and the page."""
    tables = {
        "curves": numbers.curves(outcome), "edges": numbers.edges(outcome), "at_edges": measured.at_edges(outcome),
        "reach": numbers.reach(outcome), "reached": measured.reached(outcome), "by_curve": measured.by_curve(outcome),
        "timed": measured.timed(outcome),
    }  # fmt: skip
    shown = {name: table for name, table in tables.items() if len(table)}

    def page() -> Page:
        from gemmsim.report.sweep import page

        return page.page(outcome)

    return Report(shown, {**shown, "points": numbers.points(outcome)}, page, {"vary": study.vary, "l2": study.l2})
