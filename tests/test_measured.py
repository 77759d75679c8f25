"""Measured rows: what they are, which count, which are never mixed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.measured import groups, joined, read_measured

ROWS = Path(__file__).parents[1] / "studies" / "h200"
HEAD = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,tm,tn,regs,median_s,min_s"
ROW = "h200_sxm,register_tile,fp32,warm,512,256,128,64,64,16,4,4,58,2e-5,1.9e-5"


def write(folder: Path, *lines: str, name: str = "rows.csv") -> str:
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    found = read_measured(write(tmp_path, HEAD, ROW, ROW.replace("512", "1024")))
    assert (found.gpu.name, found.config.family, found.problem.dtype, found.l2) == (
        "h200_sxm", "register_tile", "fp32", "warm",
    )  # fmt: skip
    assert found.problem.m.tolist() == [512, 1024]
    assert found.config.row(0) == {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4}
    assert found.time_s.tolist() == [2e-5, 2e-5]
    assert found.facts["regs_per_thread"].tolist() == [58, 58]
    assert found.launch().regs_per_thread.tolist() == [58, 58]
    assert not found.without_facts().launch().from_facts.any()


def test_options_fill_in_what_the_columns_leave_out(tmp_path: Path) -> None:
    path = write(tmp_path, "m,n,k,time_s", "512,256,128,2e-5")
    found = read_measured(path, gpu="h100_pcie", family="triton", dtype="float16", l2="cold_clean")
    assert (found.gpu.name, found.problem.dtype, found.l2) == ("h100_pcie", "fp16", "cold_clean")
    assert found.config.row(0)["num_warps"] == 8  # the family's default
    with pytest.raises(GemmsimError, match="no column gpu: expected it, or --gpu"):
        read_measured(path, family="triton", dtype="fp16", l2="warm")


@pytest.mark.parametrize(
    ("median", "least", "counts"), [(24.5e-6, 6e-6, 6e-6), (11.9e-6, 6e-6, 11.9e-6), (6e-6, 6e-6, 6e-6)]
)
def test_a_median_over_twice_the_minimum_was_disturbed(
    tmp_path: Path, median: float, least: float, counts: float
) -> None:
    row = ROW.replace("2e-5,1.9e-5", f"{median},{least}")
    assert read_measured(write(tmp_path, HEAD, row)).time_s.tolist() == [counts]


def test_the_disturbed_row_of_the_shipped_file() -> None:
    found = read_measured(str(ROWS / "triton_bf16.csv.gz"))
    p, c = found.problem, found.config
    small = (p.m == 256) & (p.n == 256) & (p.k == 256) & (c["bm"] == 64) & (c["bn"] == 128) & (c["bk"] == 128)
    (row,) = np.flatnonzero(small & (c["num_warps"] == 4) & (c["num_stages"] == 4) & (c["group_m"] == 8))
    assert 5.9e-6 < found.time_s[row] < 6.1e-6


def test_only_rows_that_ran_count(tmp_path: Path) -> None:
    lines = [f"{HEAD},status", f"{ROW},ok", f"{ROW},compile".replace("2e-5,1.9e-5", ","), f"{ROW},ok"]
    assert len(read_measured(write(tmp_path, *lines))) == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("h200_sxm", "h100_sxm", "column gpu holds h200_sxm, h100_sxm: expected one gpu a file"),
        ("warm", "cold_clean", "column l2 holds warm, cold_clean: expected one l2 a file"),
        ("fp32", "bf16", "column dtype holds fp32, bf16: expected one dtype a file"),
        ("register_tile", "triton", "column family holds register_tile, triton: expected one family a file"),
        ("2e-5", "0", "row 2 (line 3), column median_s is"),
        ("2e-5", "fast", "row 2 (line 3), column median_s is 'fast'"),
        ("512", "0", "row 2 (line 3), column m is '0'"),
    ],
)
def test_rows_of_different_things_and_wrong_cells(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(GemmsimError) as caught:
        read_measured(write(tmp_path, HEAD, ROW, ROW.replace(old, new, 1)))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"gpu": "a100_sxm_80gb"}, "column gpu holds h200_sxm, and --gpu says a100_sxm_80gb"),
        ({"l2": "cold_clean"}, "column l2 holds warm, and --l2 says cold_clean"),
    ],
)
def test_an_option_that_contradicts_the_rows(tmp_path: Path, given: dict[str, str], says: str) -> None:
    with pytest.raises(GemmsimError, match=says):
        read_measured(write(tmp_path, HEAD, ROW), **given)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("m,n,k,time_s", "64,64,64,1e-5"), "no column gpu"),
        ((HEAD.replace("median_s", "seconds"), ROW), "no column time_s or median_s"),
        ((HEAD, ROW.replace("fp32", "bf16")), "family register_tile has no bf16 kernel"),
        ((HEAD, ROW.replace("warm", "hot")), "unknown L2 condition 'hot'"),
        ((HEAD, ROW.replace("h200_sxm", "h300")), "unknown GPU 'h300'"),
        ((f"{HEAD},status", f"{ROW},timeout"), "no row has the status ok"),
    ],
)
def test_files_that_are_no_measured_rows(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(GemmsimError, match=says):
        read_measured(write(tmp_path, *lines))


def test_files_of_the_same_thing_are_joined(tmp_path: Path) -> None:
    a = read_measured(write(tmp_path, HEAD, ROW))
    without = write(tmp_path, HEAD.replace("regs", "note"), ROW.replace("512", "64"), name="b.csv")
    both = joined([a, read_measured(without)])
    assert both.problem.m.tolist() == [512, 64]
    assert both.facts == {}  # one file lacks them
    assert len(joined([a, a, a])) == 3
    assert joined([a]) is a


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("h200_sxm", "h100_sxm", "rows of GPU h200_sxm and of GPU h100_sxm are not mixed"),
        ("warm", "cold_clean", "rows of L2 condition warm and of L2 condition cold_clean are not mixed"),
        ("register_tile,fp32", "triton,bf16", "rows of family register_tile and of family triton are not mixed"),
    ],
)
def test_files_of_different_things_are_not(tmp_path: Path, old: str, new: str, says: str) -> None:
    first = read_measured(write(tmp_path, HEAD, ROW))
    other = read_measured(write(tmp_path, HEAD, ROW.replace(old, new), name="b.csv"))
    with pytest.raises(GemmsimError, match=says):
        joined([first, other])


def test_dtypes_are_not_mixed(tmp_path: Path) -> None:
    row = "h200_sxm,triton,bf16,warm,512,256,128,64,64,16,4,4,58,2e-5,1.9e-5"
    first, other = (
        read_measured(write(tmp_path, HEAD, row.replace("bf16", dtype), name=f"{dtype}.csv"))
        for dtype in ("bf16", "fp16")
    )
    with pytest.raises(GemmsimError, match="rows of dtype bf16 and of dtype fp16 are not mixed"):
        joined([first, other])


def test_rows_by_position_or_where_true() -> None:
    rows = read_measured(str(ROWS / "register_tile_fp32.csv.gz"))
    spilled = rows.take(rows.spills)
    assert 0 < len(spilled) < len(rows)
    assert (spilled.facts["spill_bytes"] > 0).all()
    some = rows.take(np.asarray([5, 2]))
    assert some.time_s.tolist() == [rows.time_s[5], rows.time_s[2]]
    assert some.config.row(1) == rows.config.row(2)
    assert int(rows.configurations.max()) + 1 == 90
    assert int(rows.shapes.max()) + 1 == 13


def test_groups_number_distinct_rows() -> None:
    found = groups([np.asarray([3, 1, 3, 3]), np.asarray([0, 0, 0, 1])])
    assert found[0] == found[2]
    assert len({*found.tolist()}) == 3
