"""`gemmsim occupancy`: one launch, a CSV of them, and wrong input."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from gemmsim.cli import main

DATA = Path(__file__).parents[1] / "data"
Run = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Run:
    with pytest.raises(SystemExit) as caught:
        main(["occupancy", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "in.csv"
    path.write_text(text)
    return path


def test_one_launch_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--gpu", "NVIDIA H200", "--threads", 256, "--regs", 128, "--smem", 49152)
    lines = dict(line.split("  ", 1) for line in out.splitlines() if line[0] != " ")
    assert code == 0
    assert {key: value.strip() for key, value in lines.items()} == {
        "GPU": "h200_sxm",
        "threads a block": "256",
        "registers a thread": "128",
        "shared memory a block": "48 KiB",
        "blocks per SM": "2",
        "warps per SM": "16",
        "occupancy": "25 %",
        "limited by": "registers",
    }


def test_one_launch_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--gpu", "a100_sxm_80gb", "--threads", 33, "--regs", 32, "--format", "json")
    found = json.loads(out)
    assert (found["blocks_per_sm"], found["warps_per_sm"], found["occupancy"]) == (32, 64, 1.0)
    assert found["limited_by"] == "warps, registers, blocks"
    assert (found["limit_registers"], found["limit_shared_memory"]) == (32, 164)


@pytest.mark.parametrize(
    ("threads", "regs", "smem", "why"),
    [
        (2048, 32, 0, "2048 threads a block, at most 1024"),
        (128, 300, 0, "300 registers a thread, at most 255"),
        (128, 32, 232449, "232449 B of shared memory a block, at most 232448 B"),
        (288, 255, 0, "9 warps of 255 registers a thread take more than the 65536 of a block"),
    ],
)
def test_a_launch_that_cannot_be_says_why(
    capsys: pytest.CaptureFixture[str], threads: int, regs: int, smem: int, why: str
) -> None:
    code, out, _ = run(capsys, "--gpu", "h200_sxm", "--threads", threads, "--regs", regs, "--smem", smem)
    assert code == 0
    assert out.splitlines()[-1] == f"cannot launch: {why}"


def test_a_batch_keeps_every_column_and_adds_two(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = (
        "name,gpu,threads,regs_per_thread,smem_bytes,limited_by\n"
        '"a, b",h200,128,64,1000,mine\n'
        "b,NVIDIA A100-SXM4-80GB,128,64.0,200000,\n"
    )
    out = tmp_path / "out.csv"
    code, printed, _ = run(capsys, "--batch", csv_file(tmp_path, rows), "--out", out)
    assert (code, printed) == (0, "")
    assert out.read_text() == (
        "name,gpu,threads,regs_per_thread,smem_bytes,in_limited_by,blocks_per_sm,limited_by\n"
        '"a, b",h200,128,64,1000,mine,8,registers\n'
        "b,NVIDIA A100-SXM4-80GB,128,64.0,200000,,0,shared_memory\n"
    )


def test_a_batch_without_gpu_takes_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = csv_file(tmp_path, "threads,regs,smem_bytes\n256,128,0\n")
    assert run(capsys, "--batch", rows, "--gpu", "h200")[1] == (
        "threads,regs,smem_bytes,blocks_per_sm,limited_by\n256,128,0,2,registers\n"
    )


def test_a_batch_of_the_grid_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with gzip.open(DATA / "occupancy_grid.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))[::7]
    gpus = {
        "v100": "Tesla V100-SXM2-32GB", "t4": "Tesla T4", "a100": "a100_pcie_40gb", "sm86": "rtx_a4000", "sm89": "l4",
        "sm90": "gh200", "sm100": "NVIDIA B200", "sm120": "rtx_5090",
    }  # fmt: skip
    lines = [f"{gpus[r['device']]},{r['threads']},{r['regs']},{r['smem_dyn_B']}" for r in rows]
    path = csv_file(tmp_path, "\n".join(["gpu,threads,regs_per_thread,smem_bytes", *lines, ""]))
    _, out, _ = run(capsys, "--batch", path)
    found = [row["blocks_per_sm"] for row in csv.DictReader(io.StringIO(out))]
    assert found == [row["blocks_per_sm"] for row in rows]


def test_the_inverse_as_a_table_and_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--gpu", "h200", "--blocks", 2, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [(r["threads"], r["regs_per_thread"]) for r in rows] == [
        ("32", "255"), ("64", "255"), ("128", "255"), ("256", "128"), ("512", "64"), ("1024", "32"),
    ]  # fmt: skip
    assert {r["smem_bytes"] for r in rows} == {"115712"}
    table = run(capsys, "--gpu", "h200", "--blocks", 3)[1].splitlines()
    assert len(table) == 1 + 5  # three blocks of 1024 threads do not fit


def test_the_inverse_of_one_block_size_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--gpu", "rtx_4090", "--blocks", 2, "--threads", 128, "--format", "json")
    assert json.loads(out) == {
        "gpu": "rtx_4090", "blocks": 2, "threads": 128, "regs_per_thread": 255, "smem_bytes": 50176,
        "warps_per_sm": 8, "occupancy": 8 / 48,
    }  # fmt: skip


HEADER = "gpu,threads,regs_per_thread,smem_bytes\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "found an empty file"),
        (HEADER, "expected rows below the header, found none"),
        ("gpu,threads,smem_bytes\nh200,1,2\n", "no column regs_per_thread"),
        ("threads,regs_per_thread,smem_bytes\n1,2,3\n", "no column gpu"),
        (HEADER + "h200,0,32,0\n", "row 1 (line 2), column threads is '0': expected a whole number from 1"),
        (HEADER + "h200,32,32,0\nh200,64,many,0\n", "row 2 (line 3), column regs_per_thread is 'many'"),
        (HEADER + "h200,32,32,-1\n", "row 1 (line 2), column smem_bytes is '-1'"),
        (HEADER + "h200,32,32,1.5\n", "column smem_bytes is '1.5'"),
        (HEADER + "h200,32,nan,0\n", "column regs_per_thread is 'nan'"),
        (HEADER + "h200,32,inf,0\n", "column regs_per_thread is 'inf'"),
        (HEADER + "h200,32,32,99999999999999999999\n", "column smem_bytes is '99999999999999999999'"),
        (HEADER + "h200,32,32\n", "row 1 (line 2): expected 4 cells, as in the header, found 3"),
        (HEADER + "h200,32,32,0\nh100,32,32,0\n", "row 2 (line 3), column gpu: GPU 'h100' names no single product"),
        (HEADER + "h200,32,32,0\n,32,32,0\n", "row 2 (line 3), column gpu"),
        ("gpu,threads,threads,regs,smem_bytes\nh200,1,1,1,1\n", "column 'threads' is there twice"),
    ],
)
def test_a_malformed_batch_leaves_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, says: str
) -> None:
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "--batch", csv_file(tmp_path, content), "--out", out)
    assert (code, printed) == (2, "")
    assert says in err
    assert "in.csv" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_batch_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = csv_file(tmp_path, "")
    path.write_bytes(b"gpu\xff\xfe")
    for batch in (path, tmp_path, tmp_path / "none.csv"):
        code, _, err = run(capsys, "--batch", batch)
        assert code == 2
        assert str(batch) in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpu", "h200"], "--threads and --regs missing"),
        (["--threads", 32, "--regs", 32], "--gpu missing"),
        (["--gpu", "h200", "--threads", "many", "--regs", 32], "--threads"),
        (["--gpu", "h200", "--threads", 0, "--regs", 32], "--threads"),
        (["--gpu", "h200", "--threads", 32, "--regs", 2**31], "--regs"),
        (["--gpu", "h200", "--threads", 32, "--regs", 32, "--smem", -1], "--smem"),
        (["--gpu", "h300", "--threads", 32, "--regs", 32], "unknown GPU 'h300'"),
        (
            ["--gpu", "h200", "--threads", 32, "--regs", 32, "--out", "/no/such/x"],
            "--out /no/such/x: expected an existing",
        ),
        (["--gpu", "h200", "--threads", 32, "--regs", 32, "--out", "/tmp"], "--out /tmp: expected the name of a file"),
        (["--gpu", "h200", "--threads", 32, "--regs", 32, "--format", "xml"], "--format"),
        (["--batch", "in.csv", "--threads", 32], "--threads 32 is given with --batch"),
        (["--warps", 3], "--warps"),
        (["--blocks", 2], "--gpu missing"),
        (["--gpu", "h200", "--blocks", 0], "--blocks"),
        (["--gpu", "h200", "--blocks", 2, "--regs", 32], "--regs 32 is given with --blocks"),
        (["--gpu", "h200", "--blocks", 2, "--smem", 0], "--smem 0 is given with --blocks"),
        (["--gpu", "h200", "--blocks", 2, "--batch", "in.csv"], "--batch in.csv is given with --blocks"),
        (
            ["--gpu", "h200", "--blocks", 3, "--threads", 1024],
            "3 blocks of 1024 threads: an SM of sm90 holds at most 2",
        ),
        (
            ["--gpu", "h200", "--blocks", 33],
            "33 blocks of 32 threads: an SM of sm90 holds at most 32, limited by blocks",
        ),
    ],
)
def test_wrong_options(capsys: pytest.CaptureFixture[str], arguments: list[object], says: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
