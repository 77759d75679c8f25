"""Studies in a storage: begun, carried on, joined, refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.problem import form_of
from gemmsim.search.storage import open_storage
from gemmsim.tuning.job import Job
from gemmsim.tuning.studies import begun, job_of, joined, names

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("naive",), "warm")
FLEET = [replace(JOB, m=m, number=i) for i, m in enumerate((4096, 128, 512))]


@pytest.fixture
def storage(tmp_path: Path) -> optuna.storages.BaseStorage:
    return open_storage(str(tmp_path / "tune.journal"))


def test_names() -> None:
    assert names("s", [JOB]) == ["s"]
    assert names("s", FLEET) == ["s/4096x256x256", "s/128x256x256", "s/512x256x256"]


def test_a_fleet_is_joined_in_the_order_in_which_it_was_begun(storage: optuna.storages.BaseStorage) -> None:
    made, there = begun(FLEET, storage, "s")
    assert (len(made), there) == (3, 0)
    assert [(study.study_name, job) for study, job in joined(storage, "s")] == list(
        zip(names("s", FLEET), FLEET, strict=True)
    )
    again, there = begun([replace(job, trials=99) for job in FLEET], storage, "s")
    assert (there, job_of(again[1]).trials) == (3, 99)


def test_a_study_of_a_fleet_that_is_being_made_is_joined_later(storage: optuna.storages.BaseStorage) -> None:
    begun(FLEET[:2], storage, "s")
    optuna.create_study(storage=storage, study_name="s/512x256x256")
    assert [job for _, job in joined(storage, "s")] == FLEET[:2]
    begun(FLEET, storage, "s")
    assert [job for _, job in joined(storage, "s")] == FLEET


def test_one_that_differs_stops_all_before_any_is_made(storage: optuna.storages.BaseStorage) -> None:
    begun([replace(FLEET[2], number=0), replace(JOB, m=7, number=1)], storage, "s")
    with pytest.raises(GemmsimError, match=r"^study s/512x256x256 is for l2 warm, not cold_clean: expected "):
        begun([replace(job, l2="cold_clean") for job in FLEET], storage, "s")
    assert len(storage.get_all_studies()) == 2


def test_a_study_that_is_another_programs_is_left_alone(storage: optuna.storages.BaseStorage) -> None:
    study = optuna.create_study(storage=storage, study_name="s")
    study.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(GemmsimError, match=r"^study s is none of gemmsim tune.s: expected a new study by "):
        begun([JOB], storage, "s")
    assert study.user_attrs == {}


def test_nothing_to_join_is_said(storage: optuna.storages.BaseStorage) -> None:
    with pytest.raises(GemmsimError, match=r"^no study s in the storage: expected one that gemmsim tune --study "):
        joined(storage, "s")
