"""The report of a study of heat maps: tables and sentences follow the answer, charts are valid and hold every cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from studies_under_test import opened

from gemmsim.report.heatmap import plan, report
from gemmsim.report.heatmap.numbers import cells, errors, moves, safest, timed, tops
from gemmsim.report.heatmap.words import verdict
from gemmsim.study import open_study
from gemmsim.study.heatmap import HeatmapStudy
from gemmsim.study.heatmap.outcome import Outcome

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.heatmap import charts
from gemmsim.report.heatmap.page import page
from gemmsim.report.page import render

YAML = """\
kind: heatmap
title: A <title>
question: Which tile?
workload:
  shapes:
    - {name: square, m: 1024, n: 1024, k: 1024}
    - {name: thin, m: 64, n: 4096, k: 1024}
gpus: [a100_sxm_80gb, h200_sxm]
families: [triton, wgmma]
dtypes: [bf16]
vary:
  triton: {bm: [64, 128], bn: [64, 128]}
  wgmma: {bm: [8, 128], bn: [64, 256]}
rows: [rows.csv]
"""
ROWS = """\
gpu,family,dtype,l2,m,n,k,bm,bn,bk,num_warps,num_stages,group_m,time_s
h200_sxm,triton,bf16,cold_clean,1024,1024,1024,64,64,64,8,3,8,1e-5
h200_sxm,triton,bf16,cold_clean,1024,1024,1024,128,64,64,8,3,8,1.04e-5
h200_sxm,triton,bf16,cold_clean,1024,1024,1024,128,128,64,8,3,8,2e-5
h200_sxm,triton,bf16,cold_clean,64,4096,1024,64,64,64,8,3,8,3e-5
h200_sxm,triton,bf16,cold_clean,64,4096,1024,128,64,64,8,3,8,1e-5
h200_sxm,triton,bf16,cold_clean,64,4096,1024,128,128,64,8,3,8,1.1e-5
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return opened(HeatmapStudy, tmp_path_factory.mktemp("heat"), YAML, rows=ROWS).run()


def test_tops_are_the_maps_best_and_a_kernel_without_a_map_is_named(outcome: Outcome) -> None:
    found = tops(outcome)
    assert len(found) == 6  # not wgmma on the A100
    for row, m in zip(found.rows(), [m for m in outcome.maps if m.best], strict=True):
        assert m.best is not None
        assert (row["gpu"], row["family"], row["config"]) == (m.gpu, m.family, m.best.key)
        assert row["flops_per_s"] == m.work.flops / m.best.time_s
        assert (row["near"], row["tiles"]) == (m.near, len(m.launching))
    assert any("wgmma bf16 on a100_sxm_80gb has no map" in note for note in found.notes)
    assert any(note.startswith("Basis defaults: a100_sxm_80gb:") for note in found.notes)


def test_the_safest_tile_loses_least_in_its_worst_gemm(outcome: Outcome) -> None:
    rows = [r for r in safest(outcome).rows() if (r["gpu"], r["family"]) == ("h200_sxm", "triton")]
    measured = [r for r in rows if r["who"] == "measured"]
    assert [r["tile"] for r in measured] == ["128x64", "128x128", "64x64"]
    assert [round(r["worst"], 3) for r in measured] == [0.04, 1.0, 2.0]
    assert (measured[0]["worst_gemm"], measured[1]["worst_gemm"], measured[2]["worst_gemm"]) == (
        "square", "square", "thin")  # fmt: skip
    said = [r for r in rows if r["who"] == "predicted"]
    maps = [m for m in outcome.maps if (m.gpu, m.family) == ("h200_sxm", "triton")]
    worst = {place: max(m.loss(place) for m in maps) for place in maps[0].launching}
    assert [r["worst"] for r in said] == sorted(worst.values())[:3]
    held = {r["tile"]: r["worst"] for r in measured}
    assert all(r["measured_worst"] == held.get(r["tile"]) for r in said)


def test_errors_are_of_the_best_of_each_cell(outcome: Outcome) -> None:
    row = errors(outcome).rows()[0]
    cells_of = outcome.measured[0].cells
    off = [abs(c.predicted_s / c.measured_s - 1) for c in cells_of]
    assert row["mape"] == pytest.approx(sum(off) / 3)
    assert row["worst"] == pytest.approx(max(off))
    assert (row["near"], row["cells"], row["best_tile"]) == (2, 3, "64x64")
    picked = min(cells_of, key=lambda c: c.predicted_s)
    assert row["regret"] == pytest.approx(picked.measured_s / 1e-5 - 1)


def test_sentences_are_made_of_the_numbers(outcome: Outcome) -> None:
    text = " ".join(verdict(outcome))
    worst = next(r for r in safest(outcome).rows() if r["who"] == "measured")
    assert f"{100 * worst['worst']:.1f} % at most ({worst['worst_gemm']})" in text
    said = [r for r in safest(outcome).rows() if r["who"] == "predicted"]
    first = next(r for r in said if (r["gpu"], r["family"]) == ("h200_sxm", "wgmma"))
    assert f"wgmma bf16, {first['tile']} {100 * first['worst']:.1f} % ({first['worst_gemm']}) on h200_sxm" in text
    found = tops(outcome).data
    assert f"Of the tiles that can launch {100 * sum(found['near']) / sum(found['tiles']):.0f} % are predicted" in text
    same = sum(r["same"] for r in moves(outcome).rows())
    assert f"the same in {same} of 2 pairs of kernel and GEMM" in text
    assert "Measured on h200_sxm, triton bf16: within 5 % of a GEMM's best are 1 to 2 of 3 tiles" in text


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(YAML.replace("rows: [rows.csv]\n", ""))
    study = open_study(str(tmp_path / "mine.yaml")).with_gpus(["a100_sxm_80gb"])
    found = study.run()
    text = " ".join(verdict(found))
    assert "Nothing measured stands beside these maps." in text
    assert "From GPU to GPU" not in text
    html = render(page(found))
    assert html.count('class="chart"') == 2
    assert set(report(study, found).files) == {"tops", "safest", "cells"}


def drawn(chart: Any) -> list[dict[str, Any]]:
    """The rows of a chart that Vega-Lite can compile."""
    import vl_convert

    spec = chart.to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    return [row for rows in spec["datasets"].values() for row in rows]


def test_a_predicted_map_holds_every_cell_the_best_framed_and_reasons(outcome: Outcome) -> None:
    m = next(m for m in outcome.maps if (m.gpu, m.family, m.work.name) == ("h200_sxm", "wgmma", "square"))
    rows = drawn(charts.predicted_map(cells(outcome.study, [m]), "bn", "bm"))
    assert {(r["x"], r["y"]) for r in rows} == {(64, 8), (256, 8), (64, 128), (256, 128)}
    refused = [r for r in rows if r.get("reason")]
    assert {r["y"] for r in refused} == {8}
    assert all(r["reason"].startswith("x_side") for r in refused)
    best = [r for r in rows if r.get("best")]
    assert [(r["x"], r["y"]) for r in best] == [m.best.place if m.best else None]
    assert best[0]["shade"] == "95"
    shade = {r["of_best"]: r["shade"] for r in rows if "shade" in r}
    assert all((name == "95") == (share >= 0.95) for share, name in shade.items())


def test_measured_and_error_maps_hold_the_rows(outcome: Outcome) -> None:
    held, m = outcome.measured[0], next(m for m in outcome.maps if m.gpu == "h200_sxm")
    table, like = timed(outcome.study, [held]), cells(outcome.study, [m])
    rows = drawn(charts.measured_map(table, like, "bn", "bm"))
    assert sorted(r["time_us"] for r in rows) == pytest.approx([10, 10.4, 20])
    assert [r["tile"] for r in rows if r["best"]] == ["64x64"]
    off = drawn(charts.error_map(table, like, "bn", "bm"))
    assert [r["text"] for r in off] == [f"{100 * e:+.0f}" for e in table.data["error"]]
    assert not any(r["best"] for r in off)


def test_the_page_has_a_section_a_gemm_and_kernel(outcome: Outcome) -> None:
    html = render(page(outcome))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == 6 + 2 * 2
    assert "triton bf16, thin: 64 x 4096 x 1024" in html
    assert 'class="charts" style="--least: 360px"' in html
    places = [html.index(text) for text in ('id="moves"', 'class="charts"', 'id="tops"', 'id="errors"')]
    assert places == sorted(places)  # maps stand before the long tables
    names = plan(outcome.study).tables["gemms"].data["gemm"]
    assert names == ["square", "thin"]
    assert set(report(outcome.study, outcome).shown) == {"tops", "safest", "moves", "errors"}
