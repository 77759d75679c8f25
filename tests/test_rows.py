"""CSV in and out: text kept, numbers checked cell by cell, files complete or absent."""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.rows import Table, csv_parts, out_names, read_csv, whole_file, write_csv


def table(folder: Path, text: str | bytes, name: str = "in.csv") -> Table:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_csv(str(path))


def written(columns: dict[str, object]) -> str:
    return b"".join(data for _, data in csv_parts(columns)).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_the_text_of_every_cell_is_kept_in_the_files_order(tmp_path: Path, end: str, last: str) -> None:
    t = table(tmp_path, end.join(["z,a,m", "1.50, x ,007", ",-0,1e3"]) + last)
    assert {c: list(v) for c, v in t.columns.items()} == {"z": ["1.50", ""], "a": [" x ", "-0"], "m": ["007", "1e3"]}
    assert list(t.columns) == ["z", "a", "m"]
    assert len(t) == 2


def test_byte_order_mark_quotes_line_breaks_and_empty_lines(tmp_path: Path) -> None:
    t = table(tmp_path, b'\xef\xbb\xbfm,note\n1,"a, ""b"""\n\n2,"two\nlines"\n3,ok\n')
    assert list(t.text("note")) == ['a, "b"', "two\nlines", "ok"]
    assert list(t.lines) == [2, 5, 6]
    assert t.place(2, "m") == f"{tmp_path}/in.csv, row 3 (line 6), column m"


def test_gzip_and_a_single_column(tmp_path: Path) -> None:
    assert list(table(tmp_path, gzip.compress(b"m,n\n1,2\n"), "in.csv.gz").text("n")) == ["2"]
    assert list(table(tmp_path, "m\n1\n2\n").text("m")) == ["1", "2"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "found an empty file"),
        (b"\nm,n\n1,2\n", "found an empty first line"),
        (b"m,n\n", "expected rows below the header, found none"),
        (b"m,n", "expected rows below the header, found none"),
        (b"m,n\n1,2\n3\n", "row 2 (line 3): expected 2 cells, as in the header, found 1"),
        (b"m,n\n1,2\n3,4,5\n", "row 2 (line 3): expected 2 cells, as in the header, found 3"),
        (b"m,n\n1\n3,4,5\n", "row 1 (line 2): expected 2 cells, as in the header, found 1"),
        (b"m,n,m\n1,2,3\n", "column 'm' is there twice"),
        (b"m,n\n1,\xff\n", "expected UTF-8 text, found byte 0xff on line 2"),
        ("m,n\n1,2\n".encode("utf-16"), "expected UTF-8 text, found byte 0xff on line 1"),
        (b'm,n\n1,"2\n', "line 2: expected CSV, found a broken cell"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    with pytest.raises(GemmsimError) as caught:
        table(tmp_path, data)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/in.csv")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"none\.csv: cannot be read: No such file"):
        read_csv(str(tmp_path / "none.csv"))
    with pytest.raises(GemmsimError, match="Is a directory"):
        read_csv(str(tmp_path))
    with pytest.raises(GemmsimError, match="expected gzip, as its name says"):
        table(tmp_path, b"m\n1\n", "a.csv.gz")
    with pytest.raises(GemmsimError, match="expected a complete gzip file"):
        table(tmp_path, gzip.compress(b"m\n" + b"1\n" * 99)[:-9], "b.csv.gz")


@pytest.mark.parametrize(
    "cell", ["0", "-4", "1.5", "x", "", "nan", "inf", "2147483648", "9" * 30, "1_000", "４０", "true", "[1]", "0x10"]
)
def test_a_cell_that_is_no_whole_number(tmp_path: Path, cell: str) -> None:
    t = table(tmp_path, f"m,n\n1,1\n2,{cell}\n")
    with pytest.raises(GemmsimError) as caught:
        t.whole("n")
    shown = cell
    assert f"row 2 (line 3), column n is {shown!r}: expected a whole number from 1 to 2147483647" in str(caught.value)


def test_one_empty_cell_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match="column n is '': expected"):
        table(tmp_path, "m,n\n1,\n").whole("n")


def test_whole_numbers_of_some_rows(tmp_path: Path) -> None:
    t = table(tmp_path, "m,n\n4096,x\n 16 ,2\n4.096e3,3.0\n2147483647,4\n")
    assert t.whole("m").tolist() == [4096, 16, 4096, 2147483647]
    assert t.whole("n", np.asarray([3, 2])).tolist() == [4, 3]
    with pytest.raises(GemmsimError, match="row 1"):
        t.whole("n", np.asarray([3, 0]))


def test_numbers_may_be_blank_where_that_is_said(tmp_path: Path) -> None:
    t = table(tmp_path, "a,b,c\n1,,x\n2.5,nan,1\n3,7,1\n")
    assert np.array_equal(t.number("b", blank_ok=True), [np.nan, np.nan, 7], equal_nan=True)
    assert t.number("a").tolist() == [1, 2.5, 3]
    with pytest.raises(GemmsimError, match="column b is '': expected a number >= 0"):
        t.number("b")
    with pytest.raises(GemmsimError, match="column c is 'x': expected a number >= 0, or nothing"):
        t.number("c", blank_ok=True)
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"c{i}" for i in range(20)) + "\n" + ",".join("1" * 20) + "\n")
    with pytest.raises(GemmsimError, match=r"no column d: found c0, .*, c11 and 8 more$"):
        read_csv(str(wide)).text("d")
    with pytest.raises(GemmsimError, match="no column d: found a, b, c"):
        t.number("d")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("regs_per_thread,spill_bytes,smem_bytes", (100, 8, 1024)),
        ("regs,spills,smem_bytes", (100, 32, 1024)),
        ("registers,stack_bytes,smem_bytes", (100, 8, 1024)),
    ],
)
def test_compiler_facts_under_their_names(tmp_path: Path, header: str, expected: tuple[int, ...]) -> None:
    facts = table(tmp_path, f"{header}\n100,8,1024\n,,\n").facts()
    assert tuple(f[0] for f in facts.values()) == expected
    assert list(facts) == ["regs_per_thread", "spill_bytes", "smem_bytes"]
    assert all(np.isnan(f[1]) for f in facts.values())


@given(st.lists(st.tuples(st.text('ab,"\n 1.é'), st.text("0123456789.e-")), min_size=1, max_size=5))
def test_what_is_written_is_what_csv_reads(rows: list[tuple[str, str]]) -> None:
    text = written({"x, y": [a for a, _ in rows], "z": [b for _, b in rows], "n": np.arange(len(rows))})
    header, *found = csv.reader(io.StringIO(text, newline=""))
    assert header == ["x, y", "z", "n"]
    assert found == [[a, b, str(i)] for i, (a, b) in enumerate(rows)]


@given(st.lists(st.floats(), min_size=1), st.integers(-(2**63), 2**63 - 1))
def test_numbers_read_back_as_they_were(values: list[float], whole: int) -> None:
    columns = {"a": np.asarray(values), "b": np.asarray(values), "w": np.full(len(values), whole)}
    rows = list(csv.reader(io.StringIO(written(columns))))[1:]
    for value, (a, b, w) in zip(values, rows, strict=True):
        assert a == b
        assert int(w) == whole
        assert a == "" if not np.isfinite(value) else float(a) == value


def test_parts_of_many_rows_join(tmp_path: Path) -> None:
    rows, seen = 40_000, []
    path = tmp_path / "out.csv"
    write_csv(str(path), {"i": np.arange(rows), "t": ["x"] * rows, "ok": np.ones(rows, bool)}, progress=seen.append)
    lines = path.read_text().splitlines()
    assert lines[0] == "i,t,ok"
    assert lines[1:] == [f"{i},x,1" for i in range(rows)]
    assert sum(seen) == rows


def test_gzipped_output_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_csv(str(tmp_path / name), {"m": np.asarray([1, 2])})
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"m\n1\n2\n"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_file_leaves_the_old_one_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def stop(rows: int) -> None:
        raise error

    with pytest.raises(error):
        write_csv(str(path), {"m": np.arange(9)}, progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text() == "old"


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    write_csv("/dev/null", {"m": np.arange(9)})
    assert Path("/dev/null").is_char_device()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real.csv")
    write_csv(str(link), {"m": np.arange(1)})
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "m\n0\n"


def test_a_pipe_is_written_to_by_whichever_name(tmp_path: Path) -> None:
    """/dev/stdout is a link to a link to pipe:[4711], which is no file's name."""
    read, write = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{write}")
    write_csv(str(link), {"m": np.arange(1)})
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"m\n0\n"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match="cannot be written"), whole_file(str(tmp_path / "none" / "x.csv")):
        pass


def test_input_columns_that_have_a_results_name() -> None:
    names = out_names(["m", "time_s", "in_time_s"], ["time_s", "reason"])
    assert names == {"m": "m", "time_s": "in_in_time_s", "in_time_s": "in_time_s"}
