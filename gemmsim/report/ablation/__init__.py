"""The report of a study of effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemmsim.report.ablation import numbers
from gemmsim.report.kinds import Plan, Report
from gemmsim.study.ablation import Ablated, AblationStudy

if TYPE_CHECKING:
    from gemmsim.report.page import Page


def plan(study: AblationStudy) -> Plan:
    """The rows of each kernel, and how they are scored."""
    fits = sum(part.splits for part in study.parts) * (len(study.effects) + 1)
    said = f"{fits} fits, fewer where an effect moves no row." if fits else "Nothing is fitted."
    return Plan({"rows": numbers.asked(study)}, f"Effects: {', '.join(study.effects)}. {said}")


def report(study: AblationStudy, found: Sequence[Ablated]) -> Report:
    """Errors without each effect, those of the whole model, and the page."""
    shown = {"whole": numbers.whole(found), "effects": numbers.effects(found)}

    def page() -> Page:
        from gemmsim.report.ablation import page

        return page.page(study, found)

    return Report(shown, shown, page)
