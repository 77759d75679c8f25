"""Rows as CSV and back, and into the readers of measured rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.measured import read_measured
from gemmsim.rowfile import columns, read_rows
from gemmsim.rows import read_csv, write_csv
from gemmsim.store import COLUMNS

ROWS = Path(__file__).parents[1] / "studies" / "h200"


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    first = _row(status="ok", reason='says "no", twice')
    second = _row(m=65, status="refused", time_s=None, samples_s=None, power_w_before=None, family="cublas", config={})
    write_csv(str(path), columns([first, second]))
    found, spare = read_rows(read_csv(str(path)), "new")
    assert spare == []
    for before, after in zip([first, second], found, strict=True):
        expected = {name: before.get(name) for name in (*COLUMNS, "config", "samples_s")} | {"campaign": "new"}
        shown = {name: after.get(name) for name in expected}
        assert {k: v or None for k, v in shown.items()} == {k: v or None for k, v in expected.items()}


def test_the_readers_of_measured_rows_take_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    tile = {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4}
    facts = {"regs_per_thread": 64, "spill_bytes": 0, "smem_bytes": 8448}
    rows = [_row(family="register_tile", config=tile, time_s=2e-5, m=256, n=256, k=256, **facts),
            _row(family="register_tile", config=tile | {"tm": 3}, time_s=None, status="refused",
                 samples_s=None)]  # fmt: skip
    write_csv(str(path), columns(rows))
    measured = read_measured(str(path))
    assert measured.time_s.tolist() == [2e-5]
    assert measured.config.row(0) == tile
    assert measured.facts["regs_per_thread"].tolist() == [64]
    assert (measured.gpu.name, measured.l2) == ("h200_sxm", "warm")


def test_shipped_rows_come_in() -> None:
    table = read_csv(str(ROWS / "register_tile_fp32.csv.gz"))
    rows, spare = read_rows(table, "shipped")
    assert len(rows) == len(table)
    assert rows[0]["config"].keys() == {"bm", "bn", "bk", "tm", "tn"}
    assert rows[0]["time_s"] > 0
    assert rows[0]["layout"] == "NN"
    assert "config" not in spare


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"status": "fine"}, r"row 1 \(line 2\), column status is 'fine': expected one of ok"),
        ({"l2": "lukewarm"}, r"row 1 \(line 2\): unknown L2 condition 'lukewarm'"),
        ({"epilogue": "tanh"}, r"column epilogue holds 'tanh'"),
        ({"samples_s": "1;2"}, r"column samples_s is '1;2': expected a list of seconds"),
        ({"m": "1.5"}, r"column m is '1.5': expected a whole number"),
        ({"m": "3e9"}, r"column m is '3e9': expected a whole number up to 2147483647"),
        ({"regs_per_thread": "1e30"}, r"column regs_per_thread is '1e30': expected a whole number up to"),
        ({"bm": "1e19"}, r"column bm is '1e19': expected a whole number up to 9007199254740992"),
        ({"time_s": ""}, r"column time_s is empty: expected a time, or a status other than ok"),
        ({"time_s": "soon"}, r"column time_s is 'soon': expected a number"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path: Path, change: dict[str, str], sentence: str) -> None:
    path = tmp_path / "rows.csv"
    cells = {name: list(map(str, values)) for name, values in columns([_row()]).items()} | {
        name: [value] for name, value in change.items()
    }
    write_csv(str(path), cells)
    with pytest.raises(GemmsimError, match=sentence):
        read_rows(read_csv(str(path)), "c")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("gpu,family,m,n,k\nh200_sxm,naive,1,1,1\n")
    with pytest.raises(GemmsimError, match="no column dtype"):
        read_rows(read_csv(str(path)), "c")


def _row(**changes: Any) -> dict[str, Any]:
    plain = {
        "campaign": "c", "gpu": "h200_sxm", "family": "naive", "dtype": "fp32", "dtype_b": "fp32", "dtype_c": "fp32",
        "layout": "NN", "batch": 1, "beta": 0, "epilogue": "bias,gelu", "m": 64, "n": 32, "k": 16, "kernel_hash": "ab",
        "l2": "warm", "timing": "event", "against": "", "status": "ok", "time_s": 1.5e-6, "sample_count": 2,
        "config": {"bm": 8, "bn": 32, "bk": 4, "coalesced": 1},
        "samples_s": [1.5e-6, 2.5e-6], "power_w_before": 310.5,
    }  # fmt: skip
    return plain | changes


def test_a_disturbed_median_gives_way_to_the_minimum(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("gpu,family,dtype,l2,m,n,k,bm,bn,bk,median_s,min_s\n" + "".join(
        f"h200_sxm,triton,bf16,warm,64,64,64,64,64,64,{times}\n" for times in ("9e-6,4e-6", "7e-6,4e-6", "9e-6,"))
    )  # fmt: skip
    rows, _ = read_rows(read_csv(str(path)), "c")
    assert [row["time_s"] for row in rows] == [4e-6, 7e-6, 9e-6]


@pytest.mark.parametrize(("time_s", "found"), [("0", "0"), ("", "empty"), ("nan", "empty")])
def test_a_row_that_ran_took_time(tmp_path: Path, time_s: str, found: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"gpu,family,dtype,l2,m,n,k,time_s\nh200_sxm,cublas,bf16,warm,64,64,64,{time_s}\n")
    with pytest.raises(GemmsimError, match=f"column time_s is {found}: expected a time, or a status other than ok"):
        read_rows(read_csv(str(path)), "c")
