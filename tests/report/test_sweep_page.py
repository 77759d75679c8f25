"""The page of a sweep: tables that are the answer's, charts that hold the tables, sentences that follow the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemmsim.report.kinds import plan_of, report_of
from gemmsim.report.sweep import measured, numbers
from gemmsim.report.sweep.verdict import verdict
from gemmsim.study import open_study
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.edges import Edge, Scheduled
from gemmsim.study.sweep.line import Line, Point
from gemmsim.study.sweep.outcome import Outcome
from gemmsim.study.sweep.timed import Timed

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.page import render
from gemmsim.report.sweep import charts
from gemmsim.report.sweep.page import page

TEXT = """\
kind: sweep
title: A <title>
question: Why?
vary: m
sizes: [64, 128, 256]
products: [{name: up, n: 4096, k: 1024}]
gpus: [GPUS]
dtype: bf16
curves:
  - {name: whole, config: {wgmma: {bm: 128, bn: 256}}}
  - {name: stream, config: {wgmma: {bm: 128, bn: 256, stream_k: 1}}}
baseline: whole
show: [rate, time, memory]
"""


def study_of(folder: Path, gpus: str = "h200_sxm") -> SweepStudy:
    path = folder / "mine.yaml"
    path.write_text(TEXT.replace("GPUS", gpus))
    study = open_study(str(path))
    assert isinstance(study, SweepStudy)
    return study


def point(size: int, time_s: float, waves: int = 1, bound: str = "dram", basis: str = "fitted") -> Point:
    return Point(size, "wgmma", "128x256x64", time_s, 0.9 * time_s, 1.1 * time_s, 1e6 * size / time_s, 5e-6 / time_s,
                 1e7, waves, 1, bound, basis)  # fmt: skip


def timed(curve: str, size: int, time_s: float, predicted_s: float) -> Timed:
    return Timed("h200_sxm", "up", curve, "rows.csv", size, "wgmma", "128x256x64", 3, time_s, 1e6 * size / time_s,
                 5e-6 / time_s, predicted_s, None, None)  # fmt: skip


@pytest.fixture
def outcome(tmp_path: Path) -> Outcome:
    """whole: 10, 10.5 and 40 us; stream: 12, 10, 20 us; a further wave at 256."""
    study = study_of(tmp_path)
    whole = [point(64, 10e-6), point(128, 10.5e-6), point(256, 40e-6, 2, "math", "extrapolated")]
    stream = [point(64, 12e-6), point(128, 10e-6, bound="l2"), point(256, 20e-6, 1, "math")]
    lines = (
        Line("h200_sxm", "up", "whole", "bf16", True, tuple(whole)),
        Line("h200_sxm", "up", "stream", "bf16", True, tuple(stream)),
    )
    edge = Edge("h200_sxm", "up", whole[1], whole[2], None, (Scheduled(1, 10.5e-6), Scheduled(2, 41e-6)),
                {"stream": stream[2]})  # fmt: skip
    found = (timed("whole", 128, 11e-6, 10.5e-6), timed("stream", 128, 8e-6, 10e-6))
    return Outcome(study, lines, (edge,), found)


def test_the_edge_table_says_what_is_lost_and_what_another_curve_gains(outcome: Outcome) -> None:
    [row] = numbers.edges(outcome).rows()
    assert (row["waves"], row["last"], row["first"], row["again"]) == ("1 to 2", 128, 256, None)
    assert row["drop"] == pytest.approx(1 - (256 / 40) / (128 / 10.5))
    assert row["back_0"] == pytest.approx(1.0)
    assert row["scheduled_waves"] == "1 to 2"
    assert row["scheduled_off"] == pytest.approx(41 / 40 - 1)


def test_the_curve_table_holds_each_against_the_baseline(outcome: Outcome) -> None:
    whole, stream = numbers.curves(outcome).rows()
    assert whole["median"] is None
    assert (whole["best_at"], whole["basis"]) == (128, "fitted, extrapolated")
    assert stream["median"] == pytest.approx(0.05)
    assert (stream["most"], stream["most_at"]) == (pytest.approx(1.0), 256)
    assert (stream["least"], stream["least_at"]) == (pytest.approx(10 / 12 - 1), 64)
    assert stream["faster"] == pytest.approx(2 / 3)


def test_reach_is_of_the_fastest_curve_at_each_size(outcome: Outcome) -> None:
    [row] = numbers.reach(outcome).rows()
    assert (row["first_s"], row["curve"]) == (10e-6, "whole")
    assert (row["short_to"], row["memory_to"], row["then"]) == (128, 128, "math")
    assert (row["most_share"], row["most_at"]) == (pytest.approx(0.5), 64)
    assert not len(numbers.reach(replace(outcome, study=replace(outcome.study, show=("rate",)))))


def test_measured_gains_are_of_measured_rows_alone(outcome: Outcome) -> None:
    whole, stream = measured.timed(outcome).rows()
    assert whole["gain"] is None
    assert stream["gain"] == pytest.approx(11 / 8 - 1)
    assert stream["predicted_gain"] == pytest.approx(10.5 / 10 - 1)
    assert stream["error"] == pytest.approx(10 / 8 - 1)


def on_edge(outcome: Outcome) -> Outcome:
    """Both curves timed on both sides of the edge; stream slower before it, which was not foreseen."""
    found = (
        timed("whole", 128, 11e-6, 10.5e-6), timed("whole", 256, 44e-6, 40e-6),
        timed("stream", 128, 12e-6, 10e-6), timed("stream", 256, 22e-6, 20e-6),
    )  # fmt: skip
    return replace(outcome, timed=found)


def test_errors_are_averaged_by_curve_without_their_sign(outcome: Outcome) -> None:
    whole, stream = measured.by_curve(on_edge(outcome)).rows()
    off = [10.5 / 11 - 1, 40 / 44 - 1]
    assert (whole["points"], whole["mean_error"]) == (2, pytest.approx(-sum(off) / 2))
    assert (whole["worst_error"], whole["worst_at"]) == (pytest.approx(off[1]), "M 256")
    assert (whole["both"], whole["faster"]) == (None, None)
    assert (stream["both"], stream["faster"], stream["faster_foreseen"]) == (2, 1, 1)
    assert (stream["slower"], stream["slower_foreseen"]) == (1, 0)  # 11 over 12 measured, 10.5 over 10 predicted
    assert (stream["least"], stream["least_at"]) == (pytest.approx(11 / 12 - 1), "M 128")


def test_measured_edges_have_both_sides_and_what_the_rate_loses(outcome: Outcome) -> None:
    before, after = measured.at_edges(on_edge(outcome)).rows()
    assert [(r["size"], r["waves"], r["time_s"]) for r in (before, after)] == [(128, 1, 11e-6), (256, 2, 44e-6)]
    assert (before["lost"], after["lost"]) == (None, pytest.approx(1 - 2 * 11 / 44))
    assert after["predicted_lost"] == pytest.approx(1 - 2 * 10.5 / 40)
    assert before["gain_0"] == pytest.approx(11 / 12 - 1)
    assert (after["gain_0"], after["predicted_gain_0"]) == (pytest.approx(1.0), pytest.approx(1.0))
    assert not len(measured.at_edges(outcome))  # timed on one side alone


def test_measured_edges_and_errors_are_told_first(outcome: Outcome) -> None:
    _, _, edge, beside, off, gained, *_ = verdict(on_edge(outcome))
    assert edge == "Measured at 1 of the 1 edge: the rate falls by 50.0 %; of the same rows 47.5 % is predicted."
    assert "just past an edge stream +100.0 % (+100.0 %); at the last size before one stream -8.3 % (+5.0 %)" in beside
    assert "by curve: whole 6.8 %, stream 12.9 %; furthest off is stream at M 128, predicted 16.7 % too short." in off
    assert "more than 1 % slower at 1 (foreseen at 0), from -8.3 % (M 128) to 100.0 % (M 256)." in gained


def test_measured_reach_is_of_the_fastest_timed_row_of_each_size(outcome: Outcome) -> None:
    assert not len(measured.reached(outcome))  # nothing was timed at the first size
    first = (timed("whole", 64, 11e-6, 10e-6), timed("stream", 64, 10e-6, 10e-6))
    found = replace(outcome, timed=(*first, timed("whole", 128, 10.9e-6, 1e-5), timed("whole", 256, 4e-5, 4e-5)))
    [row] = measured.reached(found).rows()
    assert (row["first_s"], row["curve"], row["short_to"]) == (10e-6, "stream", 128)
    assert (row["most_share"], row["most_at"]) == (pytest.approx(0.5), 64)
    assert "within 10 % of the time at M 64 up to M 128; 50 % of the memory's bandwidth at best." in "\n".join(
        verdict(found)
    )
    assert not len(measured.reached(replace(found, study=replace(outcome.study, show=("rate",)))))


def test_of_a_long_table_of_points_those_furthest_off_are_told(outcome: Outcome) -> None:
    many = tuple(timed("whole", size, 1e-5, 1e-5 * (1 + size / 1000)) for size in range(1, 60))
    told = measured.timed(replace(outcome, timed=many)).told
    assert told.rows == tuple(range(58, 38, -1))
    assert told.which == "furthest from their prediction first"


def test_the_verdict_follows_the_figures(outcome: Outcome) -> None:
    text = "\n".join(verdict(outcome))
    assert "Predicted, whole: where a further wave begins the rate falls by 47.5 % at worst (M 128 to 256" in text
    assert "as fast again nowhere in this range" in text
    assert "Worth choosing, the last M before an edge: 128." in text
    assert "against whole: stream 100.0 % faster." in text
    assert "2 of the 2 launches beside edges take as many waves" in text
    assert "differ by 2.50 % at most" in text
    assert "stream against whole: more than 1 % faster at 2 of 3 points, by 100.0 % at most (M 256); at 1" in text
    assert "20.0 % at worst (M 64)" in text
    assert "at most 10 % longer than at M 64 up to M 128, and DRAM or L2 bounds it up to M 128" in text
    assert "2 points on h200_sxm" in text
    assert (
        "off on average, by curve: whole 4.5 %, stream 25.0 %; furthest off is stream at M 128, predicted 25.0 % too"
        in text
    )
    assert (
        "Measured, stream against whole, the fastest timed of each at 1 point: more than 1 % faster at 1 (foreseen"
        in text
    )
    assert "1 of all 6 points lie outside their range" in text


def test_the_verdict_says_so_where_nothing_is_gained_measured_or_crossed(outcome: Outcome) -> None:
    whole = outcome.lines[0]
    same = replace(whole, curve="stream", points=tuple(replace(p, basis="defaults") for p in whole.points))
    alike = replace(outcome, lines=(replace(same, curve="whole"), same), edges=(), timed=())
    text = "\n".join(verdict(alike))
    assert "whole takes no further wave at any M of this range." in text
    assert "stream against whole: at none of 3 points more than 1 % faster: no gain is predicted; nowhere" in text
    assert "Nothing was measured for this study: every figure is predicted." in text
    assert "Those of h200_sxm are physical defaults" in text
    assert "fitted" not in text
    unplaced = replace(outcome, edges=tuple(replace(e, scheduled=None) for e in outcome.edges))
    assert "No launch beside an edge could be placed block by block" in "\n".join(verdict(unplaced))


@pytest.mark.parametrize("what", list(charts.SHOWN))
def test_charts_are_valid_and_hold_every_point(outcome: Outcome, what: str) -> None:
    import vl_convert

    points, timed, edges = numbers.points(outcome), measured.timed(outcome), numbers.edges(outcome)
    spec: Any = charts.against_size(points, timed, what, "m", True, edges).to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    values = [v for data in spec["datasets"].values() for v in data if "who" in v]
    key, factor, _, _ = charts.SHOWN[what]
    for table, who in ((points, "predicted"), (timed, "measured")):
        drawn = {v["value"] for v in values if v["who"] == who}
        assert sorted(drawn) == pytest.approx(sorted({factor * v for v in table.data[key] if v is not None}), rel=1e-5)
    rules = [v for data in spec["datasets"].values() for v in data if v.get("waves")]
    assert {(v["size"], v["waves"]) for v in rules} == {(256, "2")}


def test_a_linear_axis_ends_at_the_sizes(outcome: Outcome) -> None:
    spec: Any = charts.against_size(numbers.points(outcome), measured.timed(outcome), "rate", "m", False).to_dict()
    scales = [layer["encoding"]["x"]["scale"] for layer in spec["layer"] if "x" in layer["encoding"]]
    assert {tuple(scale["domain"]) for scale in scales} == {(64, 256)}
    assert all("type" not in scale for scale in scales)


def test_the_page_has_every_chart_and_its_tables(outcome: Outcome) -> None:
    html = render(page(outcome))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == 4
    assert "up, N 4096, K 1024" in html
    assert "points measured" in html
    assert '<table id="edges">' in html
    assert '<table id="timed">' in html
    assert '<table id="points">' in html


def test_several_gpus_share_a_chart_unless_they_have_wave_edges(outcome: Outcome, tmp_path: Path) -> None:
    study = study_of(tmp_path, "h200_sxm, h100_sxm")
    both = (*outcome.lines, *(replace(line, gpu="h100_sxm") for line in outcome.lines))
    apart = replace(outcome, study=study, lines=both)
    assert [s.title for s in page(apart).sections][:2] == [f"up, N 4096, K 1024, {x}" for x in ("h200_sxm", "h100_sxm")]
    together = page(replace(apart, edges=()))
    assert [s.title for s in together.sections][:2] == ["up, N 4096, K 1024", "In figures"]
    drawn = together.sections[0].charts[0]
    spec: Any = drawn.chart.to_dict()
    assert any("strokeDash" in layer["encoding"] for layer in spec["layer"])
    assert "points measured (circle: whole, triangle: stream)" in drawn.title


def test_gains_are_told_by_product_where_there_are_several(outcome: Outcome) -> None:
    products = (outcome.study.products[0], replace(outcome.study.products[0], name="down"))
    slow = [replace(x, product="down", points=tuple(replace(p, time_s=3e-5) for p in x.points)) for x in outcome.lines]
    both = replace(outcome, study=replace(outcome.study, products=products), lines=(*outcome.lines, *slow), edges=())
    assert "In the median by product: up +5.0 %, down +0.0 %." in "\n".join(verdict(both))
    assert "by product" not in "\n".join(verdict(outcome))


def test_what_cannot_launch_is_said_and_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    best = "  - {name: best, config: {triton: {bm: 64}}}\nbaseline"
    path.write_text(TEXT.replace("GPUS", "h200_sxm, a100_sxm_80gb").replace("baseline", best))
    study = open_study(str(path))
    found = study.run()
    assert {(x.gpu, x.curve) for x in found.absent} == {("a100_sxm_80gb", "whole"), ("a100_sxm_80gb", "stream")}
    assert "whole on a100_sxm_80gb, up: 3 of 3 sizes cannot launch, M 64 first: " in "\n".join(
        numbers.curves(found).notes
    )
    lone = page(replace(found, lines=found.lines[:1], edges=()))
    assert [chart.name.split("_")[0] for chart in lone.sections[0].charts] == ["rate", "time", "memory"]


def test_plan_and_report_come_from_the_study(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    plan = plan_of(study)
    assert plan.tables["curves"].data["configurations"] == [1, 1]
    assert "3 sizes" in plan.sentence
    assert "6 predictions" in plan.sentence
    report = report_of(study, study.run())
    assert {"curves", "reach", "points"} <= set(report.files)
    assert len(report.files["points"]) == 6
    assert "timed" not in report.files
