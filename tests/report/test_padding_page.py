"""The report of a study of padding: tables and sentences follow the answer, charts are valid and hold every size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies_under_test import opened

from gemmsim.report.padding import plan, report
from gemmsim.report.padding.measured import padded, recorded
from gemmsim.report.padding.numbers import NOTHING, candidates, curves, gains
from gemmsim.report.padding.words import section, verdict
from gemmsim.study import open_study
from gemmsim.study.padding import PaddingStudy
from gemmsim.study.padding.outcome import Outcome

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.padding import charts
from gemmsim.report.padding.page import page
from gemmsim.report.page import render

YAML = """\
kind: padding
title: A <title>
question: Pad?
problems:
  - {name: odd K, m: 8192, n: 1280, k: 588, curve: {k: [586, 592, 2]}}
  - {name: odd M, m: 1023, n: 512, k: 512, curve: {m: [1023, 1025]}}
gpus: [a100_sxm_80gb, h200_sxm]
kernels: {Triton: [triton], both: [wgmma, mma]}
dtypes: [bf16]
rows: [rows.csv]
"""
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,num_warps,num_stages,group_m,time_s\n"
ROWS = HEAD + "".join(
    f"h200_sxm,triton,bf16,cold_clean,8192,1280,{k},{bm},128,64,4,3,8,{1e-5 * bm / (1 if k == 588 else 4)}\n"
    for k in (588, 592) for bm in (16, 32, 64, 128, 256)
)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return opened(PaddingStudy, tmp_path_factory.mktemp("pad"), YAML, rows=ROWS).run()


def test_gains_say_what_to_pad_or_that_nothing_is_gained(outcome: Outcome) -> None:
    rows = gains(outcome).rows()
    for row, case in zip(rows, outcome.cases, strict=True):
        best = case.padding.best
        assert row["gain_share"] == (best.gain_share if best else None)
        assert row["time_s"] == case.padding.base.time_s
    assert {r["cause"] for r in rows if r["problem"] == "odd K"} == {"alignment"}
    assert {(r["pad"], r["verdict"]) for r in rows if r["problem"] == "odd M"} == {(NOTHING, "no gain")}
    assert {r["pad"] for r in rows if r["problem"] == "odd K"} == {"K 588 to 592"}
    assert len(candidates(outcome)) == sum(len(c.padding.candidates) for c in outcome.cases)


def test_notes_name_what_cannot_launch_and_what_is_taken(outcome: Outcome) -> None:
    notes = gains(outcome).notes
    stride = next(note for note in notes if "stride_a" in note)
    assert stride.startswith("wgmma cannot launch as asked")
    assert stride.endswith("mma is taken: odd K on h200_sxm.")
    assert any("sm80 does not" in note and note.endswith("odd K, odd M on a100_sxm_80gb.") for note in notes)


def test_sentences_are_made_of_the_numbers(outcome: Outcome) -> None:
    when, gained, off, neighbours, *problems = verdict(outcome)
    assert len(problems) == 2
    shares = [r["gain_share"] for r in gains(outcome).rows() if r["problem"] == "odd K"]
    assert when == (
        f"Padding is predicted to pay where it aligns the rows of an operand, {100 * min(shares):.0f} to "
        f"{100 * max(shares):.0f} % less time (odd K). It gains nothing for odd M."
    )
    case = next(c for c in outcome.cases if (c.gpu, c.kernel, c.asked.name) == ("h200_sxm", "both", "odd K"))
    assert case.padding.best is not None
    assert f"{100 * case.padding.best.gain_share:.0f} % less time" in problems[0]
    assert "both: pad K 588 to 592, " in problems[0]
    assert problems[1] == "odd M (1023 x 512 x 512): no gain predicted on any GPU."
    (row,) = padded(outcome).rows()
    assert "odd K: Triton K 588 to 592, 75 % less time (" in gained
    assert gained.endswith(f"({100 * row['predicted_gain']:.0f} %).")
    assert f"the 2 timed points on h200_sxm are off by {100 * row['mean_error']:.1f} % on average" in off
    assert neighbours.startswith("1 pair of recorded neighbours on h200_sxm")
    assert "triton 8192 x 1280 x 588 against 8192 x 1280 x 592, 75.0 % less time measured" in neighbours
    lines = list(section([r for r in gains(outcome).rows() if r["problem"] == "odd K"]))
    assert len(lines) == 1
    assert lines[0].startswith("h200_sxm: wgmma: stride_a")
    assert "mma is taken, " in lines[0]
    assert "padded, wgmma takes " in lines[0]


def test_measured_padding_is_of_the_fastest_rows_and_their_own_predictions(outcome: Outcome) -> None:
    (row,) = padded(outcome).rows()
    asked, other = outcome.held
    assert (row["problem"], row["kernel"], row["points"], row["pad"]) == ("odd K", "Triton", 2, "K 588 to 592")
    assert (row["time_s"], row["padded_s"], row["gain_share"]) == (asked.time_s, other.time_s, pytest.approx(0.75))
    assert row["predicted_gain"] == pytest.approx(1 - other.predicted_s / asked.predicted_s)
    errors = [h.predicted_s / h.time_s - 1 for h in outcome.held]
    assert row["mean_error"] == pytest.approx(sum(map(abs, errors)) / 2)
    assert row["worst_error"] in [pytest.approx(e) for e in errors]


def test_a_larger_size_that_takes_longer_gains_nothing(outcome: Outcome) -> None:
    asked, other = outcome.held
    slow = replace(outcome, held=(asked, replace(other, time_s=2 * asked.time_s)))
    assert "odd K: Triton gains nothing at any larger size timed." in "\n".join(verdict(slow))
    (row,) = padded(replace(outcome, held=(other,))).rows()
    assert (row["time_s"], row["pad"], row["gain_share"]) == (None, "", None)


def test_of_many_neighbours_the_largest_gains_and_the_worst_predictions_are_told(outcome: Outcome) -> None:
    (one,) = outcome.neighbours
    pairs = [replace(one, measured_s=(1.0, 0.01 * i), predicted_s=(1.0, 0.01 * i)) for i in range(1, 60)]
    pairs[40] = replace(pairs[40], predicted_s=(1.0, 0.01))
    table = recorded(replace(outcome, neighbours=tuple(pairs)))
    assert [round(r["measured_gain"], 2) for r in table.brief.rows()[:11]] == [
        *(round(1 - 0.01 * i, 2) for i in range(1, 11)), 0.59]  # fmt: skip
    assert len(set(table.told.rows)) == len(table.brief) == 20
    sections = {s.title: s for s in page(replace(outcome, neighbours=tuple(pairs))).sections}
    section = sections["Measured: recorded neighbours"]
    assert section.charts[0].title.endswith("those predicted worst, 20 of 59 pairs")
    assert len(drawn(section.charts[0].chart)) == 20
    assert len(section.folded[0]) == 59


def drawn(chart: Any) -> list[dict[str, Any]]:
    """The rows of a chart that Vega-Lite can compile."""
    import vl_convert

    spec = chart.to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    return [row for rows in spec["datasets"].values() for row in rows]


def some(outcome: Outcome, problem: str, gpu: str) -> Any:
    from gemmsim.report.padding.page import _rows

    return _rows(curves(outcome), problem=problem, gpu=gpu)


def test_a_curve_s_chart_has_every_size_measured_points_and_a_ruler(outcome: Outcome) -> None:
    table = some(outcome, "odd K", "h200_sxm")
    rows = drawn(charts.time_against_size(table))
    said = [r for r in rows if r.get("who") == "predicted"]
    assert sorted(r["size"] for r in said) == sorted([586, 588, 590, 592] * 2)
    assert {r["size"]: r["multiple_of"] for r in said} == {586: "4 B", 588: "8 B", 590: "4 B", 592: "32 B"}
    held = [r for r in rows if r.get("who") == "measured"]
    assert [(r["size"], r["time_us"], r["kernel"]) for r in held] == [
        (588, 160, "Triton"), (592, 40, "Triton")]  # fmt: skip
    ruler = [r for r in rows if set(r) == {"size", "bytes", "multiple_of"}]
    assert sorted(r["size"] for r in ruler) == [586, 588, 590, 592]


def test_a_dimension_that_is_no_row_stride_has_no_ruler(outcome: Outcome) -> None:
    rows = drawn(charts.time_against_size(some(outcome, "odd M", "a100_sxm_80gb")))
    assert {r["multiple_of"] for r in rows if "who" in r} == {"no row stride"}
    assert not [r for r in rows if set(r) == {"size", "bytes", "multiple_of"}]


def test_bars_are_the_gains_largest_first(outcome: Outcome) -> None:
    from gemmsim.report.padding.page import _rows

    table = _rows(gains(outcome), kernel="Triton")
    rows = drawn(charts.gain_bars(table))
    wanted = [100 * (g or 0) for g in table.data["gain_share"]]
    assert [r["percent"] for r in rows] == pytest.approx(wanted, rel=1e-5)
    assert [r["label"] for r in rows if r["problem"] == "odd M"] == ["none a100_sxm_80gb", "none h200_sxm"]
    assert {r["cause"] for r in rows} == {"alignment", NOTHING}


def test_recorded_neighbours_are_drawn_as_they_are(outcome: Outcome) -> None:
    (row,) = drawn(charts.recorded_gains(recorded(outcome)))
    assert row["pair"] == "triton 8192x1280x588|to 8192x1280x592"
    assert row["measured"] == pytest.approx(75)
    assert row["predicted"] == pytest.approx(100 * outcome.neighbours[0].predicted_gain, rel=1e-5)


def test_the_page_renders_and_says_what_no_row_measured(outcome: Outcome, tmp_path: Path) -> None:
    html = render(page(outcome))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == 2 + 1 + 4
    assert "No size of these curves was measured: odd M." in html
    assert "fitted on h200_sxm" in html
    assert len(plan(outcome.study).tables["problems"]) == 2
    assert set(report(outcome.study, outcome).files) == {"gains", "padded", "recorded", "candidates", "curves"}
    (tmp_path / "bare.yaml").write_text(YAML.replace("rows: [rows.csv]\n", "").replace("a100_sxm_80gb, ", ""))
    bare = open_study(str(tmp_path / "bare.yaml")).run()
    assert "Nothing measured stands beside these predictions." in list(verdict(bare))
