"""A storage that stops answering at any moment: one sentence, whatever was being asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import optuna
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.problem import form_of
from gemmsim.tuning.job import PREDICTED, Job
from gemmsim.tuning.studies import begun
from gemmsim.tuning.tuner import Source, Tuner
from gemmsim.tuning.worker import work

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("naive",), "warm", PREDICTED, trials=2)
FLEET = [JOB, replace(JOB, m=512, number=1)]
SOURCE = Source(load_gpu("h200_sxm"))


class Mortal(optuna.storages.InMemoryStorage):
    """Answers so many calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.left = 0, 10**9

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def answer(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls > self.left:
                raise optuna.exceptions.StorageInternalError("lost") from ConnectionError("server closed")
            return found(*arguments, **named)

        return answer


def tuned(storage: Mortal) -> None:
    studies, _ = begun(FLEET, storage, "s")
    for study, job in zip(studies, FLEET, strict=True):
        Tuner(SOURCE).tune(study, job)


def worked(storage: Mortal) -> None:
    work(storage, "s", Tuner(SOURCE))


@pytest.mark.parametrize("program", [tuned, worked])
def test_whenever_the_storage_is_lost_it_is_said(program: Callable[[Mortal], None]) -> None:
    dying = 0
    while True:
        storage = Mortal()
        if program is worked:
            begun(FLEET, storage, "s")
        storage.calls, storage.left = 0, dying
        try:
            program(storage)
            break
        except GemmsimError as error:
            assert str(error).endswith(": its storage no longer answers: server closed")  # noqa: PT017
        dying += 1
    assert dying > 40
