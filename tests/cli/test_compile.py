"""`gemmsim compile`: facts of one configuration and of a CSV, and predict that takes them."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.cli.facts import FACTS

pytest.importorskip("cuda.core")

BATCH = """\
gpu,family,m,n,k,bm,bn,bk,tm,tn,coalesced,pad
h200_sxm,register_tile,512,512,512,64,64,16,4,4,,
h200_sxm,register_tile,512,512,512,64,64,16,3,4,,
a100_sxm_80gb,register_tile,512,512,512,64,64,16,4,4,,
h200_sxm,naive,512,512,512,8,32,4,,,1,
h200_sxm,smem_tile,512,512,512,32,32,32,,,,1
h200_sxm,register_tile,512,512,512,64,128,8,16,16,,
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMMSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_batch_gives_the_facts_that_predict_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.csv").write_text(BATCH)
    assert run("compile", "--batch", "in.csv", "--out", "facts.csv") == 0
    rows = read(folder / "facts.csv")
    assert list(rows[0]) == [*BATCH.partition("\n")[0].split(","), *FACTS]
    assert [r["status"] for r in rows] == ["ok", "refused", "ok", "ok", "ok", "ok"]
    refused = rows[1]
    assert refused["reason"] == "tm_divides_bm: bm is not a multiple of tm"
    assert not any(refused[name] for name in FACTS if name not in ("status", "reason"))
    assert rows[0]["smem_bytes"] == rows[2]["smem_bytes"] == str(4 * 16 * (64 + 4 + 64))
    assert rows[0]["kernel_hash"] != rows[2]["kernel_hash"]
    assert rows[3]["smem_bytes"] == rows[3]["stack_bytes"] == rows[3]["spill_bytes"] == "0"
    assert rows[5]["warnings"].startswith("spills: ")
    assert int(rows[5]["spill_bytes"]) == int(rows[5]["stack_bytes"]) > 0
    capsys.readouterr()
    assert run("predict", "--batch", "facts.csv", "--no-terms", "--out", "times.csv") == 0
    assert run("predict", "--batch", "in.csv", "--no-terms", "--out", "guesses.csv") == 0
    times, guesses = read(folder / "times.csv"), read(folder / "guesses.csv")
    assert [t["feasible"] for t in times] == ["1", "0", "1", "1", "1", "1"]
    assert any(t["time_s"] != g["time_s"] for t, g in zip(times, guesses, strict=True))


def test_a_second_run_takes_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsim.bench import compile as room

    Path("in.csv").write_text(BATCH)
    assert run("compile", "--batch", "in.csv", "--out", "first.csv", "--jobs", "1") == 0
    monkeypatch.setattr(room, "WORKER", "no.such.module")
    assert run("compile", "--batch", "first.csv", "--out", "second.csv") == 0
    first, second = read(folder / "first.csv"), read(folder / "second.csv")
    for name in FACTS:
        assert [r[name] for r in second] == [r[name] for r in first] == [r[f"in_{name}"] for r in second]


def test_a_batch_needs_no_sizes(folder: Path) -> None:
    Path("in.csv").write_text("bm,bn,bk,pad\n16,16,16,1\n32,32,32,0\n")
    assert run("compile", "--batch", "in.csv", "--gpu", "h200_sxm", "--family", "smem_tile", "--out", "facts.csv") == 0
    assert [r["smem_bytes"] for r in read(folder / "facts.csv")] == [str(8 * 16 * 17), str(8 * 32 * 32)]


def test_one_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    one = ("compile", "--family", "register_tile", "--gpu", "h200_sxm", "--tile", "64x64x16", "-p", "tm=8")
    assert run(*one) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["configuration"].strip() == "64x64x16_t8x4"
    assert lines["shared memory a block"].strip() == "8.2 KiB"
    assert run(*one, "--format", "json", "--sass") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["tm"], record["smem_bytes"], record["status"]) == (8, 8448, "ok")
    assert record["sass_math"] == 16 * 8 * 4


def test_exports_have_the_configurations_names(folder: Path) -> None:
    Path("in.csv").write_text(BATCH)
    (folder / "kept").mkdir()
    assert run("compile", "--batch", "in.csv", "--out", "f.csv", "--cubin", "kept", "--ptx", "kept") == 0
    names = sorted(p.name for p in (folder / "kept").iterdir())
    plain = [n for n in names if "-" not in n]
    assert plain == [
        "32x32x32_pad1.cubin", "32x32x32_pad1.ptx", "64x128x8_t16x16.cubin", "64x128x8_t16x16.ptx",
        "64x64x16_t4x4.cubin", "64x64x16_t4x4.ptx", "8x32x4_coalesced1.cubin", "8x32x4_coalesced1.ptx",
    ]  # fmt: skip
    assert len(names) == len(plain) + 2  # the same configuration for another architecture
    rows = read(folder / "f.csv")
    assert all(Path(r["cubin"]).is_file() for r in rows if r["status"] == "ok")
    assert rows[0]["cubin"] != rows[2]["cubin"]


def test_the_kernel_is_the_one_that_the_sizes_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """simt loads less at once where N is odd; a cell that is empty takes the default."""
    Path("in.csv").write_text(
        "m,n,k,bm,bn,bk,wm,wn,tm,tn,vec\n512,512,512,32,64,8,32,32,4,8,\n512,511,512,32,64,8,32,32,4,8,\n"
        "512,511,512,32,64,8,32,32,4,8,1\n"
    )
    assert run("compile", "--batch", "in.csv", "--gpu", "h200_sxm", "--family", "simt", "--out", "f.csv") == 0
    wide, odd, narrow = (row["kernel_hash"] for row in read(folder / "f.csv"))
    assert wide != odd == narrow


def test_a_missing_compiler_is_said_before_the_others_work(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "triton.compiler", None)
    monkeypatch.setattr("gemmsim.bench.compile.compile_all", lambda *given, **how: pytest.fail("compiled"))
    Path("in.csv").write_text("family,bm,bn,bk\nnaive,8,32,4\ntriton,64,64,32\n")
    assert run("compile", "--batch", "in.csv", "--gpu", "h200_sxm") == 2
    assert "pip install 'gemmsim[triton]'" in capsys.readouterr().err


LINES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): ("--gpu", "missing"),
    ("--gpu", "h300"): ("'h300'",),
    ("--gpu", "h200_sxm", "--family", "register_tile", "-p", "tm=7"): ("64x64x16_t7x4", "refused", "tm_divides_bm"),
    ("--gpu", "h200_sxm", "--family", "register_tile", "--jobs", "0"): ("--jobs", "'0'"),
    ("--gpu", "h200_sxm", "--family", "register_tile", "--cubin", "none"): ("--cubin is 'none'", "existing folder"),
    ("--gpu", "h200_sxm", "--family", "register_tile", "--cache", ""): ("--cache is ''", "a folder"),
    ("--gpu", "h200_sxm", "--family", "triton", "--layout", "NT"): ("triton_gemm.py", "no other layout"),
    ("--gpu", "h200_sxm", "--family", "register_tile", "--cache", "in.csv"): ("cache in.csv", "cannot be written"),
    ("--gpu", "v100_sxm2_32gb", "--family", "register_tile"): ("sm_70", "it has sm_75"),
    ("--gpu", "h200_sxm", "--family", "register_tile", "--layout", "XX"): ("--layout", "'XX'"),
    ("--batch", "in.csv", "--tile", "64x64x16"): ("--tile 64x64x16", "columns of in.csv"),
    ("--batch", "in.csv", "--format", "json"): ("--format json", "expected csv"),
    ("--batch", "none.csv"): ("none.csv", "No such file"),
    ("--batch", "in.csv", "--out", "none/facts.csv"): ("--out none/facts.csv", "existing folder"),
    ("--batch", "bad.csv", "--out", "facts.csv"): ("bad.csv, row 1 (line 2), column bm", "'x'"),
    ("--batch", "notile.csv", "--out", "facts.csv"): ("notile.csv: no column bn",),
}


@pytest.mark.parametrize("arguments", LINES)
def test_wrong_input_is_one_sentence(
    arguments: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text(BATCH)
    Path("bad.csv").write_text(BATCH.replace(",64,64,16,4,4", ",x,64,16,4,4", 1))
    Path("notile.csv").write_text("gpu,family,bm\nh200_sxm,register_tile,64\n")
    assert run("compile", *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    for part in LINES[arguments]:
        assert part in said.err
    assert not (folder / "facts.csv").exists()


def test_without_the_compiler_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    from gemmsim.bench import nvrtc

    nvrtc.version.cache_clear()
    nvrtc.architectures.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    Path("in.csv").write_text(BATCH)
    try:
        assert run("compile", "--batch", "in.csv", "--out", "facts.csv") == 2
    finally:
        nvrtc.version.cache_clear()
        nvrtc.architectures.cache_clear()
    said = capsys.readouterr().err
    assert said == "gemmsim: gemmsim compile needs cuda-core and NVRTC: pip install 'gemmsim[compile]'\n"
    assert not (folder / "facts.csv").exists()


def test_triton_without_triton_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    assert run("compile", "--family", "triton", "--gpu", "h200_sxm") == 2
    expected = "gemmsim: gemmsim compile --family triton needs Triton: pip install 'gemmsim[triton]'\n"
    assert capsys.readouterr().err == expected


def test_triton_kernel_does_the_plain_product_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gemmsim.bench import triton_compile

    monkeypatch.setattr(triton_compile, "version", lambda: "triton 0")
    assert run("compile", "--family", "triton", "--gpu", "h200_sxm", "--layout", "NT") == 2
    assert "plain row-major product alone" in capsys.readouterr().err
    assert run("compile", "--family", "triton", "--gpu", "h200_sxm", "--dtype", "int8") == 2
    assert "no int8: it has bf16, fp16, tf32, fp8" in capsys.readouterr().err
