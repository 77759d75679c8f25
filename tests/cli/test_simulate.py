"""`gemmsim simulate` as people and programs read it: one launch, its timeline, a CSV of launches."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gemmsim import predict
from gemmsim.cli import main
from gemmsim.cli.simulate import NAMES
from gemmsim.rows import read_csv
from gemmsim.simulate import launched
from gemmsim.simulate.launch import simulate

TILE = ("--tile", "128x128x64_w4s4g1")
CONFIG = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": 1}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *map(str, arguments), "--gpu", "h200_sxm"])
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    return out


def test_one_launch_beside_the_closed_form(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, 4096, 4096, 4096, *TILE).splitlines()
    found = simulate(predict(4096, 4096, 4096, gpu="h200_sxm", config=CONFIG))
    assert [line.split("  ")[0] for line in lines[:6]] == ["operand", "A", "B", "C", "simulated", "closed form"]
    assert f"{found.bytes['dram_read_bytes'] / 2**20:.1f} MiB" in lines[4]
    assert f"{1e6 * found.schedule.makespan_s:.2f} us" in lines[4]
    assert lines[6] == "triton 128x128x64_w4s4g1, 4096 x 4096 x 4096 bf16 on h200_sxm, 132 SMs, L2 cold_clean"
    assert lines[7].startswith("1024 blocks on 132 places: 8 waves, SMs idle 3.0% of the time, the last ")
    assert lines[8].startswith("DRAM reads are 4.5")


def test_json_and_csv_have_the_operands_and_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (1000, 2000, 3000, *TILE, "--beta")
    record = json.loads(run(capsys, *asked, "--format", "json"))
    for name in ("dram_read_bytes", "dram_write_bytes", "l2_read_bytes"):
        assert sum(record[f"{operand}_{name}"] for operand in "abc") == pytest.approx(record[name])
    assert record["c_dram_read_bytes"] == 2 * 1000 * 2000
    assert (record["simulated"], record["note"], record["waves"]) == (1, "", 1)
    (row,) = csv.DictReader(run(capsys, *asked, "--format", "csv").splitlines())
    assert float(row["makespan_s"]) == record["makespan_s"]
    assert row.keys() == record.keys()


def test_how_it_is_laid_out(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (4096, 4096, 4096, *TILE, "--format", "json")
    plain, column = json.loads(run(capsys, *asked)), json.loads(run(capsys, *asked, "--raster", "hilbert"))
    assert (plain["raster"], column["raster"]) == (None, "hilbert")
    assert column["dram_read_bytes"] < 0.7 * plain["dram_read_bytes"]
    clustered = json.loads(run(capsys, *asked, "--cluster", "4x2", "--persistent"))
    assert (clustered["cluster_m"], clustered["cluster_n"], clustered["persistent"]) == (4, 2, True)
    assert clustered["makespan_s"] > plain["makespan_s"]
    assert "order of tiles: hilbert" in run(capsys, 4096, 4096, 4096, *TILE, "--raster", "hilbert")


def test_a_timeline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    out = run(capsys, 1024, 1024, 1024, *TILE, "--trace", path)
    assert out.splitlines()[-1] == f"trace: {path}, for ui.perfetto.dev"
    events = json.loads(path.read_text())["traceEvents"]
    blocks = [event for event in events if event["name"].startswith("tile ")]
    assert len(blocks) == 64
    assert len({event["tid"] for event in blocks}) == 64


def test_a_launch_too_large_says_what_is_the_closed_form_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched, "MAX_TILES", 10)
    lines = run(capsys, 4096, 4096, 4096, *TILE).splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["simulated", "closed form"]
    assert lines[-1] == "not simulated, the closed form's: traffic: 1024 tiles, more than the 10 that are walked"


HEAD = "name,m,n,k,bm,bn,bk,num_warps,num_stages,group_m"
ROWS = ("a,4096,4096,4096,128,128,64,4,4,1", "b,64,64,64,512,64,64,4,4,1", "c,60000,60000,64,16,16,64,1,3,8")


def test_a_batch_in_its_order_with_its_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given, out = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("\n".join((HEAD, *ROWS)) + "\n")
    assert run(capsys, "--batch", given, "--family", "triton", "--dtype", "bf16", "--out", out) == ""
    table = read_csv(str(out))
    assert list(table.columns) == [*HEAD.split(","), *NAMES]
    assert list(table.text("name")) == ["a", "b", "c"]
    walked, refused, large = csv.DictReader(out.read_text().splitlines())
    found = simulate(predict(4096, 4096, 4096, gpu="h200_sxm", config=CONFIG))
    for name, value in (found.bytes | {"makespan_s": found.schedule.makespan_s}).items():
        assert float(walked[name]) == value
    assert (walked["simulated"], walked["note"]) == ("1", "")
    assert refused["feasible"] == "0"
    assert refused["reason"]
    assert {refused[name] for name in NAMES if name not in ("feasible", "reason")} == {""}
    assert large["simulated"] == "0"
    assert "14062500 tiles" in large["note"]
    assert large["dram_read_bytes"] == large["closed_dram_read_bytes"]
    assert large["makespan_s"] == large["closed_time_s"]


def test_a_batch_as_a_profiler_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = tmp_path / "in.csv"
    given.write_text("m,n,k,bm,bn,bk,split_k,l2\n1024,1024,8192,128,128,8,4,\n1024,1024,8192,128,128,8,4,warm\n")
    asked = ("--batch", given, "--family", "simt", "--dtype", "fp32")
    run_, counted = (list(csv.DictReader(run(capsys, *asked, *more).splitlines())) for more in ((), ("--profiled",)))
    assert float(counted[0]["dram_read_bytes"]) > float(run_[0]["dram_read_bytes"]) + 10e6
    assert [row["simulated"] for row in run_] == ["1", "0"]
    assert "warm" in run_[1]["note"]


def test_blocks_that_compute_tile_after_tile_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (4096, 4096, 4096, "--family", "simt", "-p", "stream_k=1")
    assert "264 blocks on 264 places, 792 tiles and parts of tiles in turn: 3 waves" in run(capsys, *asked)
    assert json.loads(run(capsys, *asked, "--format", "json"))["blocks"] == 264
    clustered = run(capsys, 4096, 4096, 4096, *TILE, "--cluster", "2x2", "--persistent")
    assert "120 blocks on 132 places, 1024 tiles" in clustered
    assert "\n1 block on " in run(capsys, 1, 1, 1, *TILE)


def test_bytes_of_another_order_than_asked_for_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, 512, 512, 512, *TILE, "--l2", "warm", "--raster", "column", "--format", "json"))
    assert record["note"].endswith("; bytes are of the configuration's own order, not column")
