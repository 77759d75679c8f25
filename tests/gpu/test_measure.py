"""Campaigns on the GPU: rows that are whole, conditions, cuBLAS beside, and faults that cost one row each."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import gpu_faults
import pytest
from kernels_under_test import CONFIGS, ask, families

from gemmsim.bench.campaign import Result, Settings, run
from gemmsim.bench.task import Conditions
from gemmsim.bench.timing import Timer
from gemmsim.cli import main
from gemmsim.measured import read_measured
from gemmsim.store import Row, Store

pytestmark = pytest.mark.gpu


def measured(asks: list[Any], **settings: Any) -> list[Row]:
    store = Store()
    run(asks, Settings("c", **settings), store, Result())
    return store.rows("c", latest=False)


@pytest.mark.parametrize("l2", ["cold_clean", "cold_dirty", "warm"])
def test_rows_are_whole(store_folder: Path, l2: str) -> None:
    how = Conditions(l2=l2, against="cublas")
    rows = measured([ask((512, 512, n), "register_tile", {}, how=how) for n in (256, 512)])
    assert [row["status"] for row in rows] == ["ok", "ok"], [row["reason"] for row in rows]
    for row in rows:
        assert 1e-6 < row["min_s"] <= row["p20_s"] <= row["time_s"] <= row["p80_s"] < 1
        assert len(row["samples_s"]) == len(row["cublas_samples_s"]) == row["sample_count"] >= 5
        assert row["ratio"] == pytest.approx(row["cublas_time_s"] / row["time_s"])
        assert 0 <= row["error"] < row["error_limit"]
        assert row["element_error"] < 1
        assert row["blocks_per_sm"] >= 1
        assert row["regs_per_thread"] > 16
        assert row["sm_clock_hz_before"] > 1e8
        assert row["power_w_after"] > 1
        assert "host_bound" not in row["unstable"]


def test_graphs(store_folder: Path) -> None:
    how = Conditions(l2="warm", graph=True)
    small, large = ask((64, 64, 64), "register_tile", {}, how=how), ask((2048, 2048, 512), "register_tile", {}, how=how)
    rows = {row["m"]: row for row in measured([small, large])}
    assert (rows[64]["status"], rows[64]["timed_by"], rows[64]["timing"]) == ("ok", "graph", "graph")
    assert rows[64]["launches"] > 1
    assert (rows[2048]["timed_by"], rows[2048]["launches"]) == ("event", 1)


def test_a_batch_from_the_command_line(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch, out = store_folder / "in.csv", store_folder / "rows.csv"
    lines = ["family,dtype,m,n,k,bm,bn,bk,tm,tn"]
    lines += [f"register_tile,fp32,{m},384,256,64,64,16,{t},4" for m in (64, 257) for t in (4, 3)]
    batch.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["measure", "--batch", str(batch), "--out", str(out), "--against", "cublas"])
    assert not ended.value.code, capsys.readouterr().err
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert [(row["m"], row["tm"], row["status"]) for row in rows] == [
        ("64", "4", "ok"), ("64", "3", "refused"), ("257", "4", "ok"), ("257", "3", "refused"),
    ]  # fmt: skip
    assert len(read_measured(str(out)).time_s) == 2


def test_faults_cost_one_row_each(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_BENCH", "gpu_faults")
    sizes = [64, gpu_faults.ILLEGAL, 65, gpu_faults.HANG, 66, gpu_faults.IDLE, 67]
    # every size its own kernel: tiles of their own
    asks = [ask((m, 64, 64), "register_tile", {"bk": 8 + i}) for i, m in enumerate(sizes)]
    rows = {row["m"]: row for row in measured(asks, timeout_s=5.0)}
    found = {m: rows[m]["status"] for m in sizes}
    assert found == {
        64: "ok", gpu_faults.ILLEGAL: "launch", 65: "ok", gpu_faults.HANG: "timeout", 66: "ok",
        gpu_faults.IDLE: "wrong", 67: "ok",
    }, {m: rows[m]["reason"] for m in sizes}  # fmt: skip
    assert "illegal" in rows[gpu_faults.ILLEGAL]["reason"].lower()
    assert "NaN" in rows[gpu_faults.IDLE]["reason"]


def test_no_block_fits_is_refused_before_it_is_launched(store_folder: Path) -> None:
    large = {"bm": 256, "bn": 256, "bk": 32, "wm": 64, "wn": 64, "tm": 8, "tn": 16, "stages": 5, "regs": 0}
    rows = measured([ask((256, 256, 256), "simt", large)])
    assert rows[0]["status"] == "refused"
    assert rows[0]["reason"]


def test_cublas_is_a_family(store_folder: Path) -> None:
    rows = measured([ask((512, 512, 512), "cublas", {}, dtype) for dtype in ("fp32", "fp64", "fp16", "bf16", "tf32")])
    assert Counter(row["status"] for row in rows) == {"ok": 5}, [row["reason"] for row in rows]
    assert next(row["error"] for row in rows if row["dtype"] == "fp32") < 1e-6  # TF32 errs by 1e-4


def test_every_family_measures(store_folder: Path) -> None:
    asks = [ask((640, 512, 256), family, config) for family in families() for config in CONFIGS[family].values()]
    rows = measured(asks)
    assert {row["status"] for row in rows} == {"ok"}, [row["reason"] for row in rows]


def test_the_stream_is_busy_before_the_first_event(rig: Any) -> None:
    """A batch longer than the host can queue in the time it takes: the wait grows until it is not late."""
    timer = Timer(rig.device)
    found = timer.samples([lambda: rig.device.spin(1e-6)], "warm", 150)
    assert not found.host_bound
    assert len(found.seconds[0]) == 150
    assert all(0 < s < 1e-3 for s in found.seconds[0])


def test_doctor_is_content(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert not ended.value.code, capsys.readouterr().out
