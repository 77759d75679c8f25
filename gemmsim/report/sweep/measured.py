"""The tables of what was measured on a sweep's curves: every point, by curve, at wave edges, reach of the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gemmsim.report.sweep.numbers import SAME, is_short, leading, several
from gemmsim.report.table import Column, Table, Telling, largest, table
from gemmsim.study.sweep.edges import Edge
from gemmsim.study.sweep.outcome import Outcome
from gemmsim.study.sweep.timed import Timed

Key = tuple[str, str, int]


def error(x: Timed) -> float:
    """How much too long a measured row is predicted: 0.05 is 5 %."""
    return x.predicted_s / x.time_s - 1


def _by_place(outcome: Outcome, curve: str) -> dict[Key, Timed]:
    """GPU, product and size -> the measured point of a curve."""
    return {(x.gpu, x.product, x.size): x for x in outcome.timed if x.curve == curve}


def gains(outcome: Outcome, curve: str) -> dict[Key, tuple[float, float]]:
    """Where both were timed: how much faster a curve is than the baseline, measured, and predicted of the same rows."""
    base = outcome.study.baseline
    theirs = _by_place(outcome, base) if base and curve != base else {}
    return {
        key: (theirs[key].time_s / x.time_s - 1, theirs[key].predicted_s / x.predicted_s - 1)
        for key, x in _by_place(outcome, curve).items() if key in theirs
    }  # fmt: skip


def timed(outcome: Outcome) -> Table:
    """A row a measured point: the fastest row of a curve at a size, and what is predicted there."""
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("curve", "curve"),
        Column("size", outcome.study.vary.upper()), Column("rows", "rows"), Column("config", "fastest timed"),
        Column("time_s", "measured", "s"),
        Column("memory_share", "of bandwidth", "1"), Column("predicted_s", "predicted", "s"),
        Column("error", "error", "1"), Column("line_s", "line", "s"), Column("line_error", "line's error", "1"),
        Column("gain", "gain, measured", "1"), Column("predicted_gain", "predicted", "1"),
        Column("cublas_s", "cuBLAS", "s"),
    )  # fmt: skip
    found = {curve.name: gains(outcome, curve.name) for curve in outcome.study.curves}
    rows = []
    for x in outcome.timed:
        mine, said = found[x.curve].get((x.gpu, x.product, x.size), (None, None))
        line = None if x.line_s is None else x.line_s / x.time_s - 1
        rows.append({**asdict(x), "error": error(x), "line_error": line, "gain": mine, "predicted_gain": said})
    return table(
        "timed", "Measured beside the curves", several(outcome, shown), rows,
        "Of each curve, product and size the fastest of the rows that were timed, not of all that the curve takes in. "
        "Predicted: that very row. Line: the curve, which may have another configuration, or one that nobody timed.",
        "Gain: over the fastest timed row of the baseline, and the same of what is predicted of both rows. cuBLAS: "
        "measured in the same L2 condition, in another run.",
        telling=Telling(largest([abs(row["error"]) for row in rows]), "furthest from their prediction first"),
    )  # fmt: skip


def by_curve(outcome: Outcome) -> Table:
    """A row a curve and GPU: how far its points are from their predictions, and whether gains were foreseen."""
    shown = [
        Column("gpu", "GPU"), Column("curve", "curve"), Column("points", "points"),
        Column("mean_error", "off on average", "1"), Column("worst_error", "furthest off", "1"),
        Column("worst_at", "at"),
    ]  # fmt: skip
    if outcome.study.baseline:
        shown += [
            Column("faster", "faster at"), Column("faster_foreseen", "foreseen"), Column("most", "most", "1"),
            Column("most_at", "at"), Column("slower", "slower at"), Column("slower_foreseen", "foreseen"),
            Column("least", "least", "1"), Column("least_at", "at"),
        ]  # fmt: skip
    groups: dict[tuple[str, str], list[Timed]] = {}
    for x in outcome.timed:
        groups.setdefault((x.gpu, x.curve), []).append(x)
    rows = [_of_curve(outcome, *key, points) for key, points in groups.items()]
    base = outcome.study.baseline
    notes = [
        "Off: predicted over measured, less 1, of the rows under 'Measured beside the curves'; on average without "
        "its sign."
    ]
    notes += [
        f"Faster, slower: than {base}, by more than 1 %, at so many of the points where both were timed; foreseen: "
        "where what is predicted of the same two rows says so too."
    ] * bool(base)  # fmt: skip
    return table("by_curve", "Measured against predicted, by curve", several(outcome, shown), rows, *notes)


def _of_curve(outcome: Outcome, gpu: str, curve: str, points: Sequence[Timed]) -> dict[str, Any]:
    worst = max(points, key=lambda x: abs(error(x)))
    return {
        "gpu": gpu, "curve": curve, "points": len(points),
        "mean_error": sum(abs(error(x)) for x in points) / len(points), "worst_error": error(worst),
        "worst_at": place(outcome, worst.product, worst.size),
        **_foreseen(outcome, {key: g for key, g in gains(outcome, curve).items() if key[0] == gpu}),
    }  # fmt: skip


def _foreseen(outcome: Outcome, found: Mapping[Key, tuple[float, float]]) -> dict[str, Any]:
    """Where a curve was measured faster and slower than the baseline, and at how many of these it was predicted so."""
    if not found:
        names = ("faster", "faster_foreseen", "most", "most_at", "slower", "slower_foreseen", "least", "least_at")
        return dict.fromkeys(("both", *names))
    faster, slower = ([g for g in found.values() if sign * g[0] > SAME] for sign in (1, -1))
    most, least = (pick(found, key=lambda key: found[key][0]) for pick in (max, min))
    return {
        "both": len(found), "faster": len(faster), "faster_foreseen": sum(said > SAME for _, said in faster),
        "most": found[most][0], "most_at": place(outcome, *most[1:]), "slower": len(slower),
        "slower_foreseen": sum(said < -SAME for _, said in slower), "least": found[least][0],
        "least_at": place(outcome, *least[1:]),
    }  # fmt: skip


def place(outcome: Outcome, product: str, size: int) -> str:
    """A size, with its product where there are several."""
    named = f"{outcome.study.vary.upper()} {size}"
    return f"{product}, {named}" if len(outcome.study.products) > 1 else named


def at_edges(outcome: Outcome) -> Table:
    """Two rows a wave edge where the baseline was timed on both sides: the last size before it, and the next."""
    study = outcome.study
    others = [curve.name for curve in study.curves if curve.name != study.baseline]
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("size", study.vary.upper()),
        Column("waves", "waves"), Column("time_s", study.baseline, "s"), Column("error", "off", "1"),
        Column("lost", "rate lost", "1"), Column("predicted_lost", "predicted", "1"),
        *(column for i, name in enumerate(others)
          for column in (Column(f"gain_{i}", name, "1"), Column(f"predicted_gain_{i}", "predicted", "1"))),
    )  # fmt: skip
    base, found = _by_place(outcome, study.baseline), [gains(outcome, name) for name in others]
    rows = [
        {**row, **{f"{what}gain_{i}": pair for i, g in enumerate(found)
                   for what, pair in zip(("", "predicted_"), g.get(key, (None, None)), strict=True)}}
        for edge in outcome.edges for key, row in _sides(edge, base)
    ]  # fmt: skip
    return table(
        "at_edges", "Measured at the wave edges", several(outcome, shown), rows,
        f"The last {study.vary.upper()} before a further wave and the next. {', '.join(others)}: how much faster than "
        f"{study.baseline} the fastest timed row is. Predicted: of the very rows that were timed.",
    )  # fmt: skip


def _sides(edge: Edge, base: Mapping[Key, Timed]) -> Iterator[tuple[Key, dict[str, Any]]]:
    """The two measured points of an edge; none where one is missing."""
    keys = [(edge.gpu, edge.product, point.size) for point in (edge.before, edge.after)]
    if not all(key in base for key in keys):
        return
    before, after = (base[key] for key in keys)
    work = after.flops_per_s * after.time_s / (before.flops_per_s * before.time_s)
    lost = 1 - after.flops_per_s / before.flops_per_s, 1 - work * before.predicted_s / after.predicted_s
    for key, x, point, (own, said) in zip(
        keys, (before, after), (edge.before, edge.after), ((None, None), lost), strict=True
    ):
        yield key, {
            "gpu": x.gpu, "product": x.product, "size": x.size, "waves": point.waves, "time_s": x.time_s,
            "error": error(x), "lost": own, "predicted_lost": said,
        }  # fmt: skip


def reached(outcome: Outcome) -> Table:
    """A row a GPU and product: up to which size the fastest timed launch is as short as the first, and its bandwidth.

    Products whose first size was not timed are left out.
    """
    study, vary = outcome.study, outcome.study.vary.upper()
    shown = (
        Column("gpu", "GPU"), Column("product", "product"), Column("first_s", f"{vary} {study.sizes[0]}", "s"),
        Column("first_share", "of bandwidth", "1"), Column("curve", "by"), Column("short_to", f"within 10 % to {vary}"),
        Column("most_share", "most of bandwidth", "1"), Column("most_at", f"at {vary}"),
    )  # fmt: skip
    best: dict[tuple[str, str], dict[int, Timed]] = {}
    for x in outcome.timed if "memory" in study.show else ():
        here = best.setdefault((x.gpu, x.product), {})
        here[x.size] = min(here.get(x.size, x), x, key=lambda x: x.time_s)
    rows = [_reached([here[size] for size in sorted(here)]) for here in best.values() if study.sizes[0] in here]
    note = f"The fastest timed row of all curves at each {vary} that was timed."
    return table("reached", "How far memory bounds, measured", several(outcome, shown), rows, note)


def _reached(points: Sequence[Timed]) -> dict[str, Any]:
    first, most = points[0], max(points, key=lambda x: x.memory_share)
    return {
        "gpu": first.gpu, "product": first.product, "first_s": first.time_s, "first_share": first.memory_share,
        "curve": first.curve, "short_to": leading(points, lambda x: is_short(x.time_s, first.time_s)),
        "most_share": most.memory_share, "most_at": most.size,
    }  # fmt: skip
