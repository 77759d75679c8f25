"""Charts of a study of searches."""

from __future__ import annotations

import altair as alt

from gemmsim.report.look import Chart, colour, finish, inline, tooltips
from gemmsim.report.table import Table


def regret(points: Table) -> Chart:
    """Mean regret against trials, a line a sampler, each trial told where it is pointed at."""
    lines = regret_lines(points)
    return finish(alt.layer(lines, lines.mark_point(size=60, opacity=0)), height=320)


def regret_lines(points: Table) -> alt.Chart:
    """The lines alone, without the look: trials on a log axis, regret on one that is linear below 1 %."""
    rows = [{**r, "percent": 100 * r["mean_regret"]} for r in points.rows()]
    samplers, last = list(dict.fromkeys(r["sampler"] for r in rows)), max(r["trial"] for r in rows)
    x = alt.X("trial:Q", title="trials", scale=alt.Scale(type="log", domain=[1, last], nice=False),
              axis=alt.Axis(values=[1, 2, 5, 10, 20, 50, 100], format="d", ticks=False))  # fmt: skip
    y = alt.Y("percent:Q", title="mean regret, %", scale=alt.Scale(type="symlog", constant=1, domainMin=0),
              axis=alt.Axis(values=[0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200], format=",~r", ticks=False))  # fmt: skip
    tips = tooltips(("sampler", ""), ("trial", "d"), ("percent", ".2f"))
    lines: alt.Chart = alt.Chart(inline(rows)).mark_line(strokeWidth=2)
    return lines.encode(x=x, y=y, color=colour("sampler", samplers), tooltip=tips)
