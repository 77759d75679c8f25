"""The report of a study of raster orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemmsim.report.kinds import Plan, Report
from gemmsim.report.raster import numbers
from gemmsim.study.raster import RasterStudy, Sweep

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: RasterStudy) -> Plan:
    """The launches."""
    return Plan({"launches": numbers.asked(study)}, f"{len(study.rows)} recorded launches are simulated and predicted.")


def report(study: RasterStudy, sweeps: Sequence[Sweep]) -> Report:
    """What the best order buys, errors, every launch and the page."""
    shown = {"gains": numbers.gains(sweeps), "errors": numbers.errors(sweeps)}

    def page() -> Page:
        from gemmsim.report.raster import page

        return page.page(study, sweeps)

    answer = next(numbers.verdict(sweeps))
    return Report(shown, {**shown, "launches": numbers.launches(sweeps)}, page, answer=answer)
