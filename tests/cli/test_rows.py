"""`gemmsim rows`: list, export, import, merge."""

from __future__ import annotations

import csv
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
