"""The tables of a study of evidence: errors by kernel and class of shape, regrets, coverage, worst and best rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gemmsim.hardware import Gpu
from gemmsim.model.intervals import CLASSES
from gemmsim.report.table import Column, Table, Telling, largest, table
from gemmsim.study.evidence.judged import Evidence, Judged, Ranking
from gemmsim.study.recorded import DEFAULTS, FITTED, NEW, Recorded

#: an error is called small up to this
NEAR = 0.10
WORST = 20
_ERRORS = (
    Column("rows", "rows"), Column("mape", "MAPE", "1"), Column("median", "median", "1"), Column("p90", "p90", "1"),
    Column("bias", "bias", "1"), Column("near", "within 10 %", "1"),
)  # fmt: skip
#: in the order in which people read them
BASES = (FITTED, NEW, DEFAULTS)
SHAPE_CLASSES = ("small", "skinny", "deep", "shallow", "large")


def files(recorded: Sequence[Recorded]) -> Table:
    """A row a file."""
    shown = (Column("file", "file"), Column("gpu", "GPU"), Column("kernel", "kernel"), Column("rows", "rows"),
             Column("l2", "L2"), Column("basis", "basis"))  # fmt: skip
    rows = [{"file": r.file, "gpu": r.rows.gpu.name, "kernel": r.kernel, "rows": len(r.rows), "l2": r.rows.l2,
             "basis": r.basis} for r in recorded]  # fmt: skip
    return table("files", "Recorded rows", shown, rows)


def error_figures(rows: Judged) -> dict[str, float | int]:
    """Figures of |predicted / measured - 1| and the median without its sign; shares."""
    off = np.abs(rows.off)
    return {"rows": len(rows), "mape": float(off.mean()), "median": float(np.median(off)),
            "p90": float(np.quantile(off, 0.9)), "bias": float(np.median(rows.off)),
            "near": float((off <= NEAR).mean())}  # fmt: skip


def kernels(found: Evidence) -> Table:
    """A row a kernel and basis: errors of its rows, how many lie in the interval, and what its picks lose."""
    rows = []
    for kernel, basis, some in _groups(found.rows, "kernel", "basis"):
        ranked = [r for r in found.rankings if (r.kernel, r.basis) == (kernel, basis)]
        rows.append({"kernel": kernel, "basis": basis, **error_figures(some), "inside": float(some.inside.mean()),
                     **regret_figures(ranked)})  # fmt: skip
    shown = (
        Column("kernel", "kernel"), Column("basis", "basis"), *_ERRORS, Column("inside", "in 80 % interval", "1"),
        Column("shapes", "shapes"), Column("median_regret", "median regret", "1"),
        Column("mean_regret", "mean regret", "1"), Column("mean_regret_of_5", "best of 5", "1"),
    )  # fmt: skip
    notes = (
        "Basis fitted: the coefficients come from these very rows: a fit, not a forecast. Not fitted on: the "
        "coefficients come from other files.",
        "Shapes: problems of a file with enough tiles timed to be ranked; regret: of the model's first pick, against "
        "the best tile timed; best of 5: mean, the best of its first five.",
    )
    return table("kernels", "Errors and regret by kernel", shown, rows, *notes)


def regret_figures(ranked: Sequence[Ranking]) -> dict[str, float | int | None]:
    """Median and mean of what the first pick loses, and mean of the best of five; None where nothing is ranked."""
    first, five = ([getattr(r, name) for r in ranked] for name in ("regret", "regret_of_5"))
    return {
        "shapes": len(ranked), "median_regret": float(np.median(first)) if ranked else None,
        "mean_regret": float(np.mean(first)) if ranked else None,
        "mean_regret_of_5": float(np.mean(five)) if ranked else None,
    }  # fmt: skip


def classes(found: Evidence) -> Table:
    """A row a kernel and class of shape."""
    place = {name: i for i, name in enumerate(SHAPE_CLASSES)}
    rows = [
        {"kernel": kernel, "shape_class": name, **error_figures(some)}
        for kernel, name, some in _groups(found.rows, "kernel", "shape_class")
    ]
    rows.sort(key=lambda r: (str(r["kernel"]), place[str(r["shape_class"])]))
    shown = (Column("kernel", "kernel"), Column("shape_class", "shape"), *_ERRORS)
    worst = Telling(largest([float(r["mape"]) for r in rows]), "the largest errors on average first")
    return table("classes", "Errors by class of shape", shown, rows, telling=worst)


def coverage(found: Evidence) -> Table:
    """A row a basis and kind of case, as intervals tell them apart: the share of rows in their 80 % interval."""
    place = {name: i for i, name in enumerate(CLASSES)}
    rows = []
    for basis, kind, some in _groups(found.rows, "basis", "kind"):
        width = (some.high_s - some.low_s) / some.predicted_s
        rows.append({
            "basis": basis, "kind": kind, "rows": len(some), "inside": float(some.inside.mean()),
            "below": float((some.measured_s < some.low_s).mean()),
            "above": float((some.measured_s > some.high_s).mean()), "width": float(np.median(width)),
        })  # fmt: skip
    rows.sort(key=lambda r: (str(r["basis"]), place[str(r["kind"])]))
    shown = (
        Column("basis", "basis"), Column("kind", "case"), Column("rows", "rows"), Column("inside", "inside", "1"),
        Column("below", "faster", "1"), Column("above", "slower", "1"), Column("width", "width / time", "1"),
    )  # fmt: skip
    note = "Faster, slower: measured below, above the interval. Width: median, over the predicted time."
    return table("coverage", "Rows inside their 80 % interval", shown, rows, note)


def regrets(found: Evidence) -> Table:
    """A row a problem of a file, what is lost most first."""
    shown = (
        Column("kernel", "kernel"), Column("file", "rows of"), Column("basis", "basis"), Column("size", "M x N x K"),
        Column("shape_class", "shape"), Column("configurations", "tiles timed"), Column("regret", "regret", "1"),
        Column("regret_of_5", "best of 5", "1"), Column("picked", "picked"), Column("picked_s", "measured", "s"),
        Column("best", "best timed"), Column("best_s", "measured", "s"),
    )  # fmt: skip
    ranked = sorted(found.rankings, key=lambda r: -r.regret)
    rows = [{**asdict(r), "file": r.file.split(".")[0], "size": f"{r.m} x {r.n} x {r.k}"} for r in ranked]
    return table("regrets", "Regret of each shape", shown, rows)


_ROW = (
    Column("kernel", "kernel"), Column("file", "rows of"), Column("size", "M x N x K"), Column("config", "tile"),
    Column("measured_s", "measured", "s"), Column("predicted_s", "predicted", "s"), Column("error", "error", "1"),
    Column("hard", "what is hard"), Column("basis", "basis"),
)  # fmt: skip


def worst(found: Evidence) -> Table:
    """The rows that are predicted worst, by the larger of predicted over measured and its inverse."""
    order = np.argsort(-np.abs(np.log1p(found.rows.off)), kind="stable")[:WORST]
    return table("worst", f"The {len(order)} rows that are predicted worst", _ROW, list(_rows(found.rows.take(order))))


def rows(found: Evidence) -> Table:
    """Every row beside its prediction."""
    return table("rows", "Rows", _ROW, list(_rows(found.rows)))


def drawn(found: Evidence, family: str, most: int) -> Table:
    """Rows of a family as a chart of predicted against measured reads them; of each kernel at most so many."""
    mine = np.flatnonzero(found.rows.family == family)
    groups = [mine[found.rows.kernel[mine] == name] for name in np.unique(found.rows.kernel[mine])]
    kept = [some[np.argsort(found.rows.measured_s[some])][:: -(-len(some) // most)] for some in groups]
    return table("drawn", "Rows", _ROW, list(_rows(found.rows.take(np.concatenate(kept)))))


def _rows(r: Judged) -> Iterator[dict[str, Any]]:
    hard = np.where(r.spills, "spills", np.where(r.aligned, "", "unaligned N or K"))
    names = {"gpu": r.gpu, "kernel": r.kernel, "file": r.file, "m": r.m, "n": r.n, "k": r.k, "config": r.tile,
             "measured_s": r.measured_s, "predicted_s": r.predicted_s, "low_s": r.low_s, "high_s": r.high_s,
             "error": r.off, "shape_class": r.shape_class, "kind": r.kind, "hard": hard, "basis": r.basis}  # fmt: skip
    for values in zip(*(column.tolist() for column in names.values()), strict=True):
        row = dict(zip(names, values, strict=True))
        yield {**row, "file": row["file"].split(".")[0], "size": f"{row['m']} x {row['n']} x {row['k']}"}


def best(found: Evidence) -> Table:
    """The fastest measured row of each kernel and shape, on the axes of a roofline."""
    r = found.rows
    order = np.argsort(r.measured_s, kind="stable")
    key = np.stack([np.unique(x[order], return_inverse=True)[1].ravel() for x in (r.gpu, r.kernel, r.m, r.n, r.k)])
    first = order[np.sort(np.unique(key, axis=1, return_index=True)[1])]
    some = r.take(first)
    columns = {
        "gpu": some.gpu, "kernel": some.kernel, "family": some.family, "dtype": some.dtype, "m": some.m, "n": some.n,
        "k": some.k, "config": some.tile, "measured_s": some.measured_s,
        "flops_per_s": some.flops / some.measured_s, "intensity": some.flops / some.compulsory_bytes,
    }  # fmt: skip
    shown = (
        Column("kernel", "kernel"), Column("size", "M x N x K"), Column("config", "tile"),
        Column("measured_s", "measured", "s"), Column("flops_per_s", "rate", "FLOP/s"),
        Column("intensity", "FLOP/B"),
    )  # fmt: skip
    cells = [dict(zip(columns, v, strict=True)) for v in zip(*(c.tolist() for c in columns.values()), strict=True)]
    cells = [{**c, "size": f"{c['m']} x {c['n']} x {c['k']}"} for c in cells]
    cells.sort(key=lambda c: (c["kernel"], -c["flops_per_s"]))
    return table("best", "Fastest measured row of each kernel and shape", shown, cells)


def roofs(gpus: Sequence[Gpu], fastest: Table) -> Table:
    """Of each GPU and dtype: dense peak, DRAM bandwidth, the ridge between them, and the fastest row beneath."""
    shown = (
        Column("gpu", "GPU"), Column("dtype", "dtype"), Column("peak_flops_per_s", "dense peak", "FLOP/s"),
        Column("dram_bytes_per_s", "memory", "B/s"), Column("ridge", "ridge, FLOP/B"),
        Column("kernel", "fastest kernel"), Column("flops_per_s", "its rate", "FLOP/s"),
        Column("share", "of peak", "1"),
    )  # fmt: skip
    cells, lines = fastest.rows(), []
    for gpu in gpus:
        for dtype in dict.fromkeys(c["dtype"] for c in cells if c["gpu"] == gpu.name):
            peak = gpu.peak_flops(dtype) or float("nan")
            top = max((c for c in cells if (c["gpu"], c["dtype"]) == (gpu.name, dtype)), key=lambda c: c["flops_per_s"])
            lines.append({
                "gpu": gpu.name, "dtype": dtype, "peak_flops_per_s": peak, "dram_bytes_per_s": gpu.dram_bytes_per_s,
                "ridge": peak / gpu.dram_bytes_per_s, "kernel": top["kernel"], "flops_per_s": top["flops_per_s"],
                "share": top["flops_per_s"] / peak,
            })  # fmt: skip
    return table("roofs", "Roofs, and the fastest row under each", shown, lines)


def held_out(found: Evidence) -> list[tuple[str, int, float, float]]:
    """Of each fitted kernel: plain rows fitted on, their error now, and what the calibration file says of it held out.

    Plain: no spills, N and K aligned. Kernels whose file says nothing of rows held out are left out.
    """
    r, out = found.rows, []
    plain = ~r.spills & r.aligned & (r.basis == FITTED)
    for kernel in dict.fromkeys(x.kernel for x in found.recorded if x.basis == FITTED):
        fit = next(x.fit() for x in found.recorded if x.kernel == kernel and x.basis == FITTED)
        said = (fit.get("held_out") or {}).get("of", {}).get("no spills, aligned", {}).get("mape_pct")
        mine = r.take(plain & (r.kernel == kernel))
        if said is not None and len(mine):
            out.append((kernel, len(mine), float(np.abs(mine.off).mean()), said / 100))
    return out


def _groups(r: Judged, *names: str) -> Iterator[tuple[str, str, Judged]]:
    """The rows of each pair of values of two columns, in the order of the names."""
    first, second = (getattr(r, name) for name in names)
    for a in np.unique(first):
        for b in np.unique(second[first == a]):
            yield str(a), str(b), r.take((first == a) & (second == b))
