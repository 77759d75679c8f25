"""`gemmsim study run`: what it prints, which files it leaves, and that wrong input leaves none."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from gemmsim.cli import main

SMALL = """\
title: Small
question: Which tile?
workload:
  shapes: [{name: one, m: 512, n: 512, k: 512}]
gpus: [h100_sxm, h200_sxm]
families: [triton]
dtypes: [bf16]
vary: {triton: {bm: [64, 128], bn: [64, 128]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def ran(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["study", "run", *arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


def without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    for name in ("look", "charts", "page", "picks.page"):
        monkeypatch.delitem(sys.modules, f"gemmsim.report.{name}", raising=False)


def test_it_prints_tables_and_writes_page_and_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    assert ran("small.yaml") == 0
    out, err = capsys.readouterr()
    for text in ("Picks", "One forward pass", "What the newer card buys", "h200_sxm / h100_sxm", "TFLOP/s", "defaults"):
        assert text in out
    made = folder / "gemmsim-reports" / "small"
    assert "report.html" in err
    assert sorted(p.name for p in made.iterdir()) == ["candidates.csv", "picks.csv", "report.html", "terms.csv"]
    with (made / "picks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["gpu"] for row in rows] == ["h100_sxm", "h200_sxm"]
    assert f"{1e6 * float(rows[0]['time_s']):.1f} us" in out


def test_json_and_csv_are_si_numbers(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    assert ran("small.yaml", "--format", "json", "--gpus", "h200_sxm") == 0
    document = json.loads(capsys.readouterr().out)
    (pick,) = document["picks"]
    assert pick["flops_per_s"] == pytest.approx(2 * 512**3 / pick["time_s"])
    assert ran("small.yaml", "--format", "csv", "--gpus", "h200_sxm") == 0
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert float(row["time_s"]) == pick["time_s"]
    assert row["config"] == pick["config"]


def test_without_altair_tables_come_and_one_sentence_says_how_to_get_the_page(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    assert ran("small.yaml", "--out", "here") == 0
    out, err = capsys.readouterr()
    assert "Picks" in out
    assert "pip install 'gemmsim[report]'" in err
    assert sorted(p.name for p in (folder / "here").iterdir()) == ["candidates.csv", "picks.csv", "terms.csv"]


def test_a_long_table_is_cut_in_the_terminal_and_whole_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    assert ran("wave_quantization", "--out", "here") == 0
    out = capsys.readouterr().out
    with (folder / "here" / "timed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 200
    assert f"20 of {len(rows)} rows, furthest from their prediction first: {len(rows) - 20} more in timed.csv." in out
    assert len(out.splitlines()) < 100
    worst = max(rows, key=lambda row: abs(float(row["error"])))
    after = out[out.index("Measured beside the curves") :].splitlines()
    assert f"{100 * float(worst['error']):.1f} %" in after[2]
    assert len([line for line in after if "128x" in line]) == 20
    assert ran("wave_quantization", "--out", "here", "--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["timed"]) == len(rows)


def test_a_table_without_a_file_says_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    from gemmsim.cli.answers import show
    from gemmsim.report.table import Column, table
    from gemmsim.study import open_study

    long = table("long", "Long", [Column("n", "number")], [{"n": i} for i in range(60)], "A note.")
    show(open_study("llama2_7b"), {"long": long}, "table", {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["20 of 60 rows, the first: 40 more with --format json.", "A note."]
    assert [line.strip() for line in lines[lines.index("Long") + 1 : -2]] == ["number", *map(str, range(20))]


def test_a_dry_run_shows_the_plan_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("llama2_7b", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "2048 x 22016 x 4096" in out
    assert "18,750 configurations" in out
    assert "a100_sxm_80gb, h100_sxm, h200_sxm" in out
    assert [p.name for p in folder.iterdir()] == ["small.yaml"]


def test_recorded_searches_are_shown_without_a_gpu(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    assert ran("search_efficiency", "--dry-run") == 0
    assert "model-guided" in capsys.readouterr().out
    assert ran("search_efficiency", "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["searches"]
    assert {row["rows"] for row in rows} == {"simt fp32", "triton bf16"}
    made = folder / "gemmsim-reports" / "search_efficiency"
    assert sorted(p.name for p in made.iterdir()) == ["curves.csv", "report.html", "searches.csv"]


def test_recorded_raster_orders_are_simulated_without_a_gpu(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    assert ran("l2_raster", "--dry-run") == 0
    assert "2048 x 11008 x 4096" in capsys.readouterr().out
    assert not (folder / "gemmsim-reports").exists()
    assert ran("l2_raster", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["gains"]) == 8
    assert [row["launches"] for row in document["errors"]] == [48, 48, 48, 48]
    made = folder / "gemmsim-reports" / "l2_raster"
    assert sorted(p.name for p in made.iterdir()) == ["errors.csv", "gains.csv", "launches.csv", "report.html"]
    with (made / "launches.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 48


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("l2_raster", "--gpus", "h200_sxm"), ("--gpus h200_sxm", "recorded rows")),
        (("search_efficiency", "--gpus", "h200_sxm"), ("--gpus h200_sxm", "recorded rows")),
        (("llama4",), ("'llama4'", "llama2_7b")),
        (("none.yaml",), ("none.yaml", "no such file")),
        (("small.yaml", "--gpus", "h300"), ("--gpus[0]", "'h300'")),
        (("small.yaml", "--gpus", "h200_sxm,h200_sxm"), ("--gpus[1]", "twice")),
        (("small.yaml", "--out", "a/b"), ("--out a/b", "'a'")),
        (("small.yaml", "--out", "small.yaml"), ("--out small.yaml", "found a file")),
        (("small.yaml", "--format", "xml"), ("xml",)),
        ((), ("NAME|FILE",)),
    ],
)
def test_wrong_input_ends_with_a_sentence_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert ran(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert [name for name in names if name not in err] == [], err
    assert [p.name for p in folder.iterdir()] == ["small.yaml"]
