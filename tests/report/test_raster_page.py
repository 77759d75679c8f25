"""The page of a study of raster orders: its figures are the rows', its charts valid, its verdict in the rows' words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemmsim import load_gpu, predict
from gemmsim.measured import Measured
from gemmsim.report.raster.numbers import errors, gains, launches, verdict
from gemmsim.study.raster import QUOTED, Launch, RasterStudy, Sweep

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.page import render
from gemmsim.report.raster import charts
from gemmsim.report.raster.page import page


def launch(group_m: int, read: float, time_s: float, clock: float, predicted: float, n: int = 4096) -> Launch:
    return Launch(4096, n, 4096, "128x128x64", group_m, read, 1.1 * read, 0.8 * read, 2e7, 1e7, 3e7, time_s, clock,
                  predicted, 2 * time_s, "sw_power_cap" if group_m > 1 else "")  # fmt: skip


SWEEPS = (
    Sweep((launch(1, 4e8, 3e-4, 1.5e9, 3e-4), launch(4, 3e8, 2.5e-4, 1.55e9, 2.8e-4),
           launch(16, 2e8, 2.4e-4, 1.6e9, 2.9e-4))),
    Sweep((launch(1, 4e8, 3e-4, 1.5e9, 3e-4, 8192), launch(4, 4e8, 3e-4, 1.5e9, 3e-4, 8192))),
)  # fmt: skip


def test_gains_are_against_row_by_row() -> None:
    row, same = gains(SWEEPS).rows()
    assert (row["group_m"], row["predicted_group_m"]) == (16, 4)
    assert row["time_gain"] == pytest.approx(0.25)
    assert row["clocks_gain"] == pytest.approx(0.25 / 1.6 * 1.5 - 0.1 / 1.6)
    assert row["clock_gain"] == pytest.approx(1 / 15)
    assert (row["reads_fewer"], row["simulated_fewer"]) == (2, pytest.approx(2))
    assert row["predicted_gain"] == pytest.approx(3 / 2.8 - 1)
    assert row["regret"] == pytest.approx(2.5 / 2.4 - 1)
    assert (same["time_gain"], same["regret"]) == (0, 0)


def test_errors_of_both_models_and_written_bytes_that_are_few_left_out() -> None:
    found = {(row["what"], row["model"]): row for row in errors(SWEEPS).rows()}
    assert found["DRAM read", "simulator"]["mean"] == pytest.approx(0.1)
    assert found["DRAM read", "closed form"]["worst"] == pytest.approx(0.2)
    assert found["DRAM written, over 10 MB", "simulator"]["launches"] == 5
    few = [Sweep(tuple(replace(x, write_bytes=1e6) for x in sweep.launches)) for sweep in SWEEPS]
    assert [row["what"] for row in errors(few).rows()] == ["DRAM read", "DRAM read"]


def test_the_verdict_confronts_what_is_quoted_and_says_what_is_unstable() -> None:
    first, made, predicted, unstable = verdict(SWEEPS)
    assert "0.0 to 25.0 % faster than row by row, 12.5 % in the median: 1 of 2 problems" in first
    assert "the 20 to 40 % that are often quoted" in first
    assert "rank correlation -1.00" in made
    assert "loses 4.2 % at most" in predicted
    assert unstable.startswith("3 of the 5 rows timed by events are marked unstable (sw_power_cap 3)")
    stable = [Sweep(tuple(replace(x, unstable="", clock_hz=1.5e9) for x in sweep.launches)) for sweep in SWEEPS]
    lines = list(verdict(stable))
    assert len(lines) == 3
    assert "rank correlation" not in lines[1]


@pytest.mark.parametrize("draw", ["dram_reads", "order_gains"])
def test_charts_are_valid_and_hold_every_launch(draw: str) -> None:
    import vl_convert

    table = launches(SWEEPS)
    chart: Any = charts.dram_reads(table) if draw == "dram_reads" else charts.order_gains(table, QUOTED)
    spec = chart.to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    values = [v for data in spec["datasets"].values() for v in data if "who" in v]
    key = "megabytes" if draw == "dram_reads" else "percent"
    assert len(values) == 3 * 5
    drawn = sorted(v[key] for v in values if v["who"] in ("counted", "counted time"))
    column = {"megabytes": [v / 1e6 for v in table.data["read_bytes"]],
              "percent": [100 * v for v in table.data["time_gain"]]}[key]  # fmt: skip
    assert drawn == pytest.approx(sorted(column), rel=1e-5)


def test_the_page_has_a_section_a_problem() -> None:
    p = predict(np.asarray([4096]), 4096, 4096, gpu="h200_sxm")
    rows = Measured(p.problem, p.config, {}, np.ones(1), load_gpu("h200_sxm"), "cold_clean")
    study = RasterStudy("s", "s.yaml", "A <title>", "Why?", rows, {}, ("",))
    html = render(page(study, SWEEPS))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == 4
    assert "4096 x 8192 x 4096" in html
    assert "25.0 %" in html
