"""The page of a study of effects: figures are the answer's, effects that buy nothing are named, charts are valid."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gemmsim.measured import read_measured
from gemmsim.paths import data_folder
from gemmsim.report.ablation import plan, report
from gemmsim.report.ablation.numbers import effects, whole
from gemmsim.report.ablation.verdict import verdict
from gemmsim.study.ablation import Ablated, AblationStudy, Part
from gemmsim.validate import Errors

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.ablation import charts
from gemmsim.report.page import render

NAN = float("nan")


def errors(mape: float, regret: float = 0.02, shapes: int = 12) -> Errors:
    return Errors(200, shapes, mape, mape / 2, 2 * mape, 0.0, 0.9, {1: regret, 5: 0.0, 10: 0.0}, 2 * regret)


def part(kernel: str, splits: int = 0) -> Part:
    file = {"naive": "naive_fp32.csv.gz", "smem_tile": "smem_tile_fp32.csv.gz"}[kernel]
    rows = read_measured(str(data_folder("studies") / "h200" / file))
    return Part((file,), rows, splits, None, ())


KEPT = Ablated(
    part("naive"), errors(0.08),
    {"math": errors(0.10), "waves": errors(0.25, 0.5), "l2": errors(0.0805), "dram": errors(0.07),
     "launch": errors(0.0801, 0.2), "spill": errors(0.08)},
    None, {}, ("spill",),
)  # fmt: skip
REFIT = Ablated(
    part("smem_tile", 2), errors(0.06, shapes=3),
    {"math": errors(0.30), "waves": errors(0.07), "l2": errors(0.06), "dram": errors(0.06), "launch": errors(0.06),
     "spill": errors(0.06)},
    errors(0.09, shapes=3),
    {"math": errors(0.12, 0.3, shapes=3), "waves": errors(0.10), "l2": errors(0.09), "dram": errors(0.09),
     "launch": errors(0.09), "spill": errors(0.09)},
    (),
)  # fmt: skip
STUDY = AblationStudy("s", "s.yaml", "A <title>", "Which?", (KEPT.part, REFIT.part), tuple(KEPT.without))


def test_effects_are_sorted_by_what_is_missed_and_held_against_the_whole() -> None:
    rows = effects([KEPT]).rows()
    assert [r["effect"] for r in rows] == ["waves", "math", "l2", "launch", "spill", "dram"]
    assert rows[0]["costs"] == pytest.approx(0.17)
    assert rows[0]["regret_costs"] == pytest.approx(0.48)
    assert (rows[0]["mape"], rows[0]["kept_mape"]) == (0.25, 0.25)
    assert [r["effect"] for r in rows if r["idle"]] == ["spill"]


def test_refitted_figures_stand_beside_those_of_kept_coefficients() -> None:
    first = effects([REFIT]).rows()[0]
    assert (first["effect"], first["mape"], first["kept_mape"]) == ("math", 0.12, 0.30)
    assert first["costs"] == pytest.approx(0.03)
    assert first["kept_costs"] == pytest.approx(0.24)
    rows = {r["kernel"]: r for r in whole([KEPT, REFIT]).rows()}
    assert (rows["naive fp32"]["mape"], rows["smem_tile fp32"]["mape"]) == (0.08, 0.09)
    assert rows["smem_tile fp32"]["how"] == "refitted, 2 splits, scored on the other halves"


def test_sentences_name_what_is_missed_what_buys_nothing_and_what_a_fit_hides() -> None:
    differ, kept, refit, hidden = verdict([KEPT, REFIT])
    assert "math is worth 24.0 points to smem_tile fp32 and 2.0 points to naive fp32" in differ
    assert "missed most: naive fp32 waves, smem_tile fp32 math" in differ
    assert "with the shipped coefficients, which were fitted with every effect, over 200 rows: 8.0 % off" in kept
    assert "Without waves 25.0 %, math 10.0 %." in kept
    assert "loses 50.0 % without waves, 2.0 % with it." in kept
    assert "Buys nothing here: l2, dram. Moves no row: spill." in kept
    assert "fitted again without each effect" in refit
    assert "(2 splits): 9.0 % off" in refit
    assert "with it (over 3 shapes: a rough figure)" in refit
    assert "most for math of smem_tile fp32" in hidden
    assert "rises by 24.0 points if coefficients stay, that of rows held out by 3.0 points" in hidden


def test_where_no_effect_helps_that_is_said() -> None:
    none = replace(KEPT, without={"math": errors(0.08), "l2": errors(0.06)}, idle=())
    (said,) = verdict([none])
    assert "No effect lowers the error of these rows. Buys nothing here: math, l2." in said
    assert "The first pick loses" not in said


def test_two_parts_of_one_kernel_are_told_apart_by_their_files() -> None:
    other = replace(KEPT, part=replace(KEPT.part, files=("mine.csv",)))
    assert set(effects([KEPT, other]).data["kernel"]) == {"naive fp32, naive_fp32.csv.gz", "naive fp32, mine.csv"}


def test_charts_are_valid_and_hold_every_effect() -> None:
    import vl_convert

    drawn: list[tuple[Any, str, list[float]]] = [
        (charts.error_bars(effects([KEPT]), 0.08), "percent", [25, 10, 8.05, 8.01, 8, 7]),
        (charts.regret_bars(effects([KEPT]), 0.02), "percent", [50, 2, 2, 20, 2, 2]),
        (charts.kernels(effects([KEPT, REFIT])), "points", [17, 2, 0.05, 0.01, 0, -1, 24, 1, 0, 0, 0, 0]),
    ]
    for chart, key, expected in drawn:
        spec = chart.to_dict()
        assert vl_convert.vegalite_to_vega(spec)["marks"]
        assert spec["width"] == "container"
        found = [layer["data"]["values"] for layer in spec["layer"] if "values" in layer.get("data", {})]
        found += [spec["data"]["values"]] if "values" in spec.get("data", {}) else []
        found += list(spec.get("datasets", {}).values())
        rows = next(rows for rows in found if "effect" in rows[0])
        assert [r[key] for r in rows] == pytest.approx(expected, abs=1e-4)


def test_the_page_has_two_charts_a_kernel_and_one_of_both() -> None:
    html = render(report(STUDY, [KEPT, REFIT]).page())
    assert "A &lt;title&gt;" in html
    specs = re.findall(r'<script type="application/json" id="spec_(\w+)">', html)
    assert len(specs) == len(set(specs)) == 5
    assert "refitted, 2 splits, scored on the other halves; 200 rows of 3 shapes." in html
    assert "Buys nothing here: l2, dram." in html
    alone = render(report(STUDY, [KEPT]).page())
    assert "Kernels compared" not in alone


def test_where_no_shape_can_be_ranked_there_is_no_chart_of_regret() -> None:
    unranked = {name: replace(e, regret={1: NAN, 5: NAN, 10: NAN}) for name, e in KEPT.without.items()}
    whole_ = replace(KEPT.whole, regret={1: NAN, 5: NAN, 10: NAN})
    html = render(report(STUDY, [replace(KEPT, whole=whole_, without=unranked)]).page())
    assert "regret_0_naive_fp32" not in html
    assert "mape_0_naive_fp32" in html


def test_a_plan_says_what_is_fitted() -> None:
    said = plan(STUDY)
    assert said.tables["rows"].data["how"] == ["shipped coefficients", "refitted, 2 splits, scored on the other halves"]
    assert "14 fits, fewer where an effect moves no row." in said.sentence
    assert plan(replace(STUDY, parts=STUDY.parts[:1])).sentence.endswith("Nothing is fitted.")
