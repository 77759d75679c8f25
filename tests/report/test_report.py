"""The report: tables that match the predictions, charts that are valid Vega-Lite, a page that needs nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gemmsim.explanation import explain
from gemmsim.report import errors, hardware
from gemmsim.report.picks import numbers
from gemmsim.report.picks.verdict import verdict
from gemmsim.report.table import table
from gemmsim.report.units import human
from gemmsim.study import load_picks
from gemmsim.study.picks.outcome import Outcome

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report import charts, look
from gemmsim.report.page import render
from gemmsim.report.picks.page import page

SMALL = """\
title: "A small <study> & its page"
question: Which tile?
workload:
  shapes:
    - {name: qkv, m: 2048, n: 12288, k: 4096, count: 32}
    - {name: thin, m: 16, n: 4096, k: 4096}
gpus: [a100_sxm_80gb, h200_sxm]
families: [triton]
dtypes: [bf16]
vary:
  triton: {bm: [16, 128], bn: [64, 128], num_warps: [4]}
measure: recorded
top: 2
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    path: Path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(SMALL)
    return load_picks(str(path)).run()


@pytest.fixture(scope="module")
def html(outcome: Outcome) -> str:
    return render(page(outcome, numbers.tables(outcome)))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.7e-6, "s", "2.7 us"), (999.9e-6, "s", "999.9 us"), (0.00481, "s", "4.81 ms"), (2.0, "s", "2.000 s"),
        (771.85e12, "FLOP/s", "771.9 TFLOP/s"), (771.85e12, "tera", "771.9"), (27.06e12, "FLOP", "27.06 TFLOP"),
        (0.25, "1", "25.0 %"), (1.5, "x", "1.50x"), (4.8e12, "B/s", "4,800 GB/s"), (2**20, "B", "1.0 MiB"),
        (-0.0004, "1", "0.0 %"), (-0.0006, "1", "-0.1 %"), (-0.0, "", "0"),
        (None, "s", "-"), (float("nan"), "s", "-"), (1293, "", "1,293"), ("qkv", "", "qkv"), (True, "", "yes"),
    ],
)  # fmt: skip
def test_numbers_read_as_people_write_them(value: object, unit: str, text: str) -> None:
    assert human(value, unit) == text


def test_picks_are_the_predictions(outcome: Outcome) -> None:
    rows = numbers.all_picks(outcome).rows()
    assert [(r["gpu"], r["gemm"], r["config"], r["time_s"]) for r in rows] == [
        (c.gpu, c.gemm, c.config, c.time_s) for c in outcome.picks
    ]
    for r in rows:
        assert r["flops_per_s"] == pytest.approx(2 * r["m"] * r["n"] * r["k"] / r["time_s"])
        assert r["basis"] == {"a100_sxm_80gb": "defaults"}.get(r["gpu"], r["basis"])


def test_a_pass_is_the_sum_of_its_launches(outcome: Outcome) -> None:
    for row in numbers.totals(outcome).rows():
        mine = [c for c in outcome.picks if c.gpu == row["gpu"]]
        assert row["time_s"] == pytest.approx(sum(c.count * c.time_s for c in mine))
        assert row["flops"] == pytest.approx(sum(c.count * 2.0 * c.m * c.n * c.k for c in mine))


def test_the_parts_of_a_pick_add_up_to_its_time(outcome: Outcome) -> None:
    rows = numbers.terms(outcome).rows()
    for c in outcome.picks:
        mine = [r for r in rows if (r["gpu"], r["gemm"]) == (c.gpu, c.gemm)]
        assert len(mine) >= 3
        assert sum(r["time_s"] for r in mine) == pytest.approx(c.time_s)
    (thin,) = (c for c in outcome.picks if (c.gpu, c.gemm) == ("h200_sxm", "thin"))
    why = explain(thin.m, thin.n, thin.k, gpu=thin.gpu, config=thin.parameters)
    known = {term.name: term.part_s for term in why.terms} | {"other": why.rest_s}
    parts = {r["term"]: r["time_s"] for r in rows if (r["gpu"], r["gemm"]) == ("h200_sxm", "thin")}
    assert parts == pytest.approx({term: known[term] for term in parts})


def test_the_first_lines_answer_with_the_tables_figures(outcome: Outcome) -> None:
    tables = numbers.tables(outcome)
    first, gain = verdict(outcome, tables["totals"])
    for row in tables["totals"].rows():
        assert f"{human(row['time_s'], 's')} on {row['gpu']} (bound by {row['bounds'].split()[0]}" in first
    (speedup,) = outcome.speedups
    pair = "h200_sxm over a100_sxm_80gb, both by physical defaults"
    assert gain == f"{pair}: {speedup.ratio:.2f}x in all ({speedup.reason})."


def test_rows_are_those_of_the_studys_kernels(outcome: Outcome) -> None:
    assert {r.kernel for r in outcome.recorded} == {"triton bf16"}
    assert len(outcome.recorded) >= 4


def test_errors_are_those_of_the_rows_beside_them(outcome: Outcome) -> None:
    points = [r for r in errors.points(outcome.recorded).rows() if r["file"] == "triton_bf16_uniform.csv.gz"]
    table = [r for r in errors.errors(outcome.recorded).rows() if r["file"] == "triton_bf16_uniform"]
    mape = sum(r["mape"] * r["rows"] for r in table) / sum(r["rows"] for r in table)
    assert sum(r["rows"] for r in table) == len(points) == 828
    assert mape == pytest.approx(sum(abs(r["error"]) for r in points) / len(points))


def test_held_out_errors_stand_beside_the_fitted_ones(outcome: Outcome) -> None:
    table = errors.errors(outcome.recorded)
    bases = set(table.data["basis"])
    assert bases >= {"fitted", "held out"}
    assert any("how well the model fits" in note for note in table.notes)


def test_timed_gemms_show_choice_best_and_cublas(outcome: Outcome) -> None:
    (row,) = (r for r in numbers.at_hand(outcome).rows() if r["gemm"] == "qkv")
    assert row["rows"] == 90
    assert row["regret"] == pytest.approx(row["measured_s"] / row["best_s"] - 1)
    assert row["cublas_s"] == pytest.approx(277.04e-6, rel=1e-4)


def drawn(outcome: Outcome) -> dict[str, charts.Chart]:
    picks, points = numbers.all_picks(outcome), errors.points(outcome.recorded)
    return {
        "bars": charts.time_bars(picks),
        "roofline": charts.roofline(picks, hardware.roofs(outcome.study.gpus, outcome.study.dtypes)),
        "log-log": charts.predicted_against_measured(points),
        "ratio": charts.ratio_against_time(points),
    }


def test_charts_are_valid_vega_lite_with_titled_axes(outcome: Outcome) -> None:
    import vl_convert

    for name, chart in drawn(outcome).items():
        spec = chart.to_dict()  # validated against the schema
        assert "vega-lite/v6" in spec["$schema"], name
        assert vl_convert.vegalite_to_vega(spec)["marks"], name
        text = json.dumps(spec)
        assert '"titleFontSize": 13' in text, name
        assert "predicted" in text or "TFLOP/s" in text, name


def test_a_chart_holds_its_tables_numbers(outcome: Outcome) -> None:
    spec = charts.time_bars(numbers.picks(outcome, "all")).to_dict()
    values = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["layer"][0]["data"]["values"]
    scale = 1e6 if max(c.time_s for c in outcome.picks) < 1e-3 else 1e3  # microseconds below a millisecond
    assert [v["time"] for v in values] == pytest.approx([scale * c.time_s for c in outcome.picks], rel=1e-5)


def test_charts_stand_tables_of_one_row(outcome: Outcome) -> None:
    one = table("one", "One", (), errors.points(outcome.recorded).rows()[:1])
    assert charts.predicted_against_measured(one).to_dict()
    assert charts.ratio_against_time(one).to_dict()


def test_no_two_kernels_share_colour_and_shape() -> None:
    names = [f"kernel {i:02}" for i in range(2 * len(look.PALETTE) + 3)]
    rows = [{"kernel": name, "size": "", "config": "", "measured_s": 1e-6, "predicted_s": 1e-6} for name in names]
    spec = charts.ratio_against_time(table("points", "Points", (), rows)).to_dict()
    colour, shape = (spec["layer"][-1]["encoding"][key] for key in ("color", "shape"))
    assert colour["scale"]["domain"] == shape["scale"]["domain"] == names
    assert colour["legend"] == shape["legend"]  # Vega-Lite makes one legend of both
    assert len(set(zip(colour["scale"]["range"], shape["scale"]["range"], strict=True))) == len(names)


class Loads(HTMLParser):
    """Addresses that a browser would load, and the text it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.shown: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.loaded += [value or "" for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.shown.append(data)


def test_the_page_loads_nothing(html: str) -> None:
    parser = Loads()
    parser.feed(html)
    assert parser.loaded == ["data:,"]
    css = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert css
    assert not any("url(" in text or "@import" in text for text in css)
    assert not re.search(r"\bimport\s*\(?['\"]https?:", html)


def test_the_page_shows_the_tables_figures(html: str, outcome: Outcome) -> None:
    parser = Loads()
    parser.feed(html)
    shown = {text.strip() for text in parser.shown}
    for one in (numbers.picks(outcome, "all"), numbers.totals(outcome), numbers.speedups(outcome),
                  errors.errors(outcome.recorded), numbers.at_hand(outcome), numbers.shortlist(outcome)):  # fmt: skip
        assert {cell for row in one.text() for cell in row} <= shown, one.name
        assert set(one.notes) <= shown, one.name


def test_the_page_escapes_text_and_stays_small(html: str) -> None:
    assert "A small &lt;study&gt; &amp; its page" in html
    assert "<study>" not in html
    assert len(html.encode()) < 1.5e6
    assert html.count('class="chart"') == html.count('type="application/json"') == 5


def test_the_page_follows_theme_width_and_paper(html: str) -> None:
    for rule in ("prefers-color-scheme: dark", "max-width: 560px", "@media print", "width=device-width"):
        assert rule in html
    for colour in look.PALETTE:
        assert f'.chart svg [fill="{colour}"]' in html
