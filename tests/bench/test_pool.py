"""Processes that answer: many at once, one question lost with the process that died on it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import gone

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
    if question.get("spawn"):
        import pathlib, subprocess
        pathlib.Path(question["spawn"]).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        time.sleep(600)
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


def test_a_pool_lives_on_and_many_may_ask(tmp_path: Path) -> None:
    with Pool("answering", 2) as pool:
        pool.start(2)
        first = {i: a["pid"] for i, a in pool.answers([{"x": i} for i in range(8)])}
        found: list[dict[int, Any]] = []
        ask = [threading.Thread(target=lambda: found.append(dict(pool.answers([{"x": 5}, {"x": 6}])))) for _ in "123"]
        for thread in ask:
            thread.start()
        for thread in ask:
            thread.join()
    assert [{i: a["twice"] for i, a in one.items()} for one in found] == [{0: 10, 1: 12}] * 3
    assert {a["pid"] for one in found for a in one.values()} <= set(first.values())


def test_what_is_not_answered_when_it_closes_says_so() -> None:
    pool, found = Pool("answering", 1), []
    thread = threading.Thread(target=lambda: found.extend(pool.answers([{"x": 1, "sleep": 600}, {"x": 2}])))
    thread.start()
    while not pool._workers:
        time.sleep(0.01)
    pool.close()
    thread.join()
    assert [isinstance(answer, Died) for _, answer in sorted(found)] == [True, True]
    assert [isinstance(answer, Died) for _, answer in pool.answers([{"x": 1}])] == [True]


def test_what_a_process_started_goes_with_it(tmp_path: Path) -> None:
    """As an assembler that a compiler has called, and waits for."""
    assert isinstance(answers([{"x": 1, "spawn": str(tmp_path / "pid")}], limit_s=2)[0], Died)
    assert gone(int((tmp_path / "pid").read_text()))


def test_processes_go_with_the_one_that_started_them(tmp_path: Path) -> None:
    """kill -9 while they are busy, and so do not see that their input has ended."""
    (tmp_path / "busy.py").write_text(
        "import os, pathlib, time\n"
        "from gemmsim.bench.compile_worker import serve\n"
        "serve(lambda question: pathlib.Path(question['file']).write_text(str(os.getpid())) and time.sleep(600))\n"
    )
    files = [tmp_path / "one", tmp_path / "two"]
    code = (
        "import sys; from gemmsim.bench.pool import Pool\n"
        "list(Pool('busy', 2).answers([{'file': file} for file in sys.argv[1:]]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, *map(str, files)]) as process:
        while not all(file.exists() and file.read_text() for file in files):
            time.sleep(0.02)
        process.kill()
    assert all(gone(int(file.read_text())) for file in files)
