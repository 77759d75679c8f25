"""`gemmsim workload`: what it prints, what other verbs read of it, and wrong command lines."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gemmsim.cli import main
from gemmsim.paths import data_folder

LLAMA = str(data_folder("studies") / "llama2_7b.json")
CONFIGS = Path(__file__).parents[1] / "data" / "configs"


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as caught:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert caught.value.code == code, err
    return err if code else out


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_says_shapes_and_what_a_pass_comes_to(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "workload", LLAMA, "--tokens", 2048).splitlines()
    assert lines[0].split() == [
        "phase", "name", "M", "N", "K", "batch", "count", "layout", "dtype", "B", "in", "a", "pass", "weights",
    ]  # fmt: skip
    assert [line.split()[1] for line in lines[1:8]] == ["qkv", "qk", "pv", "o", "gate_up", "down", "lm_head"]
    assert lines[1].split()[2:] == [
        "2048",
        "12288",
        "4096",
        "1",
        "32",
        "NT",
        "bf16",
        "bf16",
        "6.597",
        "TFLOP",
        "3",
        "GiB",
    ]
    assert lines[8] == "llama2_7b: 6,738,415,616 parameters"
    assert lines[9].startswith("prefill: 29.262 TFLOP, 2.199 TFLOP of it in attention, counted whole: the causal mask ")
    assert "28.163 TFLOP in all" in lines[9]


def test_json_holds_the_sums(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(
        run(capsys, "workload", LLAMA, "--tokens", 64, "--phase", "both", "--sequences", 2, "--format", "json")
    )
    assert found["parameters"] == 6738415616
    assert [p["phase"] for p in found["passes"]] == ["prefill", "decode"]
    for sums in found["passes"]:
        gemms = [g for g in found["gemms"] if g["phase"] == sums["phase"]]
        assert sum(g["pass_flops"] for g in gemms) == sums["flops"]
        assert sum(g["pass_weight_bytes"] for g in gemms) == sums["weight_bytes"]
        assert {g["m"] for g in gemms if g["name"] == "qkv"} == {sums["tokens"] * sums["sequences"]}
    assert [p["context"] for p in found["passes"]] == [64, 64]


def test_decode_needs_no_tokens_where_the_context_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(run(capsys, "workload", LLAMA, "--phase", "decode", "--context", 300, "--format", "csv"))
    assert [(r["m"], r["n"]) for r in found if r["name"] in ("qkv", "qk")] == [("1", "12288"), ("1", "300")]


def test_a_part_of_the_experts_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "workload", CONFIGS / "mixtral_8x7b.json", "--tokens", 9, "--tp", 2, "--weights", "fp8")
    assert "2 of 8 a token, tokens spread evenly" in out
    assert "4 query heads a key/value head are rows of one problem" in out
    assert "TFLOP a GPU" in out or "GFLOP a GPU" in out


def test_a_batch_is_predicted_as_it_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "work.csv"
    asked = ("--tokens", 2047, "--phase", "both", "--weights", "fp8", "--tile", "64x128x64", "-p", "num_warps=4")
    run(capsys, "workload", CONFIGS / "mixtral_8x7b.json", *asked, "--out", path)
    given = read(path.read_text())
    found = read(run(capsys, "predict", "--batch", path, "--gpu", "h200_sxm", "--no-terms"))
    assert [r["name"] for r in found] == [r["name"] for r in given]
    assert {(r["family"], r["bm"], r["num_warps"]) for r in found} == {("triton", "64", "4")}
    assert all(float(r["time_s"]) > 0 for r in found)
    by_name = {(r["phase"], r["name"]): r for r in found}
    narrow, wide = by_name["prefill", "qkv"], by_name["prefill", "lm_head"]
    assert (narrow["dtype_b"], wide["dtype_b"], narrow["layout"]) == ("fp8", "bf16", "NT")


def test_shapes_are_exported_and_tuned_as_they_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from gemmsim.cli.batch import shapes_of

    path = tmp_path / "work.csv"
    run(capsys, "workload", CONFIGS / "gpt2.json", "--tokens", 128, "--phase", "both", "--out", path)
    found = shapes_of(str(path))
    assert found[128, 2304, 768] == "qkv"
    assert found[1, 768, 3072] == "down"
    run(capsys, "tune", "--shapes", path, "--predicted", "--gpu", "h200_sxm", "--dtype", "bf16", "--trials", 1)


def test_a_convolution(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = read(
        run(capsys, "workload", "--conv", "8,64,56,28,128,3,1", "--stride", "2,1", "--pad", "1,0", "--format", "csv")
    )
    assert (row["m"], row["n"], row["k"], row["layout"]) == (str(8 * 28 * 28), "128", "192", "NT")
    found = json.loads(run(capsys, "workload", "--conv", "8,64,56,28,128,3,1", "--groups", "2", "--format", "json"))
    assert (found["conv"]["groups"], found["gemms"][0]["batch"]) == (2, 2)


M = ("workload", LLAMA)
C = ("workload", "--conv", "8,64,56,56,128,3,3")
WRONG: dict[tuple[str, ...], tuple[str, ...]] = {
    ("workload",): ("neither of CONFIG_JSON and --conv",),
    (*C, LLAMA): ("both of CONFIG_JSON and --conv",),
    M: ("--tokens is missing", "whole number from 1"),
    (*M, "--tokens", "0"): ("--tokens is '0'", "whole number from 1"),
    (*M, "--tokens", "-1"): ("--tokens is '-1'",),
    (*M, "--tokens", "1e3"): ("--tokens is '1e3'",),
    (*M, "--tokens", "8", "--sequences", "0"): ("--sequences is '0'",),
    (*M, "--tokens", "8", "--tp", "0"): ("--tp is '0'",),
    (*M, "--tokens", "8", "--tp", "3"): ("llama2_7b.json", "tp = 3", "divisor of the model's 32 attention heads"),
    (*M, "--phase", "both", "--context", "8"): ("--tokens is missing",),
    (*M, "--phase", "decode"): ("--context, or --tokens, is missing",),
    (*M, "--phase", "decode", "--context", "0"): ("--context is '0'",),
    (*M, "--tokens", "8", "--context", "8"): ("--context 8", "decode"),
    (*M, "--tokens", "8", "--phase", "train"): ("--phase", "'train'"),
    (*M, "--tokens", "8", "--dtype", "bf17"): ("--dtype", "'bf17'"),
    (*M, "--tokens", "8", "--weights", "int4"): ("--weights", "'int4'", "int8"),
    (*M, "--tokens", "8", "--weights", "fp32"): ("--weights is 'fp32'", "bf16", "narrower"),
    (*M, "--tokens", "2147483647", "--sequences", "2"): ("GEMM qkv: M = 4294967294",),
    (*M, "--tokens", "8", "--stride", "2"): ("--stride 2", "--conv"),
    (*M, "--tokens", "8", "--family", "simt"): ("--family simt", "--tile"),
    (*M, "--tokens", "8", "--tile", "64x64"): ("--tile is '64x64'",),
    (*M, "--tokens", "8", "--tile", "64x64x64", "--family", "simt"): ("'bf16'", "simt has fp32"),
    (*M, "--tokens", "8", "--out", "no/x.csv"): ("--out no/x.csv", "'no'"),
    ("workload", "none.json", "--tokens", "8"): ("none.json", "No such file"),
    (*C, "--tokens", "8"): ("--tokens 8", "CONFIG_JSON"),
    (*C, "--stride", "0"): ("--stride is '0'", "from 1"),
    (*C, "--pad", "1,1,1"): ("--pad is '1,1,1'", "two of them"),
    (*C, "--dilation", "x"): ("--dilation is 'x'",),
    (*C, "--groups", "5"): ("groups = 5", "64 channels"),
    ("workload", "--conv", "8,64,56,56,128,3"): ("--conv is '8,64,56,56,128,3'", "N,C,H,W,K,R,S"),
    ("workload", "--conv", "8,64,56,56,128,3,0"): ("--conv is '8,64,56,56,128,3,0'", "seven whole numbers"),
    ("workload", "--conv", "8,64,2,2,128,3,3"): ("filters that reach over 3 x 3", "2 x 2"),
    (*C, "--dilation", "30,1"): ("filters that reach over 61 x 3", "56 x 56"),
}


@pytest.mark.parametrize("arguments", WRONG, ids=lambda a: " ".join(a[1:])[-60:])
def test_a_wrong_command_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    err = run(capsys, *arguments, code=2)
    assert err.startswith("gemmsim: ")
    assert err.count("\n") == 1
    assert [name for name in WRONG[arguments] if name not in err] == [], err
    assert not list(tmp_path.iterdir())
