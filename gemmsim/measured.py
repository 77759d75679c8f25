"""Measured rows as the model sees them: problems, configurations, compiler facts and times of one kernel on one GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DISTURBED, l2_condition
from gemmsim.config import Config, Launch, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.predict import with_facts
from gemmsim.problem import FloatArray, Form, Gemm, dtype_name, form_of, gemm
from gemmsim.rows import Table, read_csv

#: no kernel takes less or more, s: another number is in another unit
_LEAST_S, _MOST_S = 1e-8, 1e6
Index = npt.NDArray[np.intp]
#: columns that say more of a problem than its size and type
FORM = ("dtype_b", "dtype_c", "layout", "batch", "beta", "epilogue")


@dataclass(frozen=True)
class Measured:
    """Measured rows of one family, GPU, dtype and L2 condition. facts: compiler facts by name (may be empty)."""

    problem: Gemm
    config: Config
    facts: Mapping[str, FloatArray]
    time_s: FloatArray
    gpu: Gpu
    l2: str

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, index: Index | npt.NDArray[np.bool_]) -> Measured:
        """The rows at these positions, or where true."""
        where = np.flatnonzero(index) if index.dtype == bool else np.asarray(index, np.intp)
        p = self.problem
        problem = p.take(where)
        facts = {name: column[where] for name, column in self.facts.items()}
        return replace(self, problem=problem, config=self.config.take(where), facts=facts, time_s=self.time_s[where])

    def without_facts(self) -> Measured:
        """The same rows with tile parameters alone. Raises GemmsimError if by those alone one could not launch."""
        rows = replace(self, facts={})
        for row, reason in rows.refused():
            raise GemmsimError(f"{config_key(rows.config.row(row))} cannot launch by its tile alone: {reason}: "
                               "expected compiler facts in use, or no such row")  # fmt: skip
        return rows

    def refused(self) -> Iterator[tuple[int, str]]:
        """Rows that the model would not let launch, and why."""
        launch, arch, module = self.launch(), self.gpu.arch, families.family(self.config.family)
        refusals = module.refusals(self.problem, self.config, launch, arch)
        held = blocks_per_sm(arch, launch.threads, launch.regs_per_thread, launch.smem_bytes).blocks_per_sm
        refusals.when("blocks_per_sm", held < 1, "no block fits an SM")
        return ((i, reason) for i, reason in enumerate(refusals.reasons()) if reason)

    def launch(self) -> Launch:
        """Launches, with the facts where known."""
        module = families.family(self.config.family)
        return with_facts(module.launch(self.problem, self.config, self.gpu.arch), self.facts)

    @property
    def spills(self) -> npt.NDArray[np.bool_]:
        """Rows whose kernel spills registers, by the facts or else the estimate."""
        return np.asarray(self.launch().spill_bytes > 0)

    @property
    def configurations(self) -> npt.NDArray[np.int64]:
        """Number of each row's configuration."""
        return groups(list(self.config.values.values()))

    @property
    def shapes(self) -> npt.NDArray[np.int64]:
        """Number of each row's problem."""
        return groups([self.problem.m, self.problem.n, self.problem.k])


def groups(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """For each row the number of its distinct combination of the columns."""
    _, inverse = np.unique(np.stack(list(columns), axis=1), axis=0, return_inverse=True)
    return np.asarray(inverse.ravel(), np.int64)


def joined(parts: Sequence[Measured]) -> Measured:
    """Rows of several files as one. Raises GemmsimError if they are not of one GPU, family, dtype and condition."""
    first = parts[0]
    for other in parts[1:]:
        for what, a, b in _identity(first, other):
            if a != b:
                raise GemmsimError(f"rows of {what} {a} and of {what} {b} are not mixed: give them one at a time")
    if len(parts) == 1:
        return first
    names = set.intersection(*(set(p.facts) for p in parts))
    m, n, k, batch = (np.concatenate([getattr(p.problem, d) for p in parts]) for d in ("m", "n", "k", "batch"))
    values = {c: np.concatenate([p.config[c] for p in parts]) for c in first.config.values}
    return replace(
        first,
        problem=replace(first.problem, m=m, n=n, k=k, batch=batch),
        config=Config(first.config.family, values),
        facts={name: np.concatenate([p.facts[name] for p in parts]) for name in sorted(names)},
        time_s=np.concatenate([p.time_s for p in parts]),
    )


def _identity(a: Measured, b: Measured) -> list[tuple[str, str, str]]:
    return [
        ("GPU", a.gpu.name, b.gpu.name),
        ("family", a.config.family, b.config.family),
        ("dtype", a.problem.dtype, b.problem.dtype),
        ("L2 condition", a.l2, b.l2),
    ]


def read_measured(
    path: str, *, gpu: str | None = None, family: str | None = None, dtype: str | None = None, l2: str | None = None
) -> Measured:
    """The timed rows of a CSV. Raises GemmsimError as `measured_rows` does, and where there is no such file."""
    return measured_rows(read_csv(path), gpu=gpu, family=family, dtype=dtype, l2=l2)


def measured_rows(
    table: Table, *, gpu: str | None = None, family: str | None = None, dtype: str | None = None, l2: str | None = None
) -> Measured:
    """The timed rows of a table. Columns gpu, family, dtype and l2 say what they are; arguments stand in if missing.

    So do, if there, layout, epilogue, beta, batch and the types of B and C: all rows of a file are of one form.
    time_s, or median_s, is the time; a median over twice min_s was disturbed, and min_s stands for it. Rows with a
    column status other than ok are left out. Raises GemmsimError for rows that differ in what they are or lack a time.
    """
    path = table.path
    said = {"gpu": gpu, "family": family, "dtype": dtype, "l2": l2}
    what = {name: _one(table, name, given) for name, given in said.items()}
    try:
        chip, dtype_ = load_gpu(what["gpu"]), dtype_name(what["dtype"])
        families.check_dtype(what["family"], dtype_)
    except GemmsimError as error:
        raise GemmsimError(f"{path}: {error}") from None
    keep = _timed(table)
    m, n, k = (table.whole(d, keep) for d in "mnk")
    known = [p for p in families.family(what["family"]).PARAMETERS if p.name in table]
    columns = {p.name: table.whole(p.name, keep, low=families.least(p)) for p in known}
    config = families.config(what["family"], columns, len(keep))
    rows = Measured(
        gemm(m, n, k, _form(table, dtype_)), config, table.facts(keep, config.values), _time(table, keep), chip,
        l2_condition(what["l2"], where=path),
    )  # fmt: skip
    for row, reason in rows.refused():
        raise GemmsimError(f"{table.place(int(keep[row]))} cannot launch on {chip.name}, and has a time: {reason}")
    return rows


def _form(table: Table, dtype: str) -> Form:
    """The one form of all rows. Raises GemmsimError where they differ in it."""
    cells = {name: _one(table, name, None).strip() for name in FORM if name in table}
    given = {name: cell for name, cell in cells.items() if cell}
    changes: dict[str, Any] = {name: given[name] for name in ("dtype_b", "dtype_c", "layout") if name in given}
    if "epilogue" in given:
        changes["epilogue"] = tuple(given["epilogue"].split(","))
    for name, low in {"batch": 1, "beta": 0}.items():
        if name in given:
            changes[name] = int(table.whole(name, np.zeros(1, np.intp), low=low)[0])
    try:
        return form_of(Form(dtype, **changes))
    except GemmsimError as error:
        raise GemmsimError(f"{table.path}: {error}") from None


def _one(table: Table, name: str, given: str | None) -> str:
    """What the rows are: the column's only value, else the argument."""
    if name not in table:
        if given is None:
            raise GemmsimError(f"{table.path}: no column {name}: expected it, or --{name}")
        return given
    values = list(dict.fromkeys(table.text(name)))
    if len(values) != 1:
        found = ", ".join(value or "nothing" for value in values[:4])
        raise GemmsimError(f"{table.path}: column {name} holds {found}: expected one {name} a file")
    if given is not None and not _same(name, given, values[0]):
        raise GemmsimError(f"{table.path}: column {name} holds {values[0]}, and --{name} says {given}")
    return values[0]


def _same(name: str, given: str, held: str) -> bool:
    """Whether two names are of one thing: a GPU's also as its device string or file, a dtype's also as PyTorch's."""
    if given == held:
        return True
    try:
        if name == "gpu":
            return load_gpu(given).name == load_gpu(held).name
        return name == "dtype" and dtype_name(given) == dtype_name(held)
    except GemmsimError:
        return False


def _timed(table: Table) -> Index:
    if "status" not in table:
        return np.arange(len(table))
    keep = np.flatnonzero(np.asarray([s == "ok" for s in table.text("status")]))
    if not len(keep):
        raise GemmsimError(f"{table.path}: no row has the status ok: expected at least one that was timed")
    return keep


def _time(table: Table, keep: Index) -> FloatArray:
    column = "time_s" if "time_s" in table else "median_s"
    if column not in table:
        raise GemmsimError(f"{table.path}: no column time_s or median_s: expected the measured time in seconds")
    time = table.number(column, keep)
    good = (time >= _LEAST_S) & (time <= _MOST_S)
    if not good.all():
        row = int(np.argmin(good))
        expected = f"seconds, from {_LEAST_S:g} to {_MOST_S:g}"
        raise GemmsimError(f"{table.place(int(keep[row]), column)} is {time[row]:g}: expected {expected}")
    if column == "median_s" and "min_s" in table:
        least = table.number("min_s", keep)
        return np.where(time > DISTURBED * least, least, time)
    return time
