"""`gemmsim compare` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
from math import isclose, prod
from pathlib import Path
from typing import Any

import pytest

import gemmsim
from gemmsim.cli import main
from gemmsim.paths import data_folder

GPUS = ("--gpus", "a100_sxm_80gb,h100_sxm,h200_sxm")
LLAMA = str(data_folder("studies") / "llama2_7b.json")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["compare", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *arguments, "--format", "json"))
    return found


def test_the_table_has_gpus_tiles_and_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, *GPUS, 2048, 12288, 4096).splitlines()
    found = gemmsim.compare((2048, 12288, 4096), gpus=GPUS[1].split(","))
    for line, card in zip(lines[1:4], found.cards, strict=True):
        assert line.startswith(card.label)
        assert f"{card.flops_per_s / 1e12:.1f}".removesuffix(".0") in line
    assert lines[1].endswith("baseline")
    assert "math rate per SM 1.69x" in lines[2]
    assert [line.split()[-1] for line in lines[6:9]] == [card.picks[0].entry.key for card in found.cards]
    text = "\n".join(lines)
    assert "uncalibrated: physical defaults" in text
    assert "energy is an estimate from above: the board's power limit (tdp_w) x time" in text


def test_json_and_csv_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = document(capsys, *GPUS, 16, 12288, 4096, "--baseline", "h100_sxm")
    rows = list(
        csv.DictReader(io.StringIO(run(capsys, *GPUS, 16, 12288, 4096, "--baseline", "h100_sxm", "--format", "csv")))
    )
    assert [row["gpu"] for row in rows] == [row["gpu"] for row in found["gpus"]]
    assert [float(row["time_s"]) for row in rows] == [row["time_s"] for row in found["gpus"]]
    assert found["baseline"] == "h100_sxm"
    for row in rows:
        factors = [float(value) for name, value in row.items() if name.endswith("_factor")]
        assert isclose(prod(factors), float(row["speedup"]), rel_tol=1e-9)
    run(capsys, *GPUS, 16, 12288, 4096, "--baseline", "h100_sxm", "--out", tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == found


def test_a_workload_is_its_gemms(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--gpus", "h200_sxm", "--workload", LLAMA, "--tokens", 128, "--tp", 2)
    found = document(capsys, *asked)
    assert [pick["gemm"] for pick in found["picks"]] == ["qkv", "qk", "pv", "o", "gate_up", "down", "lm_head"]
    (row,) = found["gpus"]
    assert row["time_s"] == pytest.approx(sum(p["count"] * p["time_s"] for p in found["picks"]))
    both = document(capsys, *asked, "--phase", "both", "--weights", "fp8")
    assert [pick["gemm"].split()[0] for pick in both["picks"]] == ["prefill"] * 7 + ["decode"] * 7


def test_shapes_are_what_workload_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["workload", LLAMA, "--tokens", "128", "--out", str(tmp_path / "w.csv")])
    (whole,) = document(capsys, "--gpus", "h200_sxm", "--workload", LLAMA, "--tokens", 128)["gpus"]
    (rows,) = document(capsys, "--gpus", "h200_sxm", "--shapes", tmp_path / "w.csv")["gpus"]
    assert rows == whole
    (tmp_path / "s.csv").write_text("M,N,K,count\n64,64,64,3\n64,64,64,\n")
    found = document(capsys, "--gpus", "h200_sxm", "--shapes", tmp_path / "s.csv")
    assert [pick["count"] for pick in found["picks"]] == [3, 1]
    assert [pick["gemm"] for pick in found["picks"]] == ["GEMM 1", "GEMM 2"]


@pytest.mark.parametrize(
    ("line", "words"),
    [("0,64,64,1,", "column m"), ("64,64,64,-1,", "column count"), ("64,64,64,1,bf17", "column dtype")],
)
def test_a_wrong_cell_names_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, words: str
) -> None:
    (tmp_path / "s.csv").write_text(f"m,n,k,count,dtype\n{line}\n")
    with pytest.raises(SystemExit) as caught:
        main(["compare", "--gpus", "h200_sxm", "--shapes", str(tmp_path / "s.csv")])
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert f"row 1 (line 2), {words}" in err


def test_what_if_by_gpu_and_of_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--gpus", "h200_sxm", 16, 12288, 4096, "--set", "dram_bytes_per_s=7.2e12")
    assert "h200_sxm* is h200_sxm with dram_bytes_per_s = 7.2e+12: no such chip was measured" in text
    assert "calibration: h200_sxm.triton.yaml" in text
    found = document(
        capsys,
        *GPUS,
        64,
        64,
        64,
        "--set",
        "h200_sxm:tdp_w=500",
        "--set",
        "sm_count=54",
        "--set",
        "h200_sxm:sm_count=66",
    )
    assert [row["gpu"] for row in found["gpus"]] == [
        "a100_sxm_80gb",
        "a100_sxm_80gb*",
        "h100_sxm",
        "h200_sxm",
        "h200_sxm*",
    ]
    assert [row["changed"] for row in found["gpus"]][1::3] == ["sm_count = 54", "tdp_w = 500, sm_count = 66"]
    slice_ = document(capsys, "--gpus", "h200_sxm:3g.71gb", 64, 64, 64, "--set", "h200_sxm:3g.71gb:tdp_w=500")
    assert slice_["gpus"][1]["tdp_w"] == 500


def test_sensitivity_is_a_column_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--gpus", "h100_sxm,h200_sxm", 16, 12288, 4096, "--sensitivity")
    lines = run(capsys, *asked).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("% of time by 1 % more of"))
    assert lines[head].split()[-2:] == ["h100_sxm", "h200_sxm"]
    assert lines[head + 1].startswith("dram_bytes_per_s")
    found = document(capsys, *asked)
    first = {e["label"]: e["elasticity"] for e in found["elasticities"] if e["figure"] == "dram_bytes_per_s"}
    assert lines[head + 1].split()[1:] == [f"{first[label]:+.2f}" for label in ("h100_sxm", "h200_sxm")]


@pytest.mark.parametrize("kind", ["html", "svg", "png"])
def test_a_chart(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"chart.{kind}"
    assert run(capsys, *GPUS, 64, 512, 512, "--chart", file)
    data = file.read_bytes()
    assert data.startswith({"html": b"<!", "svg": b"<svg", "png": b"\x89PNG"}[kind])
    if kind == "html":
        assert b"64 x 512 x 512" in data


def test_the_types_are_said_since_the_first_gpu_chooses_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\nfp32, L2 cold_clean\n" in run(capsys, "64", "64", "64", "--gpus", "p100,h200_sxm")
    assert "\nbf16 x fp8, L2 warm\n" in run(
        capsys, "64", "64", "64", "--gpus", "h200_sxm", "--dtype-b", "fp8", "--l2", "warm"
    )
    found = json.loads(run(capsys, "64", "64", "64", "--gpus", "t4,h200_sxm", "--format", "json"))
    assert {pick["types"] for pick in found["picks"]} == {"fp16"}


def test_shapes_choose_the_family_by_their_own_type(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("m,n,k,dtype\n64,64,64,fp32\n")
    found = json.loads(run(capsys, "--shapes", str(shapes), "--gpus", "h200_sxm", "--format", "json"))
    assert [(pick["family"], pick["types"]) for pick in found["picks"]] == [("simt", "fp32")]
