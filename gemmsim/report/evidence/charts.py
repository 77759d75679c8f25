"""Charts of a study of evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from gemmsim.report.look import (
    MUTED,
    Chart,
    colour,
    finish,
    inline,
    log_axis,
    log_scale,
    log_span,
    tooltips,
)  # fmt: skip
from gemmsim.report.table import Table

#: height of a group in a strip of errors
_GROUP_HEIGHT = 9
#: what intervals ask for
_ASKED = 80


def errors_by(errors: Table, group: str, order: Sequence[str]) -> Chart:
    """Of each kernel and group a strip from the median error (a dot) to the 90th percentile (a tick).

    group: the column whose values, in this order, have a colour each.
    """
    rows = [
        {"kernel": r["kernel"], "group": r[group], "rows": r["rows"], "median": 100 * r["median"],
         "p90": 100 * r["p90"], "mean": 100 * r["mape"]}
        for r in errors.rows()
    ]  # fmt: skip
    there = [name for name in order if any(r["group"] == name for r in rows)]
    low, high = log_span([r[key] for r in rows for key in ("median", "p90")])
    scale = log_scale(max(low, 0.1), high)
    values = [v for v in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= v <= high]
    axis = alt.Axis(values=values, format="~r", ticks=False, grid=True)
    x = alt.X("median:Q", title="error, %", scale=scale, axis=axis)
    tips = (("kernel", ""), ("group", ""), ("rows", ",d"), ("median", ".1f"), ("mean", ".1f"), ("p90", ".1f"))
    base = alt.Chart(inline(rows)).encode(
        y=_names("kernel"), yOffset=alt.YOffset("group:N", sort=there, scale=alt.Scale(domain=there, paddingInner=0.1)),
        color=colour("group", there), tooltip=tooltips(*tips),
    )  # fmt: skip
    strip = base.mark_rule(strokeWidth=2, opacity=0.55).encode(x=x, x2="p90:Q")
    tick = base.mark_tick(thickness=2, size=_GROUP_HEIGHT - 1).encode(x=alt.X("p90:Q", scale=scale))
    dot = base.mark_point(filled=True, size=40, opacity=1).encode(x=x)
    kernels = len({r["kernel"] for r in rows})
    return finish(alt.layer(strip, tick, dot), height=kernels * (max(len(there), 3) * _GROUP_HEIGHT + 4))


def _names(field: str) -> alt.Y:
    """Names down the side, in the rows' order."""
    return alt.Y(f"{field}:N", sort=None, title=None,
                 axis=alt.Axis(labelLimit=110, labelPadding=6, ticks=False, domain=False))  # fmt: skip


def coverage(covered: Table) -> Chart:
    """Share of rows inside their interval, a row a kind of case, a colour a basis; a line at what was asked for."""
    rows = [{"case": r["kind"], "basis": r["basis"], "rows": r["rows"], "inside": 100 * r["inside"]}
            for r in covered.rows()]  # fmt: skip
    scale = alt.Scale(domain=[min(50, *(r["inside"] for r in rows)), 100], nice=True)
    x = alt.X("inside:Q", title="inside, %", scale=scale, axis=alt.Axis(tickCount=5, ticks=False, grid=True))
    asked = alt.Chart(inline([{"inside": _ASKED}])).mark_rule(color=MUTED, strokeDash=[4, 4]).encode(x=x)
    dots = alt.Chart(inline(rows)).mark_point(filled=True, size=70, opacity=0.9).encode(
        x=x, y=_names("case"), color=colour("basis", [r["basis"] for r in rows]),
        tooltip=tooltips(("case", ""), ("basis", ""), ("rows", ",d"), ("inside", ".1f")),
    )  # fmt: skip
    return finish(alt.layer(asked, dots), height=30 * len({r["case"] for r in rows}))


def regret_shares(regrets: Table, which: str) -> Chart:
    """Share of shapes that lose at most so much, a line a family; which: `regret` or `regret_of_5`."""
    ranked = regrets.rows()
    order = list(dict.fromkeys(sorted(r["family"] for r in ranked)))
    top = max(2.0, *(100 * r["regret"] for r in ranked))
    steps = [
        row
        for family in order
        for row in _steps(family, [100 * r[which] for r in ranked if r["family"] == family], top)
    ]
    x = alt.X("percent:Q", title="loses at most, %", scale=alt.Scale(type="symlog", constant=1, domain=[0, top]),
              axis=alt.Axis(values=[0, 1, 2, 5, 10, 20, 50, 100], format="~r", ticks=False))  # fmt: skip
    y = alt.Y("share:Q", title="share of shapes, %", scale=alt.Scale(domain=[0, 100]),
              axis=alt.Axis(tickCount=5, ticks=False))  # fmt: skip
    lines = alt.Chart(inline(steps)).mark_line(strokeWidth=2, interpolate="step-after", clip=True).encode(
        x=x, y=y, color=colour("family", order),
        tooltip=tooltips(("family", ""), ("percent", ".1f"), ("share", ".0f"), ("shapes", "d")),
    )  # fmt: skip
    return finish(alt.layer(lines), height=300)


def _steps(family: str, percents: Sequence[float], top: float) -> Iterator[dict[str, Any]]:
    """The corners of an empirical distribution, from 0 to the chart's end."""
    values = np.sort(np.asarray(percents))
    for at in np.unique(np.concatenate([[0.0], values, [top]])):
        share = 100 * float((values <= at).mean())
        yield {"family": family, "percent": float(at), "share": share, "shapes": len(values)}


def roofline(fastest: Table, roof: dict[str, Any]) -> Chart:
    """Measured rate against FLOP per compulsory byte, a colour a kernel, below one GPU's roof for one dtype."""
    rows = [
        {"kernel": r["kernel"], "size": r["size"], "tile": r["config"], "intensity": r["intensity"],
         "tflops": r["flops_per_s"] / 1e12}
        for r in fastest.rows()
    ]  # fmt: skip
    low, high = log_span([r["intensity"] for r in rows] + [roof["ridge"]])
    line = [
        {"intensity": x, "tflops": min(x * roof["dram_bytes_per_s"], roof["peak_flops_per_s"]) / 1e12}
        for x in (low, roof["ridge"], high)
    ]
    floor, top = log_span([r["tflops"] for r in (*rows, *line)])
    x = alt.X("intensity:Q", title="FLOP per compulsory byte", scale=log_scale(low, high), axis=log_axis(low, high))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=log_scale(floor, top), axis=log_axis(floor, top))
    over = alt.Chart(inline(line)).mark_line(strokeWidth=1.5, color=MUTED).encode(x=x, y=y)
    ridge = alt.Chart(inline(line[1:2]))
    drop = ridge.mark_rule(strokeDash=[4, 4], color=MUTED).encode(x=x)
    said = alt.TitleParams(f"ridge {roof['ridge']:,.0f} FLOP/B", color=MUTED, fontSize=11, fontWeight="normal",
                           anchor="end", offset=2)  # fmt: skip
    shapes = [r["kernel"] for r in rows]
    dots = alt.Chart(inline(rows)).mark_point(filled=True, size=45, opacity=0.8).encode(
        x=x, y=y, color=colour("kernel", shapes), shape=alt.Shape("kernel:N", legend=None, sort=shapes),
        tooltip=tooltips(("kernel", ""), ("size", ""), ("tile", ""), ("intensity", ",.0f"), ("tflops", ",.1f")),
    )  # fmt: skip
    return finish(alt.layer(over, drop, dots, title=said), height=260)
