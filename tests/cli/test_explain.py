"""`gemmsim explain` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from gemmsim.cli import main
from gemmsim.model.demand import TERMS

ONE_BLOCK = ("--tile", "128x128x64", "-p", "num_warps=8", "-p", "num_stages=5")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["explain", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_alignment_and_waves_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    first = run(capsys, 4096, 4097, 4096, "--gpu", "h200_sxm", *ONE_BLOCK)
    assert "\nwaves: 1056 tiles are exactly 8 waves of 132 blocks, one an SM: costs nothing\n" in first
    assert "\nalignment: N = 4097 is no multiple of 16: costs " in first
    assert "\nof its shape, alignment costs most; waves" in first
    assert "\nwhat helps most: N padded from 4097 to 4112: " in first
    both = run(capsys, 4097, 4097, 4096, "--gpu", "h200_sxm", *ONE_BLOCK)
    assert "\nwaves: 1089 tiles are 8 full waves of 132 blocks, one an SM, and a last one of 33: costs " in both
    neither = run(capsys, 4096, 4224, 4096, "--gpu", "h200_sxm", *ONE_BLOCK)
    assert "\nalignment: N and K are multiples of 16: costs nothing\n" in neither


def test_terms_with_their_shares(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 4096, 4096, 4096, "--gpu", "h200_sxm").splitlines()
    assert lines[0] == "4096 x 4096 x 4096 bf16 on h200_sxm, 132 SMs, L2 cold_clean"
    assert lines[1].startswith("triton 128x128x64_w8s3g8: ")
    assert lines[3].split() == ["term", "part", "alone", "saved"]
    named = {line.split(" ")[0] for line in lines[4 : lines.index("", 4)]}
    hidden = next(line for line in lines if line.startswith("nothing to speak of: ")).split(": ")[1].split(", ")
    assert named - {"nothing", "others"} | set(hidden) == set(TERMS)
    assert any(line.startswith("bound by ") for line in lines)


def test_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (4096, 4096, 4096, "--gpu", "h200_sxm")
    found = json.loads(run(capsys, *asked, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv"))))
    assert [row["name"] for row in rows] == list(TERMS) == list(found["terms"])
    assert [float(row["saved_s"]) for row in rows] == [t["saved_s"] for t in found["terms"].values()]
    parts = [t["part_s"] for t in found["terms"].values()]
    assert sum(parts) + found["rest_s"] == pytest.approx(found["time_s"], rel=1e-9)
    assert found["outlook"]
    gains = [change["gain_s"] for change in found["changes"]]
    assert gains == sorted(gains, reverse=True)
    assert found["config"]["bm"] == 128


def test_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    free = [option for term in TERMS if term != "launch" for option in ("--without", term)]
    out = run(capsys, 4096, 4096, 4096, "--gpu", "h200_sxm", *free)
    assert "\nno single change gains more than 1 %\n" in out


def test_help_lists_parameters_defaults_and_effects(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    out = capsys.readouterr().out
    assert "triton         bm=128 bn=128 bk=64 num_warps=8 num_stages=3 group_m=8" in out
    assert "math, shared, issue" in out
