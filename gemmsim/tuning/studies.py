"""The Optuna studies of a tuning, one a shape, begun or carried on."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.storages import BaseStorage

from gemmsim.errors import GemmsimError
from gemmsim.search.storage import held, studies
from gemmsim.tuning.job import ATTRIBUTE, Job, job_from, refuse_other


def names(name: str, jobs: Sequence[Job]) -> list[str]:
    """The study of each job: the name itself for one, NAME/MxNxK for several."""
    return [name] if len(jobs) == 1 else [f"{name}/{'x'.join(map(str, job.shape))}" for job in jobs]


def begun(jobs: Sequence[Job], storage: BaseStorage, name: str) -> tuple[list[optuna.Study], int]:
    """A study for each job, new ones made; how many were there.

    Raises GemmsimError, before any is made, where a study of its name is for something else.
    """
    found = [held(storage, each) for each in names(name, jobs)]
    for study, job in zip(found, jobs, strict=True):
        if study is not None and ATTRIBUTE in study.user_attrs:
            refuse_other(study.study_name, job_of(study), job)
        elif study is not None and study.get_trials(deepcopy=False):
            raise GemmsimError(f"study {study.study_name} is none of gemmsim tune's: expected a new study by another "
                               "name")  # fmt: skip
    made = []
    for study, job, each in zip(found, jobs, names(name, jobs), strict=True):
        made.append(study or optuna.create_study(
            storage=storage, study_name=each, direction="minimize", load_if_exists=True
        ))  # fmt: skip
        made[-1].set_user_attr(ATTRIBUTE, job.plain())
    return made, sum(study is not None for study in found)


def joined(storage: BaseStorage, name: str) -> list[tuple[optuna.Study, Job]]:
    """The study of that name, or all that `gemmsim tune --shapes` began under it, in the order of its file.

    Raises GemmsimError where there is none.
    """
    one = held(storage, name)
    fleet = [] if one is not None else [held(storage, each) for each in studies(storage, f"{name}/")]
    found = [one, *(study for study in fleet if study is not None and not _is_being_made(study))]
    jobs = [(study, job_of(study)) for study in found if study is not None]
    if not jobs:
        raise GemmsimError(f"no study {name} in the storage: expected one that gemmsim tune --study {name} has begun")
    return sorted(jobs, key=lambda item: item[1].number)


def _is_being_made(study: optuna.Study) -> bool:
    return ATTRIBUTE not in study.user_attrs and not study.get_trials(deepcopy=False)


def job_of(study: optuna.Study) -> Job:
    """What a study is for. Raises GemmsimError for one that is not gemmsim tune's."""
    plain = study.user_attrs.get(ATTRIBUTE)
    if plain is None:
        raise GemmsimError(f"study {study.study_name} does not say what it is for: expected one that gemmsim tune has "
                           "begun")  # fmt: skip
    return job_from(plain, f"study {study.study_name}")
