"""The page of a study of a ladder: factors, ends and order are the rungs', charts valid, sentences follow numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemmsim import load_gpu, predict
from gemmsim.measured import Measured
from gemmsim.report.ladder import numbers
from gemmsim.study.ladder import Kernel, Ladder, LadderStudy, Rung

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.charts import term_stack
from gemmsim.report.ladder import charts
from gemmsim.report.ladder.page import page
from gemmsim.report.page import render


def rung(stage: str, m: int, time_s: float, predicted_s: float, dtype: str = "fp32", library_s: float = 1e-3) -> Rung:
    return Rung(stage, "simt", dtype, "64x64x8", m, 64, 64, time_s, library_s, "clock" if m == 64 else "", predicted_s,
                "math" if time_s < 3e-3 else "latency", 2, 256, 128, 32768, False, "not fitted on",
                {"math": 0.5 * predicted_s, "latency": 0.25 * predicted_s})  # fmt: skip


LADDER = Ladder((
    rung("one", 128, 8e-3, 8e-3), rung("two", 128, 2e-3, 4e-3), rung("three", 128, 1e-3, 5e-3),
    rung("one", 64, 4e-3, 4e-3), rung("two", 64, 4e-3 / 9, 4e-3 / 4),
    rung("four", 128, 1e-3, 1e-3, "bf16", 9e-4), rung("five", 128, 2e-3, 3e-3, "bf16", 9e-4),
))  # fmt: skip


def study() -> LadderStudy:
    p = predict(np.asarray([64]), 64, 64, gpu="h200_sxm", family="simt", dtype="fp32")
    rows = Measured(p.problem, p.config, {}, np.ones(1), load_gpu("h200_sxm"), "cold_clean")
    kernels = (Kernel("rows.csv", rows, LADDER.rungs),)
    stages = ("one", "two", "three", "four", "five")
    return LadderStudy("s", "s.yaml", "A <title>", "Why?", kernels, stages, {"two": 0.8})


def test_a_step_is_the_geometric_mean_over_shapes_and_counts_right_directions() -> None:
    two, three, five = numbers.steps(LADDER).rows()
    assert (two["stage"], two["after"], two["shapes"], two["right"]) == ("two", "one", 2, 2)
    assert (two["measured"], two["least"], two["most"]) == (pytest.approx(6), pytest.approx(4), pytest.approx(9))
    assert two["predicted"] == pytest.approx(8**0.5)
    assert (three["measured"], three["predicted"], three["right"]) == (2, pytest.approx(0.8), 0)
    assert (five["dtype"], five["measured"], five["right"]) == ("bf16", 0.5, 1)


def test_the_end_is_the_fastest_stage_and_what_the_model_would_take_loses() -> None:
    large, small, tensor = numbers.ends(LADDER).rows()
    assert (large["stage"], large["share"], large["said"]) == ("three", 1, "two")
    assert large["regret"] == pytest.approx(1)
    assert (small["stage"], small["regret"]) == ("two", 0)
    assert (tensor["dtype"], tensor["share"]) == ("bf16", pytest.approx(0.9))


def test_pairs_in_order_and_the_widest_that_is_not() -> None:
    found = numbers.order([LADDER.of("128 x 64 x 64", "fp32")])
    assert (found.pairs, found.right, found.worst) == (3, 2, pytest.approx(1))
    assert found.what == '"two" and "three" at 128 x 64 x 64'
    fp32, bf16 = numbers.errors(LADDER).rows()
    assert (fp32["pairs"], fp32["right"], bf16["pairs"], bf16["right"]) == (4, 3, 1, 1)
    assert fp32["mape"] == pytest.approx((0 + 1 + 4 + 0 + 1.25) / 5)
    assert (fp32["worst"], fp32["at"]) == (pytest.approx(4), "three, 128 x 64 x 64")


def test_parts_add_up_to_the_predicted_time() -> None:
    rows = numbers.parts(LADDER, "128 x 64 x 64").rows()
    mine = [r for r in rows if r["stage"] == "two"]
    assert {r["term"] for r in mine} == {"math", "latency", "other"}
    assert sum(r["time_s"] for r in mine) == pytest.approx(4e-3)
    wide = numbers.shares(numbers.parts(LADDER, "128 x 64 x 64")).rows()
    assert [(r["label"], r["math"], r["other"]) for r in wide][1] == ("two (fp32)", 0.5, pytest.approx(0.25))


def test_the_verdict_follows_the_numbers() -> None:
    fp32, bf16, ends, model, *bounds, quoted = numbers.verdict(study(), LADDER)
    assert fp32.startswith(
        'In fp32 the step to "two" (6.00 times the speed, mean of 2 shapes; predicted 2.83) buys most'
    )
    assert "no gain" not in fp32
    assert bf16.startswith('In bf16 no step gains on average; the best is the one to "five" (0.50 times the speed')
    assert "150 % of it in fp32 (100 to 225 %) and 90 % of it in bf16 (90 %)" in ends
    assert "4 of 5 pairs" in model
    assert '"two" and "three" at 128 x 64 x 64, are 100 % apart' in model
    assert "Of 4 steps it says 3 rightly" in model
    assert [line.partition(":")[0] for line in bounds] == [f"Predicted at 128 x 64 x 64, {t}" for t in ("fp32", "bf16")]
    assert "bound by latency, then math" in bounds[0]
    assert '"two" 80 %, here 50 to 225 %' in quoted
    alone = Ladder(tuple(replace(r, library_s=float("nan")) for r in LADDER.rungs))
    assert "No stage was timed in turn with cuBLAS." in list(numbers.verdict(replace(study(), quoted={}), alone))


@pytest.mark.parametrize("draw", ["stages", "steps", "parts"])
def test_charts_are_valid_and_hold_their_tables(draw: str) -> None:
    import vl_convert

    rungs, points = numbers.rungs(study(), LADDER), numbers.step_points(LADDER)
    chart: Any = {"stages": lambda: charts.stages(rungs), "steps": lambda: charts.step_factors(points),
                  "parts": lambda: term_stack(numbers.parts(LADDER))}[draw]()  # fmt: skip
    spec = chart.to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    sets = list(spec["datasets"].values())
    if draw == "stages":
        assert [r["tflops"] for r in sets[0]] == pytest.approx([v / 1e12 for v in rungs.data["flops_per_s"]], rel=1e-5)
    if draw == "steps":
        values = next(rows for rows in sets if "measured" in rows[0])
        assert [r["measured"] for r in values] == pytest.approx(points.data["measured"], rel=1e-5)


def test_the_page_has_two_sections_a_shape() -> None:
    html = render(page(study(), LADDER))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == html.count('type="application/json"') == 1 + 2 * 2
    assert "2 rows are marked unstable" in html
    assert "128 x 64 x 64: where the predicted time goes" in html


def test_a_ladder_without_a_library_is_drawn() -> None:
    alone = Ladder(tuple(replace(r, library_s=float("nan")) for r in LADDER.rungs))
    assert charts.stages(numbers.rungs(study(), alone)).to_dict()
    assert render(page(study(), alone))
