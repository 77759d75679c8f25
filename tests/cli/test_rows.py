"""`gemmsim rows`: list, export, import, merge."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.store import Store

ROWS = Path(__file__).parents[2] / "studies" / "h200"


@pytest.fixture(autouse=True)
def _store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["rows", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_in_and_out_and_into_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = ROWS / "naive_fp32.csv.gz", tmp_path / "out.csv.gz"
    code, _, err = run(capsys, "import", source)
    assert (code, err.split(";")[0]) == (0, "330 of 330 rows are new")
    assert run(capsys, "import", source)[2].startswith("0 of 330 rows are new")
    assert "330" in run(capsys, "list")[1]
    assert run(capsys, "export", "--campaign", "naive_fp32", "--status", "ok", "--out", out) == (
        0, "", f"330 rows to {out}\n",
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["validate", "--rows", str(out), "--format", "json"])
    assert not ended.value.code
    capsys.readouterr()
    other = tmp_path / "other.sqlite"
    Store(other)
    assert run(capsys, "merge", "--store", other, tmp_path / "rows.sqlite")[2] == "330 rows are new\n"
    assert len(Store(other).rows("naive_fp32")) == 330


def test_a_name_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.sqlite")
    store.add([{"campaign": "gr\u00f6\u00dfe", "gpu": "h200_sxm", "family": "naive", "status": "ok"}])
    done = subprocess.run(
        [sys.executable, "-m", "gemmsim", "rows", "list"], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout


def test_list_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "import", ROWS / "smem_tile_fp32.csv.gz", "--campaign", "s")
    _, out, _ = run(capsys, "list", "--format", "csv")
    (line,) = csv.DictReader(out.splitlines())
    assert (line["campaign"], line["family"], line["status"], line["rows"]) == ("s", "smem_tile", "ok", "108")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("merge", "no.sqlite"), "no.sqlite: expected a store of rows, found no such file"),
        (("export", "--out", "/no/x.csv"), "--out /no/x.csv: expected an existing folder, found none called '/no'"),
        (("export", "--campaign", "nine", "--out", "x.csv"),
         "unknown campaign 'nine' in --campaign: known are none"),
        (("list", "--store", "no.sqlite"), "--store no.sqlite: expected a store of rows, found no such file"),
        (("list", "--store", ""), "--store is '': expected a file, or the URL of a database"),
        (("export", "--store", "/dev/null", "--out", "x.csv"),
         "/dev/null: cannot be a store of rows: expected a file, found a device or a pipe"),
        (("import", "no.csv"), "no.csv: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str) -> None:
    assert run(capsys, *arguments) == (2, "", f"gemmsim: {sentence}\n")


def cachefile(path: Path) -> Path:
    """An unfinished one of Kernel Tuner: its second entry is broken off."""
    header = {"device_name": "NVIDIA H200", "kernel_name": "naive", "problem_size": [64, 64],
              "tune_params_keys": ["bm", "bn", "bk", "order"], "tune_params": {}, "cache": {}}  # fmt: skip
    whole = {"bm": 16, "bn": 16, "bk": 1, "order": 1, "time": 0.5}
    lines = [json.dumps({"16,16,1,1": whole})[1:-1], json.dumps({"8,8,1,1": whole})[1:-9]]
    path.write_text(json.dumps(header)[:-2] + ",".join(f"\n{line}" for line in lines))
    return path


def test_a_cachefile_of_kernel_tuner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maps = ("--map", "m=problem_size_x", "--map", "n=64", "--map", "k=64", "--map", "coalesced=order")
    asked = ("import", "--kernel-tuner", cachefile(tmp_path / "tuned.json"), *maps, "--l2", "cold_dirty")
    assert run(capsys, *asked) == (0, "", "1 of 1 rows are new; 1 unfinished left out\n")
    assert run(capsys, *asked)[2].startswith("0 of 1 rows are new")
    row = Store(tmp_path / "rows.sqlite").rows("tuned")[0]
    assert (row["family"], row["l2"], row["time_s"], row["n"]) == ("naive", "cold_dirty", 5e-4, 64)
    assert row["config"] == {"bm": 16, "bn": 16, "bk": 1, "coalesced": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--map", "m"), "--map is 'm': expected NAME=TUNABLE, such as bm=BLOCK_SIZE_M"),
        (("--map", "m=1", "--map", "m=2"), "--map m=2: m is given twice, expected it once"),
        ((), "says no m, n, k, coalesced: expected --map m=..., a number or of bm, bn, bk, order, problem_size_x (64)"),
    ],
)
def test_a_mapping_that_lacks_something(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "import", "--kernel-tuner", cachefile(tmp_path / "tuned.json"), *options)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "rows.sqlite").exists()


def test_options_of_kernel_tuner_beside_a_csv(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "import", ROWS / "naive_fp32.csv.gz", "--family", "simt")
    assert (code, err) == (2, "gemmsim: --family simt is given with a CSV: expected --kernel-tuner too\n")
