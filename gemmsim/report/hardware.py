"""Tables of GPUs' figures that `gemmsim specs compare` and pages draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gemmsim.hardware import Gpu
from gemmsim.report.table import Column, Table, table

#: charted figures that are not by dtype: key in the comparison -> name in the chart
_CHARTED = {
    "sm_count": "SMs",
    "dram_bytes": "DRAM",
    "dram_bytes_per_s": "DRAM rate",
    "l2_bytes": "L2",
    "tdp_w": "power limit",
}


def ratios(chips: Sequence[Gpu], rows: Sequence[Mapping[str, Any]], human: Callable[[Any, str], str]) -> Table:
    """The table that charts.gpus_compared draws: a row a figure and GPU, from gemmsim.comparison.figures.

    human: a value and its unit as people read them.
    """
    found = []
    for row in rows:
        key, _, dtype = row["figure"].partition(".")
        names = {"peak_flops": f"{dtype} dense", "ridge": f"ridge {dtype}"}
        name = names.get(key, _CHARTED.get(row["figure"]))
        for chip in chips if name else ():
            value = row[chip.name]
            ratio = 1.0 if value and chip is chips[0] else row[f"{chip.name}_ratio"]
            found.append(
                {"figure": name, "gpu": chip.name, "value": value, "shown": human(value, row["unit"]), "ratio": ratio}
            )
    shown = (Column("figure", "figure"), Column("gpu", "GPU"), Column("shown", "value"), Column("ratio", "ratio", "x"))
    return table("comparison", "Figures and ratios", shown, found, f"ratios are to {chips[0].name}")


def roofs(chips: Sequence[Gpu], dtypes: Sequence[str]) -> Table:
    """Dense peak and memory bandwidth of each GPU and type, and the intensity where they meet."""
    shown = (
        Column("gpu", "GPU"), Column("dtype", "type"), Column("peak_flops_per_s", "dense peak", "FLOP/s"),
        Column("dram_bytes_per_s", "memory", "B/s"), Column("ridge", "ridge, FLOP/B"),
    )  # fmt: skip
    rows = []
    for dtype in dtypes:
        for chip in chips:
            peak = chip.peak_flops(dtype) or float("nan")
            rows.append({"gpu": chip.name, "dtype": dtype, "peak_flops_per_s": peak,
                         "dram_bytes_per_s": chip.dram_bytes_per_s, "ridge": peak / chip.dram_bytes_per_s})  # fmt: skip
    return table("roofs", "Dense peaks and ridges", shown, rows)
