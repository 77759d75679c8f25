"""A session on a bench without a GPU: each ticket comes back once, whatever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import fake_bench
import pytest
from processes import child_of, gone

from gemmsim.bench.lock import gpu_lock
from gemmsim.bench.session import Session, Settings
from gemmsim.bench.task import Ask, Conditions
from gemmsim.errors import GemmsimError
from gemmsim.problem import form_of
from gemmsim.store import Row, Store

TILE = {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4}


def ask(m: int, **config: int) -> Ask:
    """cuBLAS, or register_tile with that much of its configuration."""
    tile = tuple({**TILE, **config}.items()) if config else ()
    return Ask(m, 64, 64, form_of("fp32"), "register_tile" if config else "cublas", tile, Conditions())


def kernel(n: int = 64, **config: int) -> Ask:
    """cuBLAS with a configuration, by which fake_bench does harm."""
    return Ask(32, n, 64, form_of("fp32"), "cublas", tuple(config.items()), Conditions())


@pytest.fixture
def log(fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = fake_bench_folder / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


@pytest.fixture
def session(log: Path) -> Iterator[Session]:
    with Session(Settings("c", timeout_s=0.5), Store()) as opened:
        yield opened


def drained(session: Session) -> dict[int, Row]:
    found: dict[int, Row] = {}
    while session.pending:
        ticket, row = session.next()
        assert ticket not in found
        found[ticket] = row
    return found


def test_every_ticket_comes_back_once_whatever_becomes_of_it(session: Session) -> None:
    asks = {
        "ok": ask(64, bk=8), "refused": ask(64, bm=16, bn=16, tm=16, tn=16), "compile": ask(64, bk=5),
        "wrong": ask(fake_bench.WRONG), "crash": ask(fake_bench.CRASH), "timeout": ask(fake_bench.HANG),
        "launch": ask(fake_bench.BREAK),
    }  # fmt: skip
    tickets = {session.submit(one): status for status, one in asks.items()}
    rows = drained(session)
    assert {tickets[ticket]: row["status"] for ticket, row in rows.items()} == {status: status for status in asks}
    assert session.gpu.name == "h200_sxm"
    assert session.place.product == "NVIDIA H200"
    assert [rows[ticket]["m"] for ticket in tickets] == [one.m for one in asks.values()]
    with pytest.raises(ValueError, match="no ask is pending"):
        session.next()


def test_a_row_is_in_the_store_before_it_is_handed_out(session: Session) -> None:
    store = Store()
    for m in (1, 2, 3):
        session.submit(ask(m))
        _, row = session.next()
        stored = store.rows("c", key=row["key"])
        assert [(s["m"], s["status"], s["samples_s"]) for s in stored] == [(m, "ok", row["samples_s"])]


def test_asks_come_one_by_one_while_others_are_under_way(session: Session) -> None:
    waiting = {session.submit(ask(m, bk=8)) for m in (64, 128)}
    for m in range(192, 640, 64):
        ticket, row = session.next()
        assert row["status"] == "ok"
        waiting.remove(ticket)
        waiting.add(session.submit(ask(m, bk=8)))
        assert session.pending == 2
    assert drained(session).keys() == waiting


def test_what_the_store_has_comes_back_and_is_not_measured(log: Path) -> None:
    asks = [ask(1), ask(64, bk=8), ask(64, bk=5), ask(64, bm=16, bn=16, tm=16, tn=16)]
    with Session(Settings("c"), Store()) as session:
        session.submit_all(asks)
        first = drained(session)
        session.submit_all(asks[:2])
        again = drained(session)
    with Session(Settings("c"), Store()) as session:
        session.submit_all(asks)
        stored = drained(session)
    keys = [first[i]["key"] for i in range(4)]
    assert [again[i + 4]["key"] for i in range(2)] == keys[:2]
    assert [stored[i]["key"] for i in range(4)] == keys
    assert [stored[i]["status"] for i in range(4)] == ["ok", "ok", "compile", "refused"]
    assert stored[0]["measured_at"] == first[0]["measured_at"]
    assert len(log.read_text().splitlines()) == 2


def test_the_same_ask_twice_is_measured_once(session: Session, log: Path) -> None:
    session.submit_all([ask(64, bk=8), ask(64, bk=8)])
    session.submit(ask(64, bk=8))
    rows = drained(session)
    assert len({row["measured_at"] for row in rows.values()}) == 1
    assert len(rows) == 3
    session.submit(ask(1))
    drained(session)
    assert len(log.read_text().splitlines()) == 2


def test_a_child_that_is_killed_costs_one_row_at_most(session: Session) -> None:
    rows = {}
    assert session.gpu
    session.submit_all([ask(m) for m in range(1, 41)])
    for _ in range(3):
        os.kill(child_of(os.getpid()), signal.SIGKILL)
        for _ in range(8):  # more than a child holds: another one has been started by then
            ticket, row = session.next()
            rows[ticket] = row
    rows |= drained(session)
    assert len(rows) == 40
    statuses = Counter(row["status"] for row in rows.values())
    assert statuses["ok"] >= 37
    assert statuses["ok"] + statuses["crash"] == 40


def test_a_child_killed_while_it_starts_is_started_again(session: Session) -> None:
    session.submit(ask(fake_bench.CRASH))
    drained(session)
    session.submit(ask(1))
    os.kill(child_of(os.getpid()), signal.SIGKILL)
    assert [row["status"] for row in drained(session).values()] in (["ok"], ["crash"])


def test_a_child_killed_at_rest_costs_nothing(session: Session) -> None:
    session.submit(ask(1))
    drained(session)
    for m in range(2, 8):
        os.kill(child_of(os.getpid()), signal.SIGKILL)
        session.submit(ask(m))
        assert [row["status"] for row in drained(session).values()] == ["ok"]


def test_a_gpu_that_is_taken_is_said_where_rows_are_waited_for(
    fake_bench_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gemmsim.bench.lock.WAIT_S", 0.1)
    taken = pytest.raises(GemmsimError, match="in use by another campaign")
    with gpu_lock(os.environ["FAKE_UUID"]), Session(Settings("c"), Store()) as session, taken:
        assert session.gpu
    with Session(Settings("c"), Store()) as session:
        assert session.gpu.name == "h200_sxm"


def turned(session: Session, asks: Sequence[Ask]) -> list[Row]:
    return session.turns(asks, 7, 1.0)


def test_turns_are_rows_of_their_own_and_always_anew(session: Session, log: Path) -> None:
    alone = session.submit(ask(64, bk=8))
    asks = [ask(64, bk=8), ask(64), ask(64, bk=5), ask(64, bm=16, bn=16, tm=16, tn=16)]
    rows = turned(session, asks)
    assert [row["status"] for row in rows] == ["ok", "ok", "compile", "refused"]
    assert [len(row["samples_s"]) for row in rows[:2]] == [7, 7]
    assert {row["against"] for row in rows} == {"turns"}
    assert turned(session, asks)[0]["key"] == rows[0]["key"]
    ticket, row = session.next()
    assert (ticket, row["status"], row["against"]) == (alone, "ok", "")
    stored = Store().rows("c", latest=False)
    assert Counter((s["family"], s["against"], s["status"]) for s in stored) == {
        ("register_tile", "", "ok"): 1, ("register_tile", "turns", "ok"): 2, ("cublas", "turns", "ok"): 2,
        ("register_tile", "turns", "compile"): 2, ("register_tile", "turns", "refused"): 2,
    }  # fmt: skip
    assert {s["attempt"] for s in stored if s["against"] == "turns"} == {0, 1}


@pytest.mark.parametrize(
    ("harm", "status"), [(fake_bench.CRASH, "crash"), (fake_bench.HANG, "timeout"), (fake_bench.BREAK, "launch")]
)
@pytest.mark.parametrize("when", ["harm", "late_harm"])
def test_what_fails_in_turns_leaves_the_others_alone(session: Session, harm: int, status: str, when: str) -> None:
    rows = session.turns([kernel(), kernel(**{when: harm}), kernel(other=1)], 7, 0.1)
    assert [row["status"] for row in rows] == ["ok", status, "ok"]
    assert rows[0]["samples_s"] == rows[2]["samples_s"] == [pytest.approx(32e-9 * 64)] * 7
    assert rows[1]["reason"]
    session.submit(ask(1))
    assert [row["status"] for row in drained(session).values()] == ["ok"]


def test_turns_are_of_one_problem(session: Session) -> None:
    with pytest.raises(ValueError, match="differ in problem"):
        turned(session, [ask(1), ask(2)])
    with pytest.raises(ValueError, match="differ in problem"):
        turned(session, [ask(1), replace(ask(1), conditions=Conditions(l2="warm"))])
    assert turned(session, []) == []


SCRIPT = """
import sys
from gemmsim.bench.session import Session, Settings
from gemmsim.bench.task import Ask
from gemmsim.problem import form_of
from gemmsim.store import Store
asks = [Ask(m, 64, 64, form_of("fp32"), "cublas", ()) for m in (1, 2, int(sys.argv[1]))]
with Session(Settings("c"), Store()) as session:
    session.submit_all(asks)
    for _ in asks:
        print(session.next()[1]["m"], flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_ended_takes_its_child_along_and_keeps_its_rows(
    fake_bench_folder: Path, how: signal.Signals
) -> None:
    command = [sys.executable, "-c", SCRIPT, str(fake_bench.HANG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
        child = child_of(process.pid)
        process.send_signal(how)
        process.wait(20)
        assert gone(child)
        assert process.stderr is not None
        assert ("KeyboardInterrupt" in process.stderr.read()) == (how == signal.SIGINT)
    assert [row["m"] for row in Store().rows("c")] == [1, 2]
    with Session(Settings("c"), Store()) as session:  # the GPU is free
        session.submit_all([ask(1), ask(2)])
        assert {row["status"] for row in drained(session).values()} == {"ok"}
