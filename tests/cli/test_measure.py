"""`gemmsim measure` without a GPU: on a bench of the tests, and the sentences of what is wrong."""

from __future__ import annotations

import csv
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


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GEMMSIM_BENCH", "fake_bench")
    monkeypatch.setenv("PYTHONPATH", str(BENCH))
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("FAKE_UUID", f"GPU-cli-{tmp_path.name}-{os.getpid()}")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["measure", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def written(path: Path) -> list[dict[str, str]]:
    with open(path) as file:
        return list(csv.DictReader(file))


def test_an_empty_cell_takes_the_familys_default(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch, out = folder / "in.csv", folder / "rows.csv"
    batch.write_text("family,m,n,k,bm,bn,bk,split_k,coalesced\nnaive,9,64,8,8,32,4,,\nsimt,9,64,8,64,256,8,,\n")
    assert run(capsys, "--batch", batch, "--out", out, "--dtype", "fp32")[0] == 0
    assert [(r["coalesced"], r["split_k"], r["status"]) for r in written(out)] == [("1", "", "ok"), ("", "1", "ok")]


def test_a_line_for_every_row_in_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch, out = folder / "in.csv", folder / "rows.csv"
    batch.write_text("set,family,dtype,l2,m,n,k\n" + "".join(
        f"{i},cublas,{dtype},{l2},{m},64,8\n"
        for i, (m, dtype, l2) in enumerate(
            [(9, "fp32", "warm"), (6664, "fp32", ""), (7, "fp64", "cold_dirty"), (9, "fp32", "warm"), (5, "", "warm")]
        )
    ))  # fmt: skip
    code, _, err = run(capsys, "--batch", batch, "--out", out)
    assert code == 0
    assert err.startswith("4 rows: 3 ok, 1 wrong; 0 unstable; ")
    rows = written(out)
    assert [(r["set"], r["m"], r["dtype"], r["l2"], r["status"]) for r in rows] == [
        ("0", "9", "fp32", "warm", "ok"), ("1", "6664", "fp32", "cold_clean", "wrong"),
        ("2", "7", "fp64", "cold_dirty", "ok"), ("3", "9", "fp32", "warm", "ok"), ("4", "5", "fp32", "warm", "ok"),
    ]  # fmt: skip
    assert rows[0]["samples_s"].startswith("[")
    assert {r["campaign"] for r in Store().rows()} == {str(out)}


def test_one_configuration_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, 77, 64, 64, "--family", "cublas")
    assert (code, err.splitlines()[0].startswith("1 rows: 1 ok; 1 unstable")) == (0, True)
    assert "time  " in out
    assert "4.93 us" in out
    assert "spread" in out
    run(capsys, 77, 64, 64, "--family", "cublas")
    assert [row["attempt"] for row in Store().rows("single", latest=False)] == [0, 1]


def test_stopped_by_a_person_the_rows_so_far_are_written(folder: Path) -> None:
    batch, out = folder / "in.csv", folder / "rows.csv"
    batch.write_text("family,m,n,k\n" + "".join(f"cublas,{m},64,8\n" for m in range(1, 301)))
    command = [sys.executable, "-m", "gemmsim", "measure", "--batch", str(batch), "--out", str(out)]
    environment = os.environ | {"FAKE_S": "0.02"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    store = Store()
    while len(store.keys(str(out))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "not measured" in err
    statuses = [row["status"] for row in written(out)]
    assert len(statuses) == 300
    assert set(statuses) == {"ok", "pending"}
    assert statuses.count("ok") == len(store.keys(str(out)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "found nothing to measure: expected M N K, --batch or --study"),
        ((1, 2, 3, "--batch", "x.csv"), "found M N K and --batch: expected M N K, --batch or --study"),
        (("--batch", "in.csv"), "--batch is given without --out: expected the name of a CSV for the rows"),
        ((1, 2, 3, "--against", "mkl"), "unknown library 'mkl' in --against: known are cublas"),
        ((1, 2, 3, "--family", "cublas", "--against", "cublas:tf32"),
         "--against cublas:tf32: fp32 against cuBLAS in tf32: expected the same math on both sides"),
        ((1, 2, 3, "--graph", "--against", "cublas"),
         "--graph is given with --against: expected one of them, a graph holds one kernel"),
        ((1, 2, 3, "--graph", "--l2", "cold_clean", "--family", "cublas"),
         "--graph times launches one after another, which leaves the L2 warm, and --l2 says cold_clean: expected "
         "--l2 warm beside --graph"),
        ((1, 2, 3, "--budget-ms", "soon"), "--budget-ms is 'soon': expected a number from 0.1 to 1e+06"),
        ((1, 2, 3, "--timeout-s", "0"), "--timeout-s is '0': expected a number from 0.1 to 1e+06"),
        ((1, 2, 3, "--samples", "0"), "--samples is '0': expected a whole number from 1 to 10000"),
        ((1, 2, 3, "--against", "cublas:"),
         "unknown dtype '' in --against: known are fp64, fp32, tf32, bf16, fp16, fp8, int8"),
        (("--study", "llama2_7b", "--family", "simt"), "--family simt: study llama2_7b has triton bf16"),
        ((1, 2, 3, "--family", "cublas", "-p", "bm=4"),
         "-p bm=4 is given with --family cublas: it has no parameters"),
        ((1, 2, 3, "--family", "cublas", "--l2", "hot"), "unknown L2 condition 'hot' in --l2: known are cold_clean, "
         "cold_dirty, warm"),
        ((1, 2, 3, "--family", "cublas", "--gpu", "a100_sxm_80gb"),
         "--gpu a100_sxm_80gb has compute capability 8.0, and the device is 'NVIDIA H200' with 9.0: expected the same"),
        ((1, 2, 3, "--family", "cublas", "--out", "/no/rows.csv"),
         "--out /no/rows.csv: expected an existing folder, found none called '/no'"),
    ],
)  # fmt: skip
def test_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], sentence: str
) -> None:
    assert run(capsys, *arguments) == (2, "", f"gemmsim: {sentence}\n")


def test_bad_rows_are_named_before_anything_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch, out = folder / "in.csv", folder / "rows.csv"
    batch.write_text("family,m,n,k\ncublas,1,2,3\ncublas,1,0,3\n")
    code, _, err = run(capsys, "--batch", batch, "--out", out)
    assert (code, err) == (2, f"gemmsim: {batch}, row 2 (line 3), column n is '0': expected a whole number from 1 to "
                              "2147483647\n")  # fmt: skip
    batch.write_text("family,gpu,m,n,k\ncublas,a100_sxm_80gb,1,2,3\n")
    code, _, err = run(capsys, "--batch", batch, "--out", out, "--gpu", "h200_sxm")
    assert (code, "a100_sxm_80gb has compute capability 8.0" in err) == (2, True)
    batch.write_text("family,gpu,m,n,k\ncublas,h200_sxm,1,2,3\ncublas,a100_sxm_80gb,1,2,3\n")
    code, _, err = run(capsys, "--batch", batch, "--out", out)
    assert (code, "expected one GPU a batch" in err) == (2, True)
    assert not out.exists()


def test_without_a_gpu(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FATAL", "CuPy is not installed, and the GPU is reached through it: pip install ...")
    out = folder / "rows.csv"
    code, _, err = run(capsys, 1, 2, 3, "--family", "cublas", "--out", out)
    assert (code, err) == (2, "gemmsim: CuPy is not installed, and the GPU is reached through it: pip install ...\n")
    assert not out.exists()


def test_a_study_is_measured_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, out = folder / "small.yaml", folder / "rows.csv"
    study.write_text(
        "title: t\nquestion: q\nworkload:\n  shapes:\n    - {name: a, m: 64, n: 64, k: 64}\n"
        "    - {name: b, m: 128, n: 64, k: 64}\n    - {name: c, m: 64, n: 64, k: 64}\n"
        "gpus: [h200_sxm]\nfamilies: [register_tile]\ndtypes: [fp32]\n"
        "vary: {register_tile: {bm: [64, 128], tm: [3, 4]}}\nl2: warm\n"
    )
    code, _, err = run(capsys, "--study", study, "--out", out)
    assert (code, err.split(";")[0]) == (0, "8 rows: 4 refused, 4 ok")
    rows = written(out)
    assert {(r["m"], r["bm"], r["tm"], r["l2"]) for r in rows if r["status"] == "ok"} == {
        ("64", "64", "4", "warm"), ("64", "128", "4", "warm"), ("128", "64", "4", "warm"), ("128", "128", "4", "warm"),
    }  # fmt: skip


def test_starting_gemmsim_imports_nothing_of_it() -> None:
    heavy = "cupy|sqlalchemy|pynvml|gemmsim.bench.campaign"
    code = f"import sys, re, gemmsim.cli; print([m for m in sys.modules if re.match('{heavy}', m)])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
