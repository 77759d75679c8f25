"""Where studies are kept, by the text a person gives: a journal file, sqlite:///FILE or a database server's URL."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import BaseStorage, RDBStorage

from gemmsim.errors import GemmsimError
from gemmsim.rows import check_out
from gemmsim.search.journal import open_journal

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

#: s to wait for a database server to answer, and for others to let go of a database or to finish making its tables
CONNECT_S, WAIT_S = 10, 60
#: settings of PostgreSQL's drivers; a database made where no language is set is of bytes to them, unless told otherwise
_LIBPQ = {"connect_timeout": CONNECT_S, "client_encoding": "utf8"}
#: what a database says to a process that makes the tables while others do, or while they write
_MEANWHILE = ("already exists", "locked", "duplicate", "UNIQUE constraint")
#: module of a driver -> what installs it
_INSTALLS = {"psycopg": "gemmsim[postgres]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}


def open_storage(url: str, *, create: bool = True) -> BaseStorage:
    """The storage at a URL (postgresql+psycopg://user@host/name, sqlite:///file), or the journal in a file.

    create: make the file or the tables where there are none. Raises GemmsimError, in which no password stands, for one
    that cannot be reached or is none, and with create=False where there is none.
    """
    return _database(url, create) if "://" in url else open_journal(url, create=create)


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
        raise GemmsimError(f"{what}: its storage no longer answers: {_first_line(error.__cause__ or error)}") from None


def _database(url: str, create: bool) -> RDBStorage:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        shown = re.sub(r"(?<=://).*@", "***@", url)
        raise GemmsimError(f"storage {shown}: expected a file, sqlite:///FILE or "
                           "postgresql+psycopg://USER@HOST/NAME") from None  # fmt: skip
    if parsed.get_backend_name() == "sqlite":
        _check_file(parsed, create)
    with _said(parsed):
        return _opened(url, parsed, create)


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


def _opened(url: str, parsed: URL, create: bool) -> RDBStorage:
    """Connect, and make the tables where there are none; again while others do."""
    from sqlalchemy.exc import DBAPIError

    until = time.monotonic() + WAIT_S
    while True:
        try:
            return _connected(url, parsed, create)
        except (DBAPIError, optuna.exceptions.StorageInternalError) as error:
            if not any(word in str(error.__cause__ or error) for word in _MEANWHILE) or time.monotonic() > until:
                raise
            time.sleep(0.05)


def _connected(url: str, parsed: URL, create: bool) -> RDBStorage:
    from sqlalchemy import create_engine, inspect

    settings = _settings(parsed)
    engine = create_engine(parsed, **settings)
    try:
        made = inspect(engine).has_table("alembic_version")  # Optuna's last: tables of another version stay as they are
    finally:
        engine.dispose()
    if not (made or create):
        raise GemmsimError(f"storage {_shown(parsed)}: holds no studies: expected the database of one")
    escaped = url.replace("{", "{{").replace("}", "}}")  # to Optuna a template
    storage = RDBStorage(escaped, settings, skip_table_creation=made)
    if parsed.get_backend_name() == "sqlite":
        _serialised(storage.engine)
    return storage


def _settings(url: URL) -> dict[str, Any]:
    """Settings of the engine: a connection that the server closed meanwhile is made anew."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": WAIT_S}}
    libpq = url.get_driver_name() in ("psycopg", "psycopg2")
    return {"pool_pre_ping": True, "connect_args": _LIBPQ if libpq else {}}


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
    """What goes wrong with a database, in one sentence."""
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    what = f"storage {_shown(url)}:"
    try:
        yield
    except NoSuchModuleError:
        raise GemmsimError(f"{what} unknown kind {url.drivername!r}: expected postgresql+psycopg or sqlite") from None
    except ImportError as error:
        module = str(getattr(error.__cause__ or error, "name", "") or url.get_driver_name())
        install = _INSTALLS.get(module, module)
        raise GemmsimError(f"{what} needs {module}, which is not installed: pip install '{install}'") from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise GemmsimError(f"{what} cannot be used: {_hidden(_first_line(error), url)}") from None
    except RuntimeError:  # Optuna's, of tables of another version
        raise GemmsimError(f"{what} is of another version of Optuna than the installed {optuna.__version__}: expected "
                           "one that `optuna storage upgrade` has upgraded, or a newer Optuna") from None  # fmt: skip


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]


def _shown(url: URL) -> str:
    """A URL without its passwords."""
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def _hidden(text: str, url: URL) -> str:
    return text.replace(str(url.password), "***") if url.password else text
