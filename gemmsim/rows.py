"""CSV in and out, fast: every cell's text kept as it is, numbers read a column at a time, files that appear complete.

Readers get a `Table`: columns in the file's order, as text. A wrong cell is named by its file, row (the first data row
is row 1), line and column. Writers give columns; numeric arrays are written as the shortest text that reads back as the
same number, NaN as an empty cell.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from gemmsim.config import FACTS
from gemmsim.csvtext import cells
from gemmsim.errors import GemmsimError
from gemmsim.problem import MAX_DIMENSION, FloatArray, IntArray

Index = npt.NDArray[np.intp]
#: a column to write: text, or numbers
Column = Sequence[str] | npt.NDArray[Any]
#: columns that an error names of those that are there
_NAMED = 12
#: compiler fact -> the columns it may stand in, and what one unit of them is worth; the first that is there counts
FACT_COLUMNS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "regs_per_thread": (("regs_per_thread", 1), ("regs", 1), ("registers", 1), ("launch__registers_per_thread", 1)),
    "spill_bytes": (("spill_bytes", 1), ("spills", 4), ("stack_bytes", 1)),  # spills: Triton's count, of 4 B words
    "smem_bytes": (("smem_bytes", 1),),
}
#: rows written at once
_CHUNK = 16384
#: level of .gz output: 3 is four times as fast as 9 and 10 % larger
_GZIP_LEVEL = 3
_PLAIN = re.compile(r"[0-9.eE+-]*")


@dataclass(frozen=True)
class Table:
    """A CSV: column -> the text of its cells, in the file's order; `lines` holds the line on which each row ends.

    numbers: which rows of the file these are, if not all; the first is 1.
    """

    path: str
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]
    numbers: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def place(self, row: int, column: str = "") -> str:
        """Where a row or a cell stands, for a message."""
        number = self.numbers[row] if self.numbers else row + 1
        where = f"{self.path}, row {number} (line {self.lines[row]})"
        return f"{where}, column {column}" if column else where

    def take(self, rows: Index) -> Table:
        """Some of the rows, which keep their place in the file."""
        at = rows.tolist()
        numbers = [self.numbers[i] if self.numbers else i + 1 for i in at]
        columns = {name: self.text(name, rows) for name in self.columns}
        return Table(self.path, columns, [self.lines[i] for i in at], numbers)

    def text(self, column: str, rows: Index | None = None) -> Sequence[str]:
        """The cells of a column as they stand in the file. Raises GemmsimError if there is no such column."""
        if column not in self.columns:
            first, left = list(self.columns)[:_NAMED], len(self.columns) - _NAMED
            more = f" and {left} more" if left > 0 else ""
            raise GemmsimError(f"{self.path}: no column {column}: found {', '.join(first)}{more}")
        cells = self.columns[column]
        return cells if rows is None else [cells[i] for i in rows.tolist()]

    def whole(
        self, column: str, rows: Index | None = None, *, low: int = 1, high: int = MAX_DIMENSION,
        blank: int | None = None,
    ) -> IntArray:  # fmt: skip
        """A column of whole numbers from low to high; an empty cell is `blank`. Raises GemmsimError for another."""
        expected = f"a whole number from {low} to {high}"
        values = self._parse(column, rows, blank_ok=blank is not None, expected=expected)
        if blank is not None and np.isnan(values).any():
            empty = np.asarray([not cell.strip() for cell in self.text(column, rows)])
            values = np.where(empty, blank, values)
        self._check(column, rows, (values >= low) & (values <= high) & (values == np.floor(values)), expected)
        return values.astype(np.int64)

    def number(self, column: str, rows: Index | None = None, *, blank_ok: bool = False, low: float = 0) -> FloatArray:
        """A column of finite numbers >= low; blank_ok: an empty cell or `nan` is NaN. Raises GemmsimError otherwise."""
        expected = f"a number >= {low:g}{', or nothing' * blank_ok}"
        values = self._parse(column, rows, blank_ok=blank_ok, expected=expected)
        self._check(column, rows, np.isfinite(values) & (values >= low) | np.isnan(values) & blank_ok, expected)
        return values

    def facts(self, rows: Index | None = None, parameters: Collection[str] = ()) -> dict[str, FloatArray]:
        """Compiler facts that the columns hold, under whichever name: registers, spilled bytes, shared memory.

        parameters: of the rows' family; a column that is called like one (simt's `regs`) is no fact.
        """
        found = {}
        for fact, sources in FACT_COLUMNS.items():
            for column, unit in sources:
                if column in self and column not in parameters:
                    found[fact] = unit * self._fact(column, rows, FACTS[fact], MAX_DIMENSION // unit)
                    break
        return found

    def _fact(self, column: str, rows: Index | None, low: int, high: int) -> FloatArray:
        """A column of whole numbers from low to high, NaN where a cell is empty or `nan`."""
        expected = f"a whole number from {low} to {high}, or nothing"
        values = self._parse(column, rows, blank_ok=True, expected=expected)
        good = (values >= low) & (values <= high) & (values == np.floor(values))
        self._check(column, rows, good | np.isnan(values), expected)
        return values

    def _parse(self, column: str, rows: Index | None, *, blank_ok: bool, expected: str) -> FloatArray:
        """Cells as float64, whatever their value. Raises GemmsimError for text that is no number."""
        cells = self.text(column, rows)
        fast = _fast_numbers(cells, blank_ok)
        if fast is not None:
            return fast
        values = [_float(cell, blank_ok) for cell in cells]
        bad = next((i for i, value in enumerate(values) if value is None), None)
        if bad is not None:
            self._refuse(column, rows, bad, expected)
        return np.asarray(values, np.float64)

    def _check(self, column: str, rows: Index | None, good: npt.NDArray[np.bool_], expected: str) -> None:
        if not good.all():
            self._refuse(column, rows, int(np.argmin(good)), expected)

    def _refuse(self, column: str, rows: Index | None, position: int, expected: str) -> NoReturn:
        row = position if rows is None else int(rows[position])
        found = self.columns[column][row]
        shown = found if len(found) <= 40 else f"{found[:40]}..."
        raise GemmsimError(f"{self.place(row, column)} is {shown!r}: expected {expected}")


def _fast_numbers(cells: Sequence[str], blank_ok: bool) -> FloatArray | None:
    """Plain numbers by orjson, at half of what float() takes; None where a cell is anything else."""
    import orjson

    if not _PLAIN.fullmatch("".join(cells)):
        return None
    listed = ",".join([c or "null" for c in cells] if blank_ok else cells)
    try:
        values = np.asarray(orjson.loads(f"[{listed}]"), np.float64)
    except (orjson.JSONDecodeError, OverflowError):
        return None
    return values if len(values) == len(cells) else None  # one empty cell: no number, not a cell less


def _float(cell: str, blank_ok: bool) -> float | None:
    """A cell as a number; None if it is none. 1_000 and full-width digits are numbers to Python only."""
    if blank_ok and not cell.strip():
        return float("nan")
    try:
        return float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None


def read_csv(path: str) -> Table:
    """A .csv or .csv.gz in UTF-8, with a header. Raises GemmsimError for what is none, naming file and row."""
    header, columns, lines = cells(path)
    for name in header:
        if header.count(name) > 1:
            raise GemmsimError(f"{path}: column {name!r} is there twice")
    return Table(path, dict(zip(header, columns, strict=True)), lines)


def check_out(path: str, option: str = "--out") -> None:
    """Refuse, before any work, an output file that cannot be.

    Raises GemmsimError for a folder, and for a file in no folder or in one that cannot be written.
    """
    if not path:
        raise GemmsimError(f"{option} is '': expected the name of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise GemmsimError(f"{option} {path}: expected an existing folder, found none called {folder!r}")
    if os.path.isdir(path):
        raise GemmsimError(f"{option} {path}: expected the name of a file, found a folder")
    target = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device, a pipe: written as it is
        return
    if not os.access(os.path.dirname(target), os.W_OK):
        raise GemmsimError(f"{option} {path}: cannot be written: nothing can be, in {os.path.dirname(target)}")


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A file to write bytes to that takes its name only once it is complete; what is no regular file is written as is.

    Raises GemmsimError where it cannot be written; whatever goes wrong, nothing partial stays.
    """
    target = os.path.realpath(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, a pipe, whose real path is no file's
            with open(path, "wb") as file:
                yield file
            return
        folder, name = os.path.split(target)
        temporary = os.path.join(folder, f".{name[:64]}.{os.getpid()}.{os.urandom(4).hex()}.part")
        with open(temporary, "xb") as file:
            try:
                yield file
                file.close()
                os.replace(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_csv(
    path: str | None, columns: Mapping[str, Column], *, progress: Callable[[int], object] = lambda rows: None
) -> None:
    """Write columns of one length to a file (.gz if so named), complete or not at all; to stdout for None.

    progress is told how many rows were written, some thousands at a time. Raises GemmsimError where the file cannot
    be written.
    """
    if path is None:
        sys.stdout.flush()
        _write(getattr(sys.stdout, "buffer", None), columns, progress)
        return
    with whole_file(path) as file:
        if not path.endswith(".gz"):
            _write(file, columns, progress)
            return
        import gzip

        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
            _write(packed, columns, progress)


def _write(file: Any, columns: Mapping[str, Column], progress: Callable[[int], object]) -> None:
    write = file.write if file is not None else lambda data: sys.stdout.write(data.decode())
    for rows, data in csv_parts(columns):
        write(data)
        progress(rows)
    if file is not None:
        file.flush()


def csv_parts(columns: Mapping[str, Column]) -> Iterator[tuple[int, bytes]]:
    """The file in parts: rows of the part and its bytes, the header first. Lines end in a line feed."""
    yield 0, (",".join(_quoted(list(columns))) + "\n").encode()
    values = list(columns.values())
    for start in range(0, len(values[0]), _CHUNK):
        part = [column[start : start + _CHUNK] for column in values]
        lines = map(",".join, zip(*_texts(part), strict=True))
        yield len(part[0]), ("\n".join(lines) + "\n").encode()


def _texts(part: Sequence[Column]) -> Iterator[Sequence[str]]:
    """Cells as text, neighbouring arrays of numbers together: entry i is row i of one column or of several."""
    numbers: list[npt.NDArray[Any]] = []
    for column in part:
        if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
            column = column.astype(np.uint8) if column.dtype.kind == "b" else column
            if numbers and numbers[0].dtype != column.dtype:
                yield _number_texts(numbers)
                numbers = []
            numbers.append(column)
            continue
        if numbers:
            yield _number_texts(numbers)
            numbers = []
        yield _quoted(column)
    if numbers:
        yield _number_texts(numbers)


def _number_texts(columns: Sequence[npt.NDArray[Any]]) -> Sequence[str]:
    """Rows of numbers, joined by commas. orjson writes floats several times as fast as csv, and NaN as null."""
    import orjson

    block = np.ascontiguousarray(np.stack(columns, axis=1))
    text = orjson.dumps(block, option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].decode()
    return text.replace("null", "").split("],[")


def _quoted(cells: Column) -> Sequence[str]:
    """Cells of text, in quotes where CSV needs them."""
    texts: Sequence[str] = cells if not isinstance(cells, np.ndarray) else [str(c) for c in cells.tolist()]
    together = "\r".join(texts)
    if together.count("\r") == max(len(texts) - 1, 0) and not any(c in together for c in ',"\n'):
        return texts
    return [_quote(text) for text in texts]


def _quote(text: str) -> str:
    if any(c in text for c in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def out_names(given: Iterable[str], results: Iterable[str]) -> dict[str, str]:
    """Input column -> its name beside the results: `in_NAME` where a result has its name."""
    columns, taken = list(given), {*results}
    taken |= {name for name in columns if name not in taken}
    names = {}
    for column in columns:
        name = column
        if column in results:
            while name in taken:
                name = f"in_{name}"
            taken.add(name)
        names[column] = name
    return names
