"""`gemmsim validate`: error tables of measured rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gemmsim.cli import main

ROWS = Path(__file__).parents[2] / "studies" / "h200"
REGISTER = ROWS / "register_tile_fp32.csv.gz"
TRITON = ROWS / "triton_bf16.csv.gz"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_the_shipped_calibration_on_the_shipped_rows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--rows", TRITON, "--format", "json")
    assert (code, err) == (0, "")
    found = {row["slice"]: row for row in json.loads(out)}
    assert found["all"]["rows"] == 1293
    assert found["no spills, aligned"]["mape_pct"] < 9
    assert found["no spills, aligned"]["spearman"] > 0.97
    assert found["no spills, aligned"]["top1_regret_pct"] < 5


@pytest.mark.parametrize(
    ("name", "rows"),
    [("waves", 366), ("padding_triton", 198), ("padding_wgmma", 86), ("padding_mma", 314), ("triton_skinny", 176),
     ("triton_llama2_7b", 50)],
)  # fmt: skip
def test_the_rows_of_studies_are_read(capsys: pytest.CaptureFixture[str], name: str, rows: int) -> None:
    code, out, err = run(capsys, "--rows", ROWS / f"{name}.csv.gz", "--format", "json")
    assert (code, err) == (0, "")
    every = json.loads(out)[0]
    assert (every["slice"], every["rows"]) == ("all", rows)
    assert 0 < every["mape_pct"] < 50


def test_rows_of_two_epilogues_are_refused_and_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--rows", ROWS / "wgmma_fused.csv.gz")
    assert (code, out) == (2, "")
    assert "column epilogue holds nothing, bias,gelu: expected one epilogue a file" in err


def test_a_table_names_condition_and_noise_floor(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--rows", REGISTER)
    assert code == 0
    assert "MAPE %" in out
    assert "h200_sxm, register_tile fp32, cold_dirty, with compiler facts." in out
    assert "Noise floor: 0.4% from machine to machine" in out


def test_facts_help_and_no_calibration_hurts(capsys: pytest.CaptureFixture[str]) -> None:
    def mape(*options: object) -> float:
        text = run(capsys, "--rows", REGISTER, "--plain", "--format", "csv", *options)[1]
        return float(next(csv.DictReader(io.StringIO(text)))["mape_pct"])

    usual = mape()
    assert usual < mape("--no-facts") < 9
    assert usual < mape("--calibration", "none") < 40


def test_a_split_scores_rows_that_were_not_fitted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    code, printed, _ = run(
        capsys, "--rows", REGISTER, "--plain", "--split", "config,shape", "--seeds", 1, "--format", "json", "--out", out
    )
    assert (code, printed) == (0, "")
    found = {row["slice"]: row for row in json.loads(out.read_text())}
    assert 150 < found["all"]["rows"] < 400  # a quarter of the plain rows
    assert found["all"]["mape_pct"] < 8


def test_a_sample_is_fitted_and_all_others_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--rows", REGISTER, "--sample", 100, "--seeds", 2, "--format", "json")
    assert (code, err) == (0, "")
    found = {row["slice"]: row for row in json.loads(out)}
    assert found["all"]["rows"] == 2 * (1170 - 100)
    few = run(capsys, "--rows", REGISTER, "--sample", 30, "--seeds", 2, "--format", "json")[1]
    assert json.loads(few)[0]["rows"] == 2 * (1170 - 30)
    assert json.loads(few)[0]["mape_pct"] > found["all"]["mape_pct"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rows", REGISTER, "--split", "rows"), "unknown split 'rows'"),
        (("--rows", REGISTER, "--split", ","), "--split is ','"),
        (("--rows", REGISTER, "--fit-with", REGISTER), "--fit-with"),
        (("--rows", REGISTER, "--rows", TRITON), "not mixed"),
        (("--rows", REGISTER, "--l2", "warm"), "--l2 says warm"),
        (("--rows", "none.csv"), "none.csv"),
        (("--rows", REGISTER, "--calibration", "none.yaml"), "none.yaml"),
        (("--rows", REGISTER, "--seeds", "0"), "--seeds"),
        (("--rows", REGISTER, "--out", "no_folder/x.csv", "--format", "csv"), "no_folder"),
        ((), "--rows"),
    ],
)
def test_wrong_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
