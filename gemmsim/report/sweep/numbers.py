"""The predicted tables of a sweep: curves in short, wave edges, how far a launch is as short as the first, points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import numpy as np

from gemmsim.report.table import Column, Table, table
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.edges import Edge
from gemmsim.study.sweep.line import Line, Point
from gemmsim.study.sweep.outcome import Outcome

#: a difference below this is none
SAME = 0.01
#: a launch that takes so much longer than that of the first size is no longer as short
LONGER = 0.10
#: terms that are the memory's
MEMORY = ("dram", "l2")


class Sized(Protocol):
    """A point of a curve, predicted or measured."""

    @property
    def size(self) -> int:
        """Along the axis."""


_P = TypeVar("_P", bound=Sized)


def asked(study: SweepStudy) -> Table:
    """The curves of a study."""
    shown = (Column("curve", "curve"), Column("families", "families"), Column("dtype", "dtype"),
             Column("configurations", "configurations"))  # fmt: skip
    rows = [{"curve": c.name, "families": c.families, "dtype": c.dtype, "configurations": len(c)} for c in study.curves]
    return table("curves", "Curves", shown, rows)


def products(study: SweepStudy) -> Table:
    """What stays."""
    rows = [{"product": x.name, **dict(x.sides)} for x in study.products]
    sides = (Column(side, side.upper()) for side, _ in study.products[0].sides)
    return table("products", "Products", (Column("product", "product"), *sides), rows)


def several(outcome: Outcome, columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns without GPU and product where there is one of them."""
    study = outcome.study
    alone = {key for key, found in (("gpu", study.gpus), ("product", study.products)) if len(found) == 1}
    return tuple(column for column in columns if column.key not in alone)


def gain(point: Point, base: Point) -> float:
    """How much faster a point is than the baseline's of the same size: 0.05 is 5 %."""
    return base.time_s / point.time_s - 1


def gains(outcome: Outcome, line: Line) -> dict[int, float]:
    """Size -> how much faster the line is than the baseline; empty where there is none."""
    base = outcome.line(line.gpu, line.product, outcome.study.baseline)
    if base is None or base is line:
        return {}
    there = {point.size: point for point in base.points}
    return {p.size: gain(p, there[p.size]) for p in line.points if p.size in there}


def curves(outcome: Outcome) -> Table:
    """A row a curve, product and GPU: its best rate, and where it gains and loses against the baseline."""
    study, vary = outcome.study, outcome.study.vary.upper()
    shown = [
        Column("gpu", "GPU"), Column("product", "product"), Column("curve", "curve"), Column("best", "best", "FLOP/s"),
        Column("best_at", f"at {vary}"), Column("memory_share", "most of bandwidth", "1"),
    ]  # fmt: skip
    if study.baseline:
        shown += [
            Column("faster", "sizes faster", "1"), Column("median", "median", "1"), Column("most", "most", "1"),
            Column("most_at", f"at {vary}"), Column("least", "least", "1"), Column("least_at", f"at {vary}"),
        ]  # fmt: skip
    shown.append(Column("basis", "basis"))
    notes = [f"Median, most, least: faster than {study.baseline}, over all sizes; sizes faster: by more than 1 %."]
    notes += [
        f"{x.curve} on {x.gpu}, {x.product}: {len(x.missing)} of {len(study.sizes)} sizes cannot launch, {vary} "
        f"{x.missing[0]} first: {x.reason}" for x in (*outcome.lines, *outcome.absent) if x.missing
    ]  # fmt: skip
    return table("curves", "Curves, predicted", several(outcome, shown), [_curve(outcome, x) for x in outcome.lines],
                 *(notes if study.baseline else notes[1:]))  # fmt: skip


def _curve(outcome: Outcome, line: Line) -> dict[str, Any]:
    best = max(line.points, key=lambda p: p.flops_per_s)
    found = gains(outcome, line)
    most, least = (pick(found, key=lambda s: found[s]) if found else None for pick in (max, min))
    return {
        "gpu": line.gpu, "product": line.product, "curve": line.curve, "best": best.flops_per_s, "best_at": best.size,
        "memory_share": max(p.memory_share for p in line.points),
        "faster": float(np.mean([g > SAME for g in found.values()])) if found else None,
        "median": float(np.median(list(found.values()))) if found else None,
        "most": None if most is None else found[most], "most_at": most,
        "least": None if least is None else found[least], "least_at": least,
        "basis": ", ".join(dict.fromkeys(p.basis for p in line.points)),
    }  # fmt: skip


def edges(outcome: Outcome) -> Table:
    """A row a wave edge of the baseline, and what the other curves do just past it."""
    study, vary = outcome.study, outcome.study.vary.upper()
    others = [curve.name for curve in study.curves if curve.name != study.baseline]
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("waves", "waves"),
        Column("last", f"last {vary}"), Column("rate_before", "rate", "FLOP/s"), Column("first", f"next {vary}"),
        Column("rate_after", "rate", "FLOP/s"), Column("drop", "lost", "1"), Column("again", f"regained at {vary}"),
        *(Column(f"back_{i}", name, "1") for i, name in enumerate(others)),
        Column("scheduled_waves", "scheduled waves"), Column("scheduled_off", "time off", "1"),
    )  # fmt: skip
    rows = [
        {"gpu": e.gpu, "product": e.product, "waves": f"{e.before.waves} to {e.after.waves}", "last": e.before.size,
         "rate_before": e.before.flops_per_s, "first": e.after.size, "rate_after": e.after.flops_per_s, "drop": e.drop,
         "again": e.again, **{f"back_{i}": e.back(name) for i, name in enumerate(others)},
         **_scheduled(e)}
        for e in outcome.edges
    ]  # fmt: skip
    notes = (
        f"Of {study.baseline}, predicted: the last {vary} before a further wave and the next of the sweep. Regained: "
        f"the first {vary} at which the rate is what it was. {', '.join(others)}: how much faster at the next {vary}.",
        "Scheduled: the two launches placed block by block on their SMs (docs/schedule.md), waves, and by how much the "
        "time of the second differs from the closed form's.",
    )
    return table("edges", "Wave edges, predicted", several(outcome, shown), rows, *notes)


def _scheduled(edge: Edge) -> dict[str, Any]:
    if edge.scheduled is None:
        return {"scheduled_waves": None, "scheduled_off": None}
    before, after = edge.scheduled
    return {
        "scheduled_waves": f"{before.waves} to {after.waves}",
        "scheduled_off": after.time_s / edge.after.time_s - 1,
    }


def fastest(outcome: Outcome) -> Table:
    """A row a GPU, product and size: the fastest of all curves."""
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("size", outcome.study.vary.upper()),
        Column("time_s", "time", "s"), Column("flops_per_s", "TFLOP/s", "tera"),
        Column("memory_share", "of bandwidth", "1"), Column("bound_by", "bound by"), Column("curve", "fastest curve"),
        Column("gain", "gain", "1"), Column("config", "tile"),
    )  # fmt: skip
    rows = []
    for points in best_points(outcome).values():
        for line, point in points:
            found = gains(outcome, line).get(point.size)
            rows.append({"gpu": line.gpu, "product": line.product, "curve": line.curve, **asdict(point),
                         "gain": found})  # fmt: skip
    base = outcome.study.baseline
    notes = [f"Gain: faster than {base}, where another curve is fastest."] if base else []
    return table(
        "fastest", "Fastest, predicted", several(outcome, (c for c in shown if base or c.key != "gain")), rows, *notes
    )


def best_points(outcome: Outcome) -> dict[tuple[str, str], list[tuple[Line, Point]]]:
    """GPU and product -> by size the fastest point of any curve, with its line."""
    found: dict[tuple[str, str], dict[int, tuple[Line, Point]]] = {}
    for line in outcome.lines:
        here = found.setdefault((line.gpu, line.product), {})
        for point in line.points:
            if point.size not in here or point.time_s < here[point.size][1].time_s:
                here[point.size] = (line, point)
    return {key: [here[size] for size in sorted(here)] for key, here in found.items()}


def reach(outcome: Outcome) -> Table:
    """A row a GPU and product: up to which size the fastest launch is as short as the first, and bound by DRAM."""
    vary = outcome.study.vary.upper()
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("first_s", f"{vary} {outcome.study.sizes[0]}", "s"),
        Column("first_share", "of bandwidth", "1"), Column("curve", "by"),
        Column("short_to", f"within 10 % to {vary}"),
        Column("memory_to", f"bound by memory to {vary}"), Column("then", "then by"),
        Column("most_share", "most of bandwidth", "1"), Column("most_at", f"at {vary}"),
    )  # fmt: skip
    if "memory" not in outcome.study.show:
        return table("reach", "How far memory bounds", shown, [])
    rows = [_reach(points) for points in best_points(outcome).values()]
    note = (
        f"Of the fastest of all curves, predicted. Within 10 %: the last {vary} up to which a launch takes no more "
        "than 10 % longer than the first; bound by memory: up to where DRAM or L2 alone would take longest."
    )
    return table("reach", "How far memory bounds", several(outcome, shown), rows, note)


def _reach(points: Sequence[tuple[Line, Point]]) -> dict[str, Any]:
    line, first = points[0]
    most = max((point for _, point in points), key=lambda p: p.memory_share)
    every = [point for _, point in points]
    short = leading(every, lambda p: is_short(p.time_s, first.time_s))
    memory = leading(every, lambda p: p.bound_by in MEMORY)
    then = [p.bound_by for p in every if memory is None or p.size > memory]
    return {
        "gpu": line.gpu, "product": line.product, "first_s": first.time_s, "first_share": first.memory_share,
        "curve": line.curve, "short_to": short, "memory_to": memory, "then": then[0] if then else None,
        "most_share": most.memory_share, "most_at": most.size,
    }  # fmt: skip


def is_short(time_s: float, first_s: float) -> bool:
    """Whether a launch is as short as that of the first size."""
    return time_s <= (1 + LONGER) * first_s


def leading(points: Sequence[_P], holds: Callable[[_P], bool]) -> int | None:
    """The last size before the first at which something no longer holds; None if it never does."""
    last = None
    for point in points:
        if not holds(point):
            break
        last = point.size
    return last


def points(outcome: Outcome) -> Table:
    """Every point of every curve."""
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("curve", "curve"),
        Column("size", outcome.study.vary.upper()), Column("config", "tile"), Column("time_s", "time", "s"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("waves", "waves"), Column("bound_by", "bound by"),
    )  # fmt: skip
    rows = []
    for line in outcome.lines:
        found = gains(outcome, line)
        rows += [
            {"gpu": line.gpu, "product": line.product, "curve": line.curve, "dtype": line.dtype, **asdict(point),
             "gain": found.get(point.size)}
            for point in line.points
        ]  # fmt: skip
    return table("points", "Every point, predicted", several(outcome, shown), rows)
