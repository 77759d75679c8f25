"""Picks from a store and from the rows that come with gemmsim: on what was measured, and near it."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest
from rows_for_picks import config, row

import gemmsim
from gemmsim.errors import GemmsimError
from gemmsim.picks import Pick, best, every, evidence, listed, wanted
from gemmsim.problem import Form
from gemmsim.store import Store

ROWS = Path(__file__).parents[2] / "studies" / "h200"
SIZE = (4096, 4096, 4096)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.sqlite"


def fill(path: Path, *rows: dict[str, Any]) -> Path:
    Store(path).add(rows, again=True)
    return path


def fastest(name: str, shape: tuple[int, int, int]) -> dict[str, str]:
    with gzip.open(ROWS / f"{name}.csv.gz", "rt") as file:
        rows = [r for r in csv.DictReader(file) if tuple(int(r[d]) for d in "mnk") == shape]
    stable = [r for r in rows if r.get("status", "ok") == "ok" and not r.get("unstable")]
    return min(stable, key=lambda r: float(r.get("time_s") or r["median_s"]))


@pytest.mark.parametrize(
    ("name", "shape"), [("simt_fp32", SIZE), ("simt_pick", (512, 6144, 4096)), ("triton_bf16", (6144, 6144, 6144)),
                        ("triton_fp8", SIZE)],
)  # fmt: skip
def test_the_fastest_stable_row_of_a_file(name: str, shape: tuple[int, int, int]) -> None:
    found, row = best(*shape, rows=ROWS / f"{name}.csv.gz"), fastest(name, shape)
    assert found.exact
    assert found.timed.time_s == float(row.get("time_s") or row["median_s"])
    assert found.config == {p: int(row[p]) for p in found.config}
    assert found.predicted.low_s <= found.predicted.time_s <= found.predicted.high_s
    assert (found.first, found.loss) == (None, None)


def test_the_same_from_a_store(path: Path) -> None:
    from gemmsim.rowfile import read_rows
    from gemmsim.rows import read_csv

    file = ROWS / "triton_pick.csv.gz"
    Store(path).add(read_rows(read_csv(str(file)), "a campaign")[0])
    shapes = [(1024, 1024, 1024), (4096, 4096, 4096), (3000, 3000, 3000)]
    for shape in shapes:
        here, there = best(*shape, store=path), best(*shape, rows=file)
        assert (here.config, here.source, here.predicted, here.notes, here.standing.statuses) == (
            there.config, there.source, there.predicted, there.notes, there.standing.statuses
        )  # fmt: skip


def test_campaigns_are_one(path: Path) -> None:
    fill(path, row("a", 2e-4), row("b", 1e-4, campaign="other"))
    assert best(*SIZE, store=path).config == config("b")


def test_another_form_is_another_problem(path: Path) -> None:
    fill(path, row("a", 2e-4), row("b", 1e-4, layout="NT"), row("c", 5e-5, epilogue="bias,gelu", beta=1))
    assert best(*SIZE, store=path).config == config("a")
    assert best(*SIZE, store=path, dtype=Form("", layout="NT")).config == config("b")
    assert best(*SIZE, store=path, dtype=Form("bf16", beta=True, epilogue=("bias", "gelu"))).config == config("c")
    with pytest.raises(GemmsimError, match=r"no row of h200_sxm bf16 layout TN that ran: gemmsim tune .* gemmsim rank"):
        best(*SIZE, store=path, dtype=Form("", layout="TN"))


def test_conditions_are_not_mixed(path: Path) -> None:
    warm, graph = row("b", 1e-4, l2="warm"), row("c", 5e-5, l2="warm", timing="graph")
    fill(path, row("a", 2e-4), warm, graph)
    assert best(*SIZE, store=path).config == config("a")
    assert best(*SIZE, store=path, l2="warm").config == config("b")
    only = best(*SIZE, store=fill(path.with_name("graphs"), graph))
    assert (only.l2, only.config) == ("warm", config("c"))
    assert only.notes == ("L2 warm: no row of cold_clean", "timed in a CUDA graph: no row of single launches")


def test_a_clock_is_a_filter(path: Path) -> None:
    fill(path, row("a", 1e-4), row("b", 2e-4, sm_clock_hz_before=1.41e9, sm_clock_hz_after=1.38e9))
    assert best(*SIZE, store=path, clock_hz=1.4e9).config == config("b")
    with pytest.raises(GemmsimError, match="bf16 at 900 MHz that ran"):
        best(*SIZE, store=path, clock_hz=9e8)


def test_cublas_stands_beside(path: Path) -> None:
    library = row("a", 3e-4, family="cublas", config={}, kernel_hash="cublas")
    fill(path, row("a", 2e-4), library)
    found = best(*SIZE, store=path).library
    assert found is not None
    assert (found.time_s, found.how) == (3e-4, "timed by itself")
    fill(path, library | {"against": "turns", "time_s": 4e-4}, row("a", 2e-4, against="turns"))
    found = best(*SIZE, store=path).library
    assert found is not None
    assert (found.time_s, found.how) == (4e-4, "timed in turn")
    fill(path.with_name("two days"), library | {"against": "turns"}, row("a", 2e-4, day=2, against="turns"))
    found = best(*SIZE, store=path.with_name("two days")).library
    assert found is not None
    assert found.how == "timed by itself"
    fill(path, row("b", 1e-4, cublas_time_s=1.5e-4, against="cublas"))
    found = best(*SIZE, store=path).library
    assert found is not None
    assert (found.time_s, found.how) == (1.5e-4, "timed in turn")


def test_what_comes_with_gemmsim_stands_in_for_cublas(path: Path) -> None:
    found = best(*SIZE, store=fill(path, row("a", 2e-4))).library
    recorded = gemmsim.rank(*SIZE, gpu="h200_sxm", dtype="bf16", top=1).cublas
    assert found is not None
    assert recorded is not None
    assert found.time_s == recorded.time_s
    assert found.how.startswith("of the rows that come with gemmsim")


def near(path: Path, shape: tuple[int, int, int]) -> Pick:
    found = best(*shape, store=path)
    assert not found.exact
    return found


def test_near_problems_are_compared_by_the_model(path: Path) -> None:
    shape = (4096, 4096, 2048)
    fill(path, row("c", 1e-4), row("a", 2e-4, k=1024), row("b", 1e-4, m=64))
    found = near(path, shape)
    predicted = gemmsim.predict(*shape, gpu="h200_sxm", config={
        name: [config(t)[name] for t in "abc"] for name in config("a")
    })  # fmt: skip
    assert found.config == config("abc"[int(predicted.time_s.argmin())])
    assert found.predicted.time_s == predicted.time_s.min()
    assert found.source == {"a": (4096, 4096, 1024), "b": (64, 4096, 4096), "c": SIZE}["abc"[predicted.time_s.argmin()]]
    first = gemmsim.rank(*shape, gpu="h200_sxm", dtype="bf16", top=1).entries[0]
    assert found.first is not None
    assert (found.first.key, found.first.time_s) == (first.key, first.time_s)
    assert found.loss == pytest.approx(found.predicted.time_s / first.time_s - 1)


def test_of_a_near_problem_more_than_its_pick_is_compared(path: Path) -> None:
    """On 64 rows a small tile is predicted faster than the pick of 4096."""
    fill(path, row("a", 1e-4), row("c", 2e-4))
    assert near(path, (64, 4096, 4096)).config == config("c")


def test_what_cannot_launch_is_no_pick(path: Path) -> None:
    big = config("a") | {"bk": 256, "num_stages": 6}
    fill(path, row("a", 1e-4, config=big))
    with pytest.raises(GemmsimError, match="can launch 64 x 64 x 64: gemmsim rank predicts what can"):
        best(64, 64, 64, store=path)
    fill(path, row("b", 2e-4))
    assert near(path, (64, 64, 64)).config == config("b")
    (note,) = best(*SIZE, store=path).notes  # it has a time, whatever the model says
    assert note.startswith("the model has it refused: smem_capacity")


def test_the_models_own_first_is_named_where_it_is_better_by_more_than_the_interval(path: Path) -> None:
    fill(path, row("a", 1e-4, config=config("a") | {"num_warps": 1, "bm": 16, "bn": 16, "bk": 16}))
    found = near(path, (4096, 4096, 4100))
    assert found.loss is not None
    assert found.loss > 1
    assert found.notes[0] == "the model's own first pick is predicted faster by more than the interval: measure both"


def test_what_is_left_out_is_what_the_rows_have(path: Path) -> None:
    fill(path, row("a"))
    assert best(*SIZE, store=path).wanted.gpu.name == "h200_sxm"
    fill(path, row("a", dtype="fp16", dtype_b="fp16", dtype_c="fp16"))
    with pytest.raises(GemmsimError, match="holds rows of bf16, fp16: expected one of them as --dtype"):
        best(*SIZE, store=path)
    fill(path, row("a", gpu="a100_sxm_80gb"))
    with pytest.raises(GemmsimError, match="holds rows of a100_sxm_80gb, h200_sxm: expected one of them as --gpu"):
        best(*SIZE, store=path, dtype="bf16")
    assert best(*SIZE, store=path, dtype="bf16", gpu="a100_sxm_80gb").wanted.gpu.name == "a100_sxm_80gb"


@pytest.mark.parametrize(
    "asked", [{"gpu": "h100_sxm"}, {"dtype": "fp64"}, {"family": "simt"}, {"gpu": "b200_sxm", "dtype": "bf16"}]
)
def test_no_rows_of_it(path: Path, asked: dict[str, str]) -> None:
    fill(path, row("a"))
    what = " ".join(asked.values())
    have = r"\(but of h200_sxm bf16 triton\)"
    with pytest.raises(GemmsimError, match=f"no row of {what} {have} that ran: gemmsim tune .* gemmsim rank"):
        best(*SIZE, store=path, **asked)  # type: ignore[arg-type]


def test_no_rows_at_all(path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"expected a store of rows, found no such file: gemmsim tune"):
        best(*SIZE, store=path)
    assert not path.exists()
    Store(path)
    with pytest.raises(GemmsimError, match=r"rows.sqlite holds no row that ran: gemmsim tune"):
        best(*SIZE, store=path)
    fill(path, row("a", None, status="launch"))
    with pytest.raises(GemmsimError, match="holds no row of h200_sxm bf16 that ran"):
        best(*SIZE, store=path)


def test_a_store_made_before_there_was_an_index_gets_one(path: Path) -> None:
    import sqlite3

    fill(path, row("a"))
    with sqlite3.connect(path) as plain:
        plain.execute("drop index rows_by_problem")
    plain.close()
    best(*SIZE, store=path)
    with sqlite3.connect(path) as plain:
        asked = "explain query plan select id from rows where gpu='x' and dtype='y' and m=1 and n=1 and k=1"
        assert "INDEX rows_by_problem" in plain.execute(asked).fetchone()[-1]
    plain.close()


def test_lists_of_picks(path: Path) -> None:
    found = evidence(store=fill(path, row("a"), row("b", m=64), row("c", None, m=65, status="compile")))
    asked = wanted(found)
    assert [(p.m, p.config) for p in every(found, asked)] == [(64, config("b")), (4096, config("a"))]
    shapes = [SIZE, *((m, 4096, 4096) for m in range(65, 72))]
    named = ", ".join(f"{m} x 4096 x 4096" for m in range(65, 70))
    with pytest.raises(GemmsimError, match=f"no row of {named} and 2 more for h200_sxm bf16 that ran"):
        listed(found, asked, shapes)
    picks = listed(found, asked, shapes, near=True)
    assert [(p.m, p.exact) for p in picks] == [(m, m == 4096) for m, _, _ in shapes]


def test_statuses_of_other_programs_are_no_times(tmp_path: Path) -> None:
    lines = ["gpu,family,dtype,l2,m,n,k,bm,bn,bk,time_s,status",
             "h200_sxm,triton,bf16,warm,64,64,64,64,64,64,,OutOfWhatever",
             "h200_sxm,triton,bf16,warm,64,64,64,128,64,64,1e-5,ok"]  # fmt: skip
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    found = best(64, 64, 64, rows=file)
    assert (found.config["bm"], found.config["num_warps"], found.standing.statuses) == (128, 8, {"ok": 1})


def test_a_date_that_is_none(path: Path) -> None:
    library = row("a", 3e-4, family="cublas", config={}, measured_at="yesterday")
    found = best(*SIZE, store=fill(path, row("a", 2e-4), library)).library
    assert found is not None
    assert found.how == "timed by itself"
