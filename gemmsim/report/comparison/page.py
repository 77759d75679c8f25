"""The page of a study that compares GPUs: the answer, a section a pass, the hardware, the roofline, the best tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gemmsim.explanation import MEANING
from gemmsim.report import charts as shared
from gemmsim.report import hardware
from gemmsim.report.comparison import charts, numbers
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import Table, slug, table
from gemmsim.study.comparison import ComparisonStudy, Pass


def page(study: ComparisonStudy, passes: Sequence[Pass]) -> Page:
    """The page of a study that compares GPUs."""
    lines = list(numbers.verdict(study, passes))
    return Page(study.title, study.question, lines, list(_sections(study, passes)), _words(passes))


def _sections(study: ComparisonStudy, passes: Sequence[Pass]) -> Iterator[Section]:
    for p in passes:
        yield from _pass(study, p)
    drawn = Chart("hardware", f"Figures of the hardware files as ratios to {study.baseline}",
                  shared.gpus_compared(numbers.charted(study)))  # fmt: skip
    yield Section("Hardware", charts=[drawn], tables=[numbers.hardware(study)], folded=[numbers.sources(study)])
    for dtype in study.dtypes:
        yield _roofline(study, [p for p in passes if p.dtype == dtype], dtype)
    yield Section("Best tiles", folded=[numbers.picks(passes), numbers.asked(study)])


def _pass(study: ComparisonStudy, p: Pass) -> Iterator[Section]:
    name = f"{p.variant}, {p.dtype}"
    mine = numbers.times([p])
    mine = replace(mine, name=f"times_{slug(name)}", shown=mine.shown[2:])
    drawn = Chart(f"times_{slug(name)}", "Predicted time of one pass", charts.times(mine))
    yield Section(f"{name}: time", charts=[drawn], tables=[mine])
    if p.found.speedups:
        due = numbers.reasons([p])
        due = replace(due, name=f"reasons_{slug(name)}", shown=due.shown[2:])
        said = f"What makes the difference to {p.found.baseline}: factors end to end; upright tick: the speed-up"
        yield Section(f"{name}: why", charts=[Chart(due.name, said, charts.reasons(due))], folded=[due])
    slopes = numbers.matter(numbers.elasticities([p]))
    if study.sensitivity and len(slopes):
        slopes = replace(slopes, name=f"elasticities_{slug(name)}")
        said = "Change of the time, in %, by 1 % more of a figure"
        yield Section(f"{name}: what the time hangs on", charts=[Chart(slopes.name, said, charts.elasticities(slopes))],
                      folded=[numbers.wide(slopes)])  # fmt: skip


def _roofline(study: ComparisonStudy, passes: Sequence[Pass], dtype: str) -> Section:
    roofs = _only(hardware.roofs(study.gpus, study.dtypes), dtype)
    real = {gpu.name for gpu in study.gpus}
    points = [row for row in numbers.picks(passes).rows() if row["gpu"] in real]
    title = "The workload's GEMMs under each GPU's dense peak and memory bandwidth, predicted"
    drawn = Chart(f"roofline_{dtype}", title, shared.roofline(table("picks", "Picks", (), points), roofs))
    return Section(f"Roofline, {dtype}", charts=[drawn], tables=[roofs])


def _only(roofs: Table, dtype: str) -> Table:
    rows = [row for row in roofs.rows() if row["dtype"] == dtype]
    return table(f"roofs_{dtype}", roofs.title, roofs.shown, rows)


def _words(passes: Sequence[Pass]) -> list[tuple[str, str]]:
    bounds = dict.fromkeys(bound for p in passes for card in p.found.cards for bound in card.bounds)
    return [
        ("basis", "defaults: physical defaults scaled from the chip's own figures, fitted to no row of it; fitted: "
         "coefficients from rows measured on that GPU, used only where every GPU has them"),
        ("speed-up", "the baseline's time over this GPU's, each with its own best tiles"),
        ("groups of figures", "memory bandwidth, L2, SMs, clock, math rate per SM, SM architecture (all else of the "
         "architecture's file), launch (docs/compare.md)"),
        ("elasticity", "-0.7: 0.7 % less time with 1 % more of the figure"),
        ("*", "a GPU with figures of its file changed"),
        ("of peak", "share of the dense peak at the datasheet's clock"),
        *((f"bound: {name}", MEANING.get(name, "")) for name in sorted(bounds)),
    ]  # fmt: skip
