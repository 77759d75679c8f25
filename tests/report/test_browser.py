"""The page of every shipped study in a browser: drawn, sorted, readable in both themes, on a phone and on paper."""

from __future__ import annotations

import fcntl
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SCREENS, VARIABLE, Browser, browser, missing

from gemmsim.cli import main
from gemmsim.study import study_names

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from gemmsim.report import look
from gemmsim.report.heatmap.charts import ERRORS, SHADES

#: of text against what lies behind it, as WCAG 2 asks for
CONTRAST = 4.5
MOST_BYTES = 4e6
PHONE, DESK = 390, 1280
#: a table of more rows scrolls
TALL = 40
ENTER = "\ue007"

#: of a map's cells, the same in both themes
CELLS = {f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for _, _, c, _ in (*SHADES, *ERRORS)}

BAD = """\
<!doctype html><title>Bad</title><main><p style="color: #999; width: 500px">pale and wide</p>
<img src="http://127.0.0.1:9/a.png"><div class="chart" data-spec="spec_none">This chart could not be drawn: why</div>
<div class="chart" data-spec="spec_flat"><svg width="80" height="20"><g><path class="background" d="M0 0H80V20H0Z"/>
<g class="role-axis-label"><text y="12">first</text><text y="12" x="5">second</text></g></g></svg></div>
<div><table id="stuck"><thead><tr><th class="number"><button>n</button></th></tr></thead>
<tbody><tr><td data-value="2">2</td></tr><tr><td data-value="1">1</td></tr></tbody></table></div></main>
<script>console.error("oh no")</script>
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    why = missing()
    if why and os.environ.get(VARIABLE) == "required":
        pytest.fail(why, pytrace=False)
    if why:
        pytest.skip(why)
    with browser() as one:
        yield one


@pytest.fixture(scope="module", params=study_names())
def report(request: pytest.FixtureRequest, chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study, written once for all of pytest's workers."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / f"report-{request.param}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            write(request.param, folder)
    return folder / "report.html"


def write(study: str, folder: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["study", "run", study, "--out", str(folder)])
    assert caught.value.code == 0


@pytest.fixture
def desk(chromium: Browser, report: Path) -> Browser:
    chromium.show(report, DESK)
    return chromium


@pytest.fixture(scope="module", params=[DESK, PHONE])
def width(request: pytest.FixtureRequest) -> int:
    """Of a screen; of the module, so that a page is opened once for all tests at one width."""
    return int(request.param)


@pytest.fixture
def screen(chromium: Browser, report: Path, width: int) -> Browser:
    chromium.show(report, width)
    return chromium


def test_cells_of_maps_alone_keep_their_colours() -> None:
    themed = {rgb(colour) for colour in (*look.PALETTE, look.INK, look.MUTED, look.GRID)}
    assert not {rgb(colour) for colour in CELLS} & themed


def rgb(colour: str) -> tuple[float, ...]:
    """'rgb(1, 2, 3)' or '#010203' -> (1, 2, 3)."""
    if colour.startswith("#"):
        return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return tuple(float(part) for part in re.findall(r"[\d.]+", colour)[:3])


def luminance(colour: str) -> float:
    """WCAG 2's relative luminance."""
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in (c / 255 for c in rgb(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def pale(one: Browser) -> list[tuple[str, float]]:
    """Texts with too little contrast."""
    found = [(text, contrast(ink, back)) for ink, back, text in one.look("inks")]
    return [(text, ratio) for text, ratio in found if ratio < CONTRAST]


def missorted(column: dict[str, Any]) -> list[str]:
    """What is wrong with a column that was clicked twice."""
    faults = []
    for way, says in (("up", "ascending"), ("down", "descending")):
        values, there = column[way]["values"], [v for v in column[way]["values"] if v != ""]
        if column[way]["says"] != [says]:
            faults.append(f"aria-sort {column[way]['says']}, expected {says}")
        if sorted(values) != sorted(column["before"]) or values != there + [""] * (len(values) - len(there)):
            faults.append(f"{says}: rows lost, or missing values not last")
        if keys(there, column["number"]) != sorted(keys(there, column["number"]), reverse=way == "down"):
            faults.append(f"{says}: {there[:6]}")
    return faults


def keys(values: list[str], number: bool) -> list[Any]:
    """What orders them: numbers as they are; of text the number that each of them opens with, or its first letter."""
    if number:
        return [float(v) for v in values]
    if all(re.match(r"\d", v) for v in values):
        return [int(re.match(r"\d+", v)[0]) for v in values]  # type: ignore[index]
    return [v[0].lower() for v in values] if all(v[:1].isalpha() for v in values) else []


def printed(pdf: bytes) -> set[tuple[int, ...]]:
    """Colours, red green blue of 255, that a PDF draws with."""
    found: set[tuple[int, ...]] = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            text = zlib.decompress(stream)
        except zlib.error:
            continue  # a font or a picture
        for line in set(re.split(rb"[\r\n]+", text)):  # an operator a line; most are of paths
            if line.endswith((b" rg", b" RG")):
                found.add(tuple(round(255 * float(part)) for part in line.split()[:3]))
    return found


def test_every_chart_is_drawn_with_the_colours_of_its_legend(desk: Browser) -> None:
    charts = desk.look("charts")
    assert charts
    for chart in charts:
        assert chart["svg"], chart["text"]
        assert "could not be drawn" not in chart["text"]
        assert chart["marks"], chart["name"]
        assert set(chart["legend"]) <= set(chart["marks"]) | {"rgb(89, 99, 110)"}, chart["name"]  # grey: of any colour
        assert chart["label"], chart["name"]


def test_a_click_on_a_head_sorts_its_table(desk: Browser) -> None:
    columns = desk.look("sorted")
    assert columns
    assert {f"{c['table']}, {c['column']}": missorted(c) for c in columns if missorted(c)} == {}


def test_the_keyboard_sorts_too(desk: Browser) -> None:
    desk.look("focusHead")
    said = []
    for key in (ENTER, " "):
        desk.press(key)
        said.append(desk.look("firstHead"))
    assert sorted(said) == ["ascending", "descending"]


def test_text_stands_out_in_both_themes(desk: Browser) -> None:
    assert pale(desk) == []
    desk.theme("dark")
    assert pale(desk) == []


def test_charts_and_page_follow_the_theme(desk: Browser) -> None:
    light, bright = desk.look("page"), desk.look("charts")
    desk.theme("dark")
    dark, dim = desk.look("page"), desk.look("charts")
    assert luminance(light["background"]) > 0.9 > 0.1 > luminance(dark["background"])
    assert luminance(light["ink"]) < 0.1 < 0.7 < luminance(dark["ink"])
    for one, other in zip(bright, dim, strict=True):
        assert not set(one["labels"]) & set(other["labels"]), one["name"]
        assert not set(one["marks"]) & set(other["marks"]) - CELLS, one["name"]


def test_on_paper_it_is_light_and_has_its_charts(desk: Browser) -> None:
    colours = {rgb(colour) for chart in desk.look("charts") for colour in chart["marks"]}
    desk.theme("dark")
    pdf = desk.pdf()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 0
    assert colours <= printed(pdf)
    desk.theme("dark", "print")
    assert all(chart["svg"]["width"] > 100 and chart["svg"]["height"] > 60 for chart in desk.look("charts"))
    assert all(table["box"]["height"] >= table["table"]["height"] for table in desk.look("tables"))  # none scrolls


def test_nothing_is_wider_than_the_screen(screen: Browser, width: int) -> None:
    page = screen.look("page")
    assert page["screen"] == width
    assert page["width"] <= width
    for chart in screen.look("charts"):
        assert chart["svg"]["left"] >= 0, chart["name"]
        assert chart["svg"]["right"] <= min(width, chart["place"]["right"] + 1), chart["name"]
        assert chart["svg"]["width"] > 0.75 * chart["place"]["width"], chart["name"]


def test_tables_scroll_in_boxes_of_their_own(screen: Browser, width: int) -> None:
    tables = screen.look("tables")
    assert tables
    for table in tables:
        assert 0 <= table["box"]["left"] < table["box"]["right"] <= width, table["name"]
        assert table["scrolls"] == "auto", table["name"]
        assert table["caption"], table["name"]
        if table["rows"] > TALL:
            assert table["box"]["height"] < SCREENS[width], table["name"]
            assert table["slid"] == 50, table["name"]
            assert table["head"] == pytest.approx(1, abs=1), table["name"]  # stays in sight


def test_words_of_charts_lie_on_nothing(screen: Browser) -> None:
    assert screen.look("crowded") == []


def test_it_asks_for_nothing_and_complains_of_nothing(screen: Browser, report: Path) -> None:
    assert screen.complaints() == []
    assert [url for url in screen.requests() if not url.startswith("data:")] == [report.as_uri()]


def test_the_file_is_small_enough_to_mail(report: Path) -> None:
    assert report.stat().st_size <= MOST_BYTES


def test_names_that_look_like_markup_stay_text(chromium: Browser, tmp_path: Path) -> None:
    from gemmsim.report import charts
    from gemmsim.report.page import Chart, Page, Section, render
    from gemmsim.report.table import Column, table

    evil = "</script></style><script>console.error('broken out')</script><!--"
    row = {"gemm": evil, "size": "1", "gpu": evil, "flops_per_s": 1e12}
    rows = [{**row, "config": tile, "bound_by": bound, "time_s": time_s}
            for tile, bound, time_s in (("128x64", evil, 2e-6), ("64x64", None, 1e-6))]  # fmt: skip
    shown = (Column("gemm", evil), Column("config", "tile"), Column("bound_by", "bound"), Column("time_s", evil, "s"))
    picks = table("picks", evil, shown, rows, evil)
    section = Section(evil, [evil], [Chart("bars", evil, charts.time_bars(picks))], [picks])
    page = tmp_path / "evil.html"
    page.write_text(render(Page(evil, evil, [evil], [section], [(evil, evil)])))
    chromium.show(page, DESK)
    assert chromium.complaints() == []
    assert chromium.look("charts")[0]["marks"]
    columns = chromium.look("sorted")
    assert [missorted(column) for column in columns] == [[], [], [], []]
    assert [columns[1]["up"]["values"], columns[2]["down"]["values"]] == [["64x64", "128x64"], [evil, ""]]


def test_a_bad_page_is_found_out(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(BAD)
    chromium.show(page, PHONE)
    assert pale(chromium)[0][0] == "pale and wide"
    assert chromium.look("page")["width"] > PHONE
    assert [chart["svg"] is None for chart in chromium.look("charts")] == [True, False]
    assert not chromium.look("charts")[1]["marks"]
    assert any("oh no" in line for line in chromium.complaints())
    assert "http://127.0.0.1:9/a.png" in chromium.requests()
    (column,) = chromium.look("sorted")
    assert missorted(column) == ["aria-sort [], expected ascending", "ascending: ['2', '1']",
                                 "aria-sort [], expected descending"]  # fmt: skip
