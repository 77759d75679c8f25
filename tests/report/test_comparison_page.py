"""The page of a comparison of GPUs: tables are the answer's, charts valid, the first lines name the fastest and why."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest

from gemmsim.report.comparison import numbers
from gemmsim.study import open_study
from gemmsim.study.comparison import ComparisonStudy, Pass

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.comparison import charts
from gemmsim.report.comparison.page import page
from gemmsim.report.page import render

YAML = """\
kind: comparison
title: "A <title>"
question: Q
workload: {shapes: [{name: square, m: 1024, n: 1024, k: 1024, count: 2}]}
gpus: [a100_sxm_80gb, h100_sxm, b200_sxm]
dtypes: [fp16]
families: [triton]
vary: {triton: {bm: [64, 128], bn: [64, 128]}}
what_if: {h100_sxm: {dram_bytes_per_s: 4.0e+12}}
sensitivity: true
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ComparisonStudy:
    path: Path = tmp_path_factory.mktemp("study") / "mine.yaml"
    path.write_text(YAML)
    found = open_study(str(path))
    assert isinstance(found, ComparisonStudy)
    return found


@pytest.fixture(scope="module")
def passes(study: ComparisonStudy) -> tuple[Pass, ...]:
    return study.run()


def test_times_are_the_cards_and_reasons_multiply_to_the_speedup(passes: tuple[Pass, ...]) -> None:
    cards = passes[0].found.cards
    rows = numbers.times(passes).rows()
    assert [(r["gpu"], r["time_s"], r["basis"]) for r in rows] == [(c.label, c.time_s, "defaults") for c in cards]
    assert rows[0]["reason"] == "baseline"
    for r in rows[1:]:
        factors = [x["factor"] for x in numbers.reasons(passes).rows() if x["gpu"] == r["gpu"]]
        assert r["ratio"] == pytest.approx(cards[0].time_s / r["time_s"]) == pytest.approx(prod(factors))


def test_the_first_line_names_the_fastest_that_is_there(study: ComparisonStudy, passes: tuple[Pass, ...]) -> None:
    first, basis, what_if, hangs, *beware = numbers.verdict(study, passes)
    real = [c for c in passes[0].found.cards if not c.label.endswith("*")]
    best = min(real, key=lambda c: c.time_s)
    assert first.startswith(f"All (M = 1024, fp16): {best.label} is predicted to be fastest")
    assert f"{real[0].time_s / best.time_s:.2f} times as fast as a100_sxm_80gb, because of" in first
    assert basis.startswith("Nothing here is measured, and no GPU's time is calibrated")
    assert "h100_sxm had dram_bytes_per_s = 4e+12 (h100_sxm*; no such chip was measured)" in what_if
    assert "1 % more of one figure" in hangs
    assert any("tcgen05" in line for line in beware)


def test_the_baseline_may_be_the_fastest(study: ComparisonStudy) -> None:
    alone = study.with_gpus(["h100_sxm", "a100_sxm_80gb"]).run()
    line = next(iter(numbers.verdict(study, alone)))
    assert "h100_sxm is predicted to be fastest" in line
    assert line.endswith("it is the baseline.")


def test_what_a_file_does_not_know_is_unknown(study: ComparisonStudy) -> None:
    row = next(r for r in numbers.hardware(study).rows() if r["figure"] == "peak_flops.fp8")
    assert (row["a100_sxm_80gb"], row["a100_sxm_80gb_kind"]) == ("unknown", "unknown")
    assert row["h100_sxm"].endswith("TFLOP/s")
    clock = next(r for r in numbers.hardware(study).rows() if r["figure"] == "clock_hz")
    assert clock["h100_sxm"] == "1,980 MHz"
    assert clock["b200_sxm_kind"] == "device"


def test_gains_and_losses_are_laid_end_to_end() -> None:
    pieces = numbers.stacked([{"factor": 1.5}, {"factor": 0.5}, {"factor": 2.0}, {"factor": 0.8}])
    assert [(p["from"], p["to"]) for p in pieces] == [(1, 0.5), (1, 2), (2, 3), (0.5, pytest.approx(0.4))]


def test_figures_that_do_nothing_are_left_out_and_the_largest_come_first(passes: tuple[Pass, ...]) -> None:
    every, kept = numbers.elasticities(passes), numbers.matter(numbers.elasticities(passes))
    largest = {f: max(abs(r["elasticity"]) for r in every.rows() if r["figure"] == f) for f in every.data["figure"]}
    shown = list(dict.fromkeys(kept.data["figure"]))
    assert shown == sorted((f for f in largest if largest[f] >= 0.02), key=lambda f: -largest[f])
    assert "tdp_w" not in shown
    wide = numbers.wide(kept).rows()
    assert [row["figure"] for row in wide] == shown


@pytest.mark.parametrize("draw", ["times", "reasons", "elasticities"])
def test_charts_are_valid(draw: str, passes: tuple[Pass, ...]) -> None:
    import vl_convert

    chart: Any = {
        "times": lambda: charts.times(numbers.times(passes)),
        "reasons": lambda: charts.reasons(numbers.reasons(passes)),
        "elasticities": lambda: charts.elasticities(numbers.matter(numbers.elasticities(passes))),
    }[draw]()
    spec = chart.to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    if draw == "times":
        values = next(rows for rows in spec["datasets"].values() if "ms" in rows[0])
        expected = sorted(1e3 * c.time_s for c in passes[0].found.cards)
        assert [v["ms"] for v in values] == pytest.approx(expected, rel=1e-5)


def test_the_page_renders(study: ComparisonStudy, passes: tuple[Pass, ...]) -> None:
    html = render(page(study, passes))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == html.count('type="application/json"') == 5
    assert "unknown" in html
    assert len(html.encode()) < 4e6
