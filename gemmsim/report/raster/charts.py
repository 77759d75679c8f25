"""Charts of a study of raster orders."""

from __future__ import annotations

import altair as alt

from gemmsim.report.look import MUTED, Chart, colour, finish, inline, legend, tooltips
from gemmsim.report.table import Table


def dram_reads(points: Table) -> Chart:
    """DRAM bytes read against group_m: points counted, lines simulated and by the closed form; a colour a tile."""
    series = {"simulated_read_bytes": "simulator", "closed_read_bytes": "closed form"}
    rows = [
        {"tile": r["tile"], "group_m": r["group_m"], "who": who, "megabytes": r[key] / 1e6}
        for r in points.rows() for key, who in {**series, "read_bytes": "counted"}.items()
    ]  # fmt: skip
    said, counted = ([r for r in rows if (r["who"] == "counted") == wanted] for wanted in (False, True))
    y = alt.Y("megabytes:Q", title="DRAM bytes read, MB", scale=alt.Scale(domainMin=0), axis=alt.Axis(ticks=False))
    tips = tooltips(("who", ""), ("tile", ""), ("group_m", "d"), ("megabytes", ",.0f"))
    tint = colour("tile", [r["tile"] for r in rows])
    dashes = alt.Scale(domain=list(series.values()), range=[[1, 0], [4, 4]])
    dash = alt.StrokeDash("who:N", scale=dashes, legend=legend("bottom", symbolStrokeColor=MUTED))
    lines = alt.Chart(inline(said)).mark_line(strokeWidth=2)
    dots = alt.Chart(inline(counted)).mark_point(filled=True, size=70, opacity=0.9)
    return finish(
        alt.layer(
            lines.encode(x=_groups(points), y=y, color=tint, strokeDash=dash, tooltip=tips),
            dots.encode(x=_groups(points), y=y, color=tint, tooltip=tips),
        ),
        height=300,
    )


def order_gains(points: Table, quoted: tuple[float, float]) -> Chart:
    """How much faster than row by row each group_m is: points counted, in time and in clocks, lines predicted."""
    series = {"time_gain": "counted time", "clocks_gain": "counted SM clocks", "predicted_gain": "predicted time"}
    rows = [
        {"tile": r["tile"], "group_m": r["group_m"], "who": who, "percent": 100 * r[key]}
        for r in points.rows() for key, who in series.items()
    ]  # fmt: skip
    *counted, predicted = series.values()
    scale = alt.Scale(domain=[min(-3, *(r["percent"] - 1 for r in rows)), 42], nice=False)
    values = [-10, 0, 10, 20, 30, 40]
    y = alt.Y("percent:Q", title="faster than row by row, %", axis=alt.Axis(values=values, ticks=False), scale=scale)
    tips = tooltips(("who", ""), ("tile", ""), ("group_m", "d"), ("percent", ".1f"))
    tint = colour("tile", [r["tile"] for r in rows])
    names = alt.Scale(domain=counted, range=["circle", "triangle-up"])
    shape = alt.Shape("who:N", scale=names, legend=legend("bottom", symbolFillColor=MUTED, symbolStrokeColor=MUTED))
    lines = alt.Chart(inline([r for r in rows if r["who"] == predicted])).mark_line(strokeWidth=2)
    dots = alt.Chart(inline([r for r in rows if r["who"] != predicted])).mark_point(filled=True, size=70, opacity=0.9)
    ends = [{"group_m": g, "low": 100 * quoted[0], "high": 100 * quoted[1]} for g in _ends(points)]
    shade = alt.Chart(inline(ends)).mark_area(color=MUTED, opacity=0.18, clip=True)
    return finish(
        alt.layer(
            shade.encode(x=_groups(points), y=alt.Y("low:Q", scale=scale), y2="high:Q"),
            lines.encode(x=_groups(points), y=y, color=tint, tooltip=tips),
            dots.encode(x=_groups(points), y=y, color=tint, shape=shape, tooltip=tips),
        ),
        height=300,
    )


def _ends(points: Table) -> tuple[int, int]:
    """The least and the largest group_m."""
    return min(points.data["group_m"]), max(points.data["group_m"])


def _groups(points: Table) -> alt.X:
    """Group sizes on a log axis."""
    low, high = _ends(points)
    return alt.X(
        "group_m:Q",
        title="group_m (1: row by row)",
        scale=alt.Scale(type="log", base=2, domain=[low / 1.1, high * 1.1], nice=False),
        axis=alt.Axis(values=sorted(set(points.data["group_m"])), format="d", ticks=False),
    )
