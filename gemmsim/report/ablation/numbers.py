"""The tables of a study of effects: the whole model's errors, and those without each effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.report.table import Column, Table, table
from gemmsim.study.ablation import Ablated, AblationStudy, Part
from gemmsim.validate import Errors

#: an effect without which MAPE and regret rise by no more than these buys nothing
LEAST_MAPE, LEAST_REGRET = 0.001, 0.01
SHIPPED = "shipped coefficients"
_NAMES = (Column("kernel", "kernel"), Column("effect", "without"))
_SCORED = (
    Column("mape", "MAPE", "1"), Column("costs", "more than whole", "1"), Column("spearman", "Spearman", "rho"),
    Column("regret", "regret", "1"), Column("worst_regret", "worst", "1"),
)  # fmt: skip
_KEPT = (Column("kept_mape", "MAPE, not refitted", "1"), Column("kept_regret", "regret, not refitted", "1"))
#: in a table of a kernel that is not fitted again the two are the same
SHOWN, SHOWN_REFITTED = (*_SCORED, Column("idle", "moves no row")), (*_SCORED, *_KEPT, Column("idle", "moves no row"))


def asked(study: AblationStudy) -> Table:
    """A row a kernel: its files, and how its rows are scored."""
    shown = (Column("kernel", "kernel"), Column("files", "rows of"), Column("rows", "rows"), Column("how", "scored"),
             Column("fit_with", "fitted with"))  # fmt: skip
    rows = [{"kernel": part.kernel, "files": ", ".join(part.files), "rows": len(part.rows), "how": how(part),
             "fit_with": ", ".join(part.fitted_files) or None} for part in study.parts]  # fmt: skip
    return table("rows", "Rows", shown, rows)


def how(part: Part) -> str:
    """How rows of a part are scored, in a few words."""
    if not part.splits:
        return SHIPPED
    return f"refitted, {part.splits} split{'s' if part.splits > 1 else ''}, scored on the other halves"


def scored(a: Ablated) -> Errors:
    """The whole model's errors, of refitted coefficients where there are some."""
    return a.refit_whole or a.whole


def labelled(found: Sequence[Ablated]) -> dict[str, Ablated]:
    """Parts by their kernel; by kernel and files where several are of one."""
    names = [a.part.kernel for a in found]
    each = [f"{name}, {', '.join(a.part.files)}" if names.count(name) > 1 else name
            for name, a in zip(names, found, strict=True)]  # fmt: skip
    return dict(zip(each, found, strict=True))


def whole(found: Sequence[Ablated]) -> Table:
    """A row a kernel: the errors with every effect."""
    shown = (
        Column("kernel", "kernel"), Column("files", "rows of"), Column("how", "scored"), Column("rows", "rows scored"),
        Column("shapes", "shapes"), Column("mape", "MAPE", "1"), Column("spearman", "Spearman", "rho"),
        Column("regret", "regret", "1"),
    )  # fmt: skip
    rows = [
        {"kernel": a.part.kernel, "files": ", ".join(a.part.files), "how": how(a.part), "rows": e.rows,
         "shapes": e.shapes, "mape": e.mape, "spearman": e.spearman, "regret": e.regret[1]}
        for a, e in ((a, scored(a)) for a in found)
    ]  # fmt: skip
    return table("whole", "The whole model", shown, rows)


def effects(found: Sequence[Ablated]) -> Table:
    """A row a kernel and effect, what is missed most first."""
    rows = [row for label, a in labelled(found).items() for row in _rows(label, a)]
    notes = (
        "More than whole: MAPE less that with every effect, in points; regret: of the first pick, mean over shapes; "
        "worst: of one shape.",
        "Moves no row: no prediction changes without it, so a fit without it is the same fit.",
    )
    return table("effects", "Errors without each effect", (*_NAMES, *SHOWN_REFITTED), rows, *notes)


def _rows(label: str, a: Ablated) -> Iterator[dict[str, Any]]:
    whole, each = scored(a), a.refit_without or a.without
    for effect in sorted(each, key=lambda name: -each[name].mape):
        e, kept = each[effect], a.without[effect]
        yield {
            "kernel": label, "files": ", ".join(a.part.files), "how": how(a.part), "effect": effect,
            "mape": e.mape, "costs": e.mape - whole.mape, "spearman": e.spearman, "regret": e.regret[1],
            "worst_regret": e.worst_regret, "regret_costs": e.regret[1] - whole.regret[1], "kept_mape": kept.mape,
            "kept_costs": kept.mape - a.whole.mape, "kept_regret": kept.regret[1], "idle": effect in a.idle,
        }  # fmt: skip


def buys_nothing(row: dict[str, Any]) -> bool:
    """Whether an effect that moves some row buys neither error nor pick."""
    little = row["costs"] <= LEAST_MAPE and not row["regret_costs"] > LEAST_REGRET
    return bool(little and not row["idle"])
