"""Charts of a study of a ladder: the stages of one shape, and what each step buys."""

from __future__ import annotations

from typing import Any

import altair as alt

from gemmsim.report.look import (
    BAR_HEIGHT,
    INK,
    LANE_HEIGHT,
    MUTED,
    PALETTE,
    Chart,
    finish,
    inline,
    lane_titles,
    lanes,
    legend,
    log_axis,
    tooltips,
)
from gemmsim.report.table import Table

PREDICTED, LIBRARY = "predicted", "cuBLAS"


def stages(rungs: Table) -> Chart:
    """The stages of one shape: measured TFLOP/s as bars, predicted as a tick, the library's as a dashed line."""
    rows = [
        {"stage": r["stage"], "who": _measured(r["dtype"]), "tflops": r["flops_per_s"] / 1e12,
         "predicted": r["predicted_flops_per_s"] / 1e12, "library": _known(r["library_flops_per_s"], 1e-12),
         "share": _known(r["share"], 100), "error": 100 * r["error"], "bound": r["bound_by"], "tile": r["config"],
         "label": _label(r)}
        for r in rungs.rows()
    ]  # fmt: skip
    rates = [r[key] for r in rows for key in ("tflops", "predicted", "library") if r[key]]
    low, high = min(rates) / 2, max(rates) * 1.15
    scale = alt.Scale(type="log", domain=[float(f"{v:.3g}") for v in (low, high)], nice=False)
    tips = tooltips(("stage", ""), ("tile", ""), ("tflops", ",.1f"), ("predicted", ",.1f"), ("error", "+.1f"),
                    ("library", ",.1f"), ("share", ",.0f"), ("bound", ""))  # fmt: skip
    base = alt.Chart(inline(rows)).encode(y=_lanes(rows), tooltip=tips)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="TFLOP/s, log axis", scale=scale, axis=log_axis(low, high))

    colours = _colours(rows, LIBRARY)
    bars = base.mark_bar(size=BAR_HEIGHT, yOffset=8).encode(x=x("tflops"), x2=alt.X2Datum(low), color=colours)
    library = base.mark_tick(size=LANE_HEIGHT, thickness=2, opacity=1).encode(
        x=x("library"), color=alt.ColorDatum(LIBRARY)
    )
    ticks = base.mark_tick(size=BAR_HEIGHT + 4, thickness=3, yOffset=8, opacity=1).encode(
        x=x("predicted"), color=alt.ColorDatum(PREDICTED)
    )
    return finish(alt.layer(bars, library, ticks, _titles(rows)), height=len(rows) * LANE_HEIGHT)


def step_factors(points: Table) -> Chart:
    """How many times faster than the stage before each step is, a shape a mark: points measured, ticks predicted."""
    rows = [
        {"stage": r["stage"], "who": _measured(r["dtype"]), "after": r["after"], "shape": r["shape"],
         "measured": r["measured"], "predicted": r["predicted"], "label": r["stage"]}
        for r in points.rows()
    ]  # fmt: skip
    values = [r[key] for r in rows for key in ("measured", "predicted")]
    low, high = min(*values, 0.9) / 1.1, max(values) * 1.1
    scale = alt.Scale(type="log", domain=[float(f"{v:.3g}") for v in (low, high)], nice=False)
    tips = tooltips(("stage", ""), ("after", ""), ("shape", ""), ("measured", ".2f"), ("predicted", ".2f"))
    base = alt.Chart(inline(rows)).encode(y=_lanes(rows), tooltip=tips)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="times faster than the stage before, log axis", scale=scale,
                     axis=log_axis(low, high))  # fmt: skip

    one = alt.Chart(inline([{"x": 1}])).mark_rule(color=MUTED).encode(x=alt.X("x:Q", scale=scale))
    dots = base.mark_point(filled=True, size=60, opacity=0.7, yOffset=3).encode(x=x("measured"), color=_colours(rows))
    ticks = base.mark_tick(size=9, thickness=2, yOffset=14, opacity=1).encode(
        x=x("predicted"), color=alt.ColorDatum(PREDICTED)
    )
    return finish(alt.layer(one, dots, ticks, _titles(rows)), height=len({r["stage"] for r in rows}) * LANE_HEIGHT)


def _known(value: float, factor: float) -> float | None:
    return factor * value if value == value else None


def _label(r: dict[str, Any]) -> str:
    share = f", {100 * r['share']:.0f} %" if r["share"] == r["share"] else ""
    return f"{r['stage']}: {r['flops_per_s'] / 1e12:.3g}{share}"


def _measured(dtype: str) -> str:
    return f"{dtype} measured"


def _lanes(rows: list[dict[str, Any]]) -> alt.Y:
    return lanes("stage", [r["stage"] for r in rows])


def _titles(rows: list[dict[str, Any]]) -> alt.Chart:
    return lane_titles("stage", {r["stage"]: r["label"] for r in rows})


def _colours(rows: list[dict[str, Any]], *more: str) -> alt.Color:
    """Types told apart, then predicted, then what else there is."""
    types = list(dict.fromkeys(r["who"] for r in rows))
    colours = {who: PALETTE[i % 2] for i, who in enumerate(types)} | {PREDICTED: INK} | dict.fromkeys(more, MUTED)
    return alt.Color("who:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=legend())
