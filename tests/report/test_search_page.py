"""The page of a study of searches: its figures are the recorded ones, its charts valid, nothing is loaded."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsim.report.search.numbers import points, summary, verdict
from gemmsim.study.search import Curve, SearchStudy

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report.page import render
from gemmsim.report.search import charts
from gemmsim.report.search.page import page


def curve(sampler: str, first: float) -> Curve:
    mean = first / np.arange(1.0, 41.0)
    return Curve("simt fp32", sampler, 12, mean, mean / 2, np.minimum(1, np.arange(1, 41) / (100 * first)))


CURVES = (curve("model-guided", 0.08), curve("model-guided, in turn", 0.04), curve("TPE", 0.9))


def test_the_table_says_when_half_and_nine_tenths_are_done_and_the_mean_regret() -> None:
    row, _, slow = summary(CURVES).rows()
    assert (row["median_trials"], row["p90_trials"], row["regret_5"]) == (4, 8, pytest.approx(0.016))
    assert (slow["median_trials"], slow["p90_trials"]) == (None, None)
    assert summary([Curve("a", "b", 1, *[np.ones(7)] * 3)]).rows()[0].keys() >= {"regret_1", "regret_5"}
    assert len(points(CURVES)) == 120


def test_the_verdict_is_the_tables_figures_without_the_variants() -> None:
    assert list(verdict(CURVES)) == [
        "simt fp32, searches that are within 1 % of the best: model-guided, half after 4 trials, nine tenths after 8; "
        "TPE, fewer than half after 40 trials."
    ]


def test_the_chart_is_valid_and_holds_every_trial_in_per_cent() -> None:
    import vl_convert

    spec = charts.regret(points(CURVES)).to_dict()
    assert vl_convert.vegalite_to_vega(spec)["marks"]
    values = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["layer"][0]["data"]["values"]
    assert [v["percent"] for v in values] == pytest.approx([100 * m for c in CURVES for m in c.mean], rel=1e-5)


def test_the_page_has_both_charts_the_figures_and_names_what_is_given() -> None:
    html = render(page(SearchStudy("s", "s.yaml", "A <title>", "Why?", CURVES)))
    assert "A &lt;title&gt;" in html
    assert html.count('class="chart"') == 2
    assert '"in turn"' in html
    assert "1.6 %" in html
    one = render(page(SearchStudy("s", "s.yaml", "T", "Q", CURVES[2:])))
    assert one.count('class="chart"') == 1
