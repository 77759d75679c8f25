"""Charts of a sweep: rate, time, share of the bandwidth and gain against the size; lines predicted, points measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from gemmsim.report.look import (
    INK,
    MUTED,
    PALETTE,
    Chart,
    colour,
    finish,
    inline,
    legend,
    log_axis,
    log_scale,
    log_span,
    tooltips,
)  # fmt: skip
from gemmsim.report.table import Table

#: what is drawn -> its column, what it is multiplied with, the axis' title, the number's format
SHOWN: Mapping[str, tuple[str, float, str, str]] = {
    "rate": ("flops_per_s", 1e-12, "TFLOP/s", ",.1f"),
    "time": ("time_s", 1e6, "time of a launch, us", ",.1f"),
    "memory": ("memory_share", 100.0, "of bandwidth, %", ".1f"),
    "gain": ("gain", 100.0, "faster, %", ".1f"),
}
#: of the lines of a curve where colour says the GPU
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
SHAPES = ("circle", "triangle-up", "square", "diamond")
#: labels of a log axis; more run into one another on a phone
MOST_LABELS = 9
HEIGHT = 340
#: measured points of a chart; more are drawn smaller, so that the lines below them stay in sight
MANY = 60


def against_size(points: Table, timed: Table, what: str, vary: str, log: bool, edges: Table | None = None) -> Chart:
    """One figure (a key of SHOWN) against the size: a line a curve and GPU, a point a measured row, a rule a wave edge.

    points, timed, edges: the tables of one product; log: whether sizes lie on a log axis.
    """
    said, measured = _rows(points, what), _rows(timed, what)
    gpus = list(dict.fromkeys(points.data["gpu"]))
    names = list(dict.fromkeys(r["curve"] for r in said))
    every = list(dict.fromkeys(points.data["curve"]))
    tint = colour("gpu", gpus) if len(gpus) > 1 else _tint(every, names)
    x, y = _x(points, vary, log), _y([r["value"] for r in (*said, *measured)], what, log)
    tips = tooltips(("who", ""), ("curve", ""), ("gpu", ""), ("size", "d"), ("tile", ""), ("value", SHOWN[what][3]))
    base = alt.Chart(inline(said)).encode(x=x, y=y, detail=["curve:N", "gpu:N"], tooltip=tips)
    dots = alt.Chart(inline([{**r, "timed": _timed(r["curve"])} for r in measured])).encode(
        x=x, y=y, color=tint, tooltip=tips
    )
    marks = dots.mark_point(filled=True, size=60 if len(measured) <= MANY else 30, opacity=0.95)
    drawn = base.mark_line(strokeWidth=1.8).encode(color=tint)
    if len(gpus) > 1:
        drawn, marks = (
            drawn.encode(strokeDash=_dash(every, names)),
            marks.encode(shape=_shape(every)),
        )
    layers = [
        *_edges(edges, x),
        drawn,
        base.mark_point(size=40, opacity=0, color=MUTED),
        *([marks] if measured else []),
    ]
    if what == "gain":
        layers.insert(0, alt.Chart(inline([{"zero": 0}])).mark_rule(color=MUTED).encode(y=alt.Y("zero:Q")))
    return finish(alt.layer(*layers), HEIGHT)


def _rows(points: Table, what: str) -> list[dict[str, Any]]:
    """What is drawn of a table; nothing where the figure is not known. Measured: those of fewest rows come on top."""
    key, factor, _, _ = SHOWN[what]
    who = "measured" if "file" in points.data else "predicted"
    if key not in points.data:
        return []
    return [
        {"who": who, "curve": r["curve"], "gpu": r["gpu"], "size": r["size"], "tile": r["config"],
         "value": factor * r[key]}
        for r in sorted(points.rows(), key=lambda r: -r.get("rows", 0)) if r[key] is not None
    ]  # fmt: skip


def _x(points: Table, vary: str, log: bool) -> alt.X:
    sizes = sorted(set(points.data["size"]))
    title = vary.upper()
    if not log:
        scale = alt.Scale(domain=[sizes[0], sizes[-1]], nice=False)
        return alt.X("size:Q", title=title, scale=scale, axis=alt.Axis(format="d", tickCount=7, labelOverlap=True))
    doublings = math.ceil(math.log2(sizes[-1] / sizes[0]))
    step = max(1, math.ceil(doublings / (MOST_LABELS - 1)))
    values = [sizes[0] * 2**i for i in range(0, doublings + 1, step) if sizes[0] * 2**i <= sizes[-1]]
    scale = alt.Scale(type="log", base=2, domain=[sizes[0] / 1.08, sizes[-1] * 1.08], nice=False)
    return alt.X("size:Q", title=title, scale=scale, axis=alt.Axis(values=values, format="d", ticks=False))


def _y(values: Sequence[float], what: str, log: bool) -> alt.Y:
    title = SHOWN[what][2]
    if what == "time" or (what == "rate" and log):
        low, high = log_span(values)
        return alt.Y("value:Q", title=title, scale=log_scale(low, high), axis=log_axis(low, high))
    if what == "memory":
        scale, ticks = alt.Scale(domain=[0, max(100.0, *values)], nice=False), [0, 20, 40, 60, 80, 100]
        return alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, ticks=False))
    return alt.Y("value:Q", title=title, axis=alt.Axis(ticks=False, tickCount=6))


def _tint(every: Sequence[str], names: Sequence[str]) -> alt.Color:
    """A colour a curve, the same in every chart; in the legend those that this one has."""
    colours = [PALETTE[every.index(name) % len(PALETTE)] for name in names]
    return alt.Color("curve:N", scale=alt.Scale(domain=list(names), range=colours), legend=legend())


def _dash(every: Sequence[str], names: Sequence[str]) -> alt.StrokeDash:
    """A dash a curve, the same in every chart."""
    scale = alt.Scale(domain=list(names), range=[DASHES[every.index(name) % len(DASHES)] for name in names])
    shown = legend("bottom", symbolStrokeColor=MUTED, symbolType="stroke", symbolSize=400)
    return alt.StrokeDash("curve:N", scale=scale, legend=shown)


def _timed(curve: str) -> str:
    return f"{curve}, measured"


def _shape(every: Sequence[str]) -> alt.Shape:
    """A shape a curve. Its names are not those of the dashes, whose legend would else take the shapes on."""
    scale = alt.Scale(
        domain=[_timed(name) for name in every], range=[SHAPES[i % len(SHAPES)] for i in range(len(every))]
    )
    return alt.Shape("timed:N", scale=scale, legend=None)


def _edges(edges: Table | None, x: alt.X) -> list[alt.Chart]:
    """A rule at each size from which a further wave is needed, with the number of waves."""
    if edges is None or not len(edges):
        return []
    rows = [{"size": r["first"], "waves": r["waves"].split()[-1]} for r in edges.rows()]
    base = alt.Chart(inline(rows)).encode(x=x, tooltip=tooltips(("size", "d"), ("waves", "")))
    rules = base.mark_rule(color=MUTED, strokeDash=[3, 3], strokeWidth=1)
    text = base.mark_text(align="left", baseline="top", dx=3, fontSize=11, color=INK)
    return [rules, text.encode(text="waves:N", y=alt.value(2))]
