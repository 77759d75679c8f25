"""Charts of a study that compares GPUs: times, what speed-ups are due to, elasticities."""

from __future__ import annotations

from typing import Any

import altair as alt

from gemmsim.report.comparison.numbers import stacked
from gemmsim.report.look import (
    BAR_HEIGHT,
    INK,
    LANE_HEIGHT,
    MUTED,
    PALETTE,
    Chart,
    colour,
    finish,
    inline,
    lane_titles,
    lanes,
    log_axis,
    tooltips,
)
from gemmsim.report.table import Table
from gemmsim.report.units import human

#: an elasticity nearer to 0 has no number in its cell, so that the others can be read on a phone
SHOWN = 0.05


def times(mine: Table) -> Chart:
    """The time of one pass on each GPU, fastest first, with its interval; time and speed-up above the bar."""
    rows = sorted(mine.rows(), key=lambda r: r["time_s"])
    drawn = [
        {"gpu": r["gpu"], "ms": 1e3 * r["time_s"], "low": 1e3 * r["time_lo_s"], "high": 1e3 * r["time_hi_s"],
         "tflops": r["flops_per_s"] / 1e12, "bound": r["bound"], "ratio": r["ratio"],
         "label": f"{r['gpu']}: {human(r['time_s'], 's')}, {r['ratio']:.2f}x"}
        for r in rows
    ]  # fmt: skip
    tips = tooltips(("gpu", ""), ("ms", ",.2f"), ("low", ",.2f"), ("high", ",.2f"), ("tflops", ",.1f"), ("bound", ""),
                    ("ratio", ".2f"))  # fmt: skip
    base = alt.Chart(inline(drawn)).encode(y=_lanes(drawn), tooltip=tips)
    x = alt.X("ms:Q", title="predicted time, ms; line: 80 % interval", axis=alt.Axis(tickCount=5),
              scale=alt.Scale(domain=[0, max(r["high"] for r in drawn)], nice=False))  # fmt: skip
    bars = base.mark_bar(size=BAR_HEIGHT, yOffset=8, color=PALETTE[0]).encode(x=x)
    spans = base.mark_rule(strokeWidth=1.5, yOffset=8, color=INK).encode(x=alt.X("low:Q"), x2="high:Q")
    return finish(alt.layer(bars, spans, _titles(drawn)), height=len(drawn) * LANE_HEIGHT)


def reasons(mine: Table) -> Chart:
    """What each speed-up is due to: factors end to end on a log axis, gains right of 1, losses left; tick: all."""
    rows = mine.rows()
    gpus = list(dict.fromkeys(r["gpu"] for r in rows))
    pieces = [piece for gpu in gpus for piece in stacked([r for r in rows if r["gpu"] == gpu])]
    ends = [{"gpu": p["gpu"], "label": f"{p['gpu']}: {p['ratio']:.2f}x", "ratio": p["ratio"]} for p in pieces]
    values = [p[key] for p in pieces for key in ("from", "to", "ratio")]
    low, high = min(*values, 0.95) / 1.05, max(*values, 1.05) * 1.05
    scale = alt.Scale(type="log", domain=[float(f"{v:.3g}") for v in (low, high)], nice=False)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="times as fast as the baseline, log axis", scale=scale,
                     axis=log_axis(low, high))  # fmt: skip

    tips = tooltips(("gpu", ""), ("group", ""), ("factor", ".3f"), ("ratio", ".2f"))
    groups = sorted(
        {p["group"] for p in pieces}, key=lambda g: -sum(abs(p["factor"] - 1) for p in pieces if p["group"] == g)
    )
    bars = alt.Chart(inline(pieces)).mark_bar(size=BAR_HEIGHT, yOffset=8).encode(
        x=x("from"), x2="to:Q", y=_lanes(ends), color=colour("group", groups), tooltip=tips
    )  # fmt: skip
    ticks = alt.Chart(inline(ends)).mark_tick(size=BAR_HEIGHT + 4, thickness=3, yOffset=8, color=INK, opacity=1)
    one = alt.Chart(inline([{"x": 1}])).mark_rule(color=MUTED).encode(x=alt.X("x:Q", scale=scale))
    drawn = alt.layer(one, bars, ticks.encode(x=x("ratio"), y=_lanes(ends)), _titles(ends))
    return finish(drawn, height=len(gpus) * LANE_HEIGHT)


def elasticities(slopes: Table) -> Chart:
    """Figures by GPUs: the stronger the colour the more the time hangs on the figure; less time blue, more orange."""
    rows = [
        {"gpu": r["gpu"], "figure": r["figure"].removeprefix("arch."), "elasticity": r["elasticity"],
         "strength": abs(r["elasticity"]),
         "shown": f"{r['elasticity']:+.1f}" if abs(r["elasticity"]) >= SHOWN else "",
         "way": "less time" if r["elasticity"] <= 0 else "more time"}
        for r in slopes.rows()
    ]  # fmt: skip
    figures, gpus = (list(dict.fromkeys(r[key] for r in rows)) for key in ("figure", "gpu"))
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("gpu:N", sort=gpus, title=None, axis=alt.Axis(orient="top", labelAngle=-90, ticks=False, domain=False)),
        y=alt.Y("figure:N", sort=figures, title=None,
                axis=alt.Axis(labelLimit=120, labelPadding=6, ticks=False, domain=False)),
        tooltip=tooltips(("figure", ""), ("gpu", ""), ("elasticity", "+.3f")),
    )  # fmt: skip
    strength = alt.Opacity("strength:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.05, 0.85], clamp=True))
    cells = base.mark_rect().encode(color=colour("way", ["less time", "more time"]), opacity=strength)
    text = base.mark_text(fontSize=9, color=INK).encode(text="shown:N")
    return finish(alt.layer(cells, text), height=22 * len(figures))


def _lanes(rows: list[dict[str, Any]]) -> alt.Y:
    return lanes("gpu", [r["gpu"] for r in rows])


def _titles(rows: list[dict[str, Any]]) -> alt.Chart:
    return lane_titles("gpu", {r["gpu"]: r["label"] for r in rows})
