"""The page of a study of heat maps: the answer, then a section a GEMM and kernel with a map a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gemmsim.explanation import MEANING
from gemmsim.report.heatmap import charts, numbers
from gemmsim.report.heatmap.words import verdict
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import slug, table
from gemmsim.study.heatmap.outcome import NEAR, Heatmap, Outcome
from gemmsim.study.workload import Work

#: pixels that a map takes at least, of few columns and of many
NARROW, WIDE = 360, 520
_BASIS = (
    "fitted: coefficients from rows measured on that GPU; extrapolated: the same, asked outside the range of those "
    "rows; defaults: physical defaults scaled from the chip's own figures"
)


def page(outcome: Outcome) -> Page:
    """The page of a study of heat maps."""
    study = outcome.study
    short = [Section("The best tile from GPU to GPU", tables=[numbers.moves(outcome)])] if outcome.moves else []
    long = [numbers.tops(outcome), numbers.safest(outcome)] + ([numbers.errors(outcome)] if outcome.measured else [])
    sections = [
        section for family, dtype in study.kernels for work in study.works
        for section in _sections(outcome, work, family, dtype)
    ]  # fmt: skip
    figures = Section("All maps in figures", tables=long)
    return Page(study.title, study.question, [*verdict(outcome)], [*short, *sections, figures],
                list(_words(outcome)))  # fmt: skip


def _sections(outcome: Outcome, work: Work, family: str, dtype: str) -> Iterator[Section]:
    """The maps of one GEMM and kernel, measured ones beside the predicted."""
    study = outcome.study
    mine = [m for m in outcome.maps if (m.work, m.family, m.dtype) == (work, family, dtype) and m.best]
    if not mine:
        return
    name = slug(f"{family}_{dtype}_{work.variant}_{work.name}")
    drawn = [_predicted(outcome, m, name) for m in mine] + list(_held(outcome, mine, name))
    columns = max(len({c.x for c in m.cells}) for m in mine)
    launching = [m for m in mine if m.launching]
    every = numbers.cells(study, launching)
    keep = [i for i, reason in enumerate(every.data["reason"]) if not reason]
    folded = [
        table(f"cells_{name}", every.title, every.shown[:-1],
                      [row for i, row in enumerate(every.rows()) if i in set(keep)])
    ]  # fmt: skip
    held = [m for m in outcome.measured if (m.work, m.family, m.dtype) == (work, family, dtype)]
    if held:
        timed = numbers.timed(study, held)
        folded.append(table(f"timed_{name}", timed.title, timed.shown, timed.rows(), *timed.notes))
    title = f"{family} {dtype}, {numbers.gemm_name(work)}: {numbers.size(work)}"
    yield Section(title, charts=drawn, folded=folded, beside=WIDE if columns > charts.FEW else NARROW)


def _predicted(outcome: Outcome, m: Heatmap, name: str) -> Chart:
    study = outcome.study
    drawn = charts.predicted_map(numbers.cells(study, [m]), study.x, study.y)
    return Chart(f"map_{name}_{slug(m.gpu)}", f"{m.gpu}, predicted ({m.basis}), TFLOP/s", drawn)


def _held(outcome: Outcome, mine: list[Heatmap], name: str) -> Iterator[Chart]:
    study = outcome.study
    for m in mine:
        held = [x for x in outcome.measured if (x.work, x.kernel) == (m.work, m.kernel)]
        if not held:
            continue
        timed, like, gpu = numbers.timed(study, held), numbers.cells(study, [m]), slug(m.gpu)
        drawn = charts.measured_map(timed, like, study.x, study.y)
        yield Chart(f"measured_{name}_{gpu}", f"{m.gpu}, measured, best of {held[0].rows} rows, TFLOP/s", drawn)
        off = charts.error_map(timed, like, study.x, study.y)
        yield Chart(f"error_{name}_{gpu}", f"{m.gpu}, the same rows: predicted against measured time, %", off)


def _words(outcome: Outcome) -> Iterator[tuple[str, str]]:
    study = outcome.study
    yield "a cell", f"the fastest configuration with these {study.y} and {study.x}, all other parameters free"
    yield "frame, yellow", f"the best cell, and those within {100 * NEAR:.0f} % of it"
    yield "grey", "nothing can launch there; the tooltip has the reason of most configurations"
    yield "square, round", "predicted, and measured: the best of the rows at hand, a sample of the configurations"
    yield "error", "the fastest predicted of a cell's measured rows against the fastest measured; blue: said too fast"
    yield "basis", _BASIS
    yield "L2", f"{study.l2}, in predictions and in the measured rows"
    bounds = dict.fromkeys(c.bound_by for m in outcome.maps for c in m.cells if c.bound_by)
    yield from ((f"bound: {name}", MEANING.get(name, "")) for name in sorted(bounds))
