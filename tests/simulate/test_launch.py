"""One launch by both simulators: whose bytes, which time, and what is the closed form's instead."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsim import GemmsimError
from gemmsim.model.predict import Prediction, predict
from gemmsim.simulate import launch, launched
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.launch import TERMS, closed_form, simulate
from gemmsim.simulate.schedule import How, schedule

WIDE = {"bm": 64, "bn": 64, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": 1}


def triton(*sizes: int, l2: str = "cold_clean", **config: int) -> Prediction:
    return predict(*sizes, gpu="h200_sxm", dtype="bf16", family="triton", config=WIDE | config, l2=l2)


def test_bytes_are_the_cache_s_and_the_makespan_takes_them() -> None:
    p = triton(8192, 8192, 2048)
    found, t = simulate(p), traffic(launched.launched(p))
    assert found.traffic == t
    assert found.bytes == {name: getattr(t, name) for name in TERMS}
    assert found.simulated
    assert found.note == ""
    bytes_ = {"dram_read_bytes": t.dram_read_bytes, "dram_write_bytes": t.dram_write_bytes}
    assert found.schedule.makespan_s == schedule(p, traffic=bytes_).makespan_s
    assert schedule(p, traffic={"dram_read_bytes": 1e12}).makespan_s > 100 * found.schedule.makespan_s


def test_the_closed_form_is_the_prediction_s() -> None:
    p = triton(4096, 4096, 4096)
    said = closed_form(p, profiled=False)
    assert said["dram_read_bytes"] == pytest.approx(p.dram_read_bytes)
    assert said["dram_write_bytes"] == pytest.approx(p.dram_write_bytes)
    assert simulate(p).closed == {name: float(values[0]) for name, values in said.items()}


def test_a_second_kernel_finds_partial_results_unless_profiled() -> None:
    p = predict(1024, 1024, 8192, gpu="h200_sxm", dtype="fp32", family="simt", config={"split_k": 4})
    run, counted = simulate(p), simulate(p, profiled=True)
    workspace = 4 * 4 * 1024 * 1024
    assert counted.bytes["dram_read_bytes"] - run.bytes["dram_read_bytes"] == pytest.approx(workspace, rel=0.01)
    assert counted.closed["dram_read_bytes"] - run.closed["dram_read_bytes"] > 0.4 * workspace
    assert counted.schedule.makespan_s == run.schedule.makespan_s


def test_what_cannot_be_walked_is_the_closed_form_s_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    p = triton(4096, 4096, 256)
    monkeypatch.setattr(launched, "MAX_TILES", 100)
    found = simulate(p)
    assert found.traffic is None
    assert found.bytes == found.closed
    assert not found.simulated
    assert found.note == "traffic: 4096 tiles, more than the 100 that are walked"
    assert found.schedule.simulated
    monkeypatch.setattr("gemmsim.simulate.schedule.MOST_PIECES", 1000)
    found = simulate(p)
    assert found.note.endswith("time: 4096 blocks, more than the 1000 that are simulated")
    assert found.schedule.makespan_s == p.time_s[0]


def test_a_warm_l2_is_the_closed_form_s() -> None:
    p = triton(512, 512, 512, l2="warm")
    found = simulate(p)
    assert found.traffic is None
    assert "warm" in found.note
    assert found.bytes["dram_read_bytes"] == pytest.approx(float(p.dram_read_bytes[0]))
    assert found.bytes["dram_read_bytes"] < 2 * 512 * 512


def test_another_order_changes_bytes_and_waits() -> None:
    p = triton(2048, 11008, 4096, bm=128, bn=128)
    rows, columns = simulate(p, how=How(raster="row")), simulate(p, how=How(raster="column"))
    assert rows.bytes["dram_read_bytes"] > 6 * columns.bytes["dram_read_bytes"]
    assert rows.schedule.makespan_s > 1.1 * columns.schedule.makespan_s
    grouped = simulate(triton(2048, 11008, 4096, bm=128, bn=128, group_m=16))
    assert columns.bytes == pytest.approx(grouped.bytes)  # sixteen rows of tiles: one group
    assert columns.schedule.makespan_s == pytest.approx(grouped.schedule.makespan_s)


def test_what_cannot_launch_and_what_no_grid_takes() -> None:
    with pytest.raises(GemmsimError, match="refused"):
        simulate(triton(64, 64, 64, bm=512))
    with pytest.raises(GemmsimError, match="spiral"):
        simulate(triton(64, 64, 64), how=How(raster="spiral"))
    with pytest.raises(GemmsimError, match="cluster of 2 x 1"):
        simulate(triton(192, 192, 64), how=How(cluster_m=2))


def test_a_row_of_many_is_that_row_alone() -> None:
    p = predict(np.asarray([512, 4096]), 4096, 1024, gpu="h200_sxm", config=WIDE)
    said = closed_form(p, profiled=False)
    assert simulate(p, 1, said=said).bytes == launch.simulate(triton(4096, 4096, 1024)).bytes
