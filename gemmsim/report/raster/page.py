"""The page of a study of raster orders: a section a problem, its bytes and times against group_m."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.raster import charts
from gemmsim.report.raster.numbers import errors, gains, launches, verdict
from gemmsim.report.table import Table, slug
from gemmsim.study.raster import QUOTED, RasterStudy, Sweep

#: columns that a section's table has not: all launches together have them
_ELSEWHERE = ("problem", "kernel_time_s", "clock_hz", "predicted_s", "event_time_s", "unstable")
_WORDS = (
    ("group_m", "tile rows that are walked together, column by column (Triton's GROUP_SIZE_M); 1: row by row"),
    ("counted", "by Nsight Compute, clocks left alone (gemmsim counters), the L2 empty before each launch"),
    ("simulator, closed form", "blocks walked one by one through an L2 of two sides, and the same as means over waves "
     "(docs/traffic.md)"),
    ("in SM clocks", "kernel time x clock, both counted of the same launch: what is left of a gain at one clock"),
    ("time by events", "gemmsim measure, cold_clean, median; marked unstable as docs/measure.md says"),
)  # fmt: skip


def page(study: RasterStudy, sweeps: Sequence[Sweep]) -> Page:
    """The page of a study of raster orders."""
    rows = study.rows
    subject = (
        f"{len(rows)} launches of {rows.config.family} {rows.problem.dtype} on {rows.gpu.product}, L2 {rows.l2}. "
        "Counted figures, and times by events, are measured."
    )
    every = launches(sweeps)
    short = Section("In short", tables=[gains(sweeps), errors(sweeps)])
    sections = [_section(problem, every) for problem in dict.fromkeys(every.data["problem"])]
    folded = Section("All launches", folded=[every])
    return Page(study.title, study.question, [subject, *verdict(sweeps)], [short, *sections, folded], _WORDS)


def _section(problem: str, every: Table) -> Section:
    keep = [i for i, name in enumerate(every.data["problem"]) if name == problem]
    shown = tuple(c for c in every.shown if c.key not in _ELSEWHERE)
    here = replace(every.take(keep), name=f"launches_{slug(problem)}", title="Each launch", shown=shown)
    drawn = [
        Chart(f"bytes_{slug(problem)}", "DRAM bytes read: points counted, lines predicted", charts.dram_reads(here)),
        Chart(f"gains_{slug(problem)}", "Faster than row by row: lines predicted, points counted; shaded: often "
              "quoted", charts.order_gains(here, QUOTED)),
    ]  # fmt: skip
    return Section(problem, charts=drawn, tables=[here])
