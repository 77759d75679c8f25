"""`gemmsim pad` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import gemmsim
from gemmsim.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["pad", *map(str, arguments), "--gpu", "h200_sxm"])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_a_table_its_advice_and_the_row_strides(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 8192, 8192, 588).splitlines()
    found = gemmsim.pad(8192, 8192, 588, gpu="h200_sxm")
    assert lines[0].startswith("8192 x 8192 x 588 bf16 NN on h200_sxm, L2 cold_clean: ")
    assert f"{1e6 * found.base.time_s:.2f} us" in lines[0]
    assert lines[1] == found.advice
    assert lines[4].split()[:4] == ["K", "588", "592", f"{1e6 * found.candidates[0].time_s:.2f}"]
    strides = next(i for i, line in enumerate(lines) if line.startswith("row stride of"))
    assert [line.split()[0] for line in lines[strides + 1 : strides + 4]] == ["A", "B", "C"]
    assert "calibration: h200_sxm.triton.yaml" in lines


def test_no_gain_is_said_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 4096, 4096, 4096, "--family", "triton").splitlines()
    assert lines[1] == "no gain predicted: no padded size is faster by more than 1 %"


def test_json_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = (1000, 1001, 1002, "--dtype", "fp32", "--layout", "NT")
    found = json.loads(run(capsys, *asked, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv"))))
    assert [c["padded"] for c in found["candidates"]] == [row["padded"] for row in rows]
    assert [c["time_s"] for c in found["candidates"]] == [float(row["time_s"]) for row in rows]
    assert [s["dimension"] for s in found["strides"]] == ["K", "K", "N"]
    assert (found["family"], found["layout"]) == ("simt", "NT")
    run(capsys, *asked, "--out", tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text()) == found
    nothing = run(capsys, 16, 128, 128, "--format", "csv").splitlines()
    assert nothing[0].startswith("kind,dimension,found,padded,m,n,k,")
