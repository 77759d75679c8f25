"""The page of a sweep: a section a product, its curves against the size, and the wave edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.sweep import charts, measured, numbers
from gemmsim.report.sweep.verdict import verdict
from gemmsim.report.table import Table, slug
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.outcome import Outcome

#: curves of several GPUs in one chart; more, and wave edges, are drawn a GPU at a time
MOST_TOGETHER = 4
#: rows of a table that is not folded away
MOST_OPEN = 40
#: points that the page lists; the CSV beside it has them all
MOST_LISTED = 2000
TITLES = {
    "rate": "Rate against {vary}",
    "time": "Time of a launch against {vary}",
    "memory": "Share of the memory's bandwidth against {vary}",
    "gain": "Faster than {base}",
}
_WORDS = (
    ("wave", "as many blocks as are resident on all SMs at once; a launch of one block more takes a further wave"),
    ("of bandwidth", "A and B read once and C written once, over the time, of the memory's datasheet bandwidth"),
    ("bound by", "the term that would take longest alone (gemmsim explain)"),
    ("basis", "fitted: coefficients from rows measured on that GPU; extrapolated: the same, asked outside the range of "
     "those rows; defaults: physical defaults scaled from the chip's own figures"),
    ("tile", "bm x bn x bk, then the family's parameters in short, as gemmsim rank prints them"),
)  # fmt: skip


def page(outcome: Outcome) -> Page:
    """The page of a sweep."""
    study = outcome.study
    return Page(study.title, study.question, list(_lines(outcome)), list(_sections(outcome)), _WORDS)


def _lines(outcome: Outcome) -> Iterator[str]:
    yield from verdict(outcome)
    study = outcome.study
    drawn = " Lines are predicted, points measured." if outcome.timed else ""
    yield (
        f"{study.predictions:,} predictions, L2 {study.l2}: {len(study.sizes)} sizes of {study.vary.upper()}, "
        f"{', '.join(gpu.name for gpu in study.gpus)}.{drawn}"
    )


def _sections(outcome: Outcome) -> Iterator[Section]:
    every, rows, found = numbers.points(outcome), measured.timed(outcome), numbers.edges(outcome)
    best = numbers.fastest(outcome)
    for place, product in enumerate(outcome.study.products):
        for gpu in _gpus(outcome):
            points, *others = (_part(table, product.name, gpu, place) for table in (every, rows, found, best))
            if len(points):
                title = ", ".join([product.title, *([gpu] if gpu else [])])
                yield Section(title, charts=list(_drawn(outcome.study, gpu, points, *others[:2])), folded=[others[2]])
    if len(found):
        yield Section("Wave edges", tables=[found, *filter(len, [measured.at_edges(outcome)])])
    every_table = (numbers.reach(outcome), measured.reached(outcome), measured.by_curve(outcome),
                   numbers.curves(outcome), rows)  # fmt: skip
    tables = [table for table in every_table if len(table)]
    long = [table for table in tables if len(table) > MOST_OPEN]
    yield Section("In figures", tables=[table for table in tables if table not in long], folded=long)
    if len(every) <= MOST_LISTED:
        yield Section("All points", folded=[every])


def _gpus(outcome: Outcome) -> list[str]:
    """GPUs that have charts of their own; '' for all together."""
    names = [gpu.name for gpu in outcome.study.gpus]
    crowded = len(outcome.study.curves) > MOST_TOGETHER or bool(outcome.edges)
    return names if len(names) > 1 and crowded else [""]


def _drawn(study: SweepStudy, gpu: str, points: Table, rows: Table, edges: Table) -> Iterator[Chart]:
    """The charts of a product: what the study shows, and the gain over the baseline where there is one."""
    for what in (*study.show, "gain"):
        if _there(points, what):
            title = TITLES[what].format(vary=study.vary.upper(), base=study.baseline)
            caption = _caption(_there(rows, what), _shapes(study, gpu), len(edges))
            drawn = charts.against_size(points, rows, what, study.vary, study.log, edges)
            yield Chart(f"{what}_{points.name}", title + caption, drawn)


def _there(table: Table, what: str) -> bool:
    """Whether a table has any value of a figure."""
    return any(value is not None for value in table.data.get(charts.SHOWN[what][0], ()))


def _shapes(study: SweepStudy, gpu: str) -> str:
    """Which shape is which curve's, where colour says the GPU."""
    if gpu or len(study.gpus) == 1:
        return ""
    named = zip(study.curves, cycle(charts.SHAPES), strict=False)
    said = [f"{shape.removesuffix('-up')}: {curve.name}" for curve, shape in named]
    return f" ({', '.join(said)})"


def _caption(measured: bool, shapes: str, edges: int) -> str:
    points = f"; points measured{shapes}" if measured else ""
    return f": lines predicted{points}{'; dashed: one more wave from here, the number of waves' if edges else ''}"


def _part(table: Table, product: str, gpu: str, place: int) -> Table:
    """The rows of one product, the place-th, and of one GPU if it is named."""
    keep = [
        i for i, (name, chip) in enumerate(zip(*(table.data.get(c, ()) for c in ("product", "gpu")), strict=True))
        if name == product and gpu in ("", chip)
    ]  # fmt: skip
    shown = tuple(c for c in table.shown if c.key != "product" and (c.key != "gpu" or not gpu))
    return replace(table.take(keep), name=f"{table.name}_{place}_{slug(gpu)}", shown=shown)
