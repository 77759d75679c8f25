"""Tuning on the GPU: a small shape from a cold store, again from a warm one, several shapes, a study that is kept."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from gemmsim.cli import main
from gemmsim.store import Store

pytestmark = pytest.mark.gpu
SMALL = (256, 512, 128, "--dtype", "fp32", "--trials", 8)


def tune(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(["tune", *map(str, arguments), "--format", "json"])
    out, err = capsys.readouterr()
    assert caught.value.code == code, err
    return json.loads(out)


def single_rows() -> list[dict[str, Any]]:
    return [row for row in Store().rows("tune", latest=False) if row["against"] == ""]


def test_a_small_shape_and_the_same_again(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tune(capsys, *SMALL)
    assert (found["trials"], found["in_turn"], found["status"]) == (8, True, "ok")
    assert found["ok"] >= 6, found["statuses"]
    assert 1e-6 < found["time_s"] < 1e-3
    for other in ("default", "first_pick", "cublas"):
        low, gain, high = (found[f"gain_over_{other}{end}"] for end in ("_low", "", "_high"))
        assert -0.9 < low <= gain <= high < 9, other
        assert found[f"{other}_time_s"] > 0
    compared = [e for e in found["compared"] if e["time_s"] is not None and e["family"] != "cublas"]
    assert compared[0]["over"] == 1
    assert all(math.isfinite(e["over"]) for e in compared)
    assert len(single_rows()) == 8
    again = tune(capsys, *SMALL)
    assert [row["attempt"] for row in single_rows()] == [0] * 8
    assert again["trials"] == 8


def test_shapes_in_one_session(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = store_folder / "shapes.csv"
    shapes.write_text("name,m,n,k\na,256,256,256\nb,128,512,64\n")
    found = tune(capsys, "--shapes", shapes, "--dtype", "fp32", "--trials", 6)
    assert [(f["name"], f["trials"], f["in_turn"]) for f in found] == [("a", 6, True), ("b", 6, True)]


def test_a_study_in_a_journal_is_carried_on_by_a_worker(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ("--study", "s", "--storage", store_folder / "tune.journal")
    tune(capsys, *SMALL[:-1], 4, *kept)
    tune(capsys, *SMALL[:-1], 8, "--budget-s", 0.001, *kept)
    with pytest.raises(SystemExit) as caught:
        main(["worker", *map(str, kept)])
    out, err = capsys.readouterr()
    assert caught.value.code == 0, err
    assert re.match(r"[1-4] trials by this worker: ", out)
    assert [row["attempt"] for row in single_rows()] == [0] * 8


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tune(capsys, 512, 512, 256, "--dtype", "bf16", "--family", "triton", "--trials", 6)
    assert (found["family"], found["status"], found["in_turn"]) == ("triton", "ok", True)
    assert found["cublas_time_s"] > 0
