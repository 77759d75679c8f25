"""The rows measured so far: one SQLite file, or a database by URL, append-only, through SQLAlchemy Core.

A row is one (campaign, problem, configuration, GPU, kernel, conditions): `identity` makes its key of them. A row that
is asked for again gets the next `attempt`; nothing is ever changed or deleted. Every row is committed by itself in WAL
mode with synchronous=NORMAL: a process killed at any moment loses nothing that was committed; a power cut may lose the
last rows, and never the file. Seconds, bytes, Hz, W, degrees Celsius.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmsim.database import engine_of, is_url, parsed, patiently, said, shown
from gemmsim.errors import GemmsimError
from gemmsim.paths import expanded

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

#: environment variable: the file instead of the default one
STORE_VARIABLE = "GEMMSIM_STORE"
STATUSES = ("ok", "refused", "compile", "launch", "timeout", "wrong", "crash")
#: what makes a row the one it is, apart from its configuration
IDENTITY: Mapping[str, type] = {
    "campaign": str, "gpu": str, "family": str, "dtype": str, "dtype_b": str, "dtype_c": str, "layout": str,
    "batch": int, "beta": int, "epilogue": str, "m": int, "n": int, "k": int, "kernel_hash": str, "l2": str,
    "timing": str, "against": str,
}  # fmt: skip
_OUTCOME: Mapping[str, type] = {
    "status": str, "reason": str, "time_s": float, "p20_s": float, "p80_s": float, "min_s": float,
    "sample_count": int, "launches": int, "timed_by": str, "tflops": float, "unstable": str,
    "cublas_time_s": float, "ratio": float,
    "error": float, "error_limit": float, "element_error": float, "nan_count": int,
    "wall_s": float,
}  # fmt: skip
_KERNEL: Mapping[str, type] = {
    "regs_per_thread": int, "spill_bytes": int, "smem_bytes": int, "stack_bytes": int, "blocks_per_sm": int,
    "threads": int, "workspace_bytes": int, "warnings": str, "compiler": str,
}  # fmt: skip
_READING: Mapping[str, type] = {
    "sm_clock_hz": float, "memory_clock_hz": float, "power_w": float, "temperature_c": float, "throttle": str,
}  # fmt: skip
_PLACE: Mapping[str, type] = {
    "product": str, "uuid": str, "sm_count": int, "driver": str, "cuda": str, "gemmsim": str, "measured_at": str,
}  # fmt: skip
#: every typed column in the order of a CSV; before and after: what NVML read on either side of the timing
COLUMNS: Mapping[str, type] = {
    **IDENTITY, **_OUTCOME, **_KERNEL,
    **{f"{name}_{when}": kind for when in ("before", "after") for name, kind in _READING.items()}, **_PLACE,
}  # fmt: skip
#: columns that a question about a problem is asked by, in the order of their index
PROBLEM = ("gpu", "dtype", "m", "n", "k", "family")
#: columns held as JSON: the configuration, and every sample in seconds
JSON_COLUMNS = ("config", "samples_s", "cublas_samples_s")
Row = dict[str, Any]


def default_place() -> Path | str:
    """$GEMMSIM_STORE, a file or the URL of a database; or rows.sqlite in the user's data folder."""
    own = os.environ.get(STORE_VARIABLE)
    if own:
        return own if is_url(own) else expanded(own, STORE_VARIABLE)
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return expanded(data, STORE_VARIABLE) / "gemmsim" / "rows.sqlite"


def default_name() -> str:
    """The default place, without a password."""
    return _name(default_place())


def is_there(place: Path | str) -> bool:
    """Whether a store's file exists; of a database only its server knows."""
    return is_url(place) or Path(place).exists()


def identity(row: Mapping[str, Any]) -> str:
    """The key of a row: SHA-256 over IDENTITY and the configuration."""
    parts = {name: row.get(name, kind()) for name, kind in IDENTITY.items()}
    text = json.dumps([parts, dict(row.get("config") or {})], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _table() -> Table:
    from sqlalchemy import JSON, BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint

    whole = BigInteger().with_variant(Integer, "sqlite")  # there an Integer is as long as it must be
    kinds: dict[type, Any] = {str: Text, int: whole, float: Float}
    columns: list[Any] = [
        Column("id", whole, primary_key=True),
        Column("key", Text, nullable=False),
        Column("attempt", Integer, nullable=False),
        *(Column(name, kinds[kind]) for name, kind in COLUMNS.items()),
        *(Column(name, JSON(none_as_null=True)) for name in JSON_COLUMNS),
        UniqueConstraint("key", "attempt"),
        Index("rows_by_problem", *PROBLEM),
    ]
    return Table("rows", MetaData(), *columns)


class Store:
    """The rows in one file or database; made where there is none. place: a file, or a URL as SQLAlchemy takes it.

    Every method raises GemmsimError, one sentence, for a full disk, a locked file, one that is no store, or a server
    that does not answer. `name`: the file, or the URL without its password.
    """

    def __init__(self, place: Path | str | None = None, *, wait_s: float = 20.0) -> None:
        place = default_place() if place is None else place
        self._url = _url(place)
        self.name = _name(place)
        self._file = self._url.get_backend_name() == "sqlite"
        self.table = _table()
        self._engine = self._open(wait_s)

    def _open(self, wait_s: float) -> Engine:
        from sqlalchemy import event
        from sqlalchemy.schema import CreateIndex, CreateTable

        with self._said():
            if self._file:
                _prepare_file(Path(self._url.database or ""))
            engine = engine_of(self._url, wait_s)
            if self._file:
                event.listen(engine, "connect", _prepare)
            # create_all looks first, and another process may come between; older stores get the index
            made = [CreateTable(self.table, if_not_exists=True)]
            indexes = [CreateIndex(index, if_not_exists=True) for index in self.table.indexes]
            for statement in [*made, *indexes]:
                patiently(functools.partial(_execute, engine, statement), wait_s)
        return engine

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Errors of the database and the disk as one sentence."""
        import sqlite3

        from sqlalchemy.exc import DBAPIError

        if not self._file:
            with said(self._url, "store"):
                yield
            return
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise GemmsimError(f"{self.name}: {_sentence(str(getattr(error, 'orig', error)))}") from None
        except OSError as error:
            raise GemmsimError(f"{self.name}: cannot be a store of rows: {error.strerror or error}") from None

    @contextlib.contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._said(), self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    def add(self, rows: Sequence[Row], *, again: bool = False) -> int:
        """Append rows in one transaction and say how many: those whose key is there only with again, one attempt on."""
        added = 0
        with self._begin() as connection:
            for row in rows:
                key = identity(row)
                attempt = self._attempts(connection, key)
                if attempt and not again:
                    continue
                added += self._insert(connection, _values(row) | {"key": key, "attempt": attempt})
        return added

    def _insert(self, connection: Connection, values: Row) -> int:
        """Append a row unless its key and attempt are there; how many were appended."""
        from sqlalchemy.dialects import postgresql, sqlite

        insert = sqlite.insert if self._file else postgresql.insert
        statement = insert(self.table).on_conflict_do_nothing().returning(self.table.c.id)
        return int(connection.execute(statement, values).scalar() is not None)

    def _attempts(self, connection: Connection, key: str) -> int:
        from sqlalchemy import func, select

        asked = select(func.count()).select_from(self.table).where(self.table.c.key == key)
        return int(connection.execute(asked).scalar_one())

    def keys(self, campaign: str) -> dict[str, int]:
        """Key of every row of a campaign, and how often it was measured."""
        from sqlalchemy import func, select

        c = self.table.c
        asked = select(c.key, func.count()).where(c.campaign == campaign).group_by(c.key)
        with self._begin() as connection:
            return {str(row[0]): int(row[1]) for row in connection.execute(asked)}

    def rows(
        self, campaign: str | None = None, *, latest: bool = True, samples: bool = True, **equal: str | int
    ) -> list[Row]:
        """Rows in the order they were measured; latest: the last attempt of each. equal: column = value.

        samples: with every sample, which are most of what a row takes to read.
        """
        from sqlalchemy import select

        c = self.table.c
        columns = [column for column in c if samples or not column.name.endswith("samples_s")]
        asked = select(*columns).order_by(c.id)
        for name, value in {**({} if campaign is None else {"campaign": campaign}), **equal}.items():
            asked = asked.where(c[name] == value)
        with self._begin() as connection:
            found = [dict(row._mapping) for row in connection.execute(asked)]
        return list({row["key"]: row for row in found}.values()) if latest else found

    def distinct(self, *names: str, **equal: str | int) -> list[tuple[Any, ...]]:
        """The different values of some columns together, ascending. equal: column = value."""
        from sqlalchemy import select

        c = self.table.c
        columns = [c[name] for name in names]
        asked = select(*columns).distinct().order_by(*columns)
        for name, value in equal.items():
            asked = asked.where(c[name] == value)
        with self._begin() as connection:
            return [tuple(row) for row in connection.execute(asked)]

    def campaigns(self) -> list[Row]:
        """Campaign, GPU, family and dtype with their rows, by status, and the time of the last one."""
        from sqlalchemy import func, select

        c = self.table.c
        what = (c.campaign, c.gpu, c.family, c.dtype, c.status)
        asked = select(*what, func.count().label("rows"), func.max(c.measured_at).label("last")).group_by(*what)
        with self._begin() as connection:
            return [dict(row._mapping) for row in connection.execute(asked.order_by(c.campaign, c.family, c.status))]

    def merge(self, other: Store) -> int:
        """Append the rows of another store that are not here, attempts included; say how many."""
        rows = other.rows(latest=False)
        for row in rows:
            del row["id"]
        with self._begin() as connection:
            return sum(self._insert(connection, row) for row in rows)


def _url(place: Path | str) -> URL:
    """Where a store is, as SQLAlchemy has it. Raises GemmsimError for a database of another kind."""
    from sqlalchemy import URL

    if not is_url(place):
        return URL.create("sqlite", database=str(place))
    url = parsed(str(place), "store")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise GemmsimError(f"store {shown(url)}: expected a file or postgresql+psycopg://USER@HOST/NAME")
    return url


def _name(place: Path | str) -> str:
    return shown(_url(place)) if is_url(place) else str(place)


def _prepare_file(path: Path) -> None:
    """The folder of a store's file. Raises GemmsimError for what is no file."""
    if path.exists() and not path.is_file():
        found = "a folder" if path.is_dir() else "a device or a pipe"
        raise GemmsimError(f"{path}: cannot be a store of rows: expected a file, found {found}")
    path.parent.mkdir(parents=True, exist_ok=True)


def _execute(engine: Engine, statement: Any) -> None:
    with engine.begin() as connection:
        connection.execute(statement)


def _prepare(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _values(row: Mapping[str, Any]) -> Row:
    """The row's columns; those it lacks are NULL, those of its identity empty."""
    values = {name: row.get(name, kind() if name in IDENTITY else None) for name, kind in COLUMNS.items()}
    return values | {name: row.get(name) for name in JSON_COLUMNS}


def _sentence(text: str) -> str:
    if "locked" in text or "busy" in text:
        return "is locked by another program: expected it free; rows measured so far are kept"
    if "readonly" in text:
        return "cannot be written: expected a file that can, in a folder that can"
    if "full" in text or "disk I/O" in text:
        return "cannot take another row, the disk is full; rows measured so far are kept"
    if "not a database" in text or "malformed" in text or "no such column" in text or "no column named" in text:
        return f"is no store of this version's rows ({text}): expected a file made by gemmsim measure"
    return f"cannot be used as a store of rows: {text}"


def import_sqlalchemy() -> None:
    """Raise GemmsimError, with what to install, where SQLAlchemy is not."""
    try:
        import sqlalchemy  # noqa: F401
    except ModuleNotFoundError:
        raise GemmsimError(
            "SQLAlchemy is not installed, and rows are kept with it: pip install 'gemmsim[measure]'"
        ) from None
