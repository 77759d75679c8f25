"""`gemmsim export --best`: files that other tools read, and that gemmsim reads back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.picks import best

ROWS = Path(__file__).parents[2] / "studies" / "h200"
SIMT, TRITON = ROWS / "simt_pick.csv.gz", ROWS / "triton_pick.csv.gz"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_every_measured_problem(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("export", "--best", "--rows", SIMT, "--format", "json", "--out", "picks.json")
    assert run(capsys, *asked) == (0, "", "10 picks to picks.json\n")
    found = json.loads(Path("picks.json").read_text())["picks"]
    shapes = [(p["m"], p["n"], p["k"]) for p in found]
    assert shapes == sorted({tuple(int(r[d]) for d in "mnk") for r in gz(SIMT)})
    for shape, pick in zip(shapes, found, strict=True):
        assert pick["config"] == best(*shape, rows=SIMT).config


def gz(path: Path) -> list[dict[str, str]]:
    import gzip

    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("rows", [SIMT, TRITON])
def test_the_csv_is_fed_back(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    """Picks -> predict --batch: the same configurations, and the times that the export predicted."""
    Path("shapes.csv").write_text("M,N,K,why\n4096,4096,4096,x\n1024,1024,1024,x\n4096,4096,4104,y\n4096,4096,4096,z\n")
    asked = ("export", "--best", "--rows", rows, "--shapes", "shapes.csv", "--nearest", "--format", "csv")
    assert run(capsys, *asked, "--out", "picks.csv")[2] == "3 picks to picks.csv, 1 of them of near problems\n"
    assert run(capsys, "predict", "--batch", "picks.csv", "--out", "predicted.csv") == (0, "", "")
    picks, predicted = read("picks.csv"), read("predicted.csv")
    assert [row["k"] for row in picks] == ["4096", "1024", "4104"]
    for pick, row in zip(picks, predicted, strict=True):
        assert row["feasible"] == "1"
        assert row["in_time_s"] == pick["time_s"]
        assert float(row["time_s"]) == float(pick["predicted_s"])
    assert [row["status"] for row in picks] == ["ok", "ok", "pending"]
    assert (picks[2]["time_s"], picks[2]["regs_per_thread"], picks[2]["from_time_s"] != "") == ("", "", True)


def test_the_csv_is_what_measure_and_the_store_read(capsys: pytest.CaptureFixture[str]) -> None:
    from gemmsim.cli.asked import Said, of_batch
    from gemmsim.rows import read_csv

    run(
        capsys,
        "export",
        "--best",
        4096,
        4096,
        4104,
        "--rows",
        SIMT,
        "--nearest",
        "--format",
        "csv",
        "--out",
        "near.csv",
    )
    run(capsys, "export", "--best", 4096, 4096, 4096, "--rows", SIMT, "--format", "csv", "--out", "own.csv")
    for name, k in (("near.csv", 4104), ("own.csv", 4096)):
        asked = of_batch(read_csv(name), Said())
        (ask,) = asked.asks
        assert (asked.gpu, ask.m, ask.n, ask.k, ask.family) == ("h200_sxm", 4096, 4096, k, "simt")
        assert dict(ask.config) == best(4096, 4096, k, rows=SIMT).config
        assert ask.conditions.l2 == "cold_clean"
    assert run(capsys, "rows", "import", "own.csv")[2].startswith("1 of 1 rows are new")
    assert run(capsys, "rows", "import", "near.csv")[2].startswith("0 of 0 rows are new")
    assert run(capsys, "best", 4096, 4096, 4096)[0] == 0


def test_a_module_for_triton(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("export", "--best", "--rows", TRITON, "--format", "triton", "--names", "BM,BN,BK,G", "--out", "picks.py")
    assert run(capsys, *asked) == (0, "", "10 picks to picks.py\n")
    text = Path("picks.py").read_text()
    compile(text, "picks.py", "exec")
    assert 'triton.Config({"BM": ' in text
    assert "import gemmsim" not in text


def test_a_script_for_cutlass(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("export", "--best", 4096, 4096, 4096, "--rows", SIMT, "--format", "cutlass", "--out", "picks.sh")
    assert run(capsys, *asked) == (0, "", "1 picks to picks.sh\n")
    assert Path("picks.sh").read_text().count("\nprofile --m=4096") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--format", "csv"), "--best is missing: expected it, as nothing else is exported"),
        (("--best", 1, 2, 3, "--shapes", "x.csv", "--format", "csv"),
         "M N K (1 2 3) is given with --shapes: expected one of them"),
        (("--best", "--shapes", "x.csv", "--format", "csv"), "x.csv: cannot be read: No such file or directory"),
        (("--best", "--names", "A,B,C,D", "--format", "csv"),
         "--names A,B,C,D is given with --format csv: expected it with triton"),
        (("--best", 1, 2, 3, "--rows", SIMT, "--format", "csv"),
         f"{SIMT} holds no row of 1 x 2 x 3 for h200_sxm fp32 that ran: expected some, or near ones (--nearest)"),
        (("--best", 4096, 4096, 4096, "--rows", SIMT, "--format", "triton"),
         "--format triton takes picks of family triton, and that of 4096 x 4096 x 4096 is of simt: "
         "expected --family triton, or another format"),
        (("--best", "--rows", SIMT, "--family", "triton", "--format", "triton"),
         f"{SIMT} holds no row of triton (but of h200_sxm fp32 simt) that ran: gemmsim tune measures some, and gemmsim "
         "rank predicts without"),
        (("--best", 1, 2, "--format", "csv"), "M N K: found 2 values (1 2), expected three whole numbers"),
    ],
)  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], sentence: str) -> None:
    assert run(capsys, "export", *arguments, "--out", "picks.out") == (2, "", f"gemmsim: {sentence}\n")
    assert not Path("picks.out").exists()


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("export", "--best", "--rows", SIMT, "--format", "csv", "--out", "no/picks.csv")
    assert run(capsys, *asked) == (2, "", "gemmsim: --out no/picks.csv: expected an existing folder, found none called "
                                          "'no'\n")  # fmt: skip


def test_a_malformed_list_of_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shapes.csv").write_text("m,n,k\n64,64,64\n64,0,64\n")
    asked = ("export", "--best", "--rows", SIMT, "--shapes", "shapes.csv", "--format", "csv", "--out", "picks.csv")
    code, _, err = run(capsys, *asked)
    assert (code, err.startswith("gemmsim: shapes.csv, row 2 (line 3), column n is '0'")) == (2, True)
