"""Databases by URL: how one is connected to, and what is wrong with it in one sentence without a password."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

T = TypeVar("T")
#: s to wait for a server to answer
CONNECT_S = 10
#: settings of PostgreSQL's drivers; a database made where no language is set is of bytes to them, unless told otherwise
_LIBPQ = {"connect_timeout": CONNECT_S, "client_encoding": "utf8"}
#: what a database says to a process that makes the tables while others do, or while they write
_MEANWHILE = ("already exists", "locked", "duplicate", "UNIQUE constraint")
#: module of a driver -> what installs it
_INSTALLS = {"psycopg": "gemmsim[postgres]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}


def is_url(place: object) -> bool:
    """Whether a place is a URL; else it is a file."""
    return "://" in str(place)


def parsed(url: str, what: str) -> URL:
    """The URL, taken apart. Raises GemmsimError, in which `what` is what the URL is for."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        masked = re.sub(r"(?<=://).*@", "***@", url)
        raise GemmsimError(f"{what} {masked}: expected a file, sqlite:///FILE or "
                           "postgresql+psycopg://USER@HOST/NAME") from None  # fmt: skip


def engine_of(url: URL, wait_s: float) -> Engine:
    """The engine of a database, which waits so long for others; nothing is connected to yet."""
    from sqlalchemy import create_engine

    return create_engine(url, **settings(url, wait_s))


def settings(url: URL, wait_s: float) -> dict[str, Any]:
    """Settings of its engine: a connection that the server closed meanwhile is made anew."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": wait_s}}
    libpq = url.get_driver_name() in ("psycopg", "psycopg2")
    return {"pool_pre_ping": True, "connect_args": _LIBPQ if libpq else {}}


def patiently(action: Callable[[], T], wait_s: float) -> T:
    """What the action gives; done again, so long, while others make the database.

    SQLite does not wait for them when it turns to WAL, and PostgreSQL makes no table that another makes.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            return action()
        except Exception as error:
            if not any(word in str(error.__cause__ or error) for word in _MEANWHILE) or time.monotonic() > until:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def said(url: URL, what: str) -> Iterator[None]:
    """What goes wrong with a database, in one sentence that begins with `what` and the URL."""
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    where = f"{what} {shown(url)}:"
    try:
        yield
    except NoSuchModuleError:
        raise GemmsimError(f"{where} unknown kind {url.drivername!r}: expected postgresql+psycopg or sqlite") from None
    except ImportError as error:
        module = str(getattr(error.__cause__ or error, "name", "") or url.get_driver_name())
        install = _INSTALLS.get(module, module)
        raise GemmsimError(f"{where} needs {module}, which is not installed: pip install '{install}'") from None
    except SQLAlchemyError as error:
        raise GemmsimError(f"{where} cannot be used: {hidden(first_line(error), url)}") from None


def first_line(error: BaseException) -> str:
    """What a database complained of."""
    cause = error.__cause__ or error
    return str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]


def shown(url: URL) -> str:
    """A URL without its passwords."""
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def hidden(text: str, url: URL) -> str:
    """A text without the URL's password."""
    return text.replace(str(url.password), "***") if url.password else text
