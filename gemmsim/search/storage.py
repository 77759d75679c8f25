"""Where studies are kept, by the text a person gives: a journal file, sqlite:///FILE or a database server's URL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import BaseStorage, RDBStorage

from gemmsim.database import engine_of, first_line, hidden, is_url, parsed, patiently, said, settings, shown
from gemmsim.errors import GemmsimError
from gemmsim.rows import check_out
from gemmsim.search.journal import open_journal

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

#: s to wait for others to let go of a database or to finish making its tables
WAIT_S = 60


def open_storage(url: str, *, create: bool = True) -> BaseStorage:
    """The storage at a URL (postgresql+psycopg://user@host/name, sqlite:///file), or the journal in a file.

    create: make the file or the tables where there are none. Raises GemmsimError, in which no password stands, for one
    that cannot be reached or is none, and with create=False where there is none.
    """
    return _database(url, create) if is_url(url) else open_journal(url, create=create)


def held(storage: BaseStorage, name: str) -> optuna.Study | None:
    """The study of a name; None if there is none. Raises GemmsimError for a storage that no longer answers."""
    with answering(f"study {name}"), contextlib.suppress(KeyError):
        return optuna.load_study(study_name=name, storage=storage)
    return None


def studies(storage: BaseStorage, prefix: str = "") -> list[str]:
    """Names of the studies that begin so, oldest first. Raises GemmsimError for a storage that no longer answers."""
    with answering(f"studies {prefix}*"):
        return [study.study_name for study in storage.get_all_studies() if study.study_name.startswith(prefix)]


@contextlib.contextmanager
def answering(what: str) -> Iterator[None]:
    """Say in one sentence that a storage no longer answers."""
    try:
        yield
    except optuna.exceptions.StorageInternalError as error:
        raise GemmsimError(f"{what}: its storage no longer answers: {first_line(error.__cause__ or error)}") from None


def _database(url: str, create: bool) -> RDBStorage:
    found = parsed(url, "storage")
    if found.get_backend_name() == "sqlite":
        _check_file(found, create)
    with _said(found):
        return patiently(lambda: _connected(url, found, create), WAIT_S)


def _check_file(url: URL, create: bool) -> None:
    """Refuse an SQLite file that cannot be."""
    path = url.database
    if not path or path == ":memory:":
        raise GemmsimError(f"storage {url}: holds nothing that others could see: expected sqlite:///FILE")
    if not os.path.exists(path) and not create:
        raise GemmsimError(f"storage {url}: there is no such file: expected the database of a study")
    check_out(path, "storage")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise GemmsimError(f"storage {url}: cannot be written: expected a file that can")


def _connected(url: str, found: URL, create: bool) -> RDBStorage:
    from sqlalchemy import inspect

    engine = engine_of(found, WAIT_S)
    try:
        made = inspect(engine).has_table("alembic_version")  # Optuna's last: tables of another version stay as they are
    finally:
        engine.dispose()
    if not (made or create):
        raise GemmsimError(f"storage {shown(found)}: holds no studies: expected the database of one")
    escaped = url.replace("{", "{{").replace("}", "}}")  # to Optuna a template
    storage = RDBStorage(escaped, settings(found, WAIT_S), skip_table_creation=made)
    if found.get_backend_name() == "sqlite":
        _serialised(storage.engine)
    return storage


def _serialised(engine: Engine) -> None:
    """Of SQLite: one transaction after another, readers beside them.

    Optuna reads a trial's state and then sets it, and counts on the row's lock between, which SQLite has not.
    """
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: object) -> None:
        connection.isolation_level = None  # no BEGIN by the driver
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()
    with engine.connect():  # whoever turns it to WAL must not be in another's way later
        pass


@contextlib.contextmanager
def _said(url: URL) -> Iterator[None]:
    """What goes wrong with a storage's database, in one sentence."""
    try:
        with said(url, "storage"):
            yield
    except optuna.exceptions.StorageInternalError as error:
        raise GemmsimError(f"storage {shown(url)}: cannot be used: {hidden(first_line(error), url)}") from None
    except RuntimeError:  # Optuna's, of tables of another version
        raise GemmsimError(f"storage {shown(url)}: is of another version of Optuna than the installed "
                           f"{optuna.__version__}: expected one that `optuna storage upgrade` has upgraded, or a newer "
                           "Optuna") from None  # fmt: skip
