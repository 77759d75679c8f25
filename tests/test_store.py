"""The store of rows: keys, attempts, and what goes wrong with a file."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.paths import cache_folder
from gemmsim.store import Store, _sentence, default_name, default_place, identity


def row(**changes: Any) -> dict[str, Any]:
    plain = {
        "campaign": "c", "gpu": "h200_sxm", "family": "naive", "dtype": "fp32", "dtype_b": "fp32", "dtype_c": "fp32",
        "layout": "NN", "batch": 1, "beta": 0, "epilogue": "", "m": 64, "n": 32, "k": 16, "kernel_hash": "ab",
        "l2": "warm", "timing": "event", "against": "", "config": {"bm": 8, "bn": 32}, "status": "ok",
        "time_s": 1.5e-6, "samples_s": [1.5e-6, 2.5e-6], "power_w_before": 310.5, "unstable": "",
    }  # fmt: skip
    return plain | changes


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "rows.sqlite")


def test_a_row_comes_back_as_it_went_in(store: Store) -> None:
    assert store.add([row()]) == 1
    (found,) = store.rows("c")
    assert {name: found[name] for name in row()} == row()
    assert found["cublas_samples_s"] is None
    assert found["key"] == identity(row())


@pytest.mark.parametrize(
    "change",
    [{"campaign": "d"}, {"gpu": "a100"}, {"m": 65}, {"kernel_hash": "cd"}, {"l2": "cold_clean"}, {"beta": 1},
     {"epilogue": "relu"}, {"timing": "graph"}, {"against": "cublas"}, {"config": {"bm": 8, "bn": 64}}],
)  # fmt: skip
def test_what_makes_a_row_another_one(store: Store, change: dict[str, Any]) -> None:
    assert store.add([row(), row(**change)]) == 2


def test_results_and_the_order_of_parameters_do_not(store: Store) -> None:
    assert store.add([row(), row(time_s=9.0, status="wrong"), row(config={"bn": 32, "bm": 8})]) == 1
    assert store.rows("c")[0]["time_s"] == 1.5e-6


def test_again_is_another_attempt_and_the_last_one_counts(store: Store) -> None:
    store.add([row()])
    assert store.add([row(time_s=3e-6)], again=True) == 1
    assert [r["time_s"] for r in store.rows("c")] == [3e-6]
    assert [(r["attempt"], r["time_s"]) for r in store.rows("c", latest=False)] == [(0, 1.5e-6), (1, 3e-6)]
    assert store.keys("c") == {identity(row()): 2}


def test_rows_are_there_for_another_process_at_once(store: Store) -> None:
    store.add([row()])
    with sqlite3.connect(store.name) as other:
        assert other.execute("select count(*), journal.journal_mode from rows, pragma_journal_mode journal").fetchall(
        ) == [(1, "wal")]  # fmt: skip
    other.close()


def test_merge_takes_what_is_not_here(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.sqlite")
    store.add([row()])
    other.add([row(), row(m=65)])
    other.add([row(m=65)], again=True)
    assert store.merge(other) == 2
    assert store.merge(other) == 0
    assert sorted(store.keys("c").values()) == [1, 2]


def test_campaigns_count_rows_by_status(store: Store) -> None:
    store.add([row(), row(m=65, status="wrong"), row(m=66), row(campaign="d")])
    found = {(r["campaign"], r["status"]): r["rows"] for r in store.campaigns()}
    assert found == {("c", "ok"): 2, ("c", "wrong"): 1, ("d", "ok"): 1}


def test_a_locked_file_is_one_sentence_and_keeps_its_rows(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.sqlite", wait_s=0.05)
    store.add([row()])
    holder = sqlite3.connect(store.name, isolation_level=None)
    holder.execute("begin immediate")
    with pytest.raises(GemmsimError, match=r"rows.sqlite: is locked by another program"):
        store.add([row(m=65)])
    holder.execute("rollback")
    holder.close()
    assert len(store.rows("c")) == 1


def test_a_full_disk_is_one_sentence_and_keeps_its_rows(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.sqlite")
    store.add([row()])

    def limit(connection: Any, record: object, proxy: object) -> None:
        pages = connection.execute("pragma page_count").fetchone()[0]
        connection.execute(f"pragma max_page_count={pages}")

    from sqlalchemy import event

    event.listen(store._engine, "checkout", limit)
    with pytest.raises(GemmsimError, match="disk is full; rows measured so far are kept"):
        store.add([row(m=65 + i, samples_s=[1e-6] * 1000) for i in range(100)])
    assert [r["m"] for r in store.rows("c")] == [64]


def test_several_may_make_it_at_once(tmp_path: Path) -> None:
    for i in range(5):
        path, start = tmp_path / f"{i}.sqlite", threading.Barrier(4)

        def opened(_: int, path: Path = path, start: threading.Barrier = start) -> int:
            start.wait()
            return len(Store(path).rows())

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(opened, range(4))) == [0] * 4


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "rows.sqlite"
    path.write_text("this is a text, not a database, and long enough to be looked at twice" * 20)
    with pytest.raises(GemmsimError, match=r"rows.sqlite: is no store"):
        Store(path)
    with pytest.raises(GemmsimError, match="cannot be"):
        Store(tmp_path)


def test_a_file_that_cannot_be_written() -> None:
    assert _sentence("attempt to write a readonly database").startswith("cannot be written")


def test_a_store_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "rows.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("create table rows (id integer primary key, key text, attempt integer)")
    other.close()
    with pytest.raises(GemmsimError, match="no store of this version's rows"):
        Store(path).add([row()])


def test_a_database_of_a_server_holds_what_a_file_does(server: str, store: Store) -> None:
    theirs = Store(server)
    assert theirs.add([row(), row(m=128, workspace_bytes=2**40), row()]) == 2
    assert theirs.add([row()], again=True) == 1
    store.add([row(n=1), row()])
    assert theirs.merge(store) == 1
    assert store.merge(theirs) == 2
    for one in (theirs, store):
        found = one.rows(latest=False)
        assert sorted((r["m"], r["n"], r["attempt"]) for r in found) == [
            (64, 1, 0),
            (64, 32, 0),
            (64, 32, 1),
            (128, 32, 0),
        ]
        assert [r["workspace_bytes"] for r in one.rows(m=128)] == [2**40]
        assert {tuple(r["samples_s"]) for r in found} == {(1.5e-6, 2.5e-6)}
        assert one.distinct("m", "n") == [(64, 1), (64, 32), (128, 32)]
        assert one.campaigns()[0]["rows"] == 4
        assert sorted(one.keys("c").values()) == [1, 1, 2]
    theirs.close()


def test_many_write_to_one_database(server: str) -> None:
    def write(worker: int) -> int:
        own = Store(server)
        added = sum(own.add([row(m=m)]) for m in range(1, 21))
        own.close()
        return added

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == 20
    store = Store(server)
    assert len(store.rows(latest=False)) == 20
    store.close()


def test_a_database_that_cannot_be_a_store() -> None:
    with pytest.raises(GemmsimError, match=r"store postgresql\+psycopg://u:\*\*\*@127.0.0.1:1/x: cannot be used"):
        Store("postgresql+psycopg://u:secret@127.0.0.1:1/x")
    with pytest.raises(GemmsimError, match=r"store mysql://u@h/x: expected a file or postgresql"):
        Store("mysql://u@h/x")


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GEMMSIM_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_place() == tmp_path / "gemmsim" / "rows.sqlite"
    monkeypatch.setenv("GEMMSIM_STORE", "/elsewhere/r.sqlite")
    assert default_place() == Path("/elsewhere/r.sqlite")
    monkeypatch.setenv("GEMMSIM_STORE", "postgresql+psycopg://u:secret@h/x")
    assert default_place() == "postgresql+psycopg://u:secret@h/x"
    assert default_name() == "postgresql+psycopg://u:***@h/x"
    monkeypatch.setenv("GEMMSIM_STORE", "~/r.sqlite")
    assert default_place() == Path.home() / "r.sqlite"


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("GEMMSIM_STORE", "GEMMSIM_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    with pytest.raises(GemmsimError, match="no home folder is known: expected HOME, or a place in GEMMSIM_STORE"):
        default_place()
    with pytest.raises(GemmsimError, match="or a place in GEMMSIM_CACHE"):
        cache_folder()
