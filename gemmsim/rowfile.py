"""Rows of the store as CSV and back: every column of the store, the configuration as the family's parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmsim import families
from gemmsim.conditions import DISTURBED, l2_condition
from gemmsim.errors import GemmsimError
from gemmsim.problem import EPILOGUES, MAX_DIMENSION, RESULT_DTYPE, dtype_name
from gemmsim.rows import Column, Table
from gemmsim.store import COLUMNS, JSON_COLUMNS, STATUSES, Row

#: columns that a CSV must have to become rows
NEEDED = ("gpu", "family", "dtype", "l2", "m", "n", "k")
#: what stands in a row that was asked for and is not measured yet
PENDING = "pending"
_SIZES = ("m", "n", "k")
#: the most that a cell holds exactly as a whole number; a database has no room for much more
_MOST_INT = 2**53
_SAMPLES = tuple(name for name in JSON_COLUMNS if name != "config")


def parameters(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Parameters of the rows' configurations, in the order in which they first come."""
    return list(dict.fromkeys(name for row in rows for name in row.get("config") or {}))


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """The columns of a CSV. A cell that a row does not have is empty; samples are JSON lists."""
    names = parameters(rows)
    taken = [name for name in COLUMNS if name not in names]
    first = taken.index("k") + 1
    found: dict[str, Column] = {name: _cells(rows, name) for name in taken[:first]}
    found |= {name: [_text((row.get("config") or {}).get(name)) for row in rows] for name in names}
    found |= {name: _cells(rows, name) for name in taken[first:]}
    return found | {name: [_listed(row.get(name)) for row in rows] for name in _SAMPLES}


def _cells(rows: Sequence[Mapping[str, Any]], name: str) -> Column:
    if COLUMNS[name] is float:
        return np.asarray([np.nan if row.get(name) is None else row[name] for row in rows], np.float64)
    return [_text(row.get(name)) for row in rows]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _listed(values: object) -> str:
    return "" if not values else json.dumps(values, separators=(",", ":"))


def read_rows(table: Table, campaign: str) -> tuple[list[Row], list[str]]:
    """Rows of a CSV for a store, and the columns of it that no row has. Raises GemmsimError, naming the cell.

    median_s stands in for time_s, or min_s where the median was disturbed. A row without a status has been timed.
    """
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise GemmsimError(f"{table.path}: no column {missing[0]}: expected {', '.join(NEEDED)} and parameters")
    known = {name: _parsed(table, name, kind) for name, kind in COLUMNS.items() if name in table}
    if "time_s" not in table and "median_s" in table:
        known["time_s"] = _medians(table)
    samples = {name: _samples(table, name) for name in _SAMPLES if name in table}
    configs, used = _configs(table)
    rows = []
    for i in range(len(table)):
        row: Row = {name: cells[i] for name, cells in (known | samples).items()} | {"config": configs[i]}
        rows.append(_complete(table, i, row, campaign))
    spare = [name for name in table.columns if name not in {*known, *samples, *used, "median_s"}]
    return [row for row in rows if row["status"] != PENDING], spare


def _complete(table: Table, i: int, row: Row, campaign: str) -> Row:
    """The row with what a file of another hand leaves out. Raises GemmsimError for a name that is none."""
    try:
        row["dtype"] = dtype_name(row["dtype"])
        l2_condition(row["l2"])
    except GemmsimError as error:
        raise GemmsimError(f"{table.place(i)}: {error}") from None
    row["status"] = row.get("status") or "ok"
    if row["status"] not in (*STATUSES, PENDING):
        raise GemmsimError(f"{table.place(i, 'status')} is {row['status']!r}: expected one of {', '.join(STATUSES)}")
    if row["status"] == "ok" and not row.get("time_s"):
        found = "empty" if row.get("time_s") is None else "0"
        raise GemmsimError(f"{table.place(i, 'time_s')} is {found}: expected a time, or a status other than ok")
    usual = {"layout": "NN", "batch": 1, "beta": 0, "epilogue": "", "timing": "event", "against": "",
             "dtype_b": row["dtype"], "dtype_c": RESULT_DTYPE[row["dtype"]], "kernel_hash": ""}  # fmt: skip
    for name, value in usual.items():
        row[name] = value if row.get(name) is None else row[name]
    steps = [step for step in row["epilogue"].split(",") if step and step not in (*EPILOGUES, "scale")]
    if steps:
        raise GemmsimError(f"{table.place(i, 'epilogue')} holds {steps[0]!r}: expected {', '.join(EPILOGUES)}")
    return row | {"campaign": campaign}


def _parsed(table: Table, name: str, kind: type) -> list[Any]:
    if kind is str:
        return [cell if cell != "" else None for cell in table.text(name)]
    values = table.number(name, blank_ok=name not in _SIZES, low=int(name in _SIZES))
    blank = np.isnan(values)
    most = MAX_DIMENSION if name in _SIZES else _MOST_INT
    odd = np.flatnonzero(~((values == np.floor(values)) & (values <= most) | blank)) if kind is int else ()
    for i in odd[:1]:
        raise GemmsimError(f"{table.place(i, name)} is {table.text(name)[i]!r}: expected a whole number up to {most}")
    return [None if nan else kind(value) for value, nan in zip(values.tolist(), blank.tolist(), strict=True)]


def _medians(table: Table) -> list[float | None]:
    """median_s, and min_s in place of a median that was disturbed."""
    medians = _parsed(table, "median_s", float)
    least = _parsed(table, "min_s", float) if "min_s" in table else medians
    return [b if a and b and a > DISTURBED * b else a for a, b in zip(medians, least, strict=True)]


def _samples(table: Table, name: str) -> list[list[float] | None]:
    out: list[list[float] | None] = []
    for i, cell in enumerate(table.text(name)):
        try:
            values = json.loads(cell) if cell else None
        except json.JSONDecodeError:
            values = cell
        if values is not None and not (isinstance(values, list) and all(isinstance(v, int | float) for v in values)):
            raise GemmsimError(f"{table.place(i, name)} is {cell[:40]!r}: expected a list of seconds, as [1e-5,1.1e-5]")
        out.append(values)
    return out


def _configs(table: Table) -> tuple[list[dict[str, int]], set[str]]:
    """The configuration of each row, and the columns that are parameters of a family in the file."""
    by_family = {name: _parameters(name) for name in dict.fromkeys(table.text("family"))}
    used = {p for names in by_family.values() for p in names if p in table}
    cells = {p: _parsed(table, p, int) for p in used}
    families_of = table.text("family")
    configs = [
        {p: cells[p][i] for p in by_family[families_of[i]] if p in cells and cells[p][i] is not None}
        for i in range(len(table))
    ]
    return configs, used


def _parameters(family: str) -> list[str]:
    """A family's parameters; a library's kernel has none."""
    return [p.name for p in families.family(family).PARAMETERS] if family in families.FAMILIES else []
