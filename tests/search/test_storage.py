"""Storages: what is said of one that cannot be used, journals that were torn, databases that many open at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from postgres import PASSWORD, database
from spaces import replay, small
from sqlalchemy import create_engine, inspect, text

from gemmsim.errors import GemmsimError
from gemmsim.search import storage
from gemmsim.search.loop import search
from gemmsim.search.storage import held, open_storage, studies
from gemmsim.search.trials import PLACE
from gemmsim.search.workers import Worker

pytestmark = [pytest.mark.usefixtures("let_go"), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def refused(url: str, *, create: bool = True) -> str:
    with pytest.raises(GemmsimError) as error:
        open_storage(url, create=create)
    said = str(error.value)
    assert "\n" not in said
    assert "s3cret" not in said
    return said


def test_studies_are_found_by_name_in_every_kind(tmp_path: Path, server: str) -> None:
    for url in (str(tmp_path / "x.journal"), f"sqlite:///{tmp_path}/x.db", server):
        one = open_storage(url)
        for name in ("fleet/1x1x1", "fleet/2x2x2", "other"):
            optuna.create_study(study_name=name, storage=one)
        again = open_storage(url, create=False)
        assert studies(again, "fleet/") == ["fleet/1x1x1", "fleet/2x2x2"]
        assert studies(again) == ["fleet/1x1x1", "fleet/2x2x2", "other"]
        found = held(again, "other")
        assert found is not None
        assert found.study_name == "other"
        assert held(again, "none") is None
        dispose(one, again)


def test_a_database_without_an_encoding_is_read_as_utf_8(server: str) -> None:
    one = open_storage(database(server.replace(server.rpartition("/")[2], "postgres"), "bytes", "SQL_ASCII"))
    optuna.create_study(study_name="größe", storage=one)
    assert studies(one) == ["größe"]
    dispose(one)


def dispose(*storages: object) -> None:
    for one in storages:
        if isinstance(one, optuna.storages.RDBStorage):
            one.engine.dispose()


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("hello\n")
    Path("short").write_text("no")
    Path("data.db").write_bytes(b"x" * 5000)
    dispose(open_storage("sqlite:///good.db"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert refused("text") == "storage text: is no journal of Optuna's: expected one, or no such file"
    assert "is no journal" in refused("short")
    assert "expected a journal, or sqlite:///good.db" in refused("good.db")
    assert refused("sqlite:///data.db").endswith("cannot be used: file is not a database")
    assert "expected an existing folder, found none called 'no'" in refused("no/x.journal")
    assert "expected an existing folder, found none called 'no'" in refused("sqlite:///no/x.db")
    assert "found a folder" in refused(str(tmp_path))
    assert "expected sqlite:///FILE" in refused("sqlite://")
    assert "there is no such file" in refused("new.journal", create=False)
    assert "there is no such file" in refused("sqlite:///new.db", create=False)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_storage(str(tmp_path / "x.journal"))
    dispose(open_storage(f"sqlite:///{tmp_path}/x.db"))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).is_dir())  # root may write all
    assert "cannot be written" in refused(str(tmp_path / "x.journal"))
    assert "cannot be written" in refused(f"sqlite:///{tmp_path}/x.db")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "nothing can be" in refused(str(tmp_path / "y.journal"))
    assert not (tmp_path / "y.journal").exists()


def test_urls_that_are_none() -> None:
    url = "postgresql+psycopg://u:s3cret@127.0.0.1:1/x"
    assert "postgresql+psycopg://u:***@127.0.0.1:1/x: cannot be used: " in refused(url)
    assert "Connection refused" in refused(url)
    assert "password=%2A%2A%2A" in refused("postgresql+psycopg://u@127.0.0.1:1/x?password=s3cret")
    assert "unknown kind 'redis'" in refused("redis://u:s3cret@h/0")
    assert "pip install 'psycopg2-binary'" in refused("postgresql+psycopg2://u:s3cret@h/x")
    assert "://***@h:port/x: expected a file" in refused(
        "postgresql+psycopg://u:s3c@ret@h:port/x".replace("c@", "cret@")
    )


def test_the_driver_is_said_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "needs psycopg, which is not installed: pip install 'gemmsim[postgres]'" in refused(
        "postgresql+psycopg://u:s3cret@127.0.0.1:1/x"
    )


def test_a_server_that_refuses(server: str) -> None:
    user, rest = server.split("@")
    assert "password authentication failed" in refused(f"{user[:-4]}wrong@{rest}")
    assert "does not exist" in refused(server + "_none")
    assert "holds no studies" in refused(server, create=False)
    engine = create_engine(server)
    assert PASSWORD in str(engine.url.password)
    assert inspect(engine).get_table_names() == []
    engine.dispose()


def test_a_database_of_another_version_is_left_as_it_is(tmp_path: Path, server: str) -> None:
    for url in (f"sqlite:///{tmp_path}/x.db", server):
        dispose(open_storage(url))
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = 'v2.6.0.a'"))
            connection.execute(text("DROP TABLE trial_heartbeats"))
        assert "is of another version of Optuna than the installed" in refused(url)
        assert "trial_heartbeats" not in inspect(engine).get_table_names()
        engine.dispose()


def test_many_open_a_new_database_at_once(tmp_path: Path, server: str) -> None:
    opened = "import sys; from gemmsim.search.storage import *; input(); print(studies(open_storage(sys.argv[1])))"
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", opened, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for url in (f"sqlite:///{tmp_path}/x.db", server) for _ in range(2)
    ]  # fmt: skip
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        said = child.communicate(timeout=60)
        assert said[0] == "[]\n", said[1]


def torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A journal with two trials of a worker that is no more."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path, space = tmp_path / "whole.journal", small(6)
    study = optuna.create_study(study_name="s", storage=open_storage(str(path)))
    search(space, replay(space), trials=2, study=study, seed=0)
    here = Worker.this()
    gone = replace(here, started="1" * len(here.started))
    return path.read_bytes().replace(str(here).encode(), str(gone).encode())


def resumed(path: Path, data: bytes) -> None:
    """A search that goes on from a journal ends with three trials, all different, none running."""
    path.write_bytes(data)
    space, kept = small(6), open_storage(str(path))
    study = optuna.create_study(study_name="s", storage=kept, load_if_exists=True)
    search(space, replay(space), trials=3, study=study, seed=0)
    trials = optuna.load_study(study_name="s", storage=open_storage(str(path))).trials
    good = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert len({trial.user_attrs[PLACE] for trial in good}) == len(good) == 3
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_journal_cut_at_any_byte_of_its_last_record_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = torn(tmp_path, monkeypatch)
    last = data[:-1].rfind(b"\n") + 1
    for cut in range(last, len(data) + 1):
        resumed(tmp_path / "study.journal", data[:cut])


def test_a_journal_cut_in_any_record_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, cut = torn(tmp_path, monkeypatch), 0
    for line in data.splitlines(keepends=True):
        resumed(tmp_path / "study.journal", data[: cut + len(line) // 2])
        cut += len(line)


def test_optuna_alone_does_not_survive_a_torn_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, gemmsim.search.journal may cut no more."""
    path = tmp_path / "study.journal"
    path.write_bytes(torn(tmp_path, monkeypatch)[:-9])
    study = optuna.load_study(study_name="s", storage=JournalStorage(JournalFileBackend(str(path))))
    study.set_user_attr("a", 1)
    with pytest.raises(json.JSONDecodeError):
        study.set_user_attr("a", 2)
    assert refused(str(path)) == f"storage {path}: a record in it is broken: expected a journal of Optuna's"


WRITER = """
import os, signal, sys
from gemmsim.search import journal
from gemmsim.search.storage import held, open_storage
study = held(open_storage(sys.argv[1]), "s")
cut = int(sys.argv[2])
for i in range(10**9):
    if cut and i == 3:
        write = journal.JournalFileBackend.append_logs
        fsync = os.fsync
        def torn(descriptor):  # the lock held, the record half written
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - cut)
            os.kill(os.getpid(), signal.SIGKILL)
        os.fsync = torn
    study.set_user_attr("text", "x" * (i % 5000))
    print(i, flush=True)
"""


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_writer_killed_in_the_midst_of_it_holds_up_nobody(cut: int, tmp_path: Path) -> None:
    path, space = tmp_path / "study.journal", small(6)
    study = optuna.create_study(study_name="s", storage=open_storage(str(path)))
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(path), str(cut)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(3):
            child.stdout.readline()
        search(space, replay(space), trials=2, study=study, seed=0)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    resumed(path, path.read_bytes())


def test_a_lost_disk_is_said(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    study = optuna.create_study(study_name="s", storage=open_storage(str(path)))
    path.unlink()
    with pytest.raises(GemmsimError, match=r"study.journal: cannot be written: No such file"):
        study.set_user_attr("a", 1)


def test_others_are_waited_for_no_longer_than_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    monkeypatch.setattr(storage, "WAIT_S", 0.2)
    path = tmp_path / "x.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE others (x)")
    other.execute("BEGIN EXCLUSIVE")
    assert "database is locked" in refused(f"sqlite:///{path}")
    other.close()
