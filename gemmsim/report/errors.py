"""Recorded rows beside their predictions, as tables: errors a file, and every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gemmsim.report.table import Column, Table, table
from gemmsim.study.recorded import FITTED, Recorded
from gemmsim.validate import score

#: slices of gemmsim.validate that the report shows
_SLICES = ("no spills, aligned", "spills", "unaligned N or K")


def errors(recorded: Sequence[Recorded]) -> Table:
    """Errors of the recorded rows a file, what is hard apart; below them the error held out of each fit."""
    shown = (
        Column("file", "rows of"), Column("which", "which"), Column("rows", "rows"), Column("shapes", "shapes"),
        Column("mape", "MAPE", "1"), Column("median", "median", "1"), Column("p90", "p90", "1"),
        Column("spearman", "Spearman", "rho"), Column("regret", "regret", "1"), Column("basis", "basis"),
    )  # fmt: skip
    rows = [row for r in recorded for row in _errors(r)]
    fits = {r.kernel: r for r in recorded if r.fit().get("held_out")}
    for r in fits.values():
        rows += [_held_out(r, which, figures) for which, figures in r.fit()["held_out"]["of"].items()]
    return table("errors", "Predicted against measured: errors", shown, rows, *_trust(recorded))


def _errors(r: Recorded) -> list[dict[str, Any]]:
    found = score(r.rows, r.prediction.calibration, wanted=_SLICES)
    return [
        {"gpu": r.rows.gpu.name, "kernel": r.kernel, "file": r.file.split(".")[0], "which": name, "rows": e.rows,
         "shapes": e.shapes, "mape": e.mape, "median": e.median, "p90": e.p90, "spearman": e.spearman,
         "regret": e.regret[1], "basis": r.basis}
        for name, e in found.items()
    ]  # fmt: skip


def _held_out(r: Recorded, which: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """The error that the calibration file says its fit had on rows kept from it."""

    def share(key: str) -> float | None:
        return said[key] / 100 if isinstance(said.get(key), int | float) else None

    return {
        "gpu": r.rows.gpu.name, "kernel": r.kernel, "file": r.kernel, "which": which, "rows": None, "shapes": None,
        "mape": share("mape_pct"), "median": share("median_pct"), "p90": share("p90_pct"),
        "spearman": said.get("spearman"), "regret": share("top1_regret_pct"), "basis": "held out",
    }  # fmt: skip


def _trust(recorded: Sequence[Recorded]) -> list[str]:
    if not recorded:
        return []
    files = ", ".join(f"{r.file} ({len(r.rows):,} rows, {r.rows.l2})" for r in recorded)
    notes = [
        f"Rows: {files}, recorded on {', '.join(sorted({r.rows.gpu.name for r in recorded}))}. Predicted in the rows' "
        "own L2 condition, with the compiler's registers, spills and shared memory."
    ]
    if any(r.basis == FITTED for r in recorded):
        notes.append(
            "Basis fitted: the coefficients come from these very rows, so those lines say how well the model fits, not "
            "how well it foretells. Held out: fits on half of the configurations x half of the shapes, scored on "
            "configurations and shapes they never saw. README says more."
        )
    return notes


def points(recorded: Sequence[Recorded]) -> Table:
    """Every recorded row beside its prediction."""
    shown = (
        Column("kernel", "kernel"), Column("size", "M x N x K"), Column("config", "tile"),
        Column("measured_s", "measured", "s"), Column("predicted_s", "predicted", "s"), Column("error", "error", "1"),
    )  # fmt: skip
    rows = [row for r in recorded for row in _points(r)]
    return table("predicted_against_measured", "Predicted against measured: rows", shown, rows)


def _points(r: Recorded) -> list[dict[str, Any]]:
    p = r.rows.problem
    numbers = (x.tolist() for x in (p.m, p.n, p.k, r.rows.time_s, r.prediction.time_s))
    return [
        {"gpu": r.rows.gpu.name, "kernel": r.kernel, "file": r.file, "l2": r.rows.l2, "m": m, "n": n, "k": k,
         "size": f"{m} x {n} x {k}", "config": key, "measured_s": t, "predicted_s": s, "error": s / t - 1,
         "reason": reason}
        for m, n, k, t, s, key, reason in zip(*numbers, r.keys(), r.prediction.reasons, strict=True)
    ]  # fmt: skip
