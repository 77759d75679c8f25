"""Processes that answer: many at once, one question lost with the process that died on it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench.pool import Died, Pool

WORKER = """
import json, os, signal, sys, time
for line in sys.stdin:
    question = json.loads(line)
    if question.get("kill"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if question.get("raise"):
        raise ValueError("of no use")
    if question.get("sleep"):
        time.sleep(question["sleep"])
    if question.get("half"):
        print("half an ans", end="", flush=True)
        os._exit(3)
    print(json.dumps({"pid": os.getpid(), "twice": 2 * question["x"]}), flush=True)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answering.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def answers(questions: list[dict[str, Any]], jobs: int = 2, limit_s: float = 60) -> dict[int, Any]:
    with Pool("answering", jobs, limit_s) as pool:
        return dict(pool.answers(questions))


def test_each_question_once_and_processes_live_on() -> None:
    found = answers([{"x": i} for i in range(40)])
    assert {i: a["twice"] for i, a in found.items()} == {i: 2 * i for i in range(40)}
    assert len({a["pid"] for a in found.values()}) <= 2


def test_no_question_starts_nothing() -> None:
    assert answers([]) == {}


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({"kill": 1}, "SIGSEGV"),
        ({"raise": 1}, "exit code 1: ValueError: of no use"),
        ({"half": 1}, "exit code 3"),
        ({"sleep": 600}, "no answer within 1 s"),
    ],
)
def test_a_death_costs_one_question(harm: dict[str, int], said: str) -> None:
    questions = [{"x": i} | (harm if i == 2 else {}) for i in range(5)]
    found = answers(questions, jobs=1, limit_s=1)
    assert isinstance(found[2], Died)
    assert said in str(found[2])
    assert [found[i]["twice"] for i in (0, 1, 3, 4)] == [0, 2, 6, 8]


def test_leaving_early_ends_every_process() -> None:
    with Pool("answering", 2) as pool:
        running = pool.answers([{"x": 1}, {"x": 2}, *({"x": 3, "sleep": 600} for _ in range(4))])
        pids = [next(running)[1]["pid"], next(running)[1]["pid"]]
    for pid in set(pids):
        for _ in range(100):
            if not Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.05)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_process_that_cannot_start_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        answers([{"x": 1}])
