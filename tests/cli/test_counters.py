"""`gemmsim counters`: a file that is carried on, rows that fail, wrong input, and no Nsight Compute."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench import backend, lab, metrics, ncu
from gemmsim.bench.task import Ask, Kernel
from gemmsim.cli import counters as verb
from gemmsim.cli import main
from gemmsim.families import naive
from gemmsim.hardware import Gpu

FAKE = Path(__file__).parents[1] / "bench" / "fake_ncu.py"
HEAD = "family,dtype,m,n,k,bm,bn,bk,coalesced\n"


class Bench:
    """The command on a stand-in for ncu, a compiler that compiles nothing, and facts of no GPU."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._monkeypatch = folder, capsys, monkeypatch
        self.out = folder / "counters.csv"
        path = folder / "bin" / "ncu"
        path.parent.mkdir()
        path.write_text(FAKE.read_text().replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent))
        monkeypatch.setattr(backend, "compile_ahead", self._compile)
        monkeypatch.setattr(lab, "opened", lambda number: None)
        facts = lab.Facts("NVIDIA H200", "9.0", 132, 1.98e9, 1, 1, 1.0, 1, "580.95", f"GPU-{folder.name}", 700.0, {})
        monkeypatch.setattr(lab, "device_facts", lambda cupy, number: facts)
        monkeypatch.setattr(naive, "macros", lambda form, config: {}, raising=False)
        self.tell()

    def tell(self, **told: object) -> None:
        self._monkeypatch.setenv("FAKE_NCU", json.dumps({"calls": str(self.folder / "calls"), **told}))

    def batch(self, *rows: str) -> str:
        path = self.folder / "in.csv"
        path.write_text(HEAD + "".join(f"{row}\n" for row in rows))
        return str(path)

    def run(self, *arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as caught:
            main(["counters", *arguments])
        out, err = self._capsys.readouterr()
        assert out == ""
        return int(str(caught.value.code)), err

    def rows(self) -> list[dict[str, str]]:
        with open(self.out, newline="") as file:
            return list(csv.DictReader(file))

    def calls(self) -> int:
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @staticmethod
    def _compile(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
        for i, ask in enumerate(asks):
            bad = "an error of the compiler" if ask.k == 7 else ""
            yield i, bad, Kernel(path="x.cubin", key=f"hash{i}", compiler="nvrtc 13", regs_per_thread=40)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, capsys, monkeypatch)


def row(m: int = 64, n: int = 64, k: int = 64, bm: int = 8) -> str:
    return f"naive,fp32,{m},{n},{k},{bm},32,4,1"


def test_rows_with_their_counters(bench: Bench) -> None:
    assert bench.run("--batch", bench.batch(row(), row(n=128)), "--out", str(bench.out)) == (0, "")
    found = bench.rows()
    said = ["gpu", "layout", "beta", "epilogue"]
    assert list(found[0]) == [*said, *HEAD.strip().split(","), *verb.SAID, *metrics.columns()]
    assert [found[0][name] for name in said] == ["h200_sxm", "NN", "0", ""]
    assert [r["n"] for r in found] == ["64", "128"]
    assert {r["status"] for r in found} == {"ok"}
    assert (found[0]["ncu"], found[0]["driver"], found[0]["regs_per_thread"]) == ("2025.3.1.0", "580.95", "40")
    assert found[0]["dram_read_bytes"] == found[0]["dram__bytes_read_sum"] != ""


def test_predict_takes_the_file(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("--batch", bench.batch(row(), row(n=128)), "--out", str(bench.out))
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--batch", str(bench.out)])
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert caught.value.code == 0
    assert [r["feasible"] for r in found] == ["1", "1"]
    assert [r["in_dram_read_bytes"] for r in found] == [r["dram_read_bytes"] for r in bench.rows()]


def test_a_file_is_carried_on_and_no_row_is_counted_twice(bench: Bench) -> None:
    bench.run("--batch", bench.batch(row()), "--out", str(bench.out))
    first = bench.rows()
    assert bench.run("--batch", bench.batch(row(), row(n=96), row(n=96)), "--out", str(bench.out)) == (0, "")
    assert bench.calls() == 2
    assert bench.rows()[:1] == first
    assert [r["n"] for r in bench.rows()] == ["64", "96", "96"], "equal rows are as many as were asked for"
    bench.run("--batch", bench.batch(row(), row(n=96), row(n=96)), "--out", str(bench.out))
    assert bench.calls() == 2
    assert len(bench.rows()) == 3


def test_what_was_counted_stays_when_the_next_chunk_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsim.bench import counters

    whole = counters.counted

    def some(tasks: Any, *rest: Any) -> Iterator[Any]:
        yield from whole(tasks[:1], *rest)
        bench.tell(refuse="==ERROR== the driver is gone")
        yield from whole(tasks[1:], *rest)

    monkeypatch.setattr(counters, "counted", some)
    code, err = bench.run("--batch", bench.batch(row(), row(n=96)), "--out", str(bench.out))
    assert (code, err) == (2, "gemmsim: ncu ended with status 0: the driver is gone\n")
    assert [r["n"] for r in bench.rows()] == ["64"]


def test_a_row_that_cannot_run_is_a_row(bench: Bench) -> None:
    rows = [row(bm=64), row(k=7), row(n=200), row()]
    bench.tell(die=200)
    assert bench.run("--batch", bench.batch(*rows), "--out", str(bench.out)) == (0, "")
    by_size = {(r["bm"], r["n"], r["k"]): r for r in bench.rows()}
    statuses = {key: r["status"] for key, r in by_size.items()}
    assert statuses == {
        ("64", "64", "64"): "refused", ("8", "64", "7"): "compile", ("8", "200", "64"): "launch",
        ("8", "64", "64"): "ok",
    }  # fmt: skip
    assert "1024" in by_size["64", "64", "64"]["reason"]
    assert by_size["64", "64", "64"]["dram_read_bytes"] == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--batch and --out missing"),
        (["--batch", "in.csv"], "--out missing"),
        (["--batch", "none.csv", "--out", "o.csv"], "none.csv: cannot be read"),
        (["--batch", "in.csv", "--out", "none/o.csv"], "expected an existing folder"),
        (["--batch", "in.csv", "--out", "/dev/full"], "--out /dev/full: expected a file"),
        (["--batch", "in.csv", "--out", "other.csv"], "other.csv holds other columns than in.csv"),
        (["--batch", "in.csv", "--out", "o.csv", "--gpu", "h2"], "unknown GPU 'h2'"),
        (["--batch", "in.csv", "--out", "o.csv", "--jobs", "0"], "--jobs is '0'"),
        (["--batch", "bad.csv", "--out", "o.csv"], "bad.csv, row 1 (line 2), column bm is 'x'"),
        (["--batch", "far.csv", "--out", "o.csv"], "--gpu a100_sxm_80gb has compute capability 8.0"),
    ],
)
def test_wrong_input(bench: Bench, monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str) -> None:
    monkeypatch.chdir(bench.folder)
    bench.batch(row())
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("bad.csv").write_text(HEAD + row().replace("64,8,32", "64,x,32") + "\n")
    Path("far.csv").write_text("gpu," + HEAD + "a100_sxm_80gb," + row() + "\n")
    code, err = bench.run(*arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert why in err
    assert not Path("o.csv").exists()
    assert bench.calls() == 0


def test_no_ncu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bench.folder))
    monkeypatch.setattr(ncu, "PLACES", ())
    code, err = bench.run("--batch", bench.batch(row()), "--out", str(bench.out))
    assert (code, err.count("\n")) == (2, 1)
    assert "nsight-compute" in err


def test_no_permission(bench: Bench) -> None:
    bench.tell(refuse="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters")
    code, err = bench.run("--batch", bench.batch(row()), "--out", str(bench.out))
    assert (code, err.count("\n")) == (2, 1)
    assert "run as root" in err
    assert not bench.out.exists()
