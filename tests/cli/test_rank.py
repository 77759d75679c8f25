"""`gemmsim rank` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from gemmsim import rank
from gemmsim.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["rank", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_lines_of_a_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--gpu", "h200_sxm", "--dtype", "bf16", "--family", "triton", "--top", 5)
    lines = run(capsys, 4096, 4096, 4096, *asked).splitlines()
    found = rank(4096, 4096, 4096, gpu="h200_sxm", dtype="bf16", family="triton", top=5)
    assert lines[0] == "4096 x 4096 x 4096 bf16 on h200_sxm, 132 SMs, L2 cold_clean, triton"
    for line, entry in zip(lines[2:7], found.entries, strict=True):
        assert re.match(rf"[ =] *{entry.rank}  {entry.key} +{entry.time_s * 1e3:.4f} ms +{entry.share:.1%} ", line)
        assert entry.bound_by in line
    assert lines[7].startswith(f"18750 configurations: {found.feasible} can launch, {18750 - found.feasible} refused (")
    assert "smem_capacity" in lines[7]
    assert re.match(r"cuBLAS: 0\.\d{4} ms +\d+\.\d% +\d+\.\d TFLOP/s, measured, L2 cold_clean$", lines[-1])


def test_families_of_a_dtype_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--gpu", "h200_sxm", "--dtype", "bf16", "--family", "all", "--top", 40000)
    lines = run(capsys, 64, 512, 4096, *asked).splitlines()
    assert "triton and wgmma" in lines[0]
    assert {line[6:].split()[0] for line in lines[2:-4] if line[6:].strip()} >= {"triton", "wgmma"}


def test_ties_are_marked_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 16, 4096, 4096, "--gpu", "h200_sxm", "--family", "triton", "--top", 4).splitlines()
    assert all(line.startswith("=   1  ") for line in lines[2:6])
    assert "= a tie: within 0.1 % of the first of its rank" in lines


@pytest.mark.parametrize(
    ("options", "last"),
    [
        (("--gpu", "a100_sxm_80gb"), "cuBLAS: not measured"),
        (("--gpu", "h200_sxm", "--num-sms", 66), "cuBLAS: not measured"),
        (("--gpu", "h200_sxm", "--dtype", "fp16"), "measured, L2 cold_dirty, not cold_clean"),
        (("--gpu", "h200_sxm", "--dtype", "fp16", "--l2", "cold_dirty"), "measured, L2 cold_dirty"),
    ],
)
def test_the_last_line_is_cublas(capsys: pytest.CaptureFixture[str], options: tuple[object, ...], last: str) -> None:
    assert run(capsys, 4096, 4096, 4096, *options).splitlines()[-1].endswith(last)


def test_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (1000, 1000, 1000, "--gpu", "h100_sxm", "--dtype", "fp32", "--family", "all", "--top", 3)
    found = json.loads(run(capsys, *asked, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv"))))
    assert [e["key"] for e in found["ranking"]] == [row["key"] for row in rows]
    assert [e["time_s"] for e in found["ranking"]] == [float(row["time_s"]) for row in rows]
    assert found["configurations"] == found["feasible"] + sum(found["refused"].values())
    assert found["cublas"] is None
    assert len(rows) == 3


def test_without_an_effect_everything_is_as_fast_or_faster(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (512, 512, 512, "--gpu", "h200_sxm", "--format", "json", "--top", 1)
    usual, free = (json.loads(run(capsys, *asked, *more)) for more in ((), ("--without", "latency")))
    assert free["ranking"][0]["time_s"] < usual["ranking"][0]["time_s"]
