"""`gemmsim best` as people and programs read it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.families import FAMILIES
from gemmsim.picks import best
from gemmsim.store import Store

ROWS = Path(__file__).parents[2] / "studies" / "h200"
SIMT, TRITON = ROWS / "simt_pick.csv.gz", ROWS / "triton_bf16.csv.gz"


@pytest.fixture(autouse=True)
def _store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["best", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def lines(out: str) -> dict[str, str]:
    return {line[:14].strip(): line[14:] for line in out.splitlines()}


def test_a_measured_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, 4096, 4096, 4096, "--rows", SIMT)
    said, pick = lines(out), best(4096, 4096, 4096, rows=SIMT)
    assert (code, err) == (0, "")
    assert list(said)[:3] == ["problem", "pick", "measured"]
    assert said["problem"] == "4096 x 4096 x 4096 fp32 on h200_sxm, L2 cold_clean"
    assert said["pick"] == f"simt {pick.key}"
    tflops = 2 * 4096**3 / pick.timed.time_s / 1e12
    assert said["measured"].startswith(f"{1e3 * pick.timed.time_s:.3f} ms, {tflops:.1f} TFLOP/s, ")
    assert "of the rows that come with gemmsim, L2 cold_clean: the pick has 1.0" in said["cuBLAS"]
    assert said["tried"].startswith(f"{sum(pick.standing.statuses.values())} configurations")
    assert said["timed"].startswith("2026-11-30 16:")
    assert said["timed"].endswith("on NVIDIA H200, SM clock 1980 MHz, nvrtc 13.5.37")


def test_a_near_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, 4096, 4096, 4096, "--rows", TRITON)
    said, pick = lines(out), best(4096, 4096, 4096, rows=TRITON)
    assert code == 0
    assert said["predicted"].endswith("TFLOP/s: this problem was not measured")
    assert said["from"].startswith(" x ".join(map(str, pick.source)))
    assert said["model's own"].endswith(f"predicted loss {pick.loss:.1%}")
    assert said["to be sure"] == "gemmsim tune 4096 4096 4096 --dtype bf16"


def test_json_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for shape in ((4096, 4096, 4096), (4096, 4096, 4000)):
        asked = (*shape, "--rows", SIMT)
        found = json.loads(run(capsys, *asked, "--format", "json")[1])
        (row,) = csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv")[1]))
        (pick,) = found["picks"]
        assert (found["schema"], found["version"]) == ("gemmsim picks", 1)
        assert row["configuration"] == pick["configuration"]
        assert {p: int(row[p]) for p in pick["config"]} == pick["config"]
        assert float(row["predicted_s"]) == pick["predicted_s"]
        assert row["status"] == pick["status"] == ("ok" if shape[2] == 4096 else "pending")
        assert (row["time_s"] == "") == ("time_s" not in pick) == (shape[2] != 4096)
        assert [int(row[f"from_{d}"] or 0) for d in "mnk"] == [pick.get(f"from_{d}", 0) for d in "mnk"]
    assert run(capsys, *asked, "--out", tmp_path / "pick.txt")[1] == ""
    assert (tmp_path / "pick.txt").read_text() == run(capsys, *asked)[1]


def test_from_the_users_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["rows", "import", str(SIMT)])
    capsys.readouterr()
    assert run(capsys, 4096, 4096, 4096) == run(capsys, 4096, 4096, 4096, "--rows", SIMT)
    assert run(capsys, 4096, 4096, 4096, "--store", tmp_path / "rows.sqlite") == run(capsys, 4096, 4096, 4096)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((4096, 4096), "M N K: found 2 values (4096 4096), expected three whole numbers"),
        ((1, 1, 1, "--rows", "no.csv"), "no.csv: cannot be read: No such file or directory"),
        ((1, 1, 1, "--rows", ""), "--rows is '': expected the name of a file"),
        ((1, 1, 1, "--rows", SIMT, "--store", "x"), "--store x is given with --rows: expected one of them"),
        ((1, 1, 1, "--rows", SIMT, "--family", "simd"),
         "unknown family 'simd' in --family: did you mean simt? "
         f"known are {', '.join(FAMILIES)}, all"),
        ((1, 1, 1, "--rows", SIMT, "--l2", "hot"),
         "unknown L2 condition 'hot' in --l2: known are cold_clean, cold_dirty, warm"),
        ((1, 1, 1, "--rows", SIMT, "--clock", "fast"),
         "--clock is 'fast': expected a whole number from 1 to 100000 MHz"),
        ((1, 1, 1, "--rows", SIMT, "--dtype", "bf16"),
         f"{SIMT} holds no row of bf16 (but of h200_sxm fp32 simt) that ran: gemmsim tune measures some, and gemmsim "
         "rank predicts without"),
        ((1, 1, 1, "--rows", SIMT, "--l2", "warm"),
         f"{SIMT} holds no row of h200_sxm fp32 warm that ran: gemmsim tune measures some, and gemmsim rank predicts "
         "without"),
        ((1, 1, 1, "--store", "/dev/null"),
         "/dev/null: cannot be a store of rows: expected a file, found a device or a pipe"),
    ],
)  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], sentence: str) -> None:
    assert run(capsys, *arguments) == (2, "", f"gemmsim: {sentence}\n")


def test_without_a_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, 1, 1, 1)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        f"gemmsim: {tmp_path}/rows.sqlite: expected a store of rows, found no such file: gemmsim tune"
    )
    assert "gemmsim rank" in err
    assert not (tmp_path / "rows.sqlite").exists()
    Store(tmp_path / "rows.sqlite")
    code, out, err = run(capsys, 1, 1, 1)
    assert (code, out) == (2, "")
    assert err == (f"gemmsim: {tmp_path}/rows.sqlite holds no row that ran: gemmsim tune measures some, and gemmsim "
                   "rank predicts without\n")  # fmt: skip
