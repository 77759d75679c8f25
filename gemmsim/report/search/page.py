"""The page of a study of searches: a section a kernel, its curves and what each sampler needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.search import charts
from gemmsim.report.search.numbers import points, summary, verdict
from gemmsim.report.table import slug
from gemmsim.study.search import Curve, SearchStudy

#: what the names of the model-guided search's variants begin with
_OWN = "model-guided"
_WORDS = (
    ("regret", "how much slower than the best recorded configuration of a shape the best found so far is"),
    ("trials to 1 %, 90th percentile", "after so many trials half, and nine tenths, of the searches are within 1 %"),
    ("model-guided", "the model's shortlist first, then by the model corrected with what was measured; its "
     "coefficients are fitted on other shapes"),
    ("others' rows", "the same, given beforehand what recorded rows of other shapes say of the same configurations"),
    ("in turn", "the same, shapes searched one after another, each search given the trials of those before"),
    ("under way", "the same, so many trials asked for before the first is told, as with several workers"),
    ("top k", "configurations in the model's order, nothing learnt"),
    ("TPE, GP, random", "Optuna's samplers, which know nothing of the model"),
)  # fmt: skip


def page(study: SearchStudy) -> Page:
    """The page of a study of searches."""
    lines = [
        *verdict(study.curves),
        "Searches replayed over recorded rows, measured; the space of a shape is what was recorded of it.",
    ]
    kernels = dict.fromkeys(curve.rows for curve in study.curves)
    sections = [_section(rows, [c for c in study.curves if c.rows == rows]) for rows in kernels]
    folded = Section("All trials", folded=[points(study.curves)])
    return Page(study.title, study.question, lines, [*sections, folded], list(_WORDS))


def _section(rows: str, curves: Sequence[Curve]) -> Section:
    drawn = [Chart(f"{name}_{slug(rows)}", title, charts.regret(points(some))) for name, title, some in _drawn(curves)]
    table = summary(curves)
    return Section(rows, charts=drawn, tables=[replace(table, shown=table.shown[1:])])


def _drawn(curves: Sequence[Curve]) -> Iterator[tuple[str, str, Sequence[Curve]]]:
    """Samplers beside one another, then the variants of the model-guided one; not those without a curve."""
    own = [c for c in curves if c.sampler.startswith(_OWN)]
    others = [c for c in curves if c not in own]
    if others:
        yield "samplers", "Mean regret against trials", [*own[:1], *others]
    if len(own) > 1:
        named = [replace(c, sampler=c.sampler.removeprefix(_OWN).removeprefix(", ") or "alone") for c in own]
        yield "variants", "The model-guided search, and what it is given", named
