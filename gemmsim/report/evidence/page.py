"""The page of a study of evidence: errors by kernel and class of shape, picks, intervals, roofs, the worst rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gemmsim.report import charts as shared
from gemmsim.report.evidence import charts
from gemmsim.report.evidence.numbers import BASES, SHAPE_CLASSES, drawn, roofs
from gemmsim.report.evidence.verdict import verdict
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import Table, slug
from gemmsim.study.evidence import EvidenceStudy
from gemmsim.study.evidence.judged import Evidence

#: rows of a kernel in a chart: there are many kernels
MOST_POINTS = 600
#: rankings that the page lists; the CSV has all
_MOST_REGRETS = 60
_WORDS = (
    ("predicted, measured", "time of one launch on a busy stream, launch included; predicted in the rows' own L2 "
     "condition, with the compiler's registers, spills and shared memory"),
    ("error", "predicted / measured - 1; MAPE, median and p90 are of it without its sign, bias is its median"),
    ("basis", "fitted: coefficients come from these very rows; not fitted on: from other files of the same kernel; "
     "defaults: physical defaults; held out: from fits that did not see the rows, as the calibration file says"),
    ("regret", "how much slower the model's first pick (best of 5: the best of its first five) is than the best tile "
     "timed of the same shape in the same file: the best there is may not have been timed"),
    ("shape", "skinny: M or N up to 64; else deep: K four times both; else shallow: K up to 256; else small: all up to "
     "2048; else large"),
    ("80 % interval", "10th to 90th percentile of the time that would be measured, as gemmsim predict prints it"),
    ("case", "what the interval takes a row for: loads one by one, spills, few rows that all blocks ask for, narrow "
     "copies, loads that do not overlap math, one wave, or waves"),
    ("FLOP per compulsory byte", "2 M N K over A and B read once and C written once: no prediction is in it; the "
     "caches' own traffic would move a row to the left"),
)  # fmt: skip


def page(study: EvidenceStudy, found: Evidence, tables: Mapping[str, Table]) -> Page:
    """The page of a study of evidence; tables: those of the report, by name."""
    return Page(study.title, study.question, list(verdict(found)), list(_sections(study, found, tables)), _WORDS)


def _sections(study: EvidenceStudy, found: Evidence, tables: Mapping[str, Table]) -> Iterator[Section]:
    yield Section("By kernel", tables=[tables["kernels"]], folded=[tables["errors"]])
    yield Section(
        "Predicted against measured",
        [f"Points: measured rows, at most {MOST_POINTS} of a kernel. Line: predicted = measured; shaded: within 10 %."],
        [_against(found, family) for family in dict.fromkeys(sorted(found.rows.family.tolist()))],
    )
    yield _strips(tables["kernels"], tables["classes"])
    if found.rankings:
        yield _picks(tables["regrets"])
    inside = Chart("coverage", "Rows inside, by case; dashed: asked for", charts.coverage(tables["coverage"]))
    yield Section("Intervals", charts=[inside], tables=[tables["coverage"]])
    yield from _roofs(study, tables["best"])
    yield Section("Worst rows", tables=[tables["worst"]])


def _against(found: Evidence, family: str) -> Chart:
    points = drawn(found, family, MOST_POINTS)
    return Chart(f"against_{slug(family)}", family, shared.predicted_against_measured(points, height=300))


def _strips(by_basis: Table, by_class: Table) -> Section:
    said = "Measured rows against their predictions: the dot is the median error, the tick the 90th percentile."
    strips = [
        Chart("errors_by_class", "Error by class of shape", charts.errors_by(by_class, "shape_class", SHAPE_CLASSES)),
        Chart("errors_by_basis", "Error by what was fitted on", charts.errors_by(by_basis, "basis", BASES)),
    ]
    return Section("By class of shape", [said], strips, folded=[by_class])


def _picks(regrets: Table) -> Section:
    shares = [
        Chart("regret_first", "What the first pick loses: share of shapes", charts.regret_shares(regrets, "regret")),
        Chart("regret_five", "What the best of the first five loses", charts.regret_shares(regrets, "regret_of_5")),
    ]
    most = regrets.take(range(min(len(regrets), _MOST_REGRETS)))
    title = f"The {len(most)} shapes that lose most, of {len(regrets)}" if len(most) < len(regrets) else regrets.title
    return Section("Picks", charts=shares, folded=[replace(most, title=title)])


def _roofs(study: EvidenceStudy, fastest: Table) -> Iterator[Section]:
    under = roofs(study.gpus, fastest)
    charted = []
    for roof in under.rows():
        keep = [i for i, key in enumerate(zip(fastest.data["gpu"], fastest.data["dtype"], strict=True))
                if key == (roof["gpu"], roof["dtype"])]  # fmt: skip
        mine = fastest.take(keep)
        name = f"{roof['gpu']}, {roof['dtype']}" if len(study.gpus) > 1 else roof["dtype"]
        charted.append(Chart(f"roof_{slug(name)}", name, charts.roofline(mine, roof)))
    said = (
        "Points: the fastest measured row of each kernel and shape. Line: the dense peak and the DRAM bandwidth of the "
        "datasheet; dashed: the ridge between them."
    )
    yield Section("Roofline", [said], charted, folded=[under, fastest])
