"""Where picks come from: measured rows by problem, of the store or of a CSV."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.families import FAMILIES
from gemmsim.rowfile import PENDING, read_rows
from gemmsim.rows import Table, read_csv
from gemmsim.store import JSON_COLUMNS, STATUSES, Row

if TYPE_CHECKING:
    from gemmsim.store import Store

Shape = tuple[int, int, int]


class Evidence(Protocol):
    """Measured rows; place: what a message calls them."""

    place: str

    def kinds(self) -> list[tuple[str, str, str]]:
        """The different GPUs, dtypes and families together, libraries' kernels left out."""

    def shapes(self, gpu: str, dtype: str) -> list[Shape]:
        """The different M, N, K, whatever came of their rows."""

    def at(self, gpu: str, dtype: str, shape: Shape) -> list[Row]:
        """The rows of a size in the order in which they were measured, without their samples."""


class StoreRows:
    """The rows of a store, asked for one problem at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self.place = store, store.name
        self._at = functools.lru_cache(1)(self._read)  # a pick asks twice: for its own rows, and for cuBLAS's

    def kinds(self) -> list[tuple[str, str, str]]:
        """See Evidence."""
        found = self._store.distinct("gpu", "dtype", "family")
        return [(g, d, f) for g, d, f in found if f in FAMILIES]

    def shapes(self, gpu: str, dtype: str) -> list[Shape]:
        """See Evidence."""
        return [(m, n, k) for m, n, k in self._store.distinct("m", "n", "k", gpu=gpu, dtype=dtype)]

    def at(self, gpu: str, dtype: str, shape: Shape) -> list[Row]:
        """See Evidence."""
        return self._at(gpu, dtype, shape)

    def _read(self, gpu: str, dtype: str, shape: Shape) -> list[Row]:
        m, n, k = shape
        return self._store.rows(samples=False, gpu=gpu, dtype=dtype, m=m, n=n, k=k)


class FileRows:
    """The rows of a CSV, all of them read."""

    def __init__(self, path: str) -> None:
        self.place = path
        self._rows: dict[tuple[str, str], dict[Shape, list[Row]]] = {}
        for row in read_rows(_known(read_csv(path)), path)[0]:
            shapes = self._rows.setdefault((row["gpu"], row["dtype"]), {})
            shapes.setdefault((row["m"], row["n"], row["k"]), []).append(row)

    def kinds(self) -> list[tuple[str, str, str]]:
        """See Evidence."""
        every = ((kind, row) for kind, shapes in self._rows.items() for rows in shapes.values() for row in rows)
        found = dict.fromkeys((*kind, str(row["family"])) for kind, row in every)
        return [(g, d, f) for g, d, f in found if f in FAMILIES]

    def shapes(self, gpu: str, dtype: str) -> list[Shape]:
        """See Evidence."""
        return list(self._rows.get((gpu, dtype), {}))

    def at(self, gpu: str, dtype: str, shape: Shape) -> list[Row]:
        """See Evidence."""
        return self._rows.get((gpu, dtype), {}).get(shape, [])


def _known(table: Table) -> Table:
    """The table without samples, which no pick needs, and without rows whose status another program gave."""
    columns: Mapping[str, Sequence[str]] = {c: v for c, v in table.columns.items() if c not in JSON_COLUMNS}
    if "status" not in table:
        return replace(table, columns=columns)
    known = {"", PENDING, *STATUSES}
    keep = np.flatnonzero([status in known for status in table.text("status")])
    if len(keep) < len(table):
        columns = {c: table.text(c, keep) for c in columns}
    return Table(table.path, columns, [table.lines[i] for i in keep.tolist()])


def evidence(rows: str | os.PathLike[str] | None = None, store: str | os.PathLike[str] | None = None) -> Evidence:
    """Rows of a CSV, else of a store, else of the user's own store, as gemmsim.store.default_place finds it.

    Raises GemmsimError for both, and for a file that is not there or is none.
    """
    if rows is not None:
        if store is not None:
            raise GemmsimError("rows and a store are given: expected one of them")
        return FileRows(os.fspath(rows))
    from gemmsim.store import Store, default_place, import_sqlalchemy, is_there

    place = default_place() if store is None else os.fspath(store)
    if not is_there(place):  # opening it would make it
        raise GemmsimError(
            f"{place}: expected a store of rows, found no such file: gemmsim tune and measure make it, rows of a CSV "
            "are read with --rows, and gemmsim rank needs none"
        )
    import_sqlalchemy()
    return StoreRows(Store(place))
