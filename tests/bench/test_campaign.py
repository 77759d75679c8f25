"""Campaigns on a bench without a GPU: what a row costs, what a kill costs, what is measured twice (nothing)."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import fake_bench
import pytest
from processes import child_of, gone

from gemmsim.bench.campaign import Result, Settings, run
from gemmsim.bench.lock import gpu_lock
from gemmsim.bench.task import Ask, Conditions
from gemmsim.errors import GemmsimError
from gemmsim.problem import form_of
from gemmsim.store import Row, Store

TILE = (("bm", 64), ("bn", 64), ("bk", 16), ("tm", 4), ("tn", 4))


def ask(m: int, n: int = 64, family: str = "cublas", tile: tuple[tuple[str, int], ...] = TILE) -> Ask:
    return Ask(m, n, 64, form_of("fp32"), family, () if family == "cublas" else tile, Conditions())


def measured(asks: Sequence[Ask], **settings: object) -> tuple[Result, list[Row]]:
    store, result = Store(), Result()
    run(asks, Settings("c", **settings), store, result)  # type: ignore[arg-type]
    return result, store.rows("c", latest=False)


def test_every_ask_becomes_a_row(fake_bench_folder: Path) -> None:
    result, rows = measured([ask(m) for m in range(1, 20)])
    assert [row["m"] for row in rows] == list(range(1, 20))
    assert {row["status"] for row in rows} == {"ok"}
    assert result.statuses == Counter(ok=19)
    assert (result.gpu, result.kept) == ("h200_sxm", 0)
    assert rows[0]["samples_s"] == [6.4e-8, 6.4e-8]
    assert rows[0]["product"] == "NVIDIA H200"
    assert rows[0]["measured_at"] <= rows[-1]["measured_at"]


@pytest.mark.parametrize(
    ("m", "status", "reason"),
    [
        (fake_bench.CRASH, "crash", "killed by signal 9"),
        (fake_bench.HANG, "timeout", "not done after 0.5 s"),
        (fake_bench.BREAK, "launch", "illegal memory access"),
        (fake_bench.WRONG, "wrong", "Frobenius"),
    ],
)
def test_a_fault_costs_one_row(fake_bench_folder: Path, m: int, status: str, reason: str) -> None:
    result, rows = measured([ask(1), ask(m), ask(2), ask(3)], timeout_s=0.5)
    assert {row["m"]: row["status"] for row in rows} == {1: "ok", m: status, 2: "ok", 3: "ok"}
    assert reason in next(row["reason"] for row in rows if row["m"] == m)
    assert result.statuses == Counter({"ok": 3, status: 1})


def test_many_faults_in_a_row_do_not_end_it(fake_bench_folder: Path) -> None:
    asks = [ask(m, n) for n in range(1, 6) for m in (fake_bench.CRASH, fake_bench.BREAK)]
    _, rows = measured(asks)
    assert Counter(row["status"] for row in rows) == {"crash": 5, "launch": 5}


def test_a_second_campaign_measures_what_is_missing(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_bench_folder / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    measured([ask(m) for m in range(1, 5)])
    result, rows = measured([ask(m) for m in range(1, 8)])
    assert (result.kept, result.statuses) == (4, Counter(ok=3))
    assert sorted(row["m"] for row in rows) == list(range(1, 8))
    assert len(log.read_text().splitlines()) == 7


def test_again_measures_once_more(fake_bench_folder: Path) -> None:
    measured([ask(1), ask(2)])
    result, rows = measured([ask(1)], again=True)
    assert result.statuses == Counter(ok=1)
    assert sorted((row["m"], row["attempt"]) for row in rows) == [(1, 0), (1, 1), (2, 0)]


def test_what_cannot_launch_or_compile_never_reaches_the_gpu(
    fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_bench_folder / "log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    no_warp = (("bm", 16), ("bn", 16), ("bk", 16), ("tm", 16), ("tn", 16))
    broken = (("bm", 64), ("bn", 64), ("bk", 5), ("tm", 4), ("tn", 4))
    asks = [ask(64, family="register_tile", tile=tile) for tile in (TILE, no_warp, broken)]
    _, rows = measured(asks)
    found = {row["config"]["bk"] if row["config"]["bm"] == 64 else "warp": row for row in rows}
    assert found["warp"]["status"] == "refused"
    assert found["warp"]["reason"] == "whole_warps: threads a block are not a multiple of 32"
    assert (found[5]["status"], found[5]["reason"]) == ("compile", "ptxas says no")
    assert (found[16]["status"], found[16]["regs_per_thread"], found[16]["kernel_hash"]) == (
        "ok", 32, f"key-{dict(TILE)}",
    )  # fmt: skip
    assert len(log.read_text().splitlines()) == 1


def test_kernels_are_compiled_once_for_all_problems(fake_bench_folder: Path) -> None:
    _, rows = measured([ask(m, family="register_tile") for m in (64, 128, 256)])
    assert {row["kernel_hash"] for row in rows} == {f"key-{dict(TILE)}"}
    assert len(rows) == 3


def test_one_campaign_a_gpu(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsim.bench.lock.WAIT_S", 0.1)
    with gpu_lock(os.environ["FAKE_UUID"]), pytest.raises(GemmsimError, match="in use by another campaign"):
        measured([ask(1)])
    result, _ = measured([ask(1)])
    assert result.statuses == Counter(ok=1)


def test_no_gpu_is_one_sentence(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FATAL", "no NVIDIA GPU was found: expected one")
    with pytest.raises(GemmsimError, match="no NVIDIA GPU was found: expected one"):
        measured([ask(1)])


def test_a_child_that_cannot_start_is_one_sentence(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_BENCH", "no_such_module")
    with pytest.raises(GemmsimError, match=r"ended before it began.*no_such_module"):
        measured([ask(1)])


def test_a_gpu_of_another_kind_is_refused(fake_bench_folder: Path) -> None:
    with pytest.raises(GemmsimError, match=r"a100_sxm_80gb has compute capability 8\.0"):
        measured([ask(1)], gpu="a100_sxm_80gb")


def test_a_store_that_fails_stops_it_with_the_rows_so_far(fake_bench_folder: Path) -> None:
    store, result = Store(wait_s=0.05), Result()
    add, count = store.add, [0]

    def failing(rows: Sequence[Row], *, again: bool = False) -> int:
        count[0] += 1
        if count[0] > 4:
            raise GemmsimError("rows.sqlite: cannot take another row, the disk is full")
        return add(rows, again=again)

    store.add = failing  # type: ignore[method-assign]
    with pytest.raises(GemmsimError, match="the disk is full"):
        run([ask(m) for m in range(1, 9)], Settings("c"), store, result)
    assert len(store.rows("c")) == 3  # the first call stored the refused ones, of which there are none


def test_killed_ten_times_at_random_it_loses_no_row_and_repeats_none(
    fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 at a random moment: whatever was stored before stays, and nothing is there twice."""
    monkeypatch.setenv("FAKE_S", "0.01")
    batch, out, count = fake_bench_folder / "in.csv", fake_bench_folder / "rows.csv", 400
    batch.write_text("family,m,n,k\n" + "".join(f"cublas,{m},64,64\n" for m in range(1, count + 1)))
    command = [sys.executable, "-m", "gemmsim", "measure", "--batch", str(batch), "--out", str(out)]
    store, seen, draw = Store(), {}, random.Random(4)
    for _ in range(10):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while len(store.keys(str(out))) == len(seen) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
        process.kill()
        process.wait()
        rows = {row["key"]: row["measured_at"] for row in store.rows(str(out), latest=False)}
        assert seen.items() < rows.items()
        seen = rows
    assert len(seen) < count
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = store.rows(str(out), latest=False)
    assert sorted(row["m"] for row in rows) == list(range(1, count + 1))
    assert seen.items() <= {row["key"]: row["measured_at"] for row in rows}.items()
    assert {row["status"] for row in rows} == {"ok"}
    with open(out) as file:
        assert [int(line["m"]) for line in csv.DictReader(file)] == list(range(1, count + 1))


def test_a_child_does_not_outlive_its_parent(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = fake_bench_folder / "in.csv"
    batch.write_text(f"family,m,n,k\ncublas,{fake_bench.HANG},64,64\n")
    command = [sys.executable, "-m", "gemmsim", "measure", "--batch", str(batch), "--out", str(batch) + ".out"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    child = child_of(process.pid)
    process.kill()
    process.wait()
    assert gone(child)
