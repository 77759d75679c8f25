"""Charts of a study of padding: gains as bars, time against a size above a ruler of alignment, recorded neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from gemmsim.report.look import INK, MUTED, PALETTE, Chart, colour, finish, inline, legend, tooltips
from gemmsim.report.padding.numbers import ALIGNMENT, NOTHING, OTHER, WAVE
from gemmsim.report.table import Table

BAR, HEIGHT = 15, 230
#: bytes that a row stride is a multiple of -> the ruler's tick: longer and another colour the more it is
TICKS = {1: (4, PALETTE[7]), 2: (6, PALETTE[1]), 4: (10, PALETTE[4]), 8: (14, PALETTE[5]), 16: (20, PALETTE[2]),
         32: (28, PALETTE[6]), 64: (34, PALETTE[6]), 128: (40, PALETTE[6])}  # fmt: skip
#: of lines, which are no ticks
LINES = (PALETTE[0], PALETTE[3], PALETTE[7])


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
    names, tints = [ALIGNMENT, WAVE, OTHER, NOTHING], [PALETTE[0], PALETTE[4], PALETTE[3], PALETTE[7]]
    tint = alt.Color("cause:N", scale=alt.Scale(domain=names, range=tints), legend=legend())
    tips = tooltips(("problem", ""), ("gpu", ""), ("pad", ""), ("percent", ".1f"), ("cause", ""), ("verdict", ""))
    bars = base.mark_bar().encode(color=tint, tooltip=tips)
    text = base.mark_text(align="left", dx=4, fontSize=11, color=INK).encode(text="label:N")
    return finish(alt.layer(bars, text), height=len(problems) * (len(gpus) * BAR + 10))


def time_against_size(curve: Table) -> Chart:
    """One problem and GPU: lines predicted, a kernel each, points measured; below, a ruler of the sizes' alignment."""
    rows = [
        {"kernel": r["kernel"], "who": r["who"], "size": r["value"], "time_us": 1e6 * r["time_s"], "by": r["family"],
         "configuration": r["config"], "bytes": r["aligned_bytes"]}
        for r in curve.rows()
    ]  # fmt: skip
    said, held = ([r for r in rows if (r["who"] == "measured") == wanted] for wanted in (False, True))
    sizes = sorted({r["size"] for r in said})
    dimension, asked = curve.data["dimension"][0], curve.data["asked"][0]
    pad = 0.01 * (sizes[-1] - sizes[0])
    x = alt.X("size:Q", title=f"{dimension} (dashed: as asked, {asked})",
              axis=alt.Axis(format="d", ticks=False, grid=False, tickCount=5), scale=alt.Scale(domain=[sizes[0] - pad, sizes[-1] + pad], nice=False))  # fmt: skip
    y = alt.Y("time_us:Q", title="time, us", axis=alt.Axis(tickCount=5, ticks=False),
              scale=alt.Scale(domain=[0, 1.12 * max(r["time_us"] for r in rows)], nice=False))  # fmt: skip
    kernels = list(dict.fromkeys(r["kernel"] for r in said))
    tint = alt.Color("kernel:N", scale=alt.Scale(domain=kernels, range=[LINES[i % 3] for i in range(len(kernels))]),
                     legend=legend())  # fmt: skip
    tips = tooltips(("who", ""), ("kernel", ""), ("size", "d"), ("time_us", ",.1f"), ("by", ""), ("configuration", ""))
    lines = alt.Chart(inline(said)).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=tint, tooltip=tips)
    over = lines.mark_point(size=50, opacity=0).encode(x=x, y=y, tooltip=tips)
    where = alt.Chart(inline([{"size": asked}])).mark_rule(color=MUTED, strokeDash=[4, 3], strokeWidth=1).encode(x=x)
    layers = [where, lines, over]
    if held:
        dots = alt.Chart(inline(held)).mark_point(filled=True, size=80, opacity=0.95)
        layers.append(dots.encode(x=x, y=y, color=tint, tooltip=tips))
    drawn = alt.layer(*layers)
    ruler = _ruler([{"size": r["size"], "bytes": r["bytes"]} for r in said if r["kernel"] == kernels[0]], x)
    both = alt.layer(*ruler, drawn).resolve_scale(color="independent") if ruler else drawn
    return finish(both, height=HEIGHT)


def _ruler(rows: Sequence[dict[str, Any]], x: alt.X) -> list[Chart]:
    """A tick a size, the longer the more bytes it is a multiple of; none where the size is no row stride."""
    classes = sorted({r["bytes"] for r in rows if r["bytes"]})
    if not classes:
        return []
    named = [{**r, "multiple_of": f"{r['bytes']} B"} for r in rows]
    scale = alt.Scale(domain=[f"{b} B" for b in classes], range=[TICKS[b][1] for b in classes])
    key = alt.Legend(orient="bottom", title="row stride, a multiple of", columns=5, symbolType="stroke", labelLimit=60,
                     columnPadding=8, symbolStrokeWidth=3)  # fmt: skip
    tint = alt.Color("multiple_of:N", scale=scale, legend=key)
    ticks = [
        alt.Chart(inline([r for r in named if r["bytes"] == b])).mark_rule(strokeWidth=2).encode(
            x=x, y=alt.value(HEIGHT), y2=alt.value(HEIGHT - TICKS[b][0]), color=tint,
            tooltip=tooltips(("size", "d"), ("multiple_of", "")),
        )
        for b in classes
    ]  # fmt: skip
    return [alt.layer(*ticks)]


def recorded_gains(recorded: Table) -> Chart:
    """Recorded neighbours: the gain measured as a point, predicted as a bar's end."""
    rows = [
        {"pair": f"{r['family']} {r['size'].replace(' ', '')} / {r['other'].replace(' ', '')}", "kernel": r["family"],
         "measured": 100 * r["measured_gain"], "predicted": 100 * r["predicted_gain"], "l2": r["l2"]}
        for r in recorded.rows()
    ]  # fmt: skip
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("pair:N", sort=[r["pair"] for r in rows], title=None,
                axis=alt.Axis(labelLimit=190, labelPadding=6, ticks=False, domain=False))
    )  # fmt: skip
    scale = alt.Scale(domain=[min(0.0, *(min(r["measured"], r["predicted"]) for r in rows)), 100], nice=False)
    title = "less time, %: bars predicted, points measured"
    tips = tooltips(("pair", ""), ("measured", ".1f"), ("predicted", ".1f"), ("l2", ""))
    tint = colour("kernel", [r["kernel"] for r in rows])
    bars = base.mark_bar(opacity=0.35, size=14).encode(x=alt.X("predicted:Q", title=title, scale=scale), color=tint,
                                                       tooltip=tips)  # fmt: skip
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("measured:Q", scale=scale), color=tint, tooltip=tips
    )
    return finish(alt.layer(bars, dots), height=26 * len(rows))
