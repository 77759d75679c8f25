"""A session on the GPU: the times of a batch, kernels in turn, and what is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import gpu_faults
import pytest
from kernels_under_test import CONFIGS, ask
from processes import child_of, gone

from gemmsim.bench.campaign import Result, Settings, run
from gemmsim.bench.session import Session
from gemmsim.bench.summary import compared
from gemmsim.bench.task import Ask
from gemmsim.store import Row, Store

pytestmark = pytest.mark.gpu

SIZE = (2048, 2048, 1024)
ASKS = [ask(SIZE, "simt", CONFIGS["simt"][name]) for name in ("usual", "single_buffer", "registers", "split_k")]
CUBLAS = ask(SIZE, "cublas", {})


def drained(session: Session, asks: Sequence[Ask]) -> list[Row]:
    """Rows of the asks, each submitted when the one before is done."""
    tickets, rows = {}, {}
    for i, one in enumerate(asks):
        tickets[session.submit(one)] = i
        ticket, row = session.next()
        rows[tickets[ticket]] = row
    return [rows[i] for i in range(len(asks))]


def test_a_session_gives_the_times_of_a_batch(store_folder: Path) -> None:
    asks, store = [*ASKS, CUBLAS], Store()
    run(asks, Settings("batch"), store, Result())
    batch = {str(row["config"]) + row["family"]: row["time_s"] for row in store.rows("batch")}
    with Session(Settings("session"), store) as session:
        rows = drained(session, asks)
    assert {row["status"] for row in rows} == {"ok"}, [row["reason"] for row in rows]
    for row in rows:
        assert row["time_s"] == pytest.approx(batch[str(row["config"]) + row["family"]], rel=0.1)
    with Session(Settings("session"), store) as session:
        assert [row["measured_at"] for row in drained(session, asks)] == [row["measured_at"] for row in rows]


def test_a_session_from_a_cold_cache(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_CACHE", str(store_folder / "cache"))
    with Session(Settings("c"), Store()) as session:
        tickets = {session.submit(one) for one in [CUBLAS, *ASKS]}
        rows = dict(session.next() for _ in tickets)
    assert rows.keys() == tickets
    assert {row["status"] for row in rows.values()} == {"ok"}, [row["reason"] for row in rows.values()]


@pytest.mark.parametrize("l2", ["cold_clean", "warm"])
def test_turns(store_folder: Path, l2: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_BENCH", "gpu_faults")
    illegal = ask(SIZE, "register_tile", {"bm": 64, "bn": 64, "bk": gpu_faults.ILLEGAL_BK, "tm": 4, "tn": 4})
    asks = [replace(one, conditions=replace(one.conditions, l2=l2)) for one in [*ASKS, CUBLAS, illegal]]
    with Session(Settings("c"), Store()) as session:
        alone = drained(session, asks[:-1])
        rows = session.turns(asks, 40, 5.0)
        after = session.turns(asks[:2], 8, 5.0)
    assert [row["status"] for row in rows] == ["ok"] * 5 + ["launch"], [row["reason"] for row in rows]
    assert [len(row["samples_s"]) for row in rows[:-1]] == [40] * 5
    assert [len(row["samples_s"]) for row in after] == [8] * 2
    assert all("host_bound" not in row["unstable"] for row in rows[:-1])
    for row, before in zip(rows, alone, strict=False):
        assert row["time_s"] == pytest.approx(before["time_s"], rel=0.1)
        assert row["key"] != before["key"]
    found = compared({str(i): row["samples_s"] for i, row in enumerate(rows[:-1])})
    assert found["4"].ratio < 1.3  # cuBLAS
    assert not found["1"].tie  # without double buffering


def test_a_child_that_is_killed_costs_one_row_at_most(store_folder: Path) -> None:
    asks = [ask((512 + 64 * i, 512, 512), "register_tile", {}) for i in range(12)]
    with Session(Settings("c"), Store()) as session:
        assert session.gpu
        session.submit_all(asks)
        first = session.next()
        os.kill(child_of(os.getpid()), signal.SIGKILL)
        rows = dict([first, *(session.next() for _ in asks[1:])])
    statuses = [row["status"] for row in rows.values()]
    assert len(rows) == 12
    assert statuses.count("ok") >= 11, statuses
    assert set(statuses) <= {"ok", "crash"}


SCRIPT = """
import gpu_faults
from kernels_under_test import ask
from gemmsim.bench.campaign import Settings
from gemmsim.bench.session import Session
from gemmsim.store import Store
with Session(Settings("c"), Store()) as session:
    for m in (64, 65, gpu_faults.HANG):
        session.submit(ask((m, 64, 64), "register_tile", {"bk": 8 + m % 3}))
        print(session.next()[1]["status"], flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_ended_lets_go_of_the_gpu(
    store_folder: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("GEMMSIM_BENCH", "gpu_faults")
        process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert [process.stdout.readline() for _ in range(2)] == ["ok\n", "ok\n"]
        child = child_of(process.pid)
        process.send_signal(how)
        assert process.wait(30) != 0
    assert gone(child)
    assert len(Store().rows("c")) == 2
    with Session(Settings("c"), Store()) as session:
        assert [row["status"] for row in drained(session, [CUBLAS])] == ["ok"]
