"""Wrong input: exit code 2, one sentence that names the bad value and where it stood, nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsim.cli import main

G = ("--gpu", "h200_sxm")
ONE = ("predict", "64", "64", "64", *G)
#: arguments -> what the sentence must hold: the value found and its place
LINES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("predict", "0", "64", "64", *G): ("M", "'0'", "whole number from 1 to 2147483647"),
    ("predict", "64", "-5", "64", *G): ("M N K", "'-5'"),
    ("predict", "64", "64", "2147483648", *G): ("K", "'2147483648'"),
    ("predict", "64", "9223372036854775808", "64", *G): ("N", "'9223372036854775808'"),
    ("rank", "64", "1" * 5000, "64", *G): ("N", "expected a whole number"),
    ("predict", "64", "1.5", "64", *G): ("N", "'1.5'"),
    ("rank", "1e3", "64", "64", *G): ("M", "'1e3'"),
    ("explain", "64", "64", "k", *G): ("K", "'k'"),
    ("explain", "64", "64", "nan", *G): ("K", "'nan'"),
    ("predict", "64", "64", *G): ("M N K", "2 values (64 64)"),
    ("predict", "64", "64", "64", "64", *G): ("M N K", "4 values"),
    ("predict", "64", "64", "64"): ("--gpu", "missing"),
    (*ONE, "--colour", "red"): ("--colour",),
    ("predict", "64", "64", "64", "--gpu", "h300"): ("'h300'", "GPU", "h200_sxm"),
    ("rank", "64", "64", "64", "--gpu", "h100"): ("'h100'", "h100_nvl", "h100_pcie", "h100_sxm"),
    ("predict", "64", "64", "64", "--gpu", "./none.yaml"): ("none.yaml",),
    (*ONE, "--family", "cutlas"): ("--family", "'cutlas'", "triton"),
    ("rank", "64", "64", "64", *G, "--family", "cutlas"): ("--family", "'cutlas'", "all"),
    (*ONE, "--without", "air"): ("--without", "'air'", "latency"),
    (*ONE, "-p", "warps_per_block=8"): ("-p", "'warps_per_block'", "num_warps"),
    (*ONE, "-p", "num_warps"): ("-p", "'num_warps'", "NAME=VALUE"),
    (*ONE, "-p", "num_warps=four"): ("-p num_warps", "'four'"),
    (*ONE, "-p", "bm=0"): ("-p bm", "'0'"),
    (*ONE, "--tile", "128x128x64", "-p", "BLOCK_M=64"): ("bm", "twice"),
    (*ONE, "--tile", "128x128"): ("--tile", "'128x128'", "128x128x64"),
    (*ONE, "--tile", "128x128x64_q8"): ("--tile", "'128x128x64_q8'"),
    (*ONE, "--tile", "128x0x64"): ("--tile", "'0'"),
    (*ONE, "--dtype", "bf17"): ("--dtype", "'bf17'", "bf16"),
    (*ONE, "--dtype", "fp64", "--family", "triton"): ("--dtype", "'fp64'", "triton has bf16"),
    (*ONE, "--dtype", "fp64"): ("--dtype", "'fp64'", "no family"),
    (*ONE, "--l2", "hot"): ("--l2", "'hot'", "cold_clean, cold_dirty, warm"),
    (*ONE, "--format", "xml"): ("--format", "'xml'"),
    (*ONE, "--num-sms", "0"): ("--num-sms", "'0'"),
    (*ONE, "--num-sms", "133"): ("133", "132"),
    (*ONE, "--num-sms", "-1"): ("--num-sms", "'-1'"),
    (*ONE, "--calibration", "none.yaml"): ("calibration none.yaml", "No such file"),
    (*ONE, "--calibration", "FAMILY"): ("'register_tile'", "expected 'triton'"),
    (*ONE, "--calibration", "TEXT"): ("not_yaml.yaml", "YAML"),
    ("rank", "64", "64", "64", *G, "--top", "0"): ("--top", "'0'"),
    ("rank", "64", "64", "64", *G, "--top", "many"): ("--top", "'many'"),
    (*ONE, "--out", "no_folder/x.csv"): ("--out no_folder/x.csv", "'no_folder'"),
    (*ONE, "--no-facts"): ("--no-facts", "--batch"),
    ("predict", "--batch", "none.csv", *G): ("none.csv", "No such file"),
    ("predict", "--batch", ".", *G): (".", "Is a directory"),
    ("predict", "64", "64", "64", "--batch", "in.csv", *G): ("M N K 64 64 64", "--batch"),
    ("predict", "--batch", "in.csv", "--tile", "64x64x64", *G): ("--tile 64x64x64", "--batch"),
    ("predict", "--batch", "in.csv", "--format", "json", *G): ("--format json", "csv"),
    ("predic", "64", "64", "64"): ("'predic'",),
    (*ONE, "--tile", "256x256x256_w4s4"): (
        "256x256x256_w4s4g8", "smem_capacity", "1048576 B", "limit 232448", "nearest that fit",
    ),
    (*ONE, "-p", "num_warps=3"): ("128x128x64_w3s3g8", "power of two", "nearest that fit: 128x128x64_w4s3g8"),
}  # fmt: skip
HEAD, ROW = "m,n,k,bm,bn,bk,num_warps", "64,64,64,128,128,64,8"
#: a batch's text -> what the sentence must hold
BATCHES: dict[bytes, tuple[str, ...]] = {
    b"": ("in.csv", "empty file"),
    f"{HEAD}\n".encode(): ("in.csv", "none"),
    f"{HEAD}\n{ROW}\n64,64\n".encode(): ("row 2 (line 3)", "found 2"),
    f"{HEAD},m\n{ROW},1\n".encode(): ("'m'", "twice"),
    f"{HEAD}\n{ROW}\n".encode("utf-16"): ("in.csv", "UTF-8", "0xff"),
    b"m,n,bm,bn,bk\n1,1,16,16,16\n": ("no column k", "found m, n, bm"),
    b"m,n,k,bm,bn\n1,1,1,16,16\n": ("no column bk",),
    f"{HEAD}\n{ROW}\n0{ROW[2:]}\n".encode(): ("row 2 (line 3), column m", "'0'"),
    f"{HEAD}\n-1{ROW[2:]}\n".encode(): ("row 1 (line 2), column m", "'-1'"),
    f"{HEAD}\n1.5{ROW[2:]}\n".encode(): ("column m", "'1.5'"),
    f"{HEAD}\n2147483648{ROW[2:]}\n".encode(): ("column m", "'2147483648'"),
    f"{HEAD}\n9223372036854775809{ROW[2:]}\n".encode(): ("column m", "'9223372036854775809'"),
    f"{HEAD}\n{ROW[:-1]}many\n".encode(): ("column num_warps", "'many'"),
    f"{HEAD}\n{ROW[:-1]}\n".encode(): ("column num_warps", "''"),
    f"{HEAD},dtype\n{ROW},bf16\n{ROW},bf17\n".encode(): ("row 2 (line 3), column dtype", "'bf17'"),
    f"{HEAD},dtype,family\n{ROW},fp32,triton\n".encode(): ("column dtype", "'fp32'", "triton has bf16"),
    f"{HEAD},gpu\n{ROW},h200_sxm\n{ROW},h300\n".encode(): ("row 2 (line 3), column gpu", "'h300'"),
    f"{HEAD},family\n{ROW},cutlas\n".encode(): ("row 1 (line 2), column family", "'cutlas'"),
    f"{HEAD},l2\n{ROW},hot\n".encode(): ("row 1 (line 2), column l2", "'hot'"),
    f"{HEAD},regs\n{ROW},many\n".encode(): ("column regs", "'many'"),
    f"{HEAD},spill_bytes\n{ROW},-4\n".encode(): ("column spill_bytes", "'-4'"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(f"{HEAD}\n{ROW}\n")
    (tmp_path / "FAMILY").write_text("family: register_tile\n")
    (tmp_path / "not_yaml.yaml").write_text("{")


def refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: tuple[str, ...]) -> None:
    before = sorted(p.name for p in Path().iterdir())
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert out == ""
    assert err.startswith("gemmsim: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for name in names:
        assert name in err
    assert sorted(p.name for p in Path().iterdir()) == before


@pytest.mark.parametrize("arguments", LINES, ids=lambda a: " ".join(a)[:60])
def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    names = LINES[arguments]
    refused(capsys, tuple({"TEXT": "not_yaml.yaml"}.get(a, a) for a in arguments), names)


@pytest.mark.parametrize("text", BATCHES, ids=lambda t: repr(t)[2:60])
def test_a_wrong_batch(capsys: pytest.CaptureFixture[str], text: bytes) -> None:
    Path("in.csv").write_bytes(text)
    refused(capsys, ("predict", "--batch", "in.csv", *G, "--out", "out.csv"), (*BATCHES[text], "in.csv"))


def test_a_batch_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ("predict", "--batch", "in.csv"), ("--gpu", "missing", "column gpu"))
    Path("in.csv").write_text(f"{HEAD},gpu\n{ROW},h200_sxm\n{ROW},\n")
    refused(capsys, ("predict", "--batch", "in.csv"), ("row 2 (line 3), column gpu", "missing"))


def test_an_output_folder_that_is_not_there_is_refused_before_work(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ("predict", "--batch", "none.csv", *G, "--out", "no/out.csv"), ("--out no/out.csv", "'no'"))
    refused(capsys, ("rank", "64", "64", "64", *G, "--out", "."), ("--out .", "folder"))
