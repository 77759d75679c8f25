"""The batch contract: a CSV of problems and configurations in, the same rows with their predictions out.

Rows that share GPU, family, dtype and L2 condition are predicted in one call. Whatever is malformed raises GemmsimError
with file, row, line and column before anything is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.cli.options import (
    TILE,
    epilogue_steps,
    family_and_dtype,
    parameter_name,
    said_dtype,
    said_layout,
)
from gemmsim.conditions import DEFAULT_L2, l2_condition
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.demand import TERMS
from gemmsim.model.predict import Prediction, check_time, predict
from gemmsim.problem import MAX_DIMENSION, Form, IntArray
from gemmsim.rows import Column, Index, Table, out_names, read_csv

#: columns of a batch that override the options of the same name
OVERRIDES = ("gpu", "family", "dtype", "l2")
#: further columns that say what is multiplied; an empty cell takes the option
FORM = ("dtype_b", "dtype_c", "layout", "batch", "beta", "epilogue")
SIZES = ("m", "n", "k")
_NUMBERS = ("waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes")


@dataclass(frozen=True)
class Options:
    """What holds for rows whose columns do not say otherwise."""

    gpu: str | None = None
    family: str | None = None
    dtype: str | None = None
    l2: str | None = None
    without: Sequence[str] = ()
    calibration: str = "auto"
    num_sms: int | None = None
    facts: bool = True
    terms: bool = True
    shape: Form = field(default_factory=Form)


@dataclass
class _Results:
    """Output columns of a batch, filled group by group."""

    rows: int
    text: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def put(self, name: str, where: Index | None, values: Any) -> None:
        if isinstance(values, list):
            if where is None:
                self.text[name] = values
                return
            column = self.text.setdefault(name, [""] * self.rows)
            for i, value in zip(where.tolist(), values, strict=True):
                column[i] = value
            return
        if where is None:
            self.numbers[name] = values
        else:
            self.numbers.setdefault(name, np.empty(self.rows, values.dtype))[where] = values


@dataclass(frozen=True)
class Group:
    """Rows of a batch that share GPU, family, form and L2 condition. where: their positions, None: all; first: one."""

    where: Index | None
    first: int
    family: str
    form: Form
    gpu: Gpu
    l2: str
    config: Mapping[str, object]


def result_names(terms: bool = True) -> list[str]:
    """Columns of a prediction in a CSV, in their order."""
    names = ["feasible", "reason", "time_s", "tflops", "bound_by", "blocks_per_sm", "limited_by", *_NUMBERS]
    names += ["time_lo_s", "time_hi_s", "calibration", "extrapolated"]
    return names + [f"{kind}_{term}_s" for kind in ("demand", "saved") if terms for term in TERMS]


def predict_table(table: Table, options: Options) -> dict[str, Column]:
    """Every input column as it was, then the predictions. Raises GemmsimError for a malformed cell or column."""
    return answered(table, options, result_names(options.terms), _columns)


def answered(
    table: Table, options: Options, names: Sequence[str], columns: Callable[[Prediction], Mapping[str, Any]]
) -> dict[str, Column]:
    """Every input column as it was, then columns of these names, which `columns` makes of a group's predictions.

    Raises GemmsimError for a malformed cell or column, before `columns` is asked for any.
    """
    sizes = dimensions_of(table)
    results = _Results(len(table))
    for where, p in [(group.where, predicted(table, sizes, group, options)) for group in groups(table, options)]:
        for name, values in columns(p).items():
            results.put(name, where, values)
    answers: dict[str, Column] = {n: results.text[n] if n in results.text else results.numbers[n] for n in names}
    given = out_names(table.columns, names)
    return {given[name]: cells for name, cells in table.columns.items()} | answers


def dimensions_of(table: Table, least: Sequence[str] = SIZES) -> dict[str, IntArray]:
    """The columns m, n and k under whichever name; without one that is not in `least` if there is none."""
    sources = sources_of(table)
    return {name: column_of(table, sources, name, None) for name in SIZES if name in least or name in sources}


def shapes_of(path: str) -> dict[tuple[int, int, int], str]:
    """The different M, N, K of the CSV --shapes, in its order, and their names in it.

    Raises GemmsimError for a malformed one.
    """
    table = shapes_table(path)
    found: dict[tuple[int, int, int], dict[str, None]] = {}
    names = table.columns.get("name", [""] * len(table))
    sizes = zip(*(column.tolist() for column in dimensions_of(table).values()), strict=True)
    for shape, name in zip(sizes, names, strict=True):
        found.setdefault(shape, {})[" ".join(name.split())] = None
    return {shape: ", ".join(filter(None, named)) for shape, named in found.items()}


def shapes_table(path: str) -> Table:
    """The CSV --shapes. Raises GemmsimError for one without m, n and k."""
    if not path:
        raise GemmsimError("--shapes is '': expected the name of a CSV")
    table = read_csv(path)
    missing = [name for name in SIZES if name not in sources_of(table)]
    if missing:
        raise GemmsimError(f"{path}: no column {missing[0]}: expected m, n and k, found {', '.join(table.columns)}")
    return table


def sources_of(table: Table) -> dict[str, str]:
    """Parameter or size -> the column it stands in, whose name may be Triton's or CUTLASS'."""
    found: dict[str, str] = {}
    for column in table.columns:
        found.setdefault(column.lower() if column in ("M", "N", "K") else parameter_name(column), column)
    return found | {column: column for column in table.columns}


def configuration_at(
    table: Table, sources: Mapping[str, str], family: str, where: Index | None
) -> dict[str, object]:  # fmt: skip
    """The family's parameters that have a column, an empty cell its default; a tile must be said.

    Raises GemmsimError for a malformed cell or a tile's column that is not there.
    """
    return {
        p.name: column_of(table, sources, p.name, where, families.least(p), None if p.name in TILE else p.default)
        for p in families.family(family).PARAMETERS
        if p.name in sources or p.name in TILE
    }


def column_of(
    table: Table, sources: Mapping[str, str], name: str, where: Index | None, low: int = 1, blank: int | None = None
) -> IntArray:
    """A column of whole numbers from low, under whichever name it stands. Raises GemmsimError if there is none."""
    if name not in sources:
        needed = ", ".join((*SIZES, *TILE))
        found = ", ".join(table.columns)
        raise GemmsimError(f"{table.path}: no column {name}: expected {needed} and the family's other parameters, "
                           f"found {found}")  # fmt: skip
    return table.whole(sources[name], where, low=low, blank=blank)


def row_groups(table: Table) -> Iterator[Index | None]:
    """Positions of the rows that share GPU, family, dtype and L2; None: all of them."""
    columns = [table.columns[c] for c in (*OVERRIDES, *FORM) if c in table]
    if not columns or all(len(set(c)) == 1 for c in columns):
        yield None
        return
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        groups.setdefault(key, []).append(i)
    for rows in groups.values():
        yield np.asarray(rows, np.intp)


def groups(table: Table, options: Options) -> Iterator[Group]:
    """The rows by what they share, with their configurations. Raises GemmsimError for a malformed cell or column."""
    sources = sources_of(table)
    for where in row_groups(table):
        yield _group(table, sources, where, options)


def _group(table: Table, sources: Mapping[str, str], where: Index | None, options: Options) -> Group:
    first = 0 if where is None else int(where[0])
    said, places = said_at(table, first, options)
    family, dtype = family_and_dtype(
        said["family"], said["dtype"], family_at=places["family"], dtype_at=places["dtype"]
    )
    chip = _chip(said["gpu"], dtype, places)
    l2 = DEFAULT_L2 if said["l2"] is None else l2_condition(said["l2"], where=places["l2"])
    config = configuration_at(table, sources, family, where)
    return Group(where, first, family, form_at(table, first, options.shape, dtype), chip, l2, config)


def predicted(table: Table, sizes: Mapping[str, IntArray], group: Group, options: Options) -> Prediction:
    """Predictions of the rows of a group. Raises GemmsimError, with its place, for what cannot be predicted."""
    m, n, k = (x if group.where is None else x[group.where] for x in sizes.values())
    facts = table.facts(group.where, group.config) if options.facts else None
    with placed(table, group.first):
        found = predict(
            m, n, k, gpu=group.gpu, dtype=group.form, family=group.family, config=group.config, facts=facts,
            l2=group.l2, without=options.without, calibrated=options.calibration, num_sms=options.num_sms, terms=True,
        )  # fmt: skip
        check_time(found.time_s, options.without)
        return found


@contextlib.contextmanager
def placed(table: Table, row: int) -> Iterator[None]:
    """Errors name the row, where its columns say what is multiplied and on which GPU."""
    try:
        yield
    except GemmsimError as error:
        by_row = any(name in table for name in (*OVERRIDES, *FORM))
        raise GemmsimError(f"{table.place(row) if by_row else table.path}: {error}") from None


def form_at(table: Table, row: int, shape: Form, dtype: str) -> Form:
    """The Form of a row: its cells where filled, else the options."""
    cells = {name: table.columns[name][row].strip() for name in FORM if name in table}
    given = {name: (cell, table.place(row, name)) for name, cell in cells.items() if cell}
    changes: dict[str, Any] = {"dtype": dtype}
    for name in ("dtype_b", "dtype_c"):
        if name in given:
            changes[name] = said_dtype(*given[name])
    if "layout" in given:
        changes["layout"] = said_layout(*given["layout"])
    if "epilogue" in given:
        changes["epilogue"] = epilogue_steps(*given["epilogue"])
    for name, (low, high) in {"batch": (1, MAX_DIMENSION), "beta": (0, 1)}.items():
        if name in given:
            changes[name] = int(table.whole(name, np.asarray([row]), low=low, high=high)[0])
    return replace(shape, **changes)


def said_at(table: Table, row: int, options: Options) -> tuple[dict[str, str | None], dict[str, str]]:
    """GPU, family, dtype and L2 of a row and where each was said: a filled cell goes before the option."""
    said: dict[str, str | None] = {}
    places: dict[str, str] = {}
    for name in OVERRIDES:
        cell = table.columns[name][row].strip() if name in table else ""
        said[name] = cell or getattr(options, name)
        places[name] = table.place(row, name) if cell or (name in table and said[name] is None) else f"--{name}"
    return said, places


def _chip(name: str | None, dtype: str, places: Mapping[str, str]) -> Gpu:
    if name is None:
        expected = "expected a GPU, here or as --gpu" if places["gpu"] != "--gpu" else "expected it, or a column gpu"
        raise GemmsimError(f"{places['gpu']} is missing: {expected}")
    try:
        chip = load_gpu(name)
    except GemmsimError as error:
        raise GemmsimError(f"{places['gpu']}: {error}") from None
    have = chip.arch.fma_per_clk_per_sm
    if dtype not in have:
        raise GemmsimError(f"{places['dtype']} is {dtype!r}: GPU {chip.name} ({places['gpu']}) has {', '.join(have)}")
    return chip


def _columns(p: Prediction) -> dict[str, Any]:
    """The columns of a prediction; all of them, asked for or not."""
    feasible = p.feasible
    blocks = [str(b) if ok else "" for b, ok in zip(p.blocks_per_sm.tolist(), feasible.tolist(), strict=True)]
    low, high = p.interval_s
    return {
        "time_lo_s": low, "time_hi_s": high,
        "feasible": feasible, "reason": p.reasons, "time_s": p.time_s, "tflops": p.tflops, "bound_by": p.bound_by,
        "blocks_per_sm": blocks, "limited_by": p.limited_by_names, **{name: getattr(p, name) for name in _NUMBERS},
        "calibration": [p.calibration.name] * len(p), "extrapolated": flags(p.extrapolated, feasible),
        **{f"demand_{t}_s": v for t, v in p.demand.items()}, **{f"saved_{t}_s": v for t, v in p.saved.items()},
    }  # fmt: skip


def flags(values: npt.NDArray[np.bool_], feasible: npt.NDArray[np.bool_]) -> list[str]:
    """1 or 0; empty for rows that cannot launch."""
    texts = np.where(feasible, np.where(values, "1", "0"), "")
    return [str(text) for text in texts.tolist()]
