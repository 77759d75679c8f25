"""The name of --out says the format, in every verb alike; --format overrides it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gemmsim.cli import main

G = ("--gpu", "h200_sxm")
VERBS = {
    "predict": ("predict", "64", "64", "64", *G),
    "rank": ("rank", "64", "64", "64", *G),
    "explain": ("explain", "64", "64", "64", *G),
    "simulate": ("simulate", "64", "64", "64", *G, "--tile", "64x64x64"),
    "raster": ("raster", "64", "64", "64", *G, "--tile", "64x64x64"),
    "compare": ("compare", "64", "64", "64", "--gpus", "h200_sxm"),
    "pad": ("pad", "64", "64", "65", *G),
    "occupancy": ("occupancy", *G, "--threads", "128", "--regs", "64"),
    "specs list": ("specs", "list"),
    "specs show": ("specs", "show", "h200_sxm"),
    "workload": ("workload", "--conv", "1,8,8,8,8,3,3"),
}


def written(path: Path, *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--out", str(path)])
    assert end.value.code == 0
    return path.read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_the_name_says_the_format(verb: str, tmp_path: Path) -> None:
    assert json.loads(written(tmp_path / "x.json", *VERBS[verb]))
    rows = list(csv.reader(written(tmp_path / "x.csv", *VERBS[verb]).splitlines()))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])} != {1}
    table = written(tmp_path / "x.txt", *VERBS[verb])
    assert table == written(tmp_path / "x.json", *VERBS[verb], "--format", "table")
