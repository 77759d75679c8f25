"""The tables of a study of searches: what each sampler needs, and the curves that are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gemmsim.report.table import Column, Table, table
from gemmsim.study.search import DONE, Curve

#: trials after which a table has the mean regret
SHOWN = (1, 5, 10, 20)


def summary(curves: Sequence[Curve]) -> Table:
    """A row a kernel and sampler: trials until half and nine tenths of the searches are done, and mean regret."""
    after = tuple(n for n in SHOWN if n <= min(len(c.mean) for c in curves))
    shown = (
        Column("rows", "rows"), Column("sampler", "sampler"), Column("searches", "searches"),
        Column("median_trials", "trials to 1 %"), Column("p90_trials", "90th percentile"),
        *(Column(f"regret_{n}", f"regret after {n}", "1") for n in after),
    )  # fmt: skip
    rows = [
        {"rows": c.rows, "sampler": c.sampler, "searches": c.searches, "median_trials": c.trials_to(0.5),
         "p90_trials": c.trials_to(0.9), **{f"regret_{n}": float(c.mean[n - 1]) for n in after}}
        for c in curves
    ]  # fmt: skip
    most = max(len(c.mean) for c in curves)
    return table("searches", "Trials that a search needs", shown, rows, f"-: more than {most} trials.")


def verdict(curves: Sequence[Curve]) -> Iterator[str]:
    """How many trials each sampler needs, a sentence a kernel; variants, named after a comma, are left out."""
    for rows in dict.fromkeys(c.rows for c in curves):
        mine = [c for c in curves if c.rows == rows and "," not in c.sampler]
        needs = "; ".join(f"{c.sampler}, {_trials(c)}" for c in mine)
        yield f"{rows}, searches that are within {100 * DONE:g} % of the best: {needs}."


def _trials(curve: Curve) -> str:
    """After how many trials half and nine tenths of the searches are done."""
    half, most = curve.trials_to(0.5), curve.trials_to(0.9)
    if half is None:
        return f"fewer than half after {len(curve.mean)} trials"
    return f"half after {half} trial{'s' * (half > 1)}{f', nine tenths after {most}' if most else ''}"


def points(curves: Sequence[Curve]) -> Table:
    """A row a trial of each curve."""
    shown = (
        Column("rows", "rows"), Column("sampler", "sampler"), Column("trial", "trial"),
        Column("mean_regret", "mean regret", "1"), Column("median_regret", "median regret", "1"),
        Column("done_share", "searches within 1 %", "1"),
    )  # fmt: skip
    rows = [
        {"rows": c.rows, "sampler": c.sampler, "trial": i + 1, "mean_regret": float(c.mean[i]),
         "median_regret": float(c.median[i]), "done_share": float(c.done_share[i])}
        for c in curves for i in range(len(c.mean))
    ]  # fmt: skip
    return table("curves", "Regret against trials", shown, rows)
