"""The page of a study of a ladder: the answer, what each step buys, then a section a shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmsim.explanation import MEANING
from gemmsim.report import charts as shared
from gemmsim.report.ladder import charts, numbers
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import Table, slug
from gemmsim.study.ladder import Ladder, LadderStudy


def page(study: LadderStudy, ladder: Ladder) -> Page:
    """The page of a study of a ladder."""
    lines = [*numbers.verdict(study, ladder), *_evidence(study, ladder)]
    return Page(study.title, study.question, lines, list(_sections(study, ladder)), _words(ladder))


def _evidence(study: LadderStudy, ladder: Ladder) -> Iterator[str]:
    bases = ", ".join(dict.fromkeys(r.basis for r in ladder.rungs))
    unstable = sum(bool(r.unstable) for r in ladder.rungs)
    marked = f" {unstable} rows are marked unstable: the card's power cap or clock moved meanwhile." if unstable else ""
    beyond = sum(r.extrapolated for r in ladder.rungs)
    further = f" {beyond} rows lie outside the range that was fitted." if beyond else ""
    yield (
        f"Measured: {len(ladder.rungs)} rows on {study.gpu.product}, L2 {study.l2}, one tile a stage for all shapes. "
        f"Predicted with the compiler's registers and shared memory; coefficients, as to these rows: {bases}."
        f"{marked}{further}"
    )


def _sections(study: LadderStudy, ladder: Ladder) -> Iterator[Section]:
    points = numbers.step_points(ladder)
    said = [numbers.quoted(study, ladder)] if study.quoted else []
    drawn = Chart("steps", "What each step buys: points measured, ticks predicted, a mark a shape",
                  charts.step_factors(points))  # fmt: skip
    yield Section("In short", tables=[numbers.errors(ladder), numbers.ends(ladder)])
    yield Section("Step by step", charts=[drawn], tables=[numbers.steps(ladder), *said], folded=[points])
    every = numbers.rungs(study, ladder)
    for shape in ladder.shapes:
        yield _stages(shape, _only(every, shape))
        yield _parts(shape, replace(numbers.parts(ladder, shape), name=f"parts_{slug(shape)}"))
    yield Section("All rows", folded=[replace(every, name="all_rungs"), numbers.asked(study)])


def _only(every: Table, shape: str) -> Table:
    """The rungs of one shape."""
    keep = [i for i, name in enumerate(every.data["shape"]) if name == shape]
    return replace(every.take(keep), name=f"rungs_{slug(shape)}", title="Each stage", shown=every.shown[1:])


def _stages(shape: str, mine: Table) -> Section:
    title = "TFLOP/s and share of cuBLAS: bars measured, ticks predicted; grey lines cuBLAS, measured"
    return Section(shape, charts=[Chart(f"stages_{slug(shape)}", title, charts.stages(mine))], tables=[mine])


def _parts(shape: str, parts: Table) -> Section:
    drawn = Chart(parts.name, "What the predicted time consists of", shared.term_stack(parts))
    return Section(f"{shape}: where the predicted time goes", charts=[drawn], tables=[numbers.shares(parts)])


def _words(ladder: Ladder) -> list[tuple[str, str]]:
    terms = dict.fromkeys(term for r in ladder.rungs for term in r.parts)
    return [
        ("measured", "one launch between two events on a busy stream, median; cuBLAS timed in turn with it, sample by "
         "sample (docs/measure.md)"),
        ("of cuBLAS", "cuBLAS' time over the stage's, both measured, same type"),
        ("bound", "the term that would take longest alone"),
        ("parts", "what freeing a term gains on average over the orders of freeing terms: they add up to the time; "
         "terms that count little, and what no term explains, are other"),
        ("quoted", "the share of cuBLAS that is often quoted for the stage, of other GPUs"),
        ("predicted, error", "TFLOP/s by the predicted time; predicted over measured time - 1"),
        ("regs, smem", "registers a thread and shared memory a block, by the compiler; blocks/SM follow from them"),
        *((f"term: {name}", MEANING.get(name, "")) for name in sorted(terms)),
    ]  # fmt: skip
