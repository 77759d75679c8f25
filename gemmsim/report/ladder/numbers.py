"""The tables of a study of a ladder: every rung, what each step buys, where it ends, how far predictions are off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from gemmsim.model.parts import OTHER
from gemmsim.report.table import Column, Table, table
from gemmsim.report.units import percent, span
from gemmsim.study.ladder import Ladder, LadderStudy, Rung

_RUNG = (
    Column("stage", "stage"), Column("dtype", "type"), Column("flops_per_s", "TFLOP/s", "tera"),
    Column("share", "of cuBLAS", "1"), Column("quoted", "quoted", "1"),
    Column("predicted_flops_per_s", "predicted", "tera"), Column("error", "error", "1"),
    Column("bound_by", "bound"), Column("blocks_per_sm", "blocks/SM"), Column("threads", "threads"),
    Column("regs_per_thread", "regs"), Column("smem_bytes", "smem", "B"),
)  # fmt: skip


def rungs(study: LadderStudy, ladder: Ladder) -> Table:
    """Every stage at every shape: measured, against the library, predicted, bound and resources."""
    rows = [_rung(r, study.quoted.get(r.stage)) for shape in ladder.shapes for r in ladder.rungs if r.shape == shape]
    return table("rungs", "All stages", (Column("shape", "M x N x K"), *_RUNG), rows)


def _rung(r: Rung, quoted: float | None) -> dict[str, Any]:
    return {
        "shape": r.shape, "m": r.m, "n": r.n, "k": r.k, "stage": r.stage, "dtype": r.dtype, "family": r.family,
        "config": r.config, "time_s": r.time_s, "flops_per_s": r.flops / r.time_s, "library_s": r.library_s,
        "library_flops_per_s": r.flops / r.library_s, "share": r.library_s / r.time_s, "quoted": quoted,
        "predicted_s": r.predicted_s, "predicted_flops_per_s": r.flops / r.predicted_s,
        "predicted_share": r.library_s / r.predicted_s, "error": r.predicted_s / r.time_s - 1, "bound_by": r.bound_by,
        "blocks_per_sm": r.blocks_per_sm, "threads": r.threads, "regs_per_thread": r.regs_per_thread,
        "smem_bytes": r.smem_bytes, "extrapolated": r.extrapolated, "basis": r.basis, "unstable": r.unstable,
    }  # fmt: skip


def step_points(ladder: Ladder) -> Table:
    """Every step at every shape: how many times faster than the stage before, measured and predicted."""
    rows = [
        {"stage": b.stage, "after": a.stage, "dtype": b.dtype, "shape": b.shape, "measured": a.time_s / b.time_s,
         "predicted": a.predicted_s / b.predicted_s}
        for a, b in ladder.steps()
    ]  # fmt: skip
    shown = (Column("stage", "step to"), Column("after", "from"), Column("dtype", "type"), Column("shape", "M x N x K"),
             Column("measured", "measured", "x"), Column("predicted", "predicted", "x"))  # fmt: skip
    return table("step_points", "Every step at every shape", shown, rows)


def steps(ladder: Ladder) -> Table:
    """A row a step: the geometric mean of its factor over the shapes, and its range."""
    shown = (
        Column("stage", "step to"), Column("dtype", "type"), Column("shapes", "shapes"),
        Column("measured", "measured", "x"), Column("least", "least", "x"), Column("most", "most", "x"),
        Column("predicted", "predicted", "x"), Column("right", "direction right"),
    )  # fmt: skip
    points = step_points(ladder).rows()
    rows = []
    for dtype, after, stage in dict.fromkeys((p["dtype"], p["after"], p["stage"]) for p in points):
        mine = [p for p in points if (p["dtype"], p["after"], p["stage"]) == (dtype, after, stage)]
        measured, predicted = ([p[key] for p in mine] for key in ("measured", "predicted"))
        right = sum((a > 1) == (b > 1) for a, b in zip(measured, predicted, strict=True))
        rows.append({
            "stage": stage, "after": after, "dtype": dtype, "shapes": len(mine), "measured": geomean(measured),
            "least": min(measured), "most": max(measured), "predicted": geomean(predicted), "right": right,
        })  # fmt: skip
    note = (
        "Time of the stage before over time of this one at the same shape, geometric mean over the shapes that both "
        "were timed at, with the least and the most. Direction right: at so many of them the model has the step "
        "faster or slower as it was measured."
    )
    return table("steps", "What each step buys", shown, rows, note)


def ends(ladder: Ladder) -> Table:
    """A row a shape and type: the fastest stage against the library, and the one that is predicted to be fastest."""
    shown = (
        Column("dtype", "type"), Column("shape", "M x N x K"), Column("stage", "fastest stage"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("library_flops_per_s", "cuBLAS", "tera"),
        Column("share", "of cuBLAS", "1"), Column("said", "predicted to be fastest"), Column("regret", "loses", "1"),
    )  # fmt: skip
    rows = []
    for dtype in ladder.dtypes:
        for shape in ladder.shapes:
            if mine := ladder.of(shape, dtype):
                best, said = min(mine, key=lambda r: r.time_s), min(mine, key=lambda r: r.predicted_s)
                rows.append({
                    "dtype": dtype, "shape": shape, "stage": best.stage, "flops_per_s": best.flops / best.time_s,
                    "library_flops_per_s": best.flops / best.library_s, "share": best.library_s / best.time_s,
                    "said": said.stage, "regret": said.time_s / best.time_s - 1,
                })  # fmt: skip
    note = "All measured but the stage predicted to be fastest. Loses: how much slower that one is than the fastest."
    return table("ends", "Where the ladder ends", shown, rows, note)


@dataclass(frozen=True)
class Order:
    """Pairs of stages of one shape and type: how many the model has in the measured order, and the worst it has not.

    worst: how much faster the faster of the two was measured.
    """

    pairs: int
    right: int
    worst: float
    what: str


def order(some: Iterable[list[Rung]]) -> Order:
    """The pairs within each of these lists."""
    pairs = [pair for mine in some for pair in combinations(mine, 2)]
    wrong = [(a, b) for a, b in pairs if (a.time_s < b.time_s) != (a.predicted_s < b.predicted_s)]
    apart = {i: max(a.time_s, b.time_s) / min(a.time_s, b.time_s) - 1 for i, (a, b) in enumerate(wrong)}
    worst = max(apart, key=lambda i: apart[i], default=None)
    a, b = wrong[worst] if worst is not None else (None, None)
    what = f'"{a.stage}" and "{b.stage}" at {a.shape}' if a and b else ""
    return Order(len(pairs), len(pairs) - len(wrong), 0.0 if worst is None else apart[worst], what)


def errors(ladder: Ladder) -> Table:
    """How far predicted times are off a type, and how many pairs of stages are in the measured order."""
    shown = (
        Column("dtype", "type"), Column("rows", "rows"), Column("mape", "mean error", "1"),
        Column("median", "median", "1"), Column("worst", "worst", "1"), Column("at", "worst at"),
        Column("pairs", "pairs"), Column("right", "in the right order"), Column("basis", "basis"),
    )  # fmt: skip
    rows = []
    for dtype in ladder.dtypes:
        mine = [r for r in ladder.rungs if r.dtype == dtype]
        off = np.asarray([abs(r.predicted_s / r.time_s - 1) for r in mine])
        worst, pairs = mine[int(off.argmax())], order(ladder.of(shape, dtype) for shape in ladder.shapes)
        rows.append({
            "dtype": dtype, "rows": len(mine), "mape": float(off.mean()), "median": float(np.median(off)),
            "worst": float(off.max()), "at": f"{worst.stage}, {worst.shape}", "pairs": pairs.pairs,
            "right": pairs.right, "basis": ", ".join(dict.fromkeys(r.basis for r in mine)),
        })  # fmt: skip
    note = "Error: |predicted / measured time - 1|. Pairs: any two stages of one shape and type."
    return table("errors", "How well the model foretells the ladder", shown, rows, note)


def parts(ladder: Ladder, shape: str | None = None) -> Table:
    """What the predicted times consist of, of one shape or all: terms that add up, the rest as `other`."""
    rows = [
        {"shape": r.shape, "label": f"{r.stage} ({r.dtype})", "stage": r.stage, "dtype": r.dtype, "term": term,
         "time_s": time_s, "share": time_s / r.predicted_s}
        for r in ladder.rungs if shape in (None, r.shape)
        for term, time_s in {**r.parts, OTHER: r.predicted_s - sum(r.parts.values())}.items()
    ]  # fmt: skip
    shown = (Column("shape", "M x N x K"), Column("stage", "stage"), Column("dtype", "type"), Column("term", "term"),
             Column("time_s", "part of the predicted time", "s"), Column("share", "share", "1"))  # fmt: skip
    return table("parts", "Parts of the predicted times", shown, rows)


def shares(parts: Table) -> Table:
    """The same of one shape with a row a stage and a column a term: shares of the predicted time."""
    rows = parts.rows()
    terms = sorted({r["term"] for r in rows}, key=lambda t: -sum(r["share"] for r in rows if r["term"] == t))
    found: dict[str, dict[str, Any]] = {}
    for r in rows:
        mine = found.setdefault(r["label"], {"label": r["label"], **dict.fromkeys(terms)})
        mine[r["term"]] = r["share"]
    shown = (Column("label", "stage"), *(Column(term, term, "1") for term in terms))
    return table(f"shares_{parts.name}", "Shares of the predicted time", shown, list(found.values()))


def quoted(study: LadderStudy, ladder: Ladder) -> Table:
    """Stages that a share of the library is often quoted for, and their share here."""
    shown = (
        Column("stage", "stage"), Column("quoted", "often quoted", "1"), Column("least", "here, least", "1"),
        Column("most", "here, most", "1"), Column("predicted", "predicted", "1"),
    )  # fmt: skip
    rows = []
    for stage in (s for s in study.stages if s in study.quoted):
        mine = [r for r in ladder.rungs if r.stage == stage]
        shares = [r.library_s / r.time_s for r in mine]
        rows.append({"stage": stage, "quoted": study.quoted[stage], "least": min(shares), "most": max(shares),
                     "predicted": geomean([r.library_s / r.predicted_s for r in mine])})  # fmt: skip
    note = (
        "Often quoted: shares of cuBLAS on other GPUs. Predicted: cuBLAS' measured time over the predicted one, "
        "geometric mean over the shapes."
    )
    return table("quoted", "What is often quoted", shown, rows, note)


def verdict(study: LadderStudy, ladder: Ladder) -> Iterator[str]:
    """The answer in sentences: which step buys most, where the ladder ends, how the model does, how the bound moves."""
    for dtype in ladder.dtypes:
        yield _most(dtype, [s for s in steps(ladder).rows() if s["dtype"] == dtype])
    yield _ends(ladder)
    yield _foretold(ladder)
    yield from _bounds(ladder)
    yield from _against_quoted(study, ladder)


def _most(dtype: str, mine: list[Mapping[str, Any]]) -> str:
    if not mine:
        return f"In {dtype} there is one stage: no step."
    first, *rest = sorted(mine, key=lambda s: -s["measured"])
    if first["measured"] <= 1:
        return f"In {dtype} no step gains on average; the best is the one to {_step(first)}."
    lost = [f'"{s["stage"]}"' for s in rest if s["measured"] < 1]
    then = f", then {_step(rest[0])}" if rest else ""
    slower = f". On average no gain: {' and '.join(lost)}" if lost else ""
    return f"In {dtype} the step to {_step(first)} buys most{then}{slower}."


def _step(s: Mapping[str, Any]) -> str:
    many = f"mean of {s['shapes']} shapes" if s["shapes"] > 1 else "one shape"
    return f'"{s["stage"]}" ({s["measured"]:.2f} times the speed, {many}; predicted {s["predicted"]:.2f})'


def _ends(ladder: Ladder) -> str:
    said = []
    for dtype in ladder.dtypes:
        shares = [row["share"] for row in ends(ladder).rows() if row["dtype"] == dtype and row["share"] == row["share"]]
        if shares:
            said.append(f"{percent(geomean(shares), 0)} of it in {dtype} ({span(shares, 0)})")
    if not said:
        return "No stage was timed in turn with cuBLAS."
    return f"Against cuBLAS, timed in turn, the fastest stage of each shape reaches {' and '.join(said)}, measured."


def _foretold(ladder: Ladder) -> str:
    found = order(ladder.of(shape, dtype) for shape in ladder.shapes for dtype in ladder.dtypes)
    off = np.asarray([abs(r.predicted_s / r.time_s - 1) for r in ladder.rungs])
    taken = steps(ladder).rows()
    right, all_ = sum(s["right"] for s in taken), sum(s["shapes"] for s in taken)
    wrong = f"; the widest that it has not, {found.what}, are {percent(found.worst, 0)} apart" if found.what else ""
    return (
        f"The model has {found.right} of {found.pairs} pairs of stages in the measured order{wrong}. Of {all_} steps "
        f"it says {right} rightly to be faster or slower. Its times are {percent(off.mean(), 0)} off on average, "
        f"{percent(off.max(), 0)} at worst."
    )


def _bounds(ladder: Ladder) -> Iterator[str]:
    """How the predicted bound moves along the first shape's ladder of each type."""
    for dtype in ladder.dtypes:
        mine = next(found for shape in ladder.shapes if (found := ladder.of(shape, dtype)))
        bounds = [r.bound_by for r in mine]
        moved = [b for i, b in enumerate(bounds) if i == 0 or b != bounds[i - 1]]
        math = [r.parts.get("math", 0.0) / r.predicted_s for r in mine]
        yield (
            f"Predicted at {mine[0].shape}, {dtype}: bound by {', then '.join(moved)}; of the time the multiply-adds "
            f"themselves are {percent(math[0], 0)} at the first stage, {percent(math[-1], 0)} at the last, "
            f"{percent(max(math), 0)} at most."
        )


def _against_quoted(study: LadderStudy, ladder: Ladder) -> Iterator[str]:
    rows = quoted(study, ladder).rows()
    if rows:
        said = ", ".join(
            f'"{r["stage"]}" {percent(r["quoted"], 0)}, here {span((r["least"], r["most"]), 0)}' for r in rows
        )
        yield f"Often quoted of other GPUs, as a share of cuBLAS, and measured here: {said}."


def geomean(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def asked(study: LadderStudy) -> Table:
    """A row a stage: what runs, at how many shapes."""
    shown = (Column("stage", "stage"), Column("dtype", "type"), Column("family", "kernel"), Column("config", "tile"),
             Column("shapes", "shapes"), Column("quoted", "often quoted", "1"))  # fmt: skip
    rows = []
    for stage in study.stages:
        mine = [t for t in study.timed if t.stage == stage]
        rows.append({"stage": stage, "dtype": mine[0].dtype, "family": mine[0].family, "config": mine[0].config,
                     "shapes": len(mine), "quoted": study.quoted.get(stage)})  # fmt: skip
    return table("stages", "Stages", shown, rows)
