"""`gemmsim raster` as people and programs read it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gemmsim import predict
from gemmsim.cli import main
from gemmsim.simulate.rasters import rasters

ASKED = (2048, 11008, 4096, "--tile", "128x128x64_w4s4g8")
CONFIG = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": 8}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["raster", *map(str, arguments), "--gpu", "h200_sxm"])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_a_table_and_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, *ASKED).splitlines()
    found = rasters(predict(2048, 11008, 4096, gpu="h200_sxm", config=CONFIG))
    assert lines[0].split("  ")[0] == "order"
    for line, order in zip(lines[1:], found.orders, strict=False):
        assert line.startswith(order.name)
        assert line.endswith("yes" if order.in_kernel else "no")
    assert lines[1 + len(found.orders)] == found.verdict
    assert "configuration: triton 128x128x64_w4s4g8, grouped by 8" in lines


def test_json_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = json.loads(run(capsys, *ASKED, "--format", "json"))
    rows = list(csv.DictReader(run(capsys, *ASKED, "--format", "csv").splitlines()))
    assert [order["name"] for order in found["orders"]] == [row["name"] for row in rows]
    assert [order["time_s"] for order in found["orders"]] == [float(row["time_s"]) for row in rows]
    assert found["verdict"].startswith("column wins by ")
    assert (found["family"], found["group_m"], found["dtype"]) == ("triton", 8, "bf16")
    run(capsys, *ASKED, "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().startswith("order")
