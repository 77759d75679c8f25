"""`gemmsim predict`: one configuration as people, JSON and CSV read it; the batch contract."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

from gemmsim import families, predict
from gemmsim.cli import main
from gemmsim.cli.batch import result_names
from gemmsim.model.demand import TERMS

RESULTS = [
    "feasible", "reason", "time_s", "tflops", "bound_by", "blocks_per_sm", "limited_by", "waves", "dram_read_bytes",
    "dram_write_bytes", "l2_read_bytes", "time_lo_s", "time_hi_s", "calibration", "extrapolated",
]  # fmt: skip
HEAD = "m,n,k,bm,bn,bk,num_warps,num_stages,group_m"
ROW = "4096,4096,4096,128,128,64,8,3,8"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["predict", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def batch(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, *options: object, gpu: str | None = "h200_sxm"
) -> list[dict[str, str]]:
    (folder / "in.csv").write_text(text)
    out = folder / "out.csv"
    given = ["--batch", folder / "in.csv", "--out", out, *options] + (["--gpu", gpu] if gpu else [])
    assert run(capsys, *given) == ""
    return list(csv.DictReader(io.StringIO(out.read_text())))


def test_one_configuration_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, 4096, 4096, 4096, "--gpu", "h200_sxm", "--calibration", "none")
    lines = {line[:19].strip(): line[21:] for line in out.splitlines()}
    assert lines["problem"] == "4096 x 4096 x 4096 bf16, L2 cold_clean"
    assert lines["configuration"] == "triton 128x128x64_w8s3g8"
    assert lines["time"].endswith(" us")
    assert lines["rate"].endswith("% of the dense bf16 peak")
    assert lines["blocks per SM"] == "2, limited by registers"
    assert lines["waves"] == "4"
    assert lines["registers"].endswith("a thread (estimate)")
    assert lines["shared memory"] == "98304 B (96 KiB) a block (estimate)"
    assert lines["calibration"] == "uncalibrated: physical defaults scaled from the GPU's own figures"


def test_json_and_csv_hold_the_same_si_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = (512, 1024, 768, "--gpu", "a100_sxm_80gb", "--dtype", "fp16", "--num-sms", 54, "--l2", "warm")
    found = json.loads(run(capsys, *asked, "--format", "json"))
    run(capsys, *asked, "--format", "csv", "--out", tmp_path / "x.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text()))
    p = predict(512, 1024, 768, gpu="a100_sxm_80gb", dtype="fp16", num_sms=54, l2="warm")
    assert found["time_s"] == float(row["time_s"]) == p.time_s[0]
    assert found["sm_count"] == 54
    assert list(found) == list(row)
    assert {f"demand_{t}_s" for t in TERMS} <= set(found)
    assert found["peak_fraction"] == pytest.approx(p.tflops[0] / (624 / 4), rel=0.01)


@pytest.mark.parametrize(
    "given",
    [
        ("--tile", "128x256x64", "-p", "num_warps=4", "-p", "num_stages=2", "-p", "group_m=1"),
        ("--tile", "128x256x64_w4s2g1"),
        ("-p", "BLOCK_SIZE_M=128", "-p", "BLOCK_SIZE_N=256", "-p", "BLOCK_SIZE_K=64", "-p", "num_warps=4",
         "-p", "num_stages=2", "-p", "GROUP_SIZE_M=1"),
        ("-p", "cta_m=128", "-p", "cta_n=256", "-p", "cta_k=64", "-p", "stages=2", "--tile", "128x256x64_w4g1"),
    ],
)  # fmt: skip
def test_one_configuration_under_the_names_of_the_field(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    if "cta_m=128" in given:
        given = (*given[:8], "-p", "num_warps=4", "-p", "group_m=1")
    found = json.loads(run(capsys, 64, 64, 64, "--gpu", "h200_sxm", "--format", "json", *given))
    assert [found[p] for p in ("bm", "bn", "bk", "num_warps", "num_stages", "group_m")] == [128, 256, 64, 4, 2, 1]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_family_and_dtype_follow_from_each_other(capsys: pytest.CaptureFixture[str], family: str) -> None:
    dtype = families.family(family).DTYPES[0]
    by_family = json.loads(run(capsys, 64, 64, 64, "--gpu", "h200_sxm", "--family", family, "--format", "json"))
    by_dtype = json.loads(run(capsys, 64, 64, 64, "--gpu", "h200_sxm", "--dtype", dtype, "--format", "json"))
    assert by_family["dtype"] == by_dtype["dtype"] == dtype
    first = families.families_for(dtype)[0]
    assert (by_family["family"], by_dtype["family"]) == (family, first)


def test_a_free_effect_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (4096, 4096, 4096, "--gpu", "h200_sxm", "--format", "json")
    free = json.loads(run(capsys, *asked, "--without", "launch", "--without", "power"))
    assert free["time_s"] < json.loads(run(capsys, *asked))["time_s"]
    assert free["demand_launch_s"] == 0


def test_the_batch_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = batch(
        capsys, tmp_path, f'{HEAD},note,time_s\n{ROW},"a, b",1e-3\n4096,4096,4096,256,256,128,4,4,8,,0.10\n{ROW}, x ,\n'
    )
    terms = [f"{kind}_{t}_s" for kind in ("demand", "saved") for t in TERMS]
    assert list(rows[0]) == [*HEAD.split(","), "note", "in_time_s", *RESULTS, *terms]
    assert result_names() == [*RESULTS, *terms]
    assert [(r["note"], r["in_time_s"]) for r in rows] == [("a, b", "1e-3"), ("", "0.10"), (" x ", "")]
    assert [r["feasible"] for r in rows] == ["1", "0", "1"]
    assert rows[1]["reason"] == "smem_capacity: 524288 B of shared memory a block, limit 232448"
    filled = {"feasible", "reason", "calibration"}
    assert all(not rows[1][name] for name in (*RESULTS, *terms) if name not in filled)
    p = predict(4096, 4096, 4096, gpu="h200_sxm", terms=True)
    assert float(rows[0]["time_s"]) == p.time_s[0]
    assert rows[0]["bound_by"] == p.bound_by[0]
    assert (rows[0]["blocks_per_sm"], rows[0]["limited_by"]) == ("2", "registers")
    assert float(rows[0]["saved_l2_s"]) == p.saved["l2"][0]


def test_columns_go_before_options_and_rows_keep_their_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [
        "h200_sxm,triton,bfloat16,warm,1024,2048,512,64,64,32,,",
        "NVIDIA H100 PCIe,register_tile,,,1024,2048,512,64,64,16,4,4",
        "a100_sxm_80gb,,,cold_clean,1024,2048,512,64,64,32,,",
        "h200_sxm,triton,bfloat16,warm,100,200,300,64,64,32,,",
    ]
    text = "\n".join(["gpu,family,dtype,l2,M,n,k,bm,bn,bk,tm,tn", *lines])
    rows = batch(capsys, tmp_path, text, "--l2", "cold_dirty", gpu=None)
    asked = [
        ("h200_sxm", "triton", "bf16", "warm", (1024, 2048, 512), {"bm": 64, "bn": 64, "bk": 32}),
        ("h100_pcie", "register_tile", "fp32", "cold_dirty", (1024, 2048, 512),
         {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4}),
        ("a100_sxm_80gb", "triton", "bf16", "cold_clean", (1024, 2048, 512), {"bm": 64, "bn": 64, "bk": 32}),
        ("h200_sxm", "triton", "bf16", "warm", (100, 200, 300), {"bm": 64, "bn": 64, "bk": 32}),
    ]  # fmt: skip
    for row, (gpu, family, dtype, l2, (m, n, k), config) in zip(rows, asked, strict=True):
        p = predict(m, n, k, gpu=gpu, family=family, dtype=dtype, l2=l2, config=config)
        assert float(row["time_s"]) == pytest.approx(p.time_s[0], rel=1e-12)
    assert [row["M"] for row in rows] == ["1024", "1024", "1024", "100"]


@pytest.mark.parametrize(
    ("columns", "cells"), [("regs_per_thread,spill_bytes,smem_bytes", "168,40,98304"), ("regs,spills", "168,10")]
)
def test_compiler_facts(capsys: pytest.CaptureFixture[str], tmp_path: Path, columns: str, cells: str) -> None:
    text = f"{HEAD},{columns}\n{ROW},{cells}\n{ROW}{',' * len(cells.split(','))}\n"
    with_facts, without = batch(capsys, tmp_path, text), batch(capsys, tmp_path, text, "--no-facts")
    facts = {"regs_per_thread": 168, "spill_bytes": 40, "smem_bytes": 98304}
    known = predict(4096, 4096, 4096, gpu="h200_sxm", facts=facts).time_s[0]  # type: ignore[arg-type]
    estimated = predict(4096, 4096, 4096, gpu="h200_sxm").time_s[0]
    assert known != estimated
    assert [float(r["time_s"]) for r in with_facts] == [known, estimated]
    assert [float(r["time_s"]) for r in without] == [estimated, estimated]


def test_parameters_left_out_take_the_familys_defaults(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (row,) = batch(capsys, tmp_path, "m,n,k,BLOCK_SIZE_M,bn,bk\n4096,4096,4096,128,128,64\n", "--no-terms")
    assert float(row["time_s"]) == predict(4096, 4096, 4096, gpu="h200_sxm").time_s[0]
    assert "demand_math_s" not in row


def test_an_empty_cell_takes_the_familys_default_where_families_mix(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "family,m,n,k,bm,bn,bk,group_m,stages,num_stages\n"
    rows = batch(capsys, tmp_path, f"{text}triton,512,512,512,64,64,32,,,3\nsimt,512,512,512,64,256,8, ,2,\n")
    assert [float(row["time_s"]) for row in rows] == [
        predict(512, 512, 512, gpu="h200_sxm", dtype=dtype, family=family, config=config).time_s[0]
        for family, dtype, config in (
            ("triton", "bf16", {"bm": 64, "bn": 64, "bk": 32}),
            ("simt", "fp32", {"bm": 64, "bn": 256, "bk": 8, "stages": 2}),
        )
    ]  # fmt: skip


def test_a_familys_own_name_goes_before_another_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """`stages` is Triton's num_stages to family triton, and a parameter of simt."""
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "predict",
                "512",
                "512",
                "512",
                "--gpu",
                "h200_sxm",
                "--family",
                "simt",
                "-p",
                "stages=2",
                "--format",
                "json",
            ]
        )
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["stages"] == 2


def test_a_batch_to_stdout_and_gzipped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(f"{HEAD}\n{ROW}\n".encode()))
    asked = ("--batch", tmp_path / "in.csv.gz", "--gpu", "h200_sxm")
    text = run(capsys, *asked)
    run(capsys, *asked, "--out", tmp_path / "out.csv.gz")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == text
    assert text.startswith(f"{HEAD},feasible,reason,time_s,")


def test_many_rows_of_several_groups(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 5000, (3000, 3))
    l2 = rng.choice(["cold_clean", "cold_dirty", "warm"], 3000)
    lines = [f"{m},{n},{k},64,64,64,{c}" for (m, n, k), c in zip(sizes.tolist(), l2, strict=True)]
    rows = batch(capsys, tmp_path, "m,n,k,bm,bn,bk,l2\n" + "\n".join(lines), "--no-terms")
    config = {"bm": 64, "bn": 64, "bk": 64}
    for condition in np.unique(l2):
        at = np.flatnonzero(l2 == condition)
        p = predict(*sizes[at].T, gpu="h200_sxm", config=config, l2=str(condition))
        assert np.allclose([float(rows[i]["time_s"]) for i in at], p.time_s, rtol=1e-9)
