"""The report of a study that compares GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemmsim.report.comparison import numbers
from gemmsim.report.kinds import Plan, Report
from gemmsim.study.comparison import ComparisonStudy, Pass

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: ComparisonStudy) -> Plan:
    """The GEMMs, the GPUs and how much is searched."""
    spaces = {name: len(space) for name, space in study.spaces.items()}
    names = [gpu.name for gpu in study.gpus]
    kernels = ", ".join(f"{name}: {count:,} configurations" for name, count in spaces.items())
    sentence = f"GPUs: {', '.join(names)}; baseline {study.baseline}. {kernels}. Nothing is measured."
    return Plan({"gemms": numbers.asked(study)}, sentence, {"l2": study.l2, "gpus": names, "configurations": spaces})


def report(study: ComparisonStudy, passes: Sequence[Pass]) -> Report:
    """Times, reasons, elasticities, best tiles, hardware figures and the page."""
    shown = {"times": numbers.times(passes)}
    files = {**shown, "reasons": numbers.reasons(passes), "picks": numbers.picks(passes),
             "hardware": numbers.hardware(study)}  # fmt: skip
    if study.sensitivity:
        files["elasticities"] = numbers.elasticities(passes)

    def page() -> Page:
        from gemmsim.report.comparison import page

        return page.page(study, passes)

    return Report(shown, files, page, {"l2": study.l2})
