"""The tables of a study of picks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsim.ranking import cublas
from gemmsim.report import errors
from gemmsim.report.table import Column, Table, slug, table
from gemmsim.report.units import sizes
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Candidate, Outcome
from gemmsim.study.recorded import DEFAULTS, EXTRAPOLATED, Recorded
from gemmsim.study.timed import Timed
from gemmsim.study.workload import Work

_PICKS = (
    Column("gpu", "GPU"),
    Column("gemm", "GEMM"),
    Column("nk", "NxK"),
    Column("config", "tile"),
    Column("time_s", "time", "s"),
    Column("flops_per_s", "TFLOP/s", "tera"),
    Column("peak_share", "of peak", "1"),
    Column("bound_by", "bound"),
    Column("basis", "basis"),
)


def all_picks(outcome: Outcome) -> Table:
    """The fastest predicted configuration of each GEMM on each GPU, every variant."""
    shown = (Column("variant", "variant"), *_picked(outcome.study))
    picked = [c for variant in outcome.study.variants for c in outcome.picks if c.variant == variant]
    return table("picks", "Picks", shown, [_pick(c) for c in picked], *_bases(outcome))


def picks(outcome: Outcome, variant: str) -> Table:
    """The fastest predicted configuration of each GEMM on each GPU."""
    rows = [_pick(c) for c in outcome.picks if c.variant == variant]
    return table(f"picks_{slug(variant)}", f"Picks: {label(outcome.study, variant)}", _picked(outcome.study), rows)


def _bases(outcome: Outcome) -> list[str]:
    """What `basis` means for the GPUs at hand."""
    names = {
        b: ", ".join(dict.fromkeys(c.gpu for c in outcome.picks if c.basis == b)) for b in (DEFAULTS, EXTRAPOLATED)
    }
    notes = []
    if names[DEFAULTS]:
        notes.append(
            f"{names[DEFAULTS]}: uncalibrated. No rows were measured there; physical defaults are scaled from the "
            "chip's own figures."
        )
    if names[EXTRAPOLATED]:
        notes.append(f"{names[EXTRAPOLATED]}: extrapolated where M, N, K or the tile lies outside the fitted rows.")
    return notes


def shortlist(outcome: Outcome) -> Table:
    """Every candidate: the picks and those after them."""
    shown = (Column("variant", "variant"), Column("rank", "rank"), *_picked(outcome.study), Column("tied", "tied"))
    return table(
        "shortlist", f"First {outcome.study.top} a GEMM and GPU", shown, [_pick(c) for c in outcome.candidates]
    )


def _picked(study: PicksStudy) -> list[Column]:
    """Family and dtype only where there is more than one."""
    kernels = [Column("family", "kernel")] if len(study.spaces) > 1 else []
    dtypes = [Column("dtype", "dtype")] if len(study.dtypes) > 1 else []
    return [*_PICKS[:3], *dtypes, *kernels, *_PICKS[3:]]


def _pick(c: Candidate) -> dict[str, Any]:
    return {
        "variant": c.variant, "gemm": c.gemm, "m": c.m, "n": c.n, "k": c.k, "size": f"{c.m} x {c.n} x {c.k}",
        "nk": f"{c.n}x{c.k}",
        "count": c.count, "gpu": c.gpu, "dtype": c.dtype, "rank": c.rank, "family": c.family, "config": c.config,
        "time_s": c.time_s, "pass_s": c.time_s * c.count, "flops_per_s": c.flops_per_s, "peak_share": c.peak_share,
        "bound_by": c.bound_by, "blocks_per_sm": c.blocks_per_sm, "waves": c.waves, "dram_bytes": c.dram_bytes,
        "basis": c.basis, "calibration": c.calibration, "extrapolated": c.extrapolated, "tied": c.tied,
        "searched": c.searched,
    }  # fmt: skip


def plan(study: PicksStudy) -> Table:
    """The GEMMs of a study."""
    shown = (
        Column("variant", "variant"), Column("gemm", "GEMM"), Column("size", "M x N x K"), Column("count", "launches"),
        Column("flops", "a launch", "FLOP"), Column("pass_flops", "a pass", "FLOP"),
    )  # fmt: skip
    rows = [
        {"variant": w.variant, "gemm": w.name, "size": f"{w.m} x {w.n} x {w.k}", "m": w.m, "n": w.n, "k": w.k,
         "count": w.count, "flops": w.flops, "pass_flops": w.flops * w.count}
        for w in study.works
    ]  # fmt: skip
    return table("plan", f"GEMMs of {study.subject}", shown, rows)


def totals(outcome: Outcome) -> Table:
    """One pass a variant and GPU: the picks' times times their counts."""
    shown = (
        Column("variant", "variant"), Column("gpu", "GPU"), Column("flops", "work", "FLOP"),
        Column("time_s", "time", "s"), Column("flops_per_s", "TFLOP/s", "tera"), Column("peak_share", "of peak", "1"),
        Column("bounds", "bound, by share of time"), Column("basis", "basis"),
    )  # fmt: skip
    study = outcome.study
    rows = [
        _total(study, variant, gpu.name, dtype, gpu.peak_flops(dtype), outcome.picks)
        for variant in study.variants for dtype in study.dtypes for gpu in study.gpus
    ]  # fmt: skip
    note = "GEMMs only, each launch on its own: attention's products, elementwise kernels and gaps are not in it."
    return table("totals", "One forward pass", shown, rows, note)


def _total(
    study: PicksStudy, variant: str, gpu: str, dtype: str, peak: float | None, picked: Sequence[Candidate]
) -> dict[str, Any]:
    mine = [c for c in picked if (c.variant, c.gpu, c.dtype) == (variant, gpu, dtype)]
    seconds, flops = sum(c.time_s * c.count for c in mine), study.flops(variant)
    shares: dict[str, float] = {}
    for c in mine:
        shares[c.bound_by] = shares.get(c.bound_by, 0) + c.time_s * c.count / seconds
    bounds = ", ".join(f"{name} {100 * s:.0f} %" for name, s in sorted(shares.items(), key=lambda x: -x[1]))
    return {
        "variant": variant, "gpu": gpu, "dtype": dtype, "flops": flops, "time_s": seconds,
        "flops_per_s": flops / seconds, "peak_share": flops / seconds / peak if peak else None, "bounds": bounds,
        "basis": ", ".join(dict.fromkeys(c.basis for c in mine)),
    }  # fmt: skip


def speedups(outcome: Outcome) -> Table:
    """Each GPU against the one before it, with the figures of the chip that make it so."""
    shown = (
        Column("variant", "variant"), Column("pair", "GPUs"), Column("old_s", "older", "s"),
        Column("new_s", "newer", "s"), Column("ratio", "speed-up", "x"), Column("reason", "because of"),
        Column("basis", "basis"),
    )  # fmt: skip
    rows = [
        {"variant": s.variant, "pair": f"{s.new} / {s.old}", "dtype": s.dtype, "old_s": s.old_s, "new_s": s.new_s,
         "ratio": s.ratio, "reason": s.reason, "basis": s.basis}
        for s in outcome.speedups
    ]  # fmt: skip
    notes = [
        "Because of: what each group of figures is due of the speed-up (Shapley's value, as in gemmsim compare): all "
        "factors, those near 1 among them, multiply to it."
    ]
    if any(s.basis == DEFAULTS for s in outcome.speedups) and any(c.basis != DEFAULTS for c in outcome.picks):
        notes.append(
            "Basis defaults: where not both GPUs are fitted, both times use the physical defaults, so that the ratio "
            "compares chips and not fits; those times differ from the table of one forward pass."
        )
    return table("speedups", "What the newer card buys", shown, rows, *notes)


def at_hand(outcome: Outcome) -> Table:
    """GEMMs of the study whose shape has measured rows: the model's choice among them against the best of them."""
    measured = (*outcome.timed, *outcome.recorded)
    shown = (
        Column("name", "GEMM"), *([Column("gpu", "GPU")] if len({r.rows.gpu.name for r in measured}) > 1 else []),
        Column("source", "rows of"), Column("rows", "tiles"), Column("pick", "model's choice"),
        Column("predicted_s", "predicted", "s"),
        Column("measured_s", "measured", "s"), Column("regret", "regret", "1"), Column("cublas_s", "cuBLAS", "s"),
        Column("best", "best timed"), Column("best_s", "measured", "s"),
    )  # fmt: skip
    rows = [row for r in measured for w in outcome.study.works if (row := _hand(r, w))]
    note = (
        "The times of a line were measured under the same conditions. The choice is among the tiles timed for that "
        "shape, not all of them."
    )
    return table("at_hand", "GEMMs of this study that were timed", shown, rows, note)


def _hand(r: Recorded, w: Work) -> dict[str, Any] | None:
    problem, gpu, measured_s = r.rows.problem, r.rows.gpu.name, r.rows.time_s
    same = (problem.m == w.m) & (problem.n == w.n) & (problem.k == w.k) & r.prediction.feasible
    rows = np.flatnonzero(same)
    if not len(rows):
        return None
    pick, best = (int(rows[np.argmin(t[rows])]) for t in (r.prediction.time_s, measured_s))
    keys = r.keys()
    return {
        "gpu": gpu, "kernel": r.kernel, "file": r.file, "source": _source(r), "l2": r.rows.l2,
        "variant": w.variant, "gemm": w.name,
        "name": f"{w.variant} {w.name}", "size": f"{w.m} x {w.n} x {w.k}", "rows": len(rows), "pick": keys[pick],
        "predicted_s": float(r.prediction.time_s[pick]), "measured_s": float(measured_s[pick]), "best": keys[best],
        "best_s": float(measured_s[best]), "regret": float(measured_s[pick] / measured_s[best] - 1),
        "cublas_s": _library(r, w, pick),
    }  # fmt: skip


def _source(r: Recorded) -> str:
    """Whose rows they are, in a word."""
    return "this machine" if isinstance(r, Timed) else r.file.partition(".")[0]


def _library(r: Recorded, w: Work, row: int) -> float | None:
    """cuBLAS's time: in turn with the row if it was timed so, else a recorded one in the same L2 condition."""
    if isinstance(r, Timed) and np.isfinite(r.cublas_s[row]):
        return float(r.cublas_s[row])
    found = cublas(r.rows.gpu.name, r.rows.problem.dtype, w.m, w.n, w.k, r.rows.l2)
    return found.time_s if found and found.l2 == r.rows.l2 else None


def terms(outcome: Outcome) -> Table:
    """What the time of each pick is made of, a row a pick and term; the rows of a pick add up to its time."""
    shown = (
        Column("variant", "variant"), Column("gpu", "GPU"), Column("gemm", "GEMM"), Column("config", "tile"),
        Column("term", "term"), Column("time_s", "part", "s"),
    )  # fmt: skip
    several = len(outcome.study.dtypes) > 1
    rows = [
        {"variant": c.variant, "gpu": c.gpu, "gemm": c.gemm, "dtype": c.dtype, "config": c.config,
         "label": f"{c.gemm}, {c.gpu}" + (f", {c.dtype}" if several else ""), "term": term, "time_s": time_s}
        for c, parts in zip(outcome.picks, outcome.parts, strict=True) for term, time_s in parts.items()
    ]  # fmt: skip
    return table("terms", "What the picks' times are made of", shown, rows)


def of_variant(whole: Table, variant: str) -> Table:
    """The rows of a variant, GEMM by GEMM."""
    rows = [r for r in whole.rows() if r["variant"] == variant]
    order = list(dict.fromkeys(r["gemm"] for r in rows))
    return table(
        f"{whole.name}_{slug(variant)}", whole.title, whole.shown, sorted(rows, key=lambda r: order.index(r["gemm"]))
    )


def tables(outcome: Outcome) -> dict[str, Table]:
    """Every table that is more than a part of another, by its name in JSON; those without rows are left out."""
    found = {"picks": all_picks(outcome), "totals": totals(outcome), "speedups": speedups(outcome)}
    if outcome.recorded:
        found["errors"] = errors.errors(outcome.recorded)
    points = errors.points([*outcome.timed, *outcome.recorded])
    found |= {"timed": at_hand(outcome), "points": points, "candidates": shortlist(outcome), "terms": terms(outcome)}
    return {name: one for name, one in found.items() if len(one)}


def label(study: PicksStudy, variant: str) -> str:
    """A variant as a heading: prefill, M = 2048."""
    return f"{variant}, {sizes('M', (w.m for w in study.works if w.variant == variant))}"
