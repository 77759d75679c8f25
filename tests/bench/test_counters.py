"""Tasks through a stand-in for Nsight Compute: counters by row, other metrics, a child that dies, one that hangs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench import counters
from gemmsim.bench.metrics import COUNTERS
from gemmsim.bench.task import Ask, Kernel, Task
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """tests/bench/fake_ncu.py as a command; called with what it is to do, gives its path."""

    def make(**told: object) -> str:
        path = tmp_path / "ncu"
        text = (Path(__file__).parent / "fake_ncu.py").read_text()
        path.write_text(text.replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1))
        path.chmod(0o755)
        monkeypatch.setenv("FAKE_NCU", json.dumps({"calls": str(tmp_path / "calls"), **told}))
        return str(path)

    return make


def tasks(*sizes: int) -> list[Task]:
    config = (("bm", 8),)
    return [Task(i, Ask(64, n, 64, Form(dtype="fp32"), "naive", config), Kernel()) for i, n in enumerate(sizes)]


def counted(path: str, asked: Sequence[Task], **settings: Any) -> dict[int, dict[str, Any]]:
    return {task.number: row for rows in counters.counted(asked, 0, path, **settings) for task, row in rows}


def test_counters_by_row_added_over_its_kernels(ncu: Any) -> None:
    found = counted(ncu(kernels=2), tasks(8, 16, 24))
    assert [row["status"] for row in found.values()] == ["ok"] * 3
    assert [row["kernels"] for row in found.values()] == [2] * 3
    for i, counter in enumerate(COUNTERS):
        if counter.combine == "sum" and counter.unit != "s":
            assert {row[counter.column] for row in found.values()} == {2 * 1000 * i + 1 + 2}
    assert found[0]["gpu__time_duration_sum"] == pytest.approx((4000 + 3) * 1e-9)
    assert found[0]["blocks_per_sm"] == 2


def test_chunks(ncu: Any, tmp_path: Path) -> None:
    found = counted(ncu(), tasks(*range(1, 8)), chunk=3)
    assert list(found) == list(range(7))
    assert len((tmp_path / "calls").read_text().splitlines()) == 3


def test_a_metric_that_is_none_here_is_left_empty(ncu: Any, tmp_path: Path) -> None:
    found = counted(ncu(unknown="l1tex__t_sector_hit_rate"), tasks(8))
    assert found[0]["l1tex__t_sector_hit_rate_pct"] != found[0]["l1tex__t_sector_hit_rate_pct"]
    assert found[0]["smsp__inst_executed_sum"] > 0
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_a_task_that_ends_the_child_costs_itself_alone(ncu: Any) -> None:
    found = counted(ncu(die=16), tasks(8, 16, 24, 32))
    assert {i: row["status"] for i, row in found.items()} == {0: "ok", 1: "launch", 2: "ok", 3: "ok"}
    assert found[1]["reason"].startswith("the launching process was ended")


def test_a_hang_is_ended_and_costs_itself_alone(ncu: Any) -> None:
    path = ncu(die=16)

    def run(arguments: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
        status, said = counters.run(arguments, 60)
        text = Path(arguments[-3]).read_text()
        return (None if '"n": 16' in text else status), said

    found = counted(path, tasks(8, 16, 24), run=run)
    assert {i: row["status"] for i, row in found.items()} == {0: "ok", 1: "timeout", 2: "ok"}


def test_what_takes_too_long_is_ended() -> None:
    status, said = counters.run([sys.executable, "-c", "print('begun', flush=True); import time; time.sleep(60)"], 2)
    assert (status, said) == (None, "begun\n")
    assert counters.run([sys.executable, "-c", "print('done')"], 60) == (0, "done\n")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "run as root"),
        ("==ERROR== Profiling failed because a driver resource was unavailable", "a driver resource was unavailable"),
        ("==WARNING== No kernels were profiled.", "it counted no kernel"),
    ],
)
def test_what_ncu_cannot_do_is_one_sentence(ncu: Any, said: str, why: str) -> None:
    with pytest.raises(GemmsimError, match=why):
        counted(ncu(refuse=said), tasks(8))


def test_the_child_says_in_one_sentence_that_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsim.bench import profiled

    monkeypatch.setitem(sys.modules, "cupy", None)
    given, out = tmp_path / "tasks", tmp_path / "out"
    given.write_text(json.dumps(tasks(8)[0].plain()) + "\n")
    assert profiled.main([str(given), str(out), "0"]) == 2
    assert "CuPy" in json.loads(out.read_text())["fatal"]
    shutil.rmtree(tmp_path)


def test_the_child_marks_each_row_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsim.bench import profiled

    told: list[Any] = []

    class Fake:
        def __init__(self, number: int) -> None:
            pass

        def launch_once(self, task: Task) -> dict[str, Any]:
            told.append((task.number, task.ask.n))
            if task.ask.n == 16:
                raise RuntimeError("an illegal\nmemory access")
            return {"status": "ok", "reason": ""}

    monkeypatch.setattr(profiled, "Launcher", Fake)
    given, out = tmp_path / "tasks", tmp_path / "out"
    given.write_text("".join(json.dumps(task.plain()) + "\n" for task in tasks(8, 16, 24)))
    assert profiled.main([str(given), str(out), "0"]) == 3
    assert told == [(0, 8), (1, 16)], "a context that failed is of no more use"
    last = json.loads(out.read_text().splitlines()[-1])
    assert last == {"done": 1, "row": {"status": "launch", "reason": "RuntimeError: an illegal memory access"}}
