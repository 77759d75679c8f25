"""A study of raster orders: rows and counters joined launch by launch, held against row by row, both models beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies_under_test import opened

from gemmsim import GemmsimError, predict
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.launched import launched
from gemmsim.study import load_picks, open_study
from gemmsim.study.raster import RasterStudy, Sweep, sweeps

YAML = "kind: raster\ntitle: T\nquestion: Q\ncounters: counters.csv\nrows: rows.csv\n"
SAME = "gpu,family,dtype,m,n,k,bm,bn,bk,num_warps,num_stages,group_m,regs_per_thread,spill_bytes,smem_bytes"
TIMED = f"{SAME},l2,status,time_s,unstable"
COUNTED = f"{SAME},dram_read_bytes,dram_write_bytes,kernel_time_s,clock_hz"


def launch(group_m: int, n: int = 8192) -> str:
    return f"h200_sxm,triton,bf16,8192,{n},8192,128,128,64,4,4,{group_m},216,0,131072"


ROWS = [f"{launch(8)},cold_clean,ok,0.0017,drift", f"{launch(1)},cold_clean,ok,0.0018,"]
COUNTERS = [f"{launch(1)},4e9,1.2e8,0.002,1.4e9", f"{launch(2)},1,1,1,1", f"{launch(8)},2e9,1.2e8,0.0016,1.5e9"]


def study(folder: Path, rows: list[str] = ROWS, counters: list[str] = COUNTERS, head: str = COUNTED) -> RasterStudy:
    texts = ["\n".join(lines) + "\n" for lines in ((TIMED, *rows), (head, *counters))]
    return opened(RasterStudy, folder, YAML, rows=texts[0], counters=texts[1])


def only(found: RasterStudy) -> Sweep:
    (sweep,) = sweeps(found)
    return sweep


def test_rows_find_their_counters_and_are_held_against_row_by_row(tmp_path: Path) -> None:
    sweep = only(study(tmp_path))
    first, second = sweep.launches
    assert sweep.rowwise is first
    assert (first.group_m, first.read_bytes, first.event_time_s, first.unstable) == (1, 4e9, 0.0018, "")
    assert (second.group_m, second.read_bytes, second.event_time_s, second.unstable) == (8, 2e9, 0.0017, "drift")
    assert (first.problem, first.tile) == ("8192 x 8192 x 8192", "128x128x64_w4s4")
    assert sweep.least("kernel_time_s") is second
    assert sweep.gain("kernel_time_s", second) == pytest.approx(0.25)
    assert sweep.gain("clocks", second) == pytest.approx(0.002 * 1.4e9 / (0.0016 * 1.5e9) - 1)


def test_both_models_stand_beside_what_was_counted(tmp_path: Path) -> None:
    told: list[int] = []
    (sweep,) = sweeps(study(tmp_path), told.append)
    config = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": 8}
    p = predict(8192, 8192, 8192, gpu="h200_sxm", config=config,
                facts={"regs_per_thread": 216, "spill_bytes": 0, "smem_bytes": 131072})  # fmt: skip
    found, t = sweep.launches[1], traffic(launched(p))
    assert sum(told) == 2
    assert (found.simulated_read_bytes, found.simulated_write_bytes) == (t.dram_read_bytes, t.dram_write_bytes)
    assert found.closed_read_bytes == pytest.approx(float(p.dram_read_bytes[0]))
    assert found.predicted_s == p.time_s[0]


def test_problems_and_tiles_are_sweeps_of_their_own(tmp_path: Path) -> None:
    rows = [*ROWS, f"{launch(1, 4096)},cold_clean,ok,0.001,"]
    found = sweeps(study(tmp_path, rows, [*COUNTERS, f"{launch(1, 4096)},1e9,1e8,0.001,1.4e9"]))
    assert [[x.n for x in sweep.launches] for sweep in found] == [[8192, 8192], [4096]]


def test_a_row_that_did_not_run_is_left_out(tmp_path: Path) -> None:
    rows = [f"{launch(4)},cold_clean,launch,,", *ROWS]
    sweep = only(study(tmp_path, rows))
    assert [(x.group_m, x.unstable) for x in sweep.launches] == [(1, ""), (8, "drift")]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"counters.csv: no row is of 8192 x 8192 x 8192, 128x128x64_w4s4g8"):
        study(tmp_path, counters=COUNTERS[:2])
    with pytest.raises(GemmsimError, match=r"128x128x64_w4s4: no row has group_m 1"):
        study(tmp_path, ROWS[:1])
    with pytest.raises(GemmsimError, match="no column clock_hz"):
        study(tmp_path, head=COUNTED.replace("clock_hz", "mhz"))
    with pytest.raises(GemmsimError, match=r"row 1 \(line 2\), column kernel_time_s is '0'"):
        study(tmp_path, counters=[COUNTERS[0].replace("0.002", "0"), *COUNTERS[1:]])
    study(tmp_path)
    with pytest.raises(GemmsimError, match="kind is raster: expected a study of picks"):
        load_picks(str(tmp_path / "mine.yaml"))


def test_the_key_of_a_wrong_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"mine.yaml: counters: .*counters.csv: no column clock_hz: found gpu, "):
        study(tmp_path, head=COUNTED.replace("clock_hz", "hz"))
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(GemmsimError, match=r"mine.yaml: rows: .*rows.csv: cannot be read"):
        open_study(str(tmp_path / "mine.yaml"))


def test_another_kernel_s_rows_are_none(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "gpu,family,dtype,m,n,k,bm,bn,bk,l2,time_s\nh200_sxm,register_tile,fp32,64,64,64,64,64,16,cold_clean,1e-5\n"
    )
    (tmp_path / "counters.csv").write_text(f"{COUNTED}\n{COUNTERS[0]}\n")
    (tmp_path / "mine.yaml").write_text(YAML)
    with pytest.raises(GemmsimError, match="no column group_m"):
        open_study(str(tmp_path / "mine.yaml"))
