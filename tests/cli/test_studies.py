"""`gemmsim study run` of several studies: each in its folder, one that fails apart, links, pictures; `study list`."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.study import study_names

SMALL = """\
title: Small & <plain>
question: Which tile?
workload:
  shapes: [{name: one, m: 512, n: 512, k: 512}]
gpus: [h200_sxm]
families: [triton]
dtypes: [bf16]
vary: {triton: {bm: [64, 128], bn: [64, 128]}}
"""
#: opens, and has no answer: no block of it fits
NONE_FITS = SMALL.replace("{bm: [64, 128], bn: [64, 128]}", "{bm: [4096], bn: [4096]}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three studies, which are also those that ship: one of them fails when it runs."""
    monkeypatch.chdir(tmp_path)
    shipped = tmp_path / "studies"
    shipped.mkdir()
    for name, text in {"first": SMALL, "second": SMALL.replace("Small", "Other"), "bad": NONE_FITS}.items():
        (shipped / f"{name}.yaml").write_text(text)
    monkeypatch.setattr("gemmsim.study.kinds.data_folder", lambda name: tmp_path / name)
    return tmp_path


def ran(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["study", *arguments])
    return int(caught.value.code or 0)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_all_are_answered_though_one_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    assert ran("run", "--all", "--format", "json") == 2
    out, err = capsys.readouterr()
    rows = {row["study"]: row for row in json.loads(out)}
    made = folder / "gemmsim-reports"
    assert list(rows) == ["bad", "first", "second"]
    assert rows["bad"]["failed"].startswith("no configuration of triton fits GEMM one")
    assert "h200_sxm: " in rows["bad"]["failed"]
    assert f"gemmsim: bad: {rows['bad']['failed']}" in err.splitlines()
    for name in ("first", "second"):
        assert rows[name]["failed"] == ""
        assert rows[name]["page_bytes"] == (made / name / "report.html").stat().st_size
        assert rows[name]["answer"].startswith("all, M = 512: the GEMMs of a pass are predicted to take")
        assert rows[name]["seconds"] > 0
    assert not (made / "bad").exists()
    assert "3 of 3: " in err


def test_an_error_of_one_study_names_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("run", "studies/bad.yaml") == 2
    assert "gemmsim: studies/bad.yaml: no configuration of triton fits GEMM one" in capsys.readouterr().err


def test_who_reads_only_the_head_of_the_tables_has_the_files_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("gemmsim.cli.studies.show", closed)
    monkeypatch.setattr("gemmsim.cli._drop_output", lambda: None)
    assert ran("run", "first") == 0
    assert (folder / "gemmsim-reports" / "first" / "picks.csv").is_file()


def test_the_index_links_what_there_is_and_loads_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    assert ran("run", "--all", "--out", "here") == 2
    html = (folder / "here" / "index.html").read_text()
    links = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert links == ["data:,", "first/report.html", "second/report.html"]
    assert [link for link in links[1:] if not (folder / "here" / link).is_file()] == []
    assert "No answer this time: no configuration of triton fits" in html
    assert "Other &amp; &lt;plain&gt;" in html
    assert "prefers-color-scheme: dark" in html
    assert "index.html" in capsys.readouterr().err


def test_several_by_name_get_a_folder_each_and_no_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text(SMALL)
    assert ran("run", "first", "mine.yaml", "--out", "here") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["study", "first", "mine"]
    assert {path.name for path in (folder / "here").iterdir()} == {"first", "mine"}


def test_a_plan_of_several_says_where_things_would_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("run", "--all", "--dry-run", "--format", "json", "--out", "here") == 0
    plans = json.loads(capsys.readouterr().out)
    assert [plan["folder"] for plan in plans] == ["here/bad", "here/first", "here/second"]
    assert all("512" in plan["gemms"][0]["size"] for plan in plans)
    assert ran("run", "first", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "Page and rows would go to gemmsim-reports/first." in out
    assert "--measure would time the first 5 of 1 GEMMs, up to 5 launches, on h200_sxm, L2 cold_clean; rows" in out
    assert "gemmsim-reports/first/measured.csv" in out
    assert not (folder / "here").exists()
    assert not (folder / "gemmsim-reports").exists()


def test_a_study_that_ships_broken_is_one_that_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "studies" / "bad.yaml").write_text("kind: pick\n")
    assert ran("run", "--all") == 2
    assert "gemmsim: bad: " in (err := capsys.readouterr().err)
    assert "kind is 'pick'" in err
    assert (folder / "gemmsim-reports" / "second" / "picks.csv").is_file()


def test_a_mistake_of_gemmsims_own_costs_one_study(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise ValueError("not this one")

    monkeypatch.setattr("gemmsim.report.picks.numbers.totals", broken)
    assert ran("run", "first", "second") == 2
    assert "gemmsim: first: ValueError: not this one" in capsys.readouterr().err


@pytest.mark.parametrize("kinds", [("svg,png",), ("svg", "png")])
def test_pictures_are_the_charts_of_the_page(folder: Path, kinds: tuple[str, ...]) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    assert ran("run", "first", "--out", "here", *(word for kind in kinds for word in ("--pictures", kind))) == 0
    made = folder / "here"
    names = re.findall(r'id="spec_(\w+)"', (made / "report.html").read_text())
    assert len(names) >= 3
    found = {path.name for path in (made / "charts").iterdir()}
    assert found == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert (made / "charts" / f"{names[0]}.png").read_bytes().startswith(b"\x89PNG")
    assert "TFLOP/s" in (made / "charts" / "roofline.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ("found no study", "NAME|FILE", "--all")),
        (("--all", "first"), ("--all is given with first",)),
        (("first", "studies/first.yaml"), ("study first is there twice",)),
        (("first", "third"), ("unknown study 'third'", "second")),
        (("--all", "--gpus", "h300"), ("--gpus[0]", "'h300'")),
        (("first", "--pictures", "gif"), ("--pictures gif", "svg or png")),
        (("--all", "--out", "mine.yaml"), ("--out mine.yaml", "found a file")),
        (("--all", "--out", "a/b"), ("--out a/b", "'a'")),
        (("--all", "--out", "taken"), ("taken/first", "found a file")),
        (("first", "--out", "/proc/none"), ("/proc/none", "cannot be written")),
        (("first", "second", "--dry-run", "--format", "csv"), ("--format csv", "table or json")),
        (("first", "--against", "cublas"), ("--against cublas", "--measure")),
        (("first", "--device", "1"), ("--device 1", "--measure")),
    ],
)
def test_wrong_input_ends_with_a_sentence_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    (folder / "mine.yaml").write_text(SMALL)
    (folder / "taken").mkdir()
    (folder / "taken" / "first").write_text("a file")
    before = files(folder)
    assert ran("run", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert [name for name in names if name not in err] == [], err
    assert files(folder) == before


def test_gpus_are_for_studies_that_are_asked_of_gpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "studies" / "curves.yaml").write_text("kind: search\ntitle: T\nquestion: Q\nrows: c.csv\n")
    (folder / "studies" / "c.csv").write_text(
        "family,dtype,sampler,searches,trial,mean_regret,median_regret,done_share\nsimt,fp32,random,4,1,0.1,0.05,0.5\n"
    )
    assert ran("run", "curves", "first", "--gpus", "h100_sxm") == 2
    assert (
        "--gpus h100_sxm: curves is not asked of GPUs by name: expected only studies that are, here first"
        in capsys.readouterr().err
    )
    assert ran("run", "curves", "--measure") == 2
    assert "study curves is of kind search, of which nothing is timed" in capsys.readouterr().err
    assert ran("run", "curves", "--dry-run") == 0
    assert "--measure would time nothing" in capsys.readouterr().out


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SMALL.replace("[{name: one, m: 512, n: 512, k: 512}]", str(
        [{"name": f"g{i}", "m": 512 + i, "n": 512, "k": 512} for i in range(400)])).replace(
        "{triton: {bm: [64, 128], bn: [64, 128]}}", "space"))  # fmt: skip
    (tmp_path / "more.yaml").write_text((tmp_path / "mine.yaml").read_text())
    command = [
        sys.executable,
        "-m",
        "gemmsim",
        "study",
        "run",
        "mine.yaml",
        "more.yaml",
        "--out",
        "here",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    time.sleep(4)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == ""
    assert files(tmp_path) == ["mine.yaml", "more.yaml"]


def test_the_list_says_what_each_study_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("list", "--format", "json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == study_names()
    assert (rows["llama2_7b"]["kind"], rows["l2_raster"]["kind"]) == ("picks", "raster")
    assert all(row["question"].endswith("?") and row["title"] for row in rows.values())
    assert ran("list", "--format", "csv") == 0
    assert [row["name"] for row in csv.DictReader(capsys.readouterr().out.splitlines())] == study_names()
    assert ran("list") == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1
