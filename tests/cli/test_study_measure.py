"""`gemmsim study run --measure` without a GPU: on a bench of the tests, and the sentences of what is missing."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.store import Store

BENCH = Path(__file__).parents[1] / "bench"
SMALL = """\
title: Small
question: Which tile?
workload:
  shapes:
    - {name: one, m: 512, n: 512, k: 512}
    - {name: two, m: 1024, n: 512, k: 256}
gpus: [h100_sxm, h200_sxm]
families: [triton]
dtypes: [bf16]
vary: {triton: {bm: [64, 128], bn: [64, 128], num_stages: [3, 4]}}
top: 3
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GEMMSIM_BENCH", "fake_bench")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(BENCH), str(Path(__file__).parents[2])]))
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("FAKE_UUID", f"GPU-study-{tmp_path.name}-{os.getpid()}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def ran(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["study", "run", *arguments])
    return int(caught.value.code or 0)


def written(path: Path) -> list[dict[str, str]]:
    with open(path) as file:
        return list(csv.DictReader(file))


def test_the_candidates_on_this_machines_gpu_are_timed_and_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("small.yaml", "--measure", "--out", "here", "--format", "json") == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert "6 rows: 6 ok" in err
    rows = written(folder / "here" / "measured.csv")
    picked = {(c["m"], c["config"]) for c in written(folder / "here" / "candidates.csv") if c["gpu"] == "h200_sxm"}
    assert len(rows) == len(picked) == 6
    assert {(r["gpu"], r["campaign"], r["status"]) for r in rows} == {("h200_sxm", "small", "ok")}
    timed = {row["gemm"]: row for row in document["timed"]}
    assert [timed[name]["rows"] for name in ("one", "two")] == [3, 3]
    assert timed["one"]["source"] == "this machine"
    assert timed["one"]["measured_s"] == pytest.approx(1e-9 * 512 * 512)  # what the bench says of all tiles
    assert timed["one"]["regret"] == 0
    assert len((folder / "log").read_text().splitlines()) == 6
    assert {row["campaign"] for row in Store().rows()} == {"small"}


def test_the_page_tells_rows_of_this_machine_from_those_that_ship(folder: Path) -> None:
    pytest.importorskip("altair")
    (folder / "small.yaml").write_text(SMALL + "measure: recorded\n")
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    html = (folder / "here" / "report.html").read_text()
    assert "Measured for this study on NVIDIA H200: 6 launches, 6 ok." in html
    assert "Of 2 GEMMs timed the model&#39;s choice is 0.0 % slower than the best timed" in html
    points = written(folder / "here" / "predicted_against_measured.csv")
    kernels = [row["kernel"] for row in points]
    assert kernels.count("triton bf16, timed here") == 6
    assert kernels.count("triton bf16") > 1000
    assert '"triton bf16, timed here"' in html
    assert "this machine" in html


def test_a_later_run_shows_the_rows_without_a_gpu(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "small.yaml").write_text(SMALL + "measure: run\n")
    assert ran("small.yaml", "--format", "json") == 0
    first = json.loads(capsys.readouterr().out)["timed"]
    monkeypatch.setenv("FAKE_FATAL", "no NVIDIA GPU was found: expected one")
    assert ran("small.yaml") == 2
    assert "no NVIDIA GPU was found: expected one" in capsys.readouterr().err
    assert ran("small.yaml", "--no-measure", "--format", "json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["timed"] == first
    assert "Shown too: 6 rows of gemmsim-reports/small/measured.csv, timed earlier on NVIDIA H200." in err


def test_rows_of_another_study_are_neither_shown_nor_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "other.yaml").write_text(SMALL)
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    before = (folder / "here" / "measured.csv").read_bytes()
    capsys.readouterr()
    assert ran("other.yaml", "--measure", "--out", "here") == 2
    sentence = "here/measured.csv: holds rows of 'small': expected those of study other"
    assert capsys.readouterr().err == f"gemmsim: {sentence}\n"
    assert ran("other.yaml", "--out", "here") == 0
    out, err = capsys.readouterr()
    assert f"Left out: {sentence}" in err
    assert "GEMMs of this study that were timed" not in out
    assert (folder / "here" / "measured.csv").read_bytes() == before


def test_rows_of_another_gpu_stay_in_the_file(folder: Path) -> None:
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    path = folder / "here" / "measured.csv"
    path.write_text(path.read_text().replace("h200_sxm", "h100_sxm").replace("NVIDIA H200", "NVIDIA H100"))
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    rows = written(path)
    assert [row["gpu"] for row in rows] == ["h100_sxm"] * 6 + ["h200_sxm"] * 6
    assert {row["gpu"] for row in written(folder / "here" / "timed.csv")} == {"h100_sxm", "h200_sxm"}


def test_stopped_it_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_S", "0.2")
    (folder / "small.yaml").write_text(SMALL.replace("top: 3", "top: 8"))
    command = [sys.executable, "-m", "gemmsim", "study", "run", "small.yaml", "--measure", "--out", "here"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    store = Store()
    while len(store.keys("small")) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "not measured" in err
    assert f"Rows measured so far are in {folder / 'rows.sqlite'}; the same command goes on from there." in err
    assert not (folder / "here").exists()
    had = len(store.keys("small"))
    assert 3 <= had < 16
    monkeypatch.setenv("FAKE_S", "0.002")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{had} were there" in done.stderr
    assert len(written(folder / "here" / "measured.csv")) == 16
    measured = (folder / "log").read_text().splitlines()
    assert len(set(measured)) == 16
    assert len(measured) <= 17  # what was under way when it was stopped may be measured once more


def test_regret_is_of_the_timed_candidates_and_cublas_of_the_same_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    path = folder / "here" / "measured.csv"
    rows = written(path)
    candidates = written(folder / "here" / "candidates.csv")
    (pick,) = (c for c in candidates if (c["gpu"], c["gemm"], c["rank"]) == ("h200_sxm", "one", "1"))
    for i, row in enumerate(rows):
        mine = f"{row['bm']}x{row['bn']}x{row['bk']}" == pick["config"].partition("_")[0] and row["m"] == "512"
        chosen = mine and f"s{row['num_stages']}" in pick["config"]
        row |= {"time_s": "8e-6" if chosen else f"{5 + i}e-6", "cublas_time_s": "4e-6" if chosen else "9e-6"}
    with open(path, "w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    best = min(float(row["time_s"]) for row in rows if row["m"] == "512")
    capsys.readouterr()
    assert ran("small.yaml", "--out", "here", "--format", "json") == 0
    (one,) = (row for row in json.loads(capsys.readouterr().out)["timed"] if row["gemm"] == "one")
    assert (one["measured_s"], one["best_s"], one["cublas_s"]) == (8e-6, best, 4e-6)
    assert one["regret"] == pytest.approx(8e-6 / best - 1)
    assert one["predicted_s"] == pytest.approx(float(pick["time_s"]), rel=0.5)  # with the compiler's facts


def test_what_fails_is_counted_and_the_rest_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair")
    text = SMALL.replace("m: 1024", "m: 6664").replace("gpus: [h100_sxm, h200_sxm]", "gpus: [h200_sxm]")
    (folder / "small.yaml").write_text(text)
    assert ran("small.yaml", "--measure", "--out", "here") == 0
    assert "3 wrong" in capsys.readouterr().err
    assert [row["gemm"] for row in written(folder / "here" / "timed.csv")] == ["one"]
    assert "6 launches, 3 ok, 3 wrong." in (folder / "here" / "report.html").read_text()


def test_of_several_those_with_launches_are_timed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.csv").write_text(
        "family,dtype,sampler,searches,trial,mean_regret,median_regret,done_share\nsimt,fp32,random,4,1,0.1,0.05,0.5\n"
    )
    (folder / "curves.yaml").write_text("kind: search\ntitle: T\nquestion: Q\nrows: c.csv\n")
    assert ran("small.yaml", "curves.yaml", "--measure") == 0
    made = folder / "gemmsim-reports"
    assert sorted(p.parent.name for p in made.rglob("measured.csv")) == ["small"]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["study", "curves", "small"]


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("rows.sqlite"))


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ((), {"FAKE_FATAL": "CuPy is not installed: pip install ..."}, "CuPy is not installed: pip install ..."),
        (("--gpus", "a100_sxm_80gb"), {}, "--measure: the GPU of this machine is h200_sxm, and study small is of "
         "a100_sxm_80gb: expected one of them, or --gpus h200_sxm"),
        (("--gpu", "a100_sxm_80gb"), {}, "--gpu a100_sxm_80gb has compute capability 8.0, and the device is "
         "'NVIDIA H200' with 9.0: expected the same"),
        (("--against", "mkl"), {}, "unknown library 'mkl' in --against: known are cublas"),
        (("--device", "x"), {}, "--device is 'x': expected a whole number from 0 to 1023"),
        ((), {"GEMMSIM_STORE": "."}, ".: cannot be a store of rows: expected a file, found a folder"),
        ((), {"GEMMSIM_STORE": "mysql://me:secret@host/rows"}, "store mysql://me:***@host/rows: expected a file or "
         "postgresql+psycopg://USER@HOST/NAME"),
        ((), {"GEMMSIM_STORE": "small.yaml"}, "small.yaml: is no store of this version's rows (file is not a "
         "database): expected a file made by gemmsim measure"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_before_any_work(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
    environment: dict[str, str], sentence: str,
) -> None:  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("gemmsim.study.picks.PicksStudy.run", None)  # nothing is predicted
    assert ran("small.yaml", "--measure", *arguments) == 2
    assert capsys.readouterr() == ("", f"gemmsim: {sentence}\n")
    assert left(folder) == ["small.yaml"]
    assert (folder / "small.yaml").read_text() == SMALL


def test_a_store_that_does_not_answer_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("GEMMSIM_STORE", "postgresql+psycopg://me:secret@127.0.0.1:1/rows")
    assert ran("small.yaml", "--measure") == 2
    err = capsys.readouterr().err
    assert err.startswith("gemmsim: store postgresql+psycopg://me:***@127.0.0.1:1/rows: cannot be used: ")
    assert "secret" not in err
    assert left(folder) == ["small.yaml"]


def test_without_sqlalchemy_one_sentence_says_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert ran("small.yaml", "--measure") == 2
    assert "SQLAlchemy is not installed" in (err := capsys.readouterr().err)
    assert "pip install 'gemmsim[measure]'" in err
    assert ran("small.yaml", "--dry-run") == 0
