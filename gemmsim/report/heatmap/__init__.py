"""The report of a study of heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmsim.report.heatmap import numbers
from gemmsim.report.kinds import Plan, Report
from gemmsim.study.heatmap import HeatmapStudy
from gemmsim.study.heatmap.outcome import Outcome

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: HeatmapStudy) -> Plan:
    """The GEMMs, and how much is searched."""
    spaces = {name: len(space) for name, space in study.spaces.items()}
    names = [gpu.name for gpu in study.gpus]
    kernels = ", ".join(f"{name}: {count:,} configurations" for name, count in spaces.items())
    rows = sum(map(len, study.rows))
    sentence = (
        f"GPUs: {', '.join(names)}. {kernels}. {study.steps()} maps of {study.y} x {study.x}, {rows:,} measured rows."
    )
    return Plan({"gemms": numbers.plan(study)}, sentence, {"l2": study.l2, "gpus": names, "configurations": spaces})


def report(study: HeatmapStudy, outcome: Outcome) -> Report:
    """Tops, the safest tile, moves, errors, every cell and the page."""
    shown = {"tops": numbers.tops(outcome), "safest": numbers.safest(outcome)}
    if outcome.moves:
        shown["moves"] = numbers.moves(outcome)
    files = {**shown, "cells": numbers.cells(study, outcome.maps)}
    if outcome.measured:
        shown["errors"] = numbers.errors(outcome)
        files |= {"errors": shown["errors"], "measured_cells": numbers.timed(study, outcome.measured)}

    def page() -> Page:
        from gemmsim.report.heatmap import page

        return page.page(outcome)

    return Report(shown, files, page, {"l2": study.l2})
