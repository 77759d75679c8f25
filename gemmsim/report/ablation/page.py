"""The page of a study of effects: a section a kernel, errors and regret without each effect, and kernels compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gemmsim.explanation import MEANING
from gemmsim.report.ablation import charts
from gemmsim.report.ablation.numbers import LEAST_MAPE, LEAST_REGRET, SHOWN, SHOWN_REFITTED, effects, how, scored, whole
from gemmsim.report.ablation.verdict import verdict
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import Column, slug
from gemmsim.study.ablation import Ablated, AblationStudy

_WORDS = (
    ("buys nothing", f"without it MAPE rises by at most {100 * LEAST_MAPE:g} points and regret by at most "
     f"{100 * LEAST_REGRET:g}, or they fall"),
    ("moves no row", "no prediction of these rows changes without it, so a fit without it would be the same fit"),
    ("MAPE", "mean of |predicted / measured - 1| over the rows"),
    ("regret", "how much slower the model's first pick is than the best tile timed, mean over shapes; within what the "
     "same row differs by from machine to machine it counts as none"),
    ("Spearman", "rank correlation of predicted and measured over the tiles of a shape, mean over shapes"),
    ("shipped coefficients", "fitted with every effect, and not again without it: that overstates what the effect is "
     "worth, and its rows may be those fitted on"),
    ("refitted", "coefficients fitted again without the effect on half of the tiles x half of the shapes, scored on "
     "the other halves: what a model that never had it would do"),
)  # fmt: skip


def page(study: AblationStudy, found: Sequence[Ablated]) -> Page:
    """The page of a study of effects."""
    sections = [Section("In short", tables=[whole(found)]), *(_section(i, a) for i, a in enumerate(found))]
    words = [*_WORDS, *((name, MEANING[name]) for name in study.effects if name in MEANING)]
    return Page(study.title, study.question, list(verdict(found)), [*sections, *_compared(found)], words)


def _section(i: int, a: Ablated) -> Section:
    e, table, name = scored(a), effects([a]), f"{i}_{slug(a.part.kernel)}"
    shown = (Column("effect", "without"), *(SHOWN_REFITTED if a.part.splits else SHOWN))
    drawn = [
        Chart(f"mape_{name}", "MAPE without it; dashed: the whole model", charts.error_bars(table, e.mape)),
    ]
    if e.regret[1] == e.regret[1]:  # some shape has enough tiles to be ranked
        regret = charts.regret_bars(table, e.regret[1])
        drawn.append(Chart(f"regret_{name}", "Regret of the first pick without it", regret))
    said = f"{', '.join(a.part.files)}: {how(a.part)}; {e.rows:,} rows of {e.shapes} shapes."
    return Section(a.part.kernel, [said], drawn, folded=[replace(table, name=f"effects_{name}", shown=shown)])


def _compared(found: Sequence[Ablated]) -> Iterator[Section]:
    if len(found) < 2:
        return
    said = "All with the shipped coefficients, over all rows of each kernel's files: like with like."
    chart = Chart("kernels", "What an effect is worth to each kernel", charts.kernels(effects(found)))
    yield Section("Kernels compared", [said], [chart])
