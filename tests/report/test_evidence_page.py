"""The page of a study of evidence: tables follow the rows, charts are valid, sentences say what the tables say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemmsim.hardware import load_gpu
from gemmsim.measured import Measured, read_measured
from gemmsim.paths import data_folder
from gemmsim.report.evidence import numbers, plan, report
from gemmsim.report.evidence.verdict import verdict
from gemmsim.study.evidence import EvidenceStudy
from gemmsim.study.evidence.judged import Evidence, Judged, judged
from gemmsim.study.recorded import FITTED, NEW, Recorded, predicted

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.evidence import charts
from gemmsim.report.page import render

GPU = load_gpu("h200_sxm")


def shipped(file: str) -> Measured:
    return read_measured(str(data_folder("studies") / "h200" / file))


@pytest.fixture(scope="module")
def recorded() -> list[Recorded]:
    fitted = [predicted(name, shipped(name), GPU) for name in ("smem_tile_fp32.csv.gz", "wmma_bf16.csv.gz")]
    again = shipped("wmma_bf16.csv.gz")
    return [*fitted, predicted("mine.csv", replace(again, time_s=1.5 * again.time_s), GPU)]


@pytest.fixture(scope="module")
def found(recorded: list[Recorded]) -> Evidence:
    return judged(recorded)


STUDY = EvidenceStudy("s", "s.yaml", "A <title>", "How far?", (GPU,), (), (), ())


def exact(rows: Judged, ratio: float) -> Judged:
    """The same rows as if predicted this many times their measured time, in intervals of 10 %."""
    said = ratio * rows.measured_s
    return replace(rows, predicted_s=said, low_s=0.9 * said, high_s=1.1 * said)


def test_errors_are_by_kernel_and_basis(found: Evidence) -> None:
    table = numbers.kernels(found)
    got = {(r["kernel"], r["basis"]): r for r in table.rows()}
    assert set(got) == {("smem_tile fp32", FITTED), ("wmma bf16", FITTED), ("wmma bf16", NEW)}
    mine = found.rows.take((found.rows.kernel == "wmma bf16") & (found.rows.basis == NEW))
    row, off = got["wmma bf16", NEW], np.abs(mine.predicted_s / mine.measured_s - 1)
    assert (row["rows"], row["mape"], row["near"]) == (384, pytest.approx(off.mean()), np.mean(off <= 0.1))
    assert row["bias"] == pytest.approx(np.median(mine.predicted_s / mine.measured_s) - 1)
    assert row["mean_regret"] == got["wmma bf16", FITTED]["mean_regret"]  # times half as long again rank alike
    assert sum(r["rows"] for r in numbers.classes(found).rows()) == len(found.rows)


def test_coverage_counts_what_is_inside_below_and_above(found: Evidence) -> None:
    slow = numbers.coverage(replace(found, rows=exact(found.rows, 1.5))).rows()
    assert {(r["inside"], r["below"], r["above"]) for r in slow} == {(0, 1, 0)}
    right = numbers.coverage(replace(found, rows=exact(found.rows, 1.0))).rows()
    assert {(r["inside"], r["below"], r["above"]) for r in right} == {(1, 0, 0)}
    assert [r["width"] for r in right] == pytest.approx([0.2] * len(right))
    assert sum(r["rows"] for r in right) == len(found.rows)


def test_the_worst_rows_are_those_most_times_off_either_way(found: Evidence) -> None:
    said = found.rows.measured_s.copy()
    said[5], said[9] = said[5] / 8, said[9] * 4
    table = numbers.worst(replace(found, rows=replace(found.rows, predicted_s=said)))
    assert len(table) == numbers.WORST
    assert table.data["error"][:3] == pytest.approx([-0.875, 3.0, 0.0])


def test_a_roofline_has_the_fastest_row_of_each_kernel_and_shape(found: Evidence) -> None:
    best = numbers.best(found)
    assert len(best) == 12 + 10
    rows, first = found.rows, best.rows()[0]
    same = (rows.kernel == first["kernel"]) & (rows.m == first["m"]) & (rows.n == first["n"]) & (rows.k == first["k"])
    assert first["measured_s"] == rows.measured_s[same].min()
    assert first["flops_per_s"] == pytest.approx(2 * first["m"] * first["n"] * first["k"] / first["measured_s"])
    roofs = {r["dtype"]: r for r in numbers.roofs([GPU], best).rows()}
    assert set(roofs) == {"fp32", "bf16"}
    assert roofs["bf16"]["ridge"] == pytest.approx((GPU.peak_flops("bf16") or 0) / GPU.dram_bytes_per_s)
    assert roofs["bf16"]["share"] == max(r["flops_per_s"] for r in best.rows()) / GPU.peak_flops("bf16")


def test_a_chart_of_a_family_has_at_most_so_many_rows_of_a_kernel(found: Evidence) -> None:
    assert len(numbers.drawn(found, "wmma", 1000)) == 768
    some = numbers.drawn(found, "wmma", 100)
    assert len(some) == 96
    assert set(some.data["kernel"]) == {"wmma bf16"}


def test_held_out_is_what_the_calibration_file_says(found: Evidence) -> None:
    said = {kernel: (rows, held) for kernel, rows, _, held in numbers.held_out(found)}
    fit = found.recorded[1].fit()["held_out"]["of"]["no spills, aligned"]["mape_pct"] / 100
    assert said["wmma bf16"][1] == fit
    assert said["wmma bf16"][0] <= 384


def test_sentences_follow_the_figures(found: Evidence) -> None:
    text = "\n".join(verdict(found))
    assert f"{len(found.rows):,} measured rows of 2 kernels on h200_sxm" in text
    assert "492 rows were fitted on" in text
    assert "that is a fit, not a forecast. Held out" in text
    assert "384 rows were not fitted on" in text
    assert "100.0 % of them are of a shape that fitted rows have too, 100.0 % of a shape and tile." in text
    assert "no fitted row has" not in text
    assert "could not launch" not in text
    wrong = "\n".join(verdict(replace(found, rows=exact(found.rows, 1.25), refused=3)))
    assert "predictions are 25.0 % off on average (MAPE), 25.0 % in the median; 0.0 % of the rows are within" in wrong
    assert "The 80 % intervals hold 0.0 % of all rows" in wrong
    assert "3 recorded rows could not launch" in wrong
    lone = found.rows.take(found.rows.basis == NEW)
    strange = replace(lone, known_shape=np.zeros(len(lone), bool))
    assert "The 384 rows of shapes that no fitted row has are" in "\n".join(verdict(replace(found, rows=strange)))


def test_picks_are_told_in_figures_of_the_rankings(found: Evidence) -> None:
    ranked = tuple(replace(r, regret=0.2, regret_of_5=0.05) for r in found.rankings)
    (said,) = (line for line in verdict(replace(found, rankings=ranked)) if line.startswith("Picks"))
    assert f"of {len(ranked)} shapes" in said
    assert "loses 20.0 % in the median, 20.0 % on average" in said
    assert "0.0 % of them lose at most 2.5 %, the worst 20.0 %. Best of its first five: 5.0 %" in said
    assert not any(line.startswith("Picks") for line in verdict(replace(found, rankings=())))


def test_charts_are_valid_and_hold_their_tables(found: Evidence) -> None:
    import vl_convert

    best = numbers.best(found)
    fp32 = replace(best, data={k: [v for v, d in zip(c, best.data["dtype"], strict=True) if d == "fp32"]
                               for k, c in best.data.items()})  # fmt: skip
    roof = next(r for r in numbers.roofs([GPU], best).rows() if r["dtype"] == "fp32")
    drawn: dict[str, Any] = {
        "classes": charts.errors_by(numbers.classes(found), "shape_class", numbers.SHAPE_CLASSES),
        "bases": charts.errors_by(numbers.kernels(found), "basis", numbers.BASES),
        "coverage": charts.coverage(numbers.coverage(found)),
        "regret": charts.regret_shares(numbers.regrets(found), "regret"),
        "roof": charts.roofline(fp32, roof),
    }
    specs = {name: chart.to_dict() for name, chart in drawn.items()}
    for spec in specs.values():
        assert vl_convert.vegalite_to_vega(spec)["marks"]
        assert spec["width"] == "container"
    assert len(values(specs["classes"], "median")) == len(numbers.classes(found))
    steps = [v for v in values(specs["regret"], "share") if v["family"] == "smem_tile"]
    assert [v["share"] for v in steps] == sorted(v["share"] for v in steps)
    assert steps[-1]["share"] == 100
    assert len(values(specs["roof"], "tile")) == 12


def values(spec: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The data of a chart's marks that have this key."""
    inside = [spec, *spec["layer"]]
    lists = [part["data"]["values"] for part in inside if "values" in part.get("data", {})]
    lists += list(spec.get("datasets", {}).values())
    return next(rows for rows in lists if rows and key in rows[0])


def test_the_page_holds_every_chart_once_and_its_lines(found: Evidence) -> None:
    html = render(report(STUDY, found).page())
    assert "A &lt;title&gt;" in html
    specs = re.findall(r'<script type="application/json" id="spec_(\w+)">(.*?)</script>', html, re.S)
    names = [name for name, _ in specs]
    assert len(names) == len(set(names))
    assert {"against_wmma", "against_smem_tile", "errors_by_class", "regret_first", "coverage", "roof_fp32"} <= set(
        names
    )
    assert all("NaN" not in text and json.loads(text) for _, text in specs)
    assert "492 rows were fitted on" in html
    assert len(html) < 4_000_000


def test_the_report_prints_kernels_and_writes_every_row(found: Evidence) -> None:
    made = report(STUDY, found)
    assert list(made.shown) == ["kernels", "classes"]
    assert len(made.files["rows"]) == len(found.rows)
    assert len(made.files["regrets"]) == len(found.rankings)


def test_a_plan_lists_the_files(monkeypatch: pytest.MonkeyPatch, recorded: list[Recorded]) -> None:
    monkeypatch.setattr(EvidenceStudy, "recorded", lambda self: recorded)
    said = plan(STUDY)
    assert said.tables["files"].data["file"] == ["smem_tile_fp32.csv.gz", "wmma_bf16.csv.gz", "mine.csv"]
    assert said.sentence == "876 recorded rows are predicted."
