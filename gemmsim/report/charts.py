"""Charts that several reports draw: each a function of one or two tables, giving an Altair chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from gemmsim.model.parts import OTHER
from gemmsim.report.look import (
    BAR_HEIGHT,
    INK,
    LANE_HEIGHT,
    MUTED,
    PALETTE,
    Chart,
    colour,
    csv_inline,
    finish,
    inline,
    lane_titles,
    lanes,
    legend,
    log_axis,
    log_scale,
    log_span,
    shape,
    tooltips,
)  # fmt: skip
from gemmsim.report.table import Table
from gemmsim.report.units import human

#: shaded in a chart of predicted against measured
BAND = 0.10
#: rows of a kernel that a chart draws
MOST_POINTS = 600
#: terms that keep their colour from chart to chart; others take what is left, and those beyond are one grey `other`
_TERM_COLOURS = dict(zip(("math", "latency", "dram", "shared", "l2", "issue", "waves"), PALETTE, strict=False))


def predicted_against_measured(points: Table, height: int = 400) -> Chart:
    """Predicted against measured time on log axes, coloured by kernel, with the diagonal and a band of 10 %."""
    rows = _compared(points)
    low, high = log_span([r[key] for r in rows for key in ("measured_us", "predicted_us")])
    x = alt.X("measured_us:Q", title="measured time, us", scale=log_scale(low, high), axis=log_axis(low, high))
    y = alt.Y("predicted_us:Q", title="predicted time, us", scale=log_scale(low, high), axis=log_axis(low, high))
    band = alt.Chart(inline([{"x": v, "low": (1 - BAND) * v, "high": (1 + BAND) * v} for v in (low, high)]))
    shade = band.mark_area(color=MUTED, opacity=0.18, clip=True).encode(
        x=alt.X("x:Q", scale=log_scale(low, high)), y=alt.Y("low:Q", scale=log_scale(low, high)), y2="high:Q"
    )
    line = alt.Chart(inline([{"x": v} for v in (low, high)])).mark_line(color=MUTED, strokeWidth=1, clip=True)
    diagonal = line.encode(x=alt.X("x:Q", scale=log_scale(low, high)), y=alt.Y("x:Q", scale=log_scale(low, high)))
    return finish(alt.layer(shade, diagonal, _cloud(rows, x, y)), height=height)


def ratio_against_time(points: Table) -> Chart:
    """Predicted over measured against measured time: what the log-log chart is too coarse to show."""
    rows = _compared(points)
    low, high = log_span([r["measured_us"] for r in rows])
    bottom, top = log_span([r["predicted_us"] / r["measured_us"] for r in rows] + [1 - BAND, 1 + BAND])
    ratio = log_scale(bottom, top)
    x = alt.X("measured_us:Q", title="measured time, us", scale=log_scale(low, high), axis=log_axis(low, high))
    values = [v for v in (0.25, 0.5, 0.7, 1, 1.4, 2, 4) if bottom <= v <= top]
    y = alt.Y(
        "ratio:Q", title="predicted / measured", scale=ratio, axis=alt.Axis(values=values, format="~g", ticks=False)
    )
    ends = alt.Chart(inline([{"x": v, "low": 1 - BAND, "high": 1 + BAND, "one": 1} for v in (low, high)]))
    at = alt.X("x:Q", scale=log_scale(low, high))
    shade = ends.mark_area(color=MUTED, opacity=0.18, clip=True).encode(
        x=at, y=alt.Y("low:Q", scale=ratio), y2="high:Q"
    )
    line = ends.mark_line(color=MUTED, strokeWidth=1).encode(x=at, y=alt.Y("one:Q", scale=ratio))
    return finish(alt.layer(shade, line, _cloud(rows, x, y)), height=300)


def _compared(points: Table) -> list[dict[str, Any]]:
    """Rows with a prediction; in the order of their time, so that no kernel hides the other.

    Of a kernel with more than MOST_POINTS rows every second, third and so on: a page stays small.
    """
    rows = [
        {"kernel": r["kernel"], "size": r["size"], "tile": r["config"], "measured_us": _short(1e6 * r["measured_s"]),
         "predicted_us": _short(1e6 * r["predicted_s"])}
        for r in points.rows() if r["predicted_s"] == r["predicted_s"]
    ]  # fmt: skip
    rows.sort(key=lambda r: r["measured_us"])
    kernels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kernels.setdefault(row["kernel"], []).append(row)
    kept = [r for mine in kernels.values() for r in mine[:: -(-len(mine) // MOST_POINTS)]]
    return sorted(kept, key=lambda r: r["measured_us"])


def _short(x: float) -> float:
    """Five digits: more than a chart shows, and a third of the characters."""
    return float(f"{x:.5g}")


def _cloud(rows: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y) -> alt.Chart:
    # of the fill: on paper the opacity of a mark makes a layer of each, and ten times the PDF
    dots = alt.Chart(csv_inline(rows)).mark_point(filled=True, size=14, opacity=1, fillOpacity=0.45)
    dots = dots.transform_calculate(ratio="datum.predicted_us / datum.measured_us")
    names = sorted({r["kernel"] for r in rows})
    cloud: alt.Chart = dots.encode(
        x=x, y=y, color=colour("kernel", names), shape=shape("kernel", names),
        tooltip=tooltips(("kernel", ""), ("size", ""), ("tile", ""), ("measured_us", ",.1f"), ("predicted_us", ",.1f"),
                      ("ratio", ".3f")),
    )  # fmt: skip
    return cloud


def time_bars(picks: Table) -> Chart:
    """Predicted time of one launch of each GEMM, a bar a GPU."""
    longest = max(picks.data["time_s"])
    unit, scale = ("ms", 1e3) if longest >= 1e-3 else ("us", 1e6)
    rows = [
        {"gemm": r["gemm"], "size": r["size"], "gpu": r["gpu"], "tile": r["config"], "bound": r["bound_by"],
         "time": scale * r["time_s"], "tflops": r["flops_per_s"] / 1e12}
        for r in picks.rows()
    ]  # fmt: skip
    gpus = list(dict.fromkeys(r["gpu"] for r in rows))
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("gemm:N", sort=None, title=None,
                axis=alt.Axis(labelLimit=90, labelPadding=6, ticks=False, domain=False)),
        yOffset=alt.YOffset("gpu:N", sort=gpus, scale=alt.Scale(paddingInner=0.08)),
        x=alt.X("time:Q", title=f"predicted time of one launch, {unit}", axis=alt.Axis(tickCount=5, grid=True),
                scale=alt.Scale(domain=[0, 1.16 * longest * scale], nice=False)),
    )  # fmt: skip
    tips = tooltips(
        ("gemm", ""), ("size", ""), ("gpu", ""), ("tile", ""), ("time", ",.3f"), ("tflops", ",.1f"), ("bound", "")
    )
    bars = base.mark_bar().encode(color=colour("gpu", gpus), tooltip=tips)
    digits = ".2f" if unit == "ms" else ".1f"
    text = base.mark_text(align="left", dx=4, fontSize=11, color=INK).encode(text=alt.Text("time:Q", format=digits))
    gemms = len({r["gemm"] for r in rows})
    return finish(alt.layer(bars, text), height=gemms * (len(gpus) * BAR_HEIGHT + 10))


def roofline(picks: Table, roofs: Table) -> Chart:
    """Rate of each pick against its FLOP per byte of DRAM traffic, under each GPU's dense peak and memory bandwidth."""
    rows = [
        {"gemm": f"{r['gemm']}, {r['variant']}", "gpu": r["gpu"], "tile": r["config"], "variant": r["variant"],
         "intensity": r["flops_per_s"] * r["time_s"] / r["dram_bytes"], "tflops": r["flops_per_s"] / 1e12}
        for r in picks.rows()
    ]  # fmt: skip
    low, high = log_span([r["intensity"] for r in rows] + list(roofs.data["ridge"]))
    lines = [
        {"gpu": r["gpu"], "intensity": x, "tflops": min(x * r["dram_bytes_per_s"], r["peak_flops_per_s"]) / 1e12}
        for r in roofs.rows() for x in (low, r["ridge"], high)
    ]  # fmt: skip
    floor, top = log_span([r["tflops"] for r in (*rows, *lines)])
    gpus = list(roofs.data["gpu"])
    x = alt.X(
        "intensity:Q", title="FLOP per byte of DRAM traffic", scale=log_scale(low, high), axis=log_axis(low, high)
    )
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=log_scale(floor, top), axis=log_axis(floor, top))
    roof = alt.Chart(inline(lines)).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour("gpu", gpus))
    tips = tooltips(("gemm", ""), ("gpu", ""), ("tile", ""), ("intensity", ",.0f"), ("tflops", ",.1f"))
    dots = alt.Chart(inline(rows)).mark_point(filled=True, size=70, opacity=0.85)
    marks = dots.encode(
        x=x,
        y=y,
        color=colour("gpu", gpus),
        shape=alt.Shape("variant:N", legend=legend("bottom", symbolFillColor=MUTED, symbolStrokeColor=MUTED)),
        tooltip=tips,
    )
    return finish(alt.layer(roof, marks), height=380)


def gpus_compared(ratios: Table) -> Chart:
    """Each figure of some GPUs as a bar from 1 to its ratio to the first GPU, on a log axis, its value beside it."""
    rows = [r for r in ratios.rows() if r["ratio"]]
    gpus, figures = (list(dict.fromkeys(r[key] for r in rows)) for key in ("gpu", "figure"))
    low, high = log_span([1.0, *(r["ratio"] for r in rows)])
    room = (high / low) ** 0.22  # for the values beside the bars
    scale = log_scale(low / (room if low < 0.79 else 1), high * room)
    x = alt.X("ratio:Q", title=f"ratio to {gpus[0]}", scale=scale, axis=log_axis(low, high))
    base = alt.Chart(inline([{**r, "one": 1} for r in rows])).encode(
        y=alt.Y("figure:N", sort=figures, title=None,
                axis=alt.Axis(labelLimit=110, labelPadding=6, ticks=False, domain=False)),
        yOffset=alt.YOffset("gpu:N", sort=gpus, scale=alt.Scale(paddingInner=0.08)),
    )  # fmt: skip
    tips = tooltips(("gpu", ""), ("figure", ""), ("shown", ""), ("ratio", ".3f"))
    bars = base.mark_bar().encode(x=x, x2="one:Q", color=colour("gpu", gpus), tooltip=tips)
    ticks = base.mark_tick(thickness=2).encode(x=x, color=colour("gpu", gpus), tooltip=tips)
    up = base.transform_filter("datum.ratio > 0.93").mark_text(align="left", dx=4, fontSize=11, color=INK)
    down = base.transform_filter("datum.ratio <= 0.93").mark_text(align="right", dx=-4, fontSize=11, color=INK)
    texts = [side.encode(x=x, text="shown:N") for side in (up, down)]
    return finish(alt.layer(bars, ticks, *texts), height=len(figures) * (len(gpus) * BAR_HEIGHT + 8))


def term_stack(parts: Table) -> Chart:
    """Where the time of each launch goes: a bar of full width a label, split by term; its time stands above the bar.

    parts: columns label, term, time_s, a row a label and term, in the order in which labels are shown; the parts of a
    label add up to its time. Seven terms have colours, those with the largest shares; the others are merged.
    """
    rows, colours = _stacked(parts), {}
    kept = [term for term in dict.fromkeys(r["term"] for r in rows) if term != OTHER]
    spare = [c for c in PALETTE[:-1] if c not in {_TERM_COLOURS.get(term) for term in kept}]
    for term in kept:
        colours[term] = _TERM_COLOURS.get(term) or spare.pop(0)
    colours |= {OTHER: PALETTE[-1]} if any(r["term"] == OTHER for r in rows) else {}
    labels = {r["label"]: f"{r['label']}: {r['whole']}" for r in rows}
    y = lanes("label", list(labels))
    x = alt.X("from:Q", title="share of the predicted time, %", scale=alt.Scale(domain=[0, 100], nice=False),
              axis=alt.Axis(values=[0, 25, 50, 75, 100], ticks=False, grid=False))  # fmt: skip
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    bars = alt.Chart(inline(rows)).mark_bar(size=BAR_HEIGHT, yOffset=8, clip=True).encode(
        x=x, x2="to:Q", y=y, color=alt.Color("term:N", scale=scale, legend=legend(columns=4)),
        tooltip=tooltips(("label", ""), ("term", ""), ("time", ""), ("percent", ".1f")),
    )  # fmt: skip
    return finish(alt.layer(bars, lane_titles("label", labels)), height=len(labels) * LANE_HEIGHT)


def _stacked(parts: Table) -> list[dict[str, Any]]:
    """A row a label and term that is drawn: the shares where its piece begins and ends; the largest terms first."""
    found: dict[str, dict[str, float]] = {}
    for r in parts.rows():
        mine = found.setdefault(r["label"], {})
        mine[r["term"]] = mine.get(r["term"], 0.0) + r["time_s"]
    weights: dict[str, float] = {}
    for mine in found.values():
        for term, time_s in mine.items():
            weights[term] = weights.get(term, 0.0) + time_s / sum(mine.values())
    order = sorted((t for t in weights if t != OTHER), key=lambda t: -weights[t])[: len(PALETTE) - 1]
    return [row for label, mine in found.items() for row in _pieces(label, mine, order)]


def _pieces(label: str, times: Mapping[str, float], order: Sequence[str]) -> list[dict[str, Any]]:
    """One bar of `term_stack`."""
    whole = sum(times.values())
    shown = {term: times[term] for term in order if times.get(term)}
    shown |= {OTHER: rest} if abs(rest := whole - sum(shown.values())) > 1e-9 * whole else {}
    pieces, at = [], 0.0
    for term, time_s in shown.items():
        percent = 100 * time_s / whole
        pieces.append({"label": label, "term": term, "from": at, "to": at + percent, "percent": percent,
                       "time": human(time_s, "s"), "whole": human(whole, "s")})  # fmt: skip
        at += percent
    return pieces
