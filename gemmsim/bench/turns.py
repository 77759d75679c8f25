"""Kernels timed in turn: who is to blame where the measuring process is lost, and how the others go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gemmsim.bench.keeper import ROUNDS
from gemmsim.bench.task import TURNS, Ask, Task

Outcome = dict[str, Any]
#: what came of tasks in turn: `rows`, one a task, or `lost`, the task's number or ROUNDS, with status and reason
Run = Callable[[Sequence[Task]], Mapping[str, Any]]


def as_turn(ask: Ask) -> Ask:
    """The ask as a row of `turns` has it: timed by events, and known apart from a row measured alone."""
    return replace(ask, conditions=replace(ask.conditions, graph=False, against=TURNS))


def in_turn(tasks: Sequence[Task], run: Run) -> dict[int, Outcome]:
    """The outcome of each task by its number; run is called again without those that lose the process.

    A process lost while all are timed says nothing of who did it: each is tried alone then, and where none is lost
    alone, all have the outcome.
    """
    if not tasks:
        return {}
    found = dict(run(tasks))
    if "rows" in found:
        return {task.number: dict(row) for task, row in zip(tasks, found["rows"], strict=True)}
    at = found.pop("lost")
    if at != ROUNDS:
        return {at: found} | in_turn([task for task in tasks if task.number != at], run)
    if len(tasks) == 1:
        return {tasks[0].number: found}
    alone = {number: outcome for task in tasks for number, outcome in in_turn([task], run).items()}
    bad = {number: outcome for number, outcome in alone.items() if outcome["status"] != "ok"}
    if not bad:
        return {task.number: found for task in tasks}
    return bad | in_turn([task for task in tasks if task.number not in bad], run)
