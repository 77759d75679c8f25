"""The charts of a report: each a function of one or two tables of `numbers`, giving an Altair chart.

One look for all of them (`finish`): page.css recolours them on dark, so the colours here are those on white.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
from altair.utils.schemapi import debug_mode

from gemmsim.report.numbers import Table

#: what a chart function gives
Chart = alt.LayerChart | alt.FacetChart
#: Okabe and Ito's palette, told apart by colour-blind readers; page.css maps each to a lighter one on dark
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7F00", "#7F7F7F")
#: of the first eight of a series, of the next eight and so on: no two share both colour and shape
SHAPES = ("circle", "triangle-up", "square", "cross", "diamond")
INK = "#1f2328"
MUTED = "#59636e"
GRID = "#d1d9e0"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
#: shaded in a chart of predicted against measured
BAND = 0.10
BAR_HEIGHT = 16


#: rows of a kernel that a chart draws
MOST_POINTS = 600


def predicted_against_measured(points: Table) -> Chart:
    """Predicted against measured time on log axes, coloured by kernel, with the diagonal and a band of 10 %."""
    rows = _compared(points)
    low, high = _span([r[key] for r in rows for key in ("measured_us", "predicted_us")])
    x = alt.X("measured_us:Q", title="measured time, us", scale=_log(low, high), axis=_log_axis(low, high))
    y = alt.Y("predicted_us:Q", title="predicted time, us", scale=_log(low, high), axis=_log_axis(low, high))
    band = alt.Chart(_data([{"x": v, "low": (1 - BAND) * v, "high": (1 + BAND) * v} for v in (low, high)]))
    shade = band.mark_area(color=MUTED, opacity=0.18, clip=True).encode(
        x=alt.X("x:Q", scale=_log(low, high)), y=alt.Y("low:Q", scale=_log(low, high)), y2="high:Q"
    )
    line = alt.Chart(_data([{"x": v} for v in (low, high)])).mark_line(color=MUTED, strokeWidth=1, clip=True)
    diagonal = line.encode(x=alt.X("x:Q", scale=_log(low, high)), y=alt.Y("x:Q", scale=_log(low, high)))
    return finish(alt.layer(shade, diagonal, _cloud(rows, x, y)), height=400)


def ratio_against_time(points: Table) -> Chart:
    """Predicted over measured against measured time: what the log-log chart is too coarse to show."""
    rows = _compared(points)
    low, high = _span([r["measured_us"] for r in rows])
    bottom, top = _span([r["ratio"] for r in rows] + [1 - BAND, 1 + BAND])
    ratio = _log(bottom, top)
    x = alt.X("measured_us:Q", title="measured time, us", scale=_log(low, high), axis=_log_axis(low, high))
    values = [v for v in (0.25, 0.5, 0.7, 1, 1.4, 2, 4) if bottom <= v <= top]
    y = alt.Y(
        "ratio:Q", title="predicted / measured", scale=ratio, axis=alt.Axis(values=values, format="~g", ticks=False)
    )
    ends = alt.Chart(_data([{"x": v, "low": 1 - BAND, "high": 1 + BAND, "one": 1} for v in (low, high)]))
    at = alt.X("x:Q", scale=_log(low, high))
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
         "predicted_us": _short(1e6 * r["predicted_s"]), "ratio": _short(r["predicted_s"] / r["measured_s"])}
        for r in points.rows() if r["predicted_s"] == r["predicted_s"]
    ]  # fmt: skip
    rows.sort(key=lambda r: r["measured_us"])
    kernels = {kernel: [r for r in rows if r["kernel"] == kernel] for kernel in {r["kernel"] for r in rows}}
    kept = [r for mine in kernels.values() for r in mine[:: -(-len(mine) // MOST_POINTS)]]
    return sorted(kept, key=lambda r: r["measured_us"])


def _short(x: float) -> float:
    """Five digits: more than a chart shows, and a third of the characters."""
    return float(f"{x:.5g}")


def _cloud(rows: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y) -> alt.Chart:
    # of the fill: on paper the opacity of a mark makes a layer of each, and ten times the PDF
    dots = alt.Chart(_data(rows)).mark_point(filled=True, size=14, opacity=1, fillOpacity=0.45)
    names = sorted({r["kernel"] for r in rows})
    cloud: alt.Chart = dots.encode(
        x=x, y=y, color=_colour("kernel", names), shape=_shape("kernel", names),
        tooltip=_tips(("kernel", ""), ("size", ""), ("tile", ""), ("measured_us", ",.1f"), ("predicted_us", ",.1f"),
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
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y("gemm:N", sort=None, title=None,
                axis=alt.Axis(labelLimit=90, labelPadding=6, ticks=False, domain=False)),
        yOffset=alt.YOffset("gpu:N", sort=gpus, scale=alt.Scale(paddingInner=0.08)),
        x=alt.X("time:Q", title=f"predicted time of one launch, {unit}", axis=alt.Axis(tickCount=5, grid=True),
                scale=alt.Scale(domain=[0, 1.16 * longest * scale], nice=False)),
    )  # fmt: skip
    tips = _tips(
        ("gemm", ""), ("size", ""), ("gpu", ""), ("tile", ""), ("time", ",.3f"), ("tflops", ",.1f"), ("bound", "")
    )
    bars = base.mark_bar().encode(color=_colour("gpu", gpus), tooltip=tips)
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
    low, high = _span([r["intensity"] for r in rows] + list(roofs.data["ridge"]))
    lines = [
        {"gpu": r["gpu"], "intensity": x, "tflops": min(x * r["dram_bytes_per_s"], r["peak_flops_per_s"]) / 1e12}
        for r in roofs.rows() for x in (low, r["ridge"], high)
    ]  # fmt: skip
    floor, top = _span([r["tflops"] for r in (*rows, *lines)])
    gpus = list(roofs.data["gpu"])
    x = alt.X("intensity:Q", title="FLOP per byte of DRAM traffic", scale=_log(low, high), axis=_log_axis(low, high))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=_log(floor, top), axis=_log_axis(floor, top))
    roof = alt.Chart(_data(lines)).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=_colour("gpu", gpus))
    tips = _tips(("gemm", ""), ("gpu", ""), ("tile", ""), ("intensity", ",.0f"), ("tflops", ",.1f"))
    dots = alt.Chart(_data(rows)).mark_point(filled=True, size=70, opacity=0.85)
    marks = dots.encode(
        x=x,
        y=y,
        color=_colour("gpu", gpus),
        shape=alt.Shape("variant:N", legend=_legend("bottom", symbolFillColor=MUTED, symbolStrokeColor=MUTED)),
        tooltip=tips,
    )
    return finish(alt.layer(roof, marks), height=380)


def gpus_compared(ratios: Table) -> Chart:
    """Each figure of some GPUs as a bar from 1 to its ratio to the first GPU, on a log axis, its value beside it."""
    rows = [r for r in ratios.rows() if r["ratio"]]
    gpus, figures = (list(dict.fromkeys(r[key] for r in rows)) for key in ("gpu", "figure"))
    low, high = _span([1.0, *(r["ratio"] for r in rows)])
    room = (high / low) ** 0.22  # for the values beside the bars
    scale = _log(low / (room if low < 0.79 else 1), high * room)
    x = alt.X("ratio:Q", title=f"ratio to {gpus[0]}", scale=scale, axis=_log_axis(low, high))
    base = alt.Chart(_data([{**r, "one": 1} for r in rows])).encode(
        y=alt.Y("figure:N", sort=figures, title=None,
                axis=alt.Axis(labelLimit=110, labelPadding=6, ticks=False, domain=False)),
        yOffset=alt.YOffset("gpu:N", sort=gpus, scale=alt.Scale(paddingInner=0.08)),
    )  # fmt: skip
    tips = _tips(("gpu", ""), ("figure", ""), ("shown", ""), ("ratio", ".3f"))
    bars = base.mark_bar().encode(x=x, x2="one:Q", color=_colour("gpu", gpus), tooltip=tips)
    ticks = base.mark_tick(thickness=2).encode(x=x, color=_colour("gpu", gpus), tooltip=tips)
    up = base.transform_filter("datum.ratio > 0.93").mark_text(align="left", dx=4, fontSize=11, color=INK)
    down = base.transform_filter("datum.ratio <= 0.93").mark_text(align="right", dx=-4, fontSize=11, color=INK)
    texts = [side.encode(x=x, text="shown:N") for side in (up, down)]
    return finish(alt.layer(bars, ticks, *texts), height=len(figures) * (len(gpus) * BAR_HEIGHT + 8))


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
    tips = _tips(("sampler", ""), ("trial", "d"), ("percent", ".2f"))
    lines: alt.Chart = alt.Chart(_data(rows)).mark_line(strokeWidth=2)
    return lines.encode(x=x, y=y, color=_colour("sampler", samplers), tooltip=tips)


def dram_reads(points: Table) -> Chart:
    """DRAM bytes read against group_m: points counted, lines simulated and by the closed form; a colour a tile."""
    series = {"simulated_read_bytes": "simulator", "closed_read_bytes": "closed form"}
    rows = [
        {"tile": r["tile"], "group_m": r["group_m"], "who": who, "megabytes": r[key] / 1e6}
        for r in points.rows() for key, who in {**series, "read_bytes": "counted"}.items()
    ]  # fmt: skip
    said, counted = ([r for r in rows if (r["who"] == "counted") == wanted] for wanted in (False, True))
    y = alt.Y("megabytes:Q", title="DRAM bytes read, MB", scale=alt.Scale(domainMin=0), axis=alt.Axis(ticks=False))
    tips = _tips(("who", ""), ("tile", ""), ("group_m", "d"), ("megabytes", ",.0f"))
    colour = _colour("tile", [r["tile"] for r in rows])
    dashes = alt.Scale(domain=list(series.values()), range=[[1, 0], [4, 4]])
    dash = alt.StrokeDash("who:N", scale=dashes, legend=_legend("bottom", symbolStrokeColor=MUTED))
    lines = alt.Chart(_data(said)).mark_line(strokeWidth=2)
    dots = alt.Chart(_data(counted)).mark_point(filled=True, size=70, opacity=0.9)
    return finish(
        alt.layer(
            lines.encode(x=_groups(points), y=y, color=colour, strokeDash=dash, tooltip=tips),
            dots.encode(x=_groups(points), y=y, color=colour, tooltip=tips),
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
    tips = _tips(("who", ""), ("tile", ""), ("group_m", "d"), ("percent", ".1f"))
    colour = _colour("tile", [r["tile"] for r in rows])
    names = alt.Scale(domain=counted, range=["circle", "triangle-up"])
    shape = alt.Shape("who:N", scale=names, legend=_legend("bottom", symbolFillColor=MUTED, symbolStrokeColor=MUTED))
    lines = alt.Chart(_data([r for r in rows if r["who"] == predicted])).mark_line(strokeWidth=2)
    dots = alt.Chart(_data([r for r in rows if r["who"] != predicted])).mark_point(filled=True, size=70, opacity=0.9)
    ends = [{"group_m": g, "low": 100 * quoted[0], "high": 100 * quoted[1]} for g in _ends(points)]
    shade = alt.Chart(_data(ends)).mark_area(color=MUTED, opacity=0.18, clip=True)
    return finish(
        alt.layer(
            shade.encode(x=_groups(points), y=alt.Y("low:Q", scale=scale), y2="high:Q"),
            lines.encode(x=_groups(points), y=y, color=colour, tooltip=tips),
            dots.encode(x=_groups(points), y=y, color=colour, shape=shape, tooltip=tips),
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


def picture(chart: Chart, kind: str, width: int = 640) -> bytes:
    """A chart as a PNG (twice the pixels, white behind) or an SVG: kind is 'png' or 'svg'."""
    import vl_convert

    spec = chart.properties(width=width, background="white").to_dict()
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    drawn: bytes = vl_convert.vegalite_to_png(spec, scale=2)
    return drawn


def finish(chart: Chart, height: int) -> Chart:
    """The look of every chart: as wide as its place, transparent, readable type, quiet grid.

    No ARIA of each mark: the page says what a chart is, its tables hold the figures, and thousands of points would be
    read out and printed as so many tags.
    """
    text: dict[str, Any] = {"labelFontSize": 12, "titleFontSize": 13, "labelColor": MUTED, "titleColor": INK}
    quiet: dict[str, Any] = {"gridColor": GRID, "domainColor": GRID, "tickColor": GRID, "titleFontWeight": "normal"}
    legend = alt.LegendConfig(**text, titleFontWeight="normal", symbolOpacity=1)
    sized = chart.properties(width="container", height=height, background="transparent")
    view, axis = alt.ViewConfig(stroke=None), alt.AxisConfig(**text, **quiet)
    drawn: Chart = sized.configure(aria=False, font=FONT, view=view, axis=axis, legend=legend)
    return drawn


def _data(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows as the chart's own data, not checked one by one against Altair's schema, which takes a second for 3,000."""
    with debug_mode(False):
        return alt.InlineData(values=[_rounded(row) for row in rows])


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Six digits are enough to draw and halve the page."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


def _span(values: Sequence[float]) -> tuple[float, float]:
    """A log axis that leaves a little room on both sides."""
    return (min(values) / 1.25, max(values) * 1.25) if values else (1.0, 10.0)


def _log(low: float, high: float) -> alt.Scale:
    return alt.Scale(type="log", domain=[float(f"{low:.4g}"), float(f"{high:.4g}")], nice=False)


def _log_axis(low: float, high: float) -> alt.Axis:
    """Lines and labels at powers of ten; at 2 and 5 between them where there are few."""
    powers = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    steps = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    values = [p * s for p in powers for s in steps if low <= p * s <= high]
    return alt.Axis(values=values, format=",~r", ticks=False)


def _colour(field: str, names: Sequence[str]) -> alt.Color:
    known = list(dict.fromkeys(names))
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(known))]
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=known, range=colours), legend=_legend())


def _shape(field: str, names: Sequence[str]) -> alt.Shape:
    """Tells apart those of one colour; one legend with `_colour` of the same names."""
    shapes = [SHAPES[i // len(PALETTE) % len(SHAPES)] for i in range(len(names))]
    return alt.Shape(f"{field}:N", scale=alt.Scale(domain=names, range=shapes), legend=_legend())


def _legend(orient: Literal["top", "bottom"] = "top", **more: Any) -> alt.Legend:
    return alt.Legend(orient=orient, title=None, columns=2, labelLimit=160, columnPadding=8, **more)


def _tips(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(f"{name}:Q", format=form, title=name.replace("_", " ")) if form else alt.Tooltip(f"{name}:N")
        for name, form in fields
    ]
