"""`gemmsim tune` without a GPU: on recorded rows, on the model, and on a bench of the tests."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial

from gemmsim.cli import main
from gemmsim.cli.tuned import Screen
from gemmsim.families import FAMILIES
from gemmsim.store import Store
from gemmsim.tuning.job import Job

ROWS = Path(__file__).parents[2] / "studies" / "h200"
SIMT = str(ROWS / "simt_fp32.csv.gz")
SQUARE = (4096, 4096, 4096)
SMALL = (256, 256, 256, "--dtype", "fp32", "--family", "register_tile")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["tune", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_recorded_rows_answer_in_place_of_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *SQUARE, "--rows", SIMT, "--trials", 10)
    lines = out.splitlines()
    assert code == 0
    assert err == "4096 x 4096 x 4096 fp32 on h200_sxm: 10 trials of 229 recorded configurations (simt)\n"
    assert lines[0] == "4096 x 4096 x 4096 fp32 on h200_sxm, L2 cold_clean, simt"
    assert re.fullmatch(r"10 trials of 229 recorded configurations: 10 ok; \d+\.\d s", lines[1])
    assert re.match(r"  \d+x\d+x\d+_\w+ +2\.\d{3} ms  100\.0% +\d+\.\d +2\.\d{3} ms", lines[3])
    assert any(line.startswith("best: simt bm=") and " stream_k=" in line for line in lines)
    assert any(re.fullmatch(r"gain over the kernel's default: \d+\.\d %", line) for line in lines)
    assert "no finalists: recorded rows cannot be timed in turn, the times are those of the rows" in lines
    assert re.fullmatch(r"regret: \d\.\d %, the fastest recorded takes 2\.\d{3} ms", lines[-1])


def test_the_same_seed_finds_the_same_and_more_trials_no_worse(capsys: pytest.CaptureFixture[str]) -> None:
    def found(*options: object) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(run(capsys, *SQUARE, "--rows", SIMT, "--format", "json", *options)[1])
        return {name: value for name, value in result.items() if name != "wall_s"}

    once = found("--trials", 12, "--seed", 5)
    assert found("--trials", 12, "--seed", 5) == once
    every = found("--trials", 1000)
    assert (every["trials"], every["configurations"], every["regret"]) == (229, 229, 0)
    assert every["time_s"] <= once["time_s"]


def test_rows_of_several_families_are_one_search(capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        part for name in ("naive", "register_tile", "smem_tile") for part in ("--rows", ROWS / f"{name}_fp32.csv.gz")
    ]
    code, out, _ = run(capsys, *SQUARE, *files, "--trials", 200, "--format", "json")
    found = json.loads(out)
    assert (code, found["trials"], found["family"]) == (0, 121, "register_tile")


def test_the_model_answers_for_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *SQUARE, "--predicted", "--gpu", "a100_sxm_80gb", "--dtype", "fp32", "--trials", 6)
    assert code == 0
    assert "gain over the model's first pick: none, it is the best" in out
    assert "no finalists: the times are the model's own" in out


def test_finalists_are_timed_in_turn_with_cublas(tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *SMALL, "--trials", 12)
    assert code == 0
    assert err.splitlines() == [
        "256 x 256 x 256 fp32 on h200_sxm: 12 trials of 1273 configurations (register_tile)",
        "finalists are timed in turn",
    ]
    assert re.search(r"^  cuBLAS +\d+\.\d\d us +\d+\.\d% ", out, re.M)
    for what in ("the kernel's default", "the model's first pick", "cuBLAS"):
        assert re.search(
            rf"^gain over {what}: (none, it is the best|-?\d.* \(95 % interval -?\d.* to -?\d.* %\))", out, re.M
        )
    assert "no finalists" not in out
    rows = Store().rows("tune", latest=False)
    assert sum(row["against"] == "" for row in rows) == 12
    assert {row["against"] for row in rows} == {"", "turns"}


def test_ties_are_marked_and_counted(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_NOISE", "0.5")
    _, out, _ = run(capsys, *SMALL, "--trials", 20)
    marked = re.findall(r"^= (\S+) ", out, re.M)
    (count,) = re.findall(r"^= a tie: timed in turn, (\d+) configurations cannot be told apart$", out, re.M)
    assert len(set(marked) - {"a", "cuBLAS"}) == int(count) >= 2


def test_json_and_csv_say_the_same_and_csv_is_a_batch(tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, other = tune_folder / "best.csv", tune_folder / "best.json"
    assert run(capsys, *SMALL, "--trials", 8, "--out", target)[:2] == (0, "")
    assert run(capsys, *SMALL, "--trials", 8, "--out", other)[:2] == (0, "")
    (line,), found = read(target.read_text()), json.loads(other.read_text())
    assert (line["key"], line["bm"], line["trials"]) == (found["key"], str(found["bm"]), "8")
    assert float(line["time_s"]) == found["time_s"]
    assert float(line["gain_over_default"]) >= 0
    assert [e["family"] for e in found["compared"] if "cublas" in e["roles"]] == ["cublas"]
    assert found["compared"][0]["time_s"] <= found["compared"][-1]["time_s"]
    predicted = tune_folder / "predicted.csv"
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--batch", str(target), "--out", str(predicted)])
    assert caught.value.code == 0
    assert float(read(predicted.read_text())[0]["time_s"]) == pytest.approx(found["predicted_s"])


def test_a_file_of_shapes_gives_a_line_a_shape(tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = tune_folder / "shapes.csv"
    shapes.write_text("name,M,N,K\nq,256,256,256\nup,512,256,128\nk,256,256,256\n")
    options = ("--shapes", shapes, "--dtype", "fp32", "--family", "register_tile", "--trials", 6)
    code, out, err = run(capsys, *options)
    lines = out.splitlines()
    assert code == 0
    assert re.match(r"name +M +N +K +time +TFLOP/s +predicted +over default", lines[0])
    assert [line.split("  ")[0] for line in lines[1:3]] == ["q, k", "up"]
    assert "[1/2] q, k: 256 x 256 x 256 fp32 on h200_sxm: 6 trials of " in err
    assert re.search(r"^  best register_tile \S+: .* us, \d+\.\d TFLOP/s; 6 ok, ", err, re.M)
    rows = read(run(capsys, *options, "--format", "csv")[1])
    assert [(row["name"], row["m"], row["trials"]) for row in rows] == [("q, k", "256", "6"), ("up", "512", "6")]
    assert len([row for row in Store().rows("tune") if row["against"] == ""]) == 12


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_where_nothing_runs_the_exit_code_is_1(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setenv("TUNE_FAIL", "all")
    code, out, _ = run(capsys, *SMALL, "--trials", 5, "--format", format)
    assert code == 1
    if format == "table":
        assert out.splitlines()[1].startswith("5 trials of 1273 configurations that can launch: 5 compile; ")
        assert out.splitlines()[2:] == ["no configuration ran", "  5 compile: ptxas says no"]
    else:
        found = json.loads(out) if format == "json" else read(out)[0]
        assert (found["status"], str(found["failed"]), found["statuses"]) == ("failed", "5", "5 compile")


def test_some_failures_are_counted(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_FAIL", "16")
    code, out, _ = run(capsys, *SMALL, "--trials", 30)
    assert code == 0
    assert re.search(r": \d+ (ok|compile), \d+ (ok|compile); ", out)


def test_a_budget_ends_the_search_and_says_what_was_not_measured(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_S", "0.2")
    code, out, _ = run(capsys, *SMALL, "--trials", 1000, "--budget-s", 0.5)
    assert code == 0
    assert re.search(r"^not measured: \d+ of 1000 trials$", out, re.M)
    assert "gain over cuBLAS" in out


def started(folder: Path, *options: object, seconds: str = "0.1") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gemmsim", "tune", *map(str, SMALL), *map(str, options)]
    environment = os.environ | {"FAKE_S": seconds}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    store = Store()
    while len(store.keys("tune")) < 4:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def single_rows() -> list[dict[str, Any]]:
    return [row for row in Store().rows("tune", latest=False) if row["against"] == ""]


def test_stopped_by_a_person_it_says_what_was_found_and_how_to_go_on(
    tune_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = started(tune_folder, "--trials", 100)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert re.search(r"^stopped after \d+ trials: the rows are kept; the same command goes on$", err, re.M)
    assert "no finalists: the search was stopped, each time was measured once" in out
    assert "best: register_tile " in out
    done = len(single_rows())
    code, _, err = run(capsys, *SMALL, "--trials", done + 3)
    assert (code, f"; {done} are in the store\n" in err) == (0, True)
    assert [row["attempt"] for row in single_rows()] == [0] * (done + 3)


@pytest.mark.parametrize("kept", [True, False])
def test_ctrl_c_without_a_gpu_says_what_is_kept(
    kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(screen: Screen, job: Job, trial: FrozenTrial) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Screen, "trial", stop)
    options = ("--study", "s", "--storage", tmp_path / "t.journal") if kept else ()
    code, out, err = run(capsys, *SQUARE, "--rows", SIMT, "--trials", 3, *options)
    said = "study s is kept; the same command goes on" if kept else "nothing is kept without --study"
    assert (code, err.splitlines()[-1]) == (130, f"stopped after 1 trials: {said}")
    assert "not measured: 2 of 3 trials" in out


def test_killed_and_started_again_nothing_is_measured_twice(
    tune_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = started(tune_folder, "--trials", 20)
    process.kill()
    process.communicate()
    assert 4 <= len(single_rows()) < 20
    assert run(capsys, *SMALL, "--trials", 20)[0] == 0
    assert [row["attempt"] for row in single_rows()] == [0] * 20
    assert run(capsys, *SMALL, "--trials", 20)[0] == 0
    assert len(single_rows()) == 20
    assert run(capsys, *SMALL, "--trials", 5, "--again")[0] == 0
    assert sorted(row["attempt"] for row in single_rows())[-5:] == [1] * 5


def test_a_study_is_kept_carried_on_and_not_taken_for_another(
    tune_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ("--study", "s", "--storage", tune_folder / "tune.journal")
    assert run(capsys, *SMALL, "--trials", 6, *kept)[0] == 0
    code, out, err = run(capsys, *SMALL, "--trials", 9, *kept)
    assert code == 0
    assert err.splitlines()[0] == "study s is carried on"
    assert err.splitlines()[1].endswith(": 9 trials of 1273 configurations (register_tile); 6 are done")
    assert "9 trials of 1273 configurations that can launch: 9 ok" in out
    code, out, err = run(capsys, 512, *SMALL[1:], *kept)
    assert (code, out) == (2, "")
    assert err == "gemmsim: study s is for m 256, not 512: expected a new study by another name\n"
    _, _, err = run(capsys, *SMALL, "--l2", "warm", *kept)
    assert err == "gemmsim: study s is for l2 cold_clean, not warm: expected a new study by another name\n"


def test_a_fleet_of_shapes_is_a_study_each(tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gemmsim.search.storage import open_storage, studies

    shapes, journal = tune_folder / "shapes.csv", str(tune_folder / "tune.journal")
    shapes.write_text("m,n,k\n4096,4096,4096\n1024,1024,1024\n")
    options = ("--shapes", shapes, "--rows", SIMT, "--trials", 5, "--study", "fleet", "--storage", journal)
    assert run(capsys, *options)[0] == 0
    assert sorted(studies(open_storage(journal), "fleet/")) == ["fleet/1024x1024x1024", "fleet/4096x4096x4096"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "M N K: found 0 values, expected three whole numbers"),
        ((*SMALL, "--trials", 0), "--trials is '0': expected a whole number from 1 to 1000000"),
        ((*SMALL, "--budget-s", 0), "--budget-s is '0': expected a number from 0.001 to 1e+09"),
        ((*SMALL, "--seed", "x"), "--seed is 'x': expected a whole number from 0 to 2147483647"),
        ((1, 2, 3, "--family", "cutlass"),
         f"unknown family 'cutlass' in --family: known are {', '.join(FAMILIES)}, all"),
        ((1, 2, 3, "--dtype", "fp31"), "unknown dtype 'fp31' in --dtype: did you mean fp32? known are fp64, fp32, "
         "tf32, bf16, fp16, fp8, int8"),
        ((*SMALL, "--study", "s"),
         "--study is given without --storage: expected both, a study's name and where it is kept"),
        ((*SMALL, "--storage", "x.journal"),
         "--storage is given without --study: expected both, a study's name and where it is kept"),
        ((*SQUARE, "--rows", SIMT, "--predicted"), "--rows and --predicted are given: expected one of them"),
        ((*SQUARE, "--predicted"), "--predicted is given without --gpu: expected a GPU's name or file, h200_sxm, say"),
        ((*SQUARE, "--rows", SIMT, "--again"), "--again is given with --rows: expected it where a GPU measures"),
        ((1, 2, 3, "--rows", SIMT), f"{SIMT}: no row is of 1 x 2 x 3: expected one of the shapes there, such as "
         "1024 x 1024 x 1024"),
        ((*SQUARE, "--rows", SIMT, "--dtype", "bf16"), f"{SIMT}: column dtype holds fp32, and --dtype says bf16"),
        ((*SQUARE, "--rows", SIMT, "--layout", "TN", "--beta"), f"{SIMT}: rows are of fp32 x fp32 -> fp32 NN, and "
         "options say fp32 x fp32 -> fp32 TN beta: expected the same, or no such options"),
        ((*SQUARE, "--rows", "none.csv"), "none.csv: cannot be read: No such file or directory"),
        ((*SMALL, "--shapes", "x.csv"), "M N K and --shapes x.csv are given: expected one of them"),
        ((1, 2, 3, "--family", "triton", "--dtype-b", "fp8"),
         "B in fp8 beside A in bf16 is not measured: expected one type"),
        ((*SMALL, "--epilogue", "bias"),
         "family register_tile has no kernel with bias: it does the plain product alone; family simt would do"),
        ((*SMALL, "--gpu", "a100_sxm_80gb"),
         "--gpu a100_sxm_80gb has compute capability 8.0, and the device is 'NVIDIA H200' with 9.0: expected the same "
         "(gemmsim tune with --rows FILE or --predicted needs no GPU)"),
        ((*SMALL, "--out", "/no/x.csv"), "--out /no/x.csv: expected an existing folder, found none called '/no'"),
    ],
)  # fmt: skip
def test_bad_input(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], sentence: str
) -> None:
    assert run(capsys, *arguments) == (2, "", f"gemmsim: {sentence}\n")


def test_a_storage_that_cannot_be_reached_is_said_before_the_gpu_is_asked(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FATAL", "no GPU is here")
    url = "postgresql+psycopg://nobody:secret@127.0.0.1:1/none"
    code, out, err = run(capsys, *SMALL, "--study", "s", "--storage", url)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("gemmsim: storage postgresql")
    assert "secret" not in err
    assert list(tune_folder.iterdir()) == []


def test_an_empty_file_of_shapes_is_refused(tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = tune_folder / "shapes.csv"
    shapes.write_text("m,n,k\n")
    assert run(capsys, "--shapes", shapes) == (
        2,
        "",
        f"gemmsim: {shapes}: expected rows below the header, found none\n",
    )


def test_without_a_gpu_one_sentence_says_what_is_missing_and_what_needs_none(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FATAL", "no GPU is here")
    code, out, err = run(capsys, *SMALL)
    assert (code, out) == (2, "")
    assert err == "gemmsim: no GPU is here (gemmsim tune with --rows FILE or --predicted needs no GPU)\n"


def test_without_optuna_the_extra_is_named(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "optuna" else found(name))
    assert run(capsys, *SMALL) == (
        2, "", "gemmsim: Optuna is not installed, and searches run on it: pip install 'gemmsim[tune]'\n"
    )  # fmt: skip


def test_two_tunings_of_one_gpu_do_not_measure_at_once(
    tune_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gemmsim.bench.lock.WAIT_S", 0.1)
    process = started(tune_folder, "--trials", 200)
    code, _, err = run(capsys, *SMALL)
    process.kill()
    process.communicate()
    assert (code, "is in use by another campaign" in err) == (2, True)
