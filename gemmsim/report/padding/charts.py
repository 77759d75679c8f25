"""Charts of a study of padding: gains as bars, time against a size above a ruler of alignment, recorded neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from gemmsim.report.look import INK, MUTED, PALETTE, Chart, colour, finish, inline, legend, tooltips
from gemmsim.report.padding.numbers import ALIGNMENT, NOTHING, OTHER, WAVE
from gemmsim.report.table import Table

BAR, HEIGHT = 15, 230
#: bytes that a row stride is a multiple of -> the ruler's tick, longer the more it is, and the colour
TICKS = {0: (0, PALETTE[7]), 1: (4, PALETTE[7]), 2: (6, PALETTE[1]), 4: (10, PALETTE[4]), 8: (14, PALETTE[5]),
         16: (20, PALETTE[2]), 32: (28, PALETTE[6]), 64: (34, PALETTE[3]), 128: (40, PALETTE[3])}  # fmt: skip
DASHES = ([1, 0], [6, 3], [2, 2])
MEASURED = PALETTE[0]
#: of measured points, by kernel in the order of the rows
SHAPES = ("circle", "triangle-up", "square", "diamond")


def gain_bars(gains: Table) -> Chart:
    """Share of the time that the padding to take saves, of one kernel: a bar a problem and GPU, largest first."""
    rows = [{**r, "percent": 100 * (r["gain_share"] or 0.0)} for r in gains.rows()]
    most = {p: max(r["percent"] for r in rows if r["problem"] == p) for p in dict.fromkeys(r["problem"] for r in rows)}
    problems, gpus = sorted(most, key=lambda p: -most[p]), list(dict.fromkeys(r["gpu"] for r in rows))
    drawn = [
        {"problem": r["problem"], "gpu": r["gpu"], "percent": r["percent"], "cause": r["cause"], "pad": r["pad"],
         "verdict": r["verdict"], "label": f"{r['percent']:.0f} % {r['gpu']}" if r["percent"] else f"none {r['gpu']}"}
        for r in rows
    ]  # fmt: skip
    base = alt.Chart(inline(drawn)).encode(
        y=alt.Y("problem:N", sort=problems, title=None,
                axis=alt.Axis(labelLimit=120, labelPadding=6, ticks=False, domain=False)),
        yOffset=alt.YOffset("gpu:N", sort=gpus, scale=alt.Scale(paddingInner=0.08)),
        x=alt.X("percent:Q", title="less time predicted, %", scale=alt.Scale(domain=[0, 150], nice=False),
                axis=alt.Axis(values=[0, 25, 50, 75, 100], ticks=False)),
    )  # fmt: skip
    tint = alt.Color("cause:N", scale=_causes(drawn), legend=legend())
    tips = tooltips(("problem", ""), ("gpu", ""), ("pad", ""), ("percent", ".1f"), ("cause", ""), ("verdict", ""))
    bars = base.mark_bar().encode(color=tint, tooltip=tips)
    text = base.mark_text(align="left", dx=4, fontSize=11, color=INK).encode(text="label:N")
    return finish(alt.layer(bars, text), height=len(problems) * (len(gpus) * BAR + 10))


def _causes(drawn: Sequence[dict[str, Any]]) -> alt.Scale:
    """The colours of the causes that have a bar."""
    tints = {ALIGNMENT: PALETTE[0], WAVE: PALETTE[4], OTHER: PALETTE[3], NOTHING: PALETTE[7]}
    seen = {r["cause"] for r in drawn if r["percent"]}
    names = [cause for cause in tints if cause in seen] or [NOTHING]
    return alt.Scale(domain=names, range=[tints[cause] for cause in names])


def time_against_size(curve: Table) -> Chart:
    """One problem and GPU: predicted lines, a colour an alignment and a dash a kernel; measured points; and a ruler."""
    rows = [
        {"kernel": r["kernel"], "who": r["who"], "size": r["value"], "time_us": 1e6 * r["time_s"], "by": r["family"],
         "configuration": r["config"], "bytes": r["aligned_bytes"], "multiple_of": _multiple(r["aligned_bytes"])}
        for r in curve.rows()
    ]  # fmt: skip
    said, held = ([r for r in rows if (r["who"] == "measured") == wanted] for wanted in (False, True))
    x, y = _axes(curve, said, max(r["time_us"] for r in rows))
    classes = sorted({r["bytes"] for r in said})
    names = alt.Scale(domain=[_multiple(b) for b in classes], range=[TICKS[b][1] for b in classes])
    shown = alt.Legend(orient="top", title=None, columns=5, symbolType="stroke", labelLimit=90, columnPadding=8)
    tint = alt.Color("multiple_of:N", scale=names, legend=shown, sort=None)
    kernels = list(dict.fromkeys(r["kernel"] for r in said))
    dashes = alt.Scale(domain=kernels, range=[DASHES[i % len(DASHES)] for i in range(len(kernels))])
    dash = alt.StrokeDash("kernel:N", scale=dashes, legend=legend("bottom", symbolStrokeColor=MUTED))
    tips = tooltips(("who", ""), ("kernel", ""), ("size", "d"), ("multiple_of", ""), ("time_us", ",.1f"), ("by", ""),
                    ("configuration", ""))  # fmt: skip
    base = alt.Chart(inline(said)).encode(x=x, y=y, color=tint, tooltip=tips)
    asked = alt.Chart(inline([{"size": curve.data["asked"][0]}])).mark_rule(color=MUTED, strokeDash=[2, 3])
    layers = [
        asked.encode(x=x), *_ruler(said, x, tint), base.mark_line(strokeWidth=1.6).encode(strokeDash=dash),
        base.mark_tick(orient="horizontal", size=5, thickness=2.5),
    ]  # fmt: skip
    return finish(alt.layer(*layers, *_points(held, x, y, tips)), height=HEIGHT)


def _multiple(aligned_bytes: int | None) -> str:
    """What the colour of a size is called."""
    return f"{aligned_bytes} B" if aligned_bytes else "no row stride"


def _axes(curve: Table, said: Sequence[dict[str, Any]], most_us: float) -> tuple[alt.X, alt.Y]:
    """Sizes, with a little room at both ends, and times from 0."""
    sizes = sorted({r["size"] for r in said})
    pad = 0.01 * (sizes[-1] - sizes[0])
    title = f"{curve.data['dimension'][0]} (dotted: as asked, {curve.data['asked'][0]})"
    span = alt.Scale(domain=[sizes[0] - pad, sizes[-1] + pad], nice=False)
    x = alt.X("size:Q", title=title, axis=alt.Axis(format="d", ticks=False, grid=False, tickCount=4), scale=span)
    y = alt.Y("time_us:Q", title="time, us", axis=alt.Axis(tickCount=5, ticks=False),
              scale=alt.Scale(domain=[0, 1.12 * most_us], nice=False))  # fmt: skip
    return x, y


def _ruler(said: Sequence[dict[str, Any]], x: alt.X, tint: alt.Color) -> list[alt.Chart]:
    """A tick a size at the foot, the longer the more bytes it is a multiple of; none where it is no row stride."""
    one = {r["size"]: {"size": r["size"], "bytes": r["bytes"], "multiple_of": r["multiple_of"]} for r in said}
    tips = tooltips(("size", "d"), ("multiple_of", ""))
    return [
        alt.Chart(inline([r for r in one.values() if r["bytes"] == b])).mark_rule(strokeWidth=2).encode(
            x=x, y=alt.value(HEIGHT), y2=alt.value(HEIGHT - TICKS[b][0]), color=tint, tooltip=tips
        )
        for b in sorted({r["bytes"] for r in one.values() if r["bytes"]})
    ]  # fmt: skip


def _points(held: Sequence[dict[str, Any]], x: alt.X, y: alt.Y, tips: list[alt.Tooltip]) -> list[alt.Chart]:
    """Measured times, a shape a kernel, which the caption names; none without rows."""
    layers = []
    for kernel, shape in zip(dict.fromkeys(r["kernel"] for r in held), SHAPES, strict=False):
        dots = alt.Chart(inline([r for r in held if r["kernel"] == kernel]))
        drawn = dots.mark_point(filled=True, size=50, opacity=0.95, color=MEASURED, shape=shape)
        layers.append(drawn.encode(x=x, y=y, tooltip=tips))
    return layers


def recorded_gains(recorded: Table) -> Chart:
    """Recorded neighbours: the gain predicted as a bar, measured as a point."""
    rows = [
        {"pair": f"{r['family']} {r['size'].replace(' ', '')}|to {r['other'].replace(' ', '')}", "kernel": r["family"],
         "measured": 100 * r["measured_gain"], "predicted": 100 * r["predicted_gain"], "l2": r["l2"]}
        for r in recorded.rows()
    ]  # fmt: skip
    axis = alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=190, labelPadding=6, ticks=False, domain=False)
    base = alt.Chart(inline(rows)).encode(y=alt.Y("pair:N", sort=[r["pair"] for r in rows], title=None, axis=axis))
    low = min(0.0, *(min(r["measured"], r["predicted"]) for r in rows))
    scale, grid = alt.Scale(domain=[low, 100], nice=False), alt.Axis(values=[0, 25, 50, 75, 100], ticks=False)
    said, held = (alt.X(f"{who}:Q", title="less time, %", scale=scale, axis=grid) for who in ("predicted", "measured"))
    tips = tooltips(("pair", ""), ("measured", ".1f"), ("predicted", ".1f"), ("l2", ""))
    tint = colour("kernel", [r["kernel"] for r in rows])
    bars = base.mark_bar(opacity=0.35, size=16).encode(x=said, color=tint, tooltip=tips)
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(x=held, color=tint, tooltip=tips)
    return finish(alt.layer(bars, dots), height=36 * len(rows))
