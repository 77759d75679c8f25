"""Charts of a study of effects."""

from __future__ import annotations

import altair as alt

from gemmsim.report.look import BAR_HEIGHT, INK, MUTED, PALETTE, Chart, colour, finish, inline, tooltips
from gemmsim.report.table import Table

#: share of the axis beyond the longest bar, for the figure beside it
_ROOM = 1.22


def error_bars(effects: Table, whole: float) -> Chart:
    """MAPE without each effect, a bar an effect, what is missed most first; a line at the whole model's."""
    rows = [{"effect": r["effect"], "percent": 100 * r["mape"], "more": 100 * r["costs"]} for r in effects.rows()]
    longest = max(100 * whole, *(r["percent"] for r in rows))
    scale = alt.Scale(domain=[0, _ROOM * longest], nice=False)
    x = alt.X("percent:Q", title="MAPE, %", scale=scale, axis=alt.Axis(tickCount=5, ticks=False))
    return _bars(rows, x, whole, ("more", "+.1f"))


def regret_bars(effects: Table, whole: float) -> Chart:
    """Regret of the first pick without each effect, in the order of error_bars; an axis that is linear below 1 %."""
    rows = [{"effect": r["effect"], "percent": 100 * r["regret"], "worst": 100 * r["worst_regret"]}
            for r in effects.rows()]  # fmt: skip
    longest = max(1.0, 100 * whole, *(r["percent"] for r in rows))
    scale = alt.Scale(type="symlog", constant=1, domain=[0, _ROOM**5 * longest], nice=False)
    values = [v for v in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if v <= _ROOM * longest]
    x = alt.X(
        "percent:Q",
        title="regret, %",
        scale=scale,
        axis=alt.Axis(values=values[:1] + values[1::2], format=",~r", ticks=False),
    )
    return _bars(rows, x, whole, ("worst", ".1f"))


def _bars(rows: list[dict[str, float]], x: alt.X, whole: float, more: tuple[str, str]) -> Chart:
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("effect:N", sort=None, title=None, axis=alt.Axis(labelPadding=6, ticks=False, domain=False)), x=x
    )
    bars = base.mark_bar(color=PALETTE[0]).encode(tooltip=tooltips(("effect", ""), ("percent", ".1f"), more))
    text = base.mark_text(align="left", dx=4, fontSize=11, color=INK).encode(text=alt.Text("percent:Q", format=",.1f"))
    line = alt.Chart(inline([{"percent": 100 * whole}])).mark_rule(color=MUTED, strokeWidth=1.5, strokeDash=[4, 4])
    return finish(alt.layer(bars, line.encode(x=x), text), height=len(rows) * (BAR_HEIGHT + 3))


def kernels(effects: Table) -> Chart:
    """What each effect is worth to each kernel with shipped coefficients: points of MAPE, a colour a kernel."""
    rows = [{"effect": r["effect"], "kernel": r["kernel"], "points": 100 * r["kept_costs"]} for r in effects.rows()]
    names = list(dict.fromkeys(r["kernel"] for r in rows))
    worth = {r["effect"]: max(q["points"] for q in rows if q["effect"] == r["effect"]) for r in rows}
    order = sorted(worth, key=lambda effect: -worth[effect])
    dots = alt.Chart(inline(rows)).mark_point(filled=True, size=70, opacity=0.85).encode(
        y=alt.Y("effect:N", sort=order, title=None,
                axis=alt.Axis(labelPadding=6, ticks=False, domain=False, grid=True)),
        x=alt.X("points:Q", title="MAPE more without it, points", axis=alt.Axis(tickCount=6, ticks=False),
                scale=alt.Scale(nice=False, padding=8)),
        color=colour("kernel", names), shape=alt.Shape("kernel:N", sort=names, legend=None),
        tooltip=tooltips(("effect", ""), ("kernel", ""), ("points", ".1f")),
    )  # fmt: skip
    return finish(alt.layer(dots), height=len(order) * (BAR_HEIGHT + 4))
