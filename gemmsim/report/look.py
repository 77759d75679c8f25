"""The look that all charts share: colours, axes, legends, and a chart as a picture.

page.css recolours charts on dark, so the colours here are those on white.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
from altair.utils.schemapi import debug_mode

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
BAR_HEIGHT = 16
#: a lane of a chart whose label stands above its bar
LANE_HEIGHT = BAR_HEIGHT + 22


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
    axis_x = alt.AxisConfig(labelPadding=7)  # the first label of x stands clear of the lowest of y
    legend = alt.LegendConfig(**text, titleFontWeight="normal", symbolOpacity=1)
    sized = chart.properties(width="container", height=height, background="transparent")
    view, axis = alt.ViewConfig(stroke=None), alt.AxisConfig(**text, **quiet)
    drawn: Chart = sized.configure(aria=False, font=FONT, view=view, axis=axis, axisX=axis_x, legend=legend)
    return drawn


class _Shared(alt.InlineData):
    """Rows that all copies of a chart share: Altair copies a chart at every step, and thousands of rows with it."""

    def __deepcopy__(self, memo: object) -> _Shared:
        return self


def inline(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows as the chart's own data, not checked one by one against Altair's schema, which takes a second for 3,000."""
    with debug_mode(False):
        return _Shared(values=[_rounded(row) for row in rows])


def csv_inline(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows as the chart's own data in CSV, a third of what JSON takes; for many. Numbers stay numbers."""
    names = list(rows[0]) if rows else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(_rounded(row).values() for row in rows)
    kinds = {name: "number" if isinstance(rows[0][name], int | float) else "string" for name in names}
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=kinds))


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Six digits are enough to draw and halve the page."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


def log_span(values: Sequence[float]) -> tuple[float, float]:
    """A log axis that leaves a little room on both sides."""
    return (min(values) / 1.25, max(values) * 1.25) if values else (1.0, 10.0)


def log_scale(low: float, high: float) -> alt.Scale:
    """A log scale from low to high, its ends not moved."""
    return alt.Scale(type="log", domain=[float(f"{low:.4g}"), float(f"{high:.4g}")], nice=False)


def log_axis(low: float, high: float) -> alt.Axis:
    """Lines and labels at powers of ten; at 2 and 5 between them where there are few."""
    powers = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    steps = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    values = [p * s for p in powers for s in steps if low <= p * s <= high]
    return alt.Axis(values=values, format=",~r", ticks=False)


def colour(field: str, names: Sequence[str]) -> alt.Color:
    """A colour a name, in the order of the names, with a legend; names may repeat."""
    known = list(dict.fromkeys(names))
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(known))]
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=known, range=colours), legend=legend())


def shape(field: str, names: Sequence[str]) -> alt.Shape:
    """Tells apart those of one colour; one legend with `colour` of the same names."""
    shapes = [SHAPES[i // len(PALETTE) % len(SHAPES)] for i in range(len(names))]
    return alt.Shape(f"{field}:N", scale=alt.Scale(domain=names, range=shapes), legend=legend())


def legend(orient: Literal["top", "bottom"] = "top", **more: Any) -> alt.Legend:
    """A legend above or below, in two columns where not said otherwise, so that it fits on a phone."""
    given = {"columns": 2, "labelLimit": 160, "columnPadding": 8} | more
    return alt.Legend(orient=orient, title=None, **given)


def lanes(field: str, names: Sequence[str]) -> alt.Y:
    """A lane a name, in the order of the names, which may repeat; `lane_titles` stand above what the lanes hold."""
    return alt.Y(f"{field}:N", sort=list(dict.fromkeys(names)), title=None, axis=None)


def lane_titles(field: str, labels: Mapping[str, str]) -> alt.Chart:
    """The label of each lane by its name: it has the chart's whole width, so that long ones fit on a phone."""
    rows = [{field: name, "lane title": label} for name, label in labels.items()]
    text = alt.Chart(inline(rows)).mark_text(align="left", dy=-9, fontSize=12, color=INK)
    titles: alt.Chart = text.encode(x=alt.value(2), y=lanes(field, list(labels)), text="lane title:N")
    return titles


def tooltips(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """Tooltips of (field, number format); a field without a format is text."""
    return [
        alt.Tooltip(f"{name}:Q", format=form, title=name.replace("_", " ")) if form else alt.Tooltip(f"{name}:N")
        for name, form in fields
    ]
