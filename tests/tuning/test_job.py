"""What a study is for: as JSON and back, and what is said where it differs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form, form_of
from gemmsim.tuning.job import RECORDED, Job, job_from, refuse_other

JOB = Job(
    512, 6144, 4096, form_of(Form("fp32", epilogue=("bias", "gelu"))), "h200_sxm", ("simt", "naive"), "cold_clean",
    digests={"simt": "abc", "naive": "def"},
)  # fmt: skip


def test_it_comes_back_from_json() -> None:
    for job in (JOB, replace(JOB, objective=RECORDED, rows=("/rows.csv",), trials=7, seed=3, number=2)):
        assert job_from(json.loads(json.dumps(job.plain())), "study s") == job


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "a100"}, "gpu h200_sxm, not a100"),
        ({"m": 8, "l2": "warm"}, "m 512, not 8; l2 cold_clean, not warm"),
        ({"families": ("simt",)}, "families simt, naive, not simt"),
        ({"digests": {"simt": "abc", "naive": "xyz"}}, "digests simt abc naive def, not simt abc naive xyz"),
        ({"form": form_of("fp32")},
         "form dtype fp32 dtype_b fp32 dtype_c fp32 layout NN epilogue bias, gelu batch 1, not dtype fp32 dtype_b fp32 "
         "dtype_c fp32 layout NN batch 1"),
    ],
)  # fmt: skip
def test_another_is_refused_with_what_differs(changes: dict[str, object], said: str) -> None:
    with pytest.raises(GemmsimError) as caught:
        refuse_other("s", JOB, replace(JOB, **changes))  # type: ignore[arg-type]
    assert str(caught.value) == f"study s is for {said}: expected a new study by another name"


def test_more_trials_another_seed_and_another_folder_are_the_same_study() -> None:
    refuse_other("s", JOB, replace(JOB, trials=99, seed=4, number=3, rows=("/elsewhere/rows.csv",)))


@pytest.mark.parametrize("plain", [{}, {**JOB.plain(), "form": None}, {**JOB.plain(), "colour": "red"}])
def test_what_is_no_job_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(GemmsimError, match=r"^study s: gemmsim_tune is not of this version of gemmsim: expected "):
        job_from(plain, "study s")
