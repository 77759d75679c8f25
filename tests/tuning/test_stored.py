"""What the store has of a problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gemmsim.problem import form_of
from gemmsim.search.space import space_of
from gemmsim.store import Store
from gemmsim.tuning.job import Job
from gemmsim.tuning.objectives import ask_of
from gemmsim.tuning.stored import stored

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("naive",), "warm")
SPACE = space_of(256, 256, 256, gpu="h200_sxm", family="naive", dtype="fp32", l2="warm")


def row(place: int, time_s: float | None, job: Job = JOB, campaign: str = "tune", **other: object) -> dict[str, object]:
    family, config = SPACE.candidate(place)
    outcome = {"status": "ok" if time_s else "wrong", "time_s": time_s}
    return {**ask_of(job, family, config).identity(campaign, "h200_sxm", "hash"), **outcome, **other}


def test_rows_of_the_same_problem_and_conditions_fastest_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.sqlite")
    store.add([
        row(3, 3e-6), row(1, 1e-6), row(5, None), row(2, 2e-6, campaign="single"), row(4, 1e-9, replace(JOB, m=255)),
        row(6, 1e-9, replace(JOB, l2="cold_clean")), row(7, 1e-9, against="turns"), row(8, 1e-9, gpu="h100_sxm"),
        row(9, 1e-9, replace(JOB, form=form_of("fp64"))),
    ])  # fmt: skip
    assert stored(store, "tune", JOB, SPACE) == [1, 3, 5]


def test_a_configuration_that_is_no_longer_in_the_space_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.sqlite")
    odd = row(0, 1e-6) | {"config": {"bm": 7, "bn": 7, "bk": 7}}
    store.add([odd, row(1, 2e-6)])
    assert stored(store, "tune", JOB, SPACE) == [1]
