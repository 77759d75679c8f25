"""Charts of a study of heat maps: the predicted map, the measured one, and the error between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from gemmsim.report.look import MUTED, PALETTE, Chart, finish, inline, tooltips
from gemmsim.report.table import Table

#: text on light and on dark cells; page.css keeps both as they are in either theme
ON_LIGHT, ON_DARK = "#101418", "#FFFFFF"
#: share of the best from which, its name, its colour (of viridis, the same in both themes) and the text on it
SHADES = (
    (0.95, "95", "#fde725", ON_LIGHT), (0.90, "90", "#8fd744", ON_LIGHT), (0.80, "80", "#35b779", ON_LIGHT),
    (0.65, "65", "#21918c", ON_LIGHT), (0.50, "50", "#31688e", ON_DARK), (0.0, "less", "#443983", ON_DARK),
)  # fmt: skip
#: error of the time from which, and so on: too fast blue, too slow red
ERRORS = (
    (0.20, "> 20", "#b2182b", ON_DARK), (0.10, "> 10", "#f4a582", ON_LIGHT),
    (-0.10, "± 10", "#d9dde1", ON_LIGHT), (-0.20, "< -10", "#92c5de", ON_LIGHT),
    (-1.0, "< -20", "#2166ac", ON_DARK),
)  # fmt: skip
Shades = tuple[tuple[float, str, str, str], ...]
#: pixels of a cell's side: of maps with many rows, and with few
SMALL, LARGE, FEW = 22, 40, 8


def predicted_map(cells: Table, x: str, y: str) -> Chart:
    """One GPU, kernel and GEMM: the best of each cell, what cannot launch in grey, the best framed. x, y: names."""
    rows = [_shaded(r, r["share"], SHADES, f"{r['flops_per_s'] / 1e12:.0f}") for r in cells.rows() if not r["reason"]]
    grey = [{"x": r["x"], "y": r["y"], "tile": r["tile"], "reason": r["reason"]} for r in cells.rows() if r["reason"]]
    names = (("tile", ""), ("tflops", ",.1f"), ("of_best", ".1%"), ("of_peak", ".1%"), ("time_us", ",.1f"),
             ("configuration", ""), ("bound", ""), ("can_launch", ",d"))  # fmt: skip
    return _map(cells, rows, grey, (x, y), SHADES, "% of the best", names, 0)


def measured_map(cells: Table, like: Table, x: str, y: str) -> Chart:
    """The same of measured rows, as round cells; `like`: the predicted map, whose axes it takes."""
    rows = [_shaded(r, r["share"], SHADES, f"{r['flops_per_s'] / 1e12:.0f}") for r in cells.rows()]
    names = (("tile", ""), ("tflops", ",.1f"), ("of_best", ".1%"), ("time_us", ",.1f"), ("configuration", ""),
             ("rows", "d"))  # fmt: skip
    return _map(like, rows, [], (x, y), SHADES, "% of the best", names, 12)


def error_map(cells: Table, like: Table, x: str, y: str) -> Chart:
    """How much longer than measured the best of each cell is predicted to take."""
    rows = [_shaded(r, r["error"], ERRORS, f"{100 * r['error']:+.0f}") for r in cells.rows()]
    names = (("tile", ""), ("time_us", ",.1f"), ("predicted_us", ",.1f"), ("error", "+.1%"), ("rows", "d"))
    return _map(like, [{**r, "best": False} for r in rows], [], (x, y), ERRORS, "time, %", names, 0)


def _shaded(r: dict[str, Any], value: float, shades: Shades, text: str) -> dict[str, Any]:
    """A cell with its shade, the text on it, and what the tooltip says."""
    _, name, _, ink = next((s for s in shades if value >= s[0]), shades[-1])
    said = {
        "x": r["x"], "y": r["y"], "tile": r["tile"], "best": r["best"], "shade": name, "ink": ink, "text": text,
        "tflops": r["flops_per_s"] / 1e12, "of_best": r["share"], "configuration": r["config"],
    }  # fmt: skip
    if "measured_s" in r:
        return {**said, "time_us": 1e6 * r["measured_s"], "predicted_us": 1e6 * r["predicted_s"], "error": r["error"],
                "rows": r["rows"]}  # fmt: skip
    return {**said, "time_us": 1e6 * r["time_s"], "of_peak": r["peak_share"], "bound": r["bound_by"],
            "can_launch": r["configurations"]}  # fmt: skip


def _map(
    like: Table, rows: Sequence[dict[str, Any]], grey: Sequence[dict[str, Any]], axes: tuple[str, str], shades: Shades,
    title: str, tips: Sequence[tuple[str, str]], corner: int,
) -> Chart:  # fmt: skip
    xs, ys = (sorted(set(like.data[key])) for key in ("x", "y"))
    turned = -90 if len(xs) > FEW else 0
    x = alt.X("x:O", title=axes[0], scale=alt.Scale(domain=xs, paddingInner=0.06),
              axis=alt.Axis(labelAngle=turned, ticks=False, domain=False, grid=False))  # fmt: skip
    y = alt.Y("y:O", title=axes[1], scale=alt.Scale(domain=ys, paddingInner=0.06),
              axis=alt.Axis(ticks=False, domain=False, grid=False))  # fmt: skip
    colour, font = _colour(rows, shades, title), _font(len(xs))
    cell, told = alt.Chart().transform_filter("isValid(datum.shade)"), tooltips(*tips)
    frame = alt.Chart().transform_filter("datum.best").mark_rect(
        filled=False, stroke=PALETTE[1], strokeWidth=3, cornerRadius=corner
    )  # fmt: skip
    refused = alt.Chart().transform_filter("datum.reason").mark_rect(color=MUTED, opacity=0.13)
    layers = [
        refused.encode(x=x, y=y, tooltip=tooltips(("tile", ""), ("reason", ""))),
        cell.mark_rect(cornerRadius=corner).encode(x=x, y=y, color=colour, tooltip=told),
        *(
            alt.Chart()
            .transform_filter(f"datum.ink === '{ink}'")
            .mark_text(fontSize=font, color=ink)
            .encode(x=x, y=y, text="text:N", tooltip=told)
            for ink in (ON_LIGHT, ON_DARK)
        ),
        frame.encode(x=x, y=y, tooltip=told),
    ]
    # one set of rows for all layers: Altair copies those of a layer again and again
    chart = alt.layer(*layers, data=inline([*rows, *grey]))
    return finish(chart, height=len(ys) * (SMALL if len(ys) > FEW else LARGE))


def _colour(rows: Sequence[dict[str, Any]], shades: Shades, title: str) -> alt.Color:
    """The colours of the shades that there are."""
    there = [shade for shade in shades if any(r["shade"] == shade[1] for r in rows)]
    scale = alt.Scale(domain=[s[1] for s in there], range=[s[2] for s in there])
    return alt.Color("shade:N", scale=scale, legend=_legend(title, len(there)))


def _legend(title: str, entries: int) -> alt.Legend:
    """One row, so that it fits above a map on a phone."""
    return alt.Legend(
        orient="top", title=title, titleOrient="left", titleLimit=90, columns=entries, symbolType="square",
        columnPadding=6, labelOffset=2, symbolSize=90, labelLimit=70,
    )  # fmt: skip


def _font(columns: int) -> Any:
    """As large as a number of three digits has room for, and none where that cannot be read."""
    return alt.expr(f"width / {columns} < 24 ? 0 : min(11, width / {columns} / 2.3)")
