"""`gemmsim validate --counters`: files of counters, what they lack, and options that do not go with them."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from gemmsim.cli import main

ROWS = Path(__file__).parents[2] / "studies" / "h200"
TRITON = ROWS / "triton_bf16_counters.csv.gz"
HEAD = "gpu,family,dtype,m,n,k,bm,bn,bk,dram__bytes_read_sum,dram__bytes_write_sum"
ROW = "h200_sxm,triton,bf16,4096,4096,4096,128,128,64,183661568,28929536"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err


def test_errors_a_term_at_a_time_of_both_models(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--counters", TRITON, "--format", "json")
    assert (code, err) == (0, "")
    found = {row["term"].strip(): row for row in json.loads(out)}
    assert found["DRAM read, over 1.1 x A and B"]["rows"] == 11
    assert found["DRAM read, over 1.1 x A and B"]["simulator_mean_pct"] < 6
    assert found["DRAM written, over 10 MB"]["rows"] == 12
    assert found["L2 <-> SM, stores too"]["rows"] == 18
    assert "L2 -> SM" not in found  # this file does not say what of the sectors was read


def test_each_launch_with_what_was_counted_and_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    each = tmp_path / "each.csv"
    code, out, _ = run(capsys, "--counters", TRITON, "--each", each)
    assert code == 0
    assert "simulator: mean %" in out
    with open(each, newline="") as file:
        rows = list(csv.DictReader(file))
    with gzip.open(TRITON, "rt") as file:
        counted = [float(row["dram__bytes_read_sum"]) for row in csv.DictReader(file)]
    assert [float(row["dram_read_bytes_counted"]) for row in rows] == counted
    assert all(float(row["dram_read_bytes_simulated"]) > 0 for row in rows)


def test_wavefronts_and_instructions_where_a_file_counts_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, each = tmp_path / "c.csv", tmp_path / "each.csv"
    with gzip.open(ROWS / "register_tile_fp32_counters.csv.gz", "rt") as file:
        lines = file.read().splitlines()[:2]
    path.write_text(f"{lines[0]},sass_step\n{lines[1]},271\n")
    code, out, err = run(capsys, "--counters", path, "--each", each, "--format", "json")
    assert (code, err) == (0, "")
    found = {row["term"]: row for row in json.loads(out)}
    assert found["shared-memory wavefronts"]["rows"] == 1
    assert found["shared-memory wavefronts"]["closed_mean_pct"] < 3
    assert found["instructions, main loop from SASS"]["closed_mean_pct"] < 1
    with open(each, newline="") as file:
        row = next(csv.DictReader(file))
    assert float(row["shared_wavefronts_counted"]) == 13729074
    assert float(row["shared_wavefronts_closed"]) == pytest.approx(13729074, rel=0.03)


def test_copies_of_a_single_element_and_families_whose_addresses_are_not_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """mma with strides that forbid cp.async (777 x 3333 x 555 of 2 bytes), beside wgmma, wmma and triton."""
    path = tmp_path / "c.csv"
    wmma = "h200_sxm,wmma,bf16,2048,2048,2048,64,64,32,32,32,2,17000000,8000000,5000000"
    path.write_text(f"{HEAD.replace('bk,', 'bk,wm,wn,stages,')},smsp__inst_executed_sum\n{wmma}\n")
    counted = [ROWS / f"{family}_counters.csv.gz" for family in ("mma", "wgmma")]
    code, out, err = run(
        capsys, *(x for file in (*counted, path, TRITON) for x in ("--counters", file)), "--format", "json"
    )
    assert (code, err) == (0, "")
    found = {row["term"].strip(): row["rows"] for row in json.loads(out)}
    assert found["L2 -> SM"] == 14 + 30
    assert found["shared-memory wavefronts"] == found["instructions, from the tile alone"] == 14
    assert found["no spills, through registers"] == 2


def test_rows_that_were_not_counted_are_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(f"{HEAD},status\n{ROW},ok\n{ROW.replace('183661568,28929536', ',')},launch\n")
    code, out, _ = run(capsys, "--counters", path, "--format", "json")
    assert code == 0
    assert json.loads(out)[0]["rows"] == 1


def test_what_the_file_does_not_say_is_an_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("\n".join(line.split(",", 3)[3] for line in (HEAD, ROW)) + "\n")
    assert "gpu" in refused(capsys, "--counters", path)
    assert run(capsys, "--counters", path, "--gpu", "h200_sxm", "--family", "triton", "--dtype", "bf16")[0] == 0


def test_a_launch_too_large_to_be_walked_leaves_the_closed_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.csv"
    huge = ROW.replace("4096,4096,4096,128,128", "65536,65536,64,16,16")
    path.write_text(f"{HEAD}\n{ROW}\n{huge}\n")
    code, out, _ = run(capsys, "--counters", path)
    assert code == 0
    assert "1 launch too large to be walked: the closed form alone is scored" in out


def test_a_launch_that_the_rules_refuse_is_not_scored(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    others = [ROW.replace("128,128,64", tile) for tile in ("1024,1024,64", "512,512,64")]
    path.write_text("\n".join((HEAD, ROW, *others)) + "\n")
    code, out, err = run(capsys, "--counters", path)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "2 launches refused by the family's rules, and not scored"
    assert out.splitlines()[1].split()[8:9] == ["1"]


def test_what_was_counted_as_nothing_has_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, sectors = tmp_path / "c.csv", "lts__t_sectors_srcunit_tex_sum,lts__t_sectors_srcunit_tex_lookup_hit_sum"
    nothing = ROW.replace("183661568", "0")
    path.write_text(f"{HEAD},{sectors}\n{nothing},0,0\n{ROW},46000000,30000000\n")
    code, out, err = run(capsys, "--counters", path, "--format", "json")
    assert (code, err) == (0, "")
    rows = {row["term"].strip(): row["rows"] for row in json.loads(out)}
    assert rows == {
        "DRAM read, over 1.1 x A and B": 1, "tiles of 64 x 64 and more": 1, "no second kernel": 1,
        "DRAM written, over 10 MB": 2, "L2 <-> SM, stores too": 1, "L2 hit rate (points)": 1,
    }  # fmt: skip


def test_wrong_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("gpu,family,dtype,m,n,k,bm,bn,bk\nh200_sxm,triton,bf16,64,64,64,64,64,64\n")
    assert "no column dram__bytes_read_sum" in refused(capsys, "--counters", path)
    path.write_text(f"{HEAD},status\n{ROW},launch\n")
    assert "status ok" in refused(capsys, "--counters", path)
    path.write_text(f"{HEAD}\n{ROW.replace('183661568', 'many')}\n")
    assert "dram__bytes_read_sum is 'many'" in refused(capsys, "--counters", path)
    assert "--rows and --counters" in refused(capsys)
    assert "--each" in refused(capsys, "--rows", TRITON, "--each", tmp_path / "e.csv")
    for option in (("--split", "config"), ("--plain",), ("--rows", TRITON), ("--without", "l2"), ("--l2", "warm")):
        assert option[0] in refused(capsys, "--counters", TRITON, *option)
    assert "--each" in refused(capsys, "--counters", TRITON, "--each", tmp_path / "missing" / "e.csv")
    assert "--counters" in refused(capsys, "--counters", path, "--each", path)
    assert "than --out's" in refused(capsys, "--counters", TRITON, "--each", path, "--out", path)
