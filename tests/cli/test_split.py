"""`gemmsim split` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.simulate.splits import splits


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["split", *map(str, arguments), "--gpu", "h200_sxm"])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_a_table_and_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 512, 512, 32768).splitlines()
    found = splits(512, 512, 32768, gpu="h200_sxm", dtype="fp32", family="simt")
    assert lines[0].split()[:4] == ["tiles", "time", "speed", "schedule"]
    for line, way in zip(lines[1:], found.ways, strict=False):
        assert line.startswith(way.way)
        assert line.endswith(way.key)
    assert lines[1 + len(found.ways)] == found.verdict
    assert "calibration: h200_sxm.simt.yaml" in lines


def test_json_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = (1000, 2000, 3000, "--tile", "64x256x8")
    found = json.loads(run(capsys, *asked, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv"))))
    assert [way["key"] for way in found["ways"]] == [row["key"] for row in rows]
    assert [way["makespan_s"] for way in found["ways"]] == [float(row["makespan_s"]) for row in rows]
    assert {row["bm"] for row in rows} == {"64"}
    assert "us for its partial sums" in found["verdict"]
    assert (found["family"], found["dtype"]) == ("simt", "fp32")
    run(capsys, *asked, "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().startswith("tiles")


@pytest.mark.parametrize(
    ("options", "family"),
    [((), "simt"), (("--dtype", "fp64"), "simt"), (("--dtype", "bf16"), "wgmma"), (("--family", "naive"), "naive")],
)
def test_the_family_that_is_asked(options: tuple[str, ...], family: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, 512, 512, 4096, *options, "--format", "json"))
    assert found["family"] == family
