"""A worker of studies that `gemmsim tune` has begun: what it measures with must be what they are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import optuna
from optuna.storages import BaseStorage

from gemmsim.bench.kernel_source import source_digest
from gemmsim.hardware import load_gpu
from gemmsim.tuning.job import MEASURED, RECORDED, Job, refuse_other
from gemmsim.tuning.recorded import read_rows
from gemmsim.tuning.studies import joined
from gemmsim.tuning.tuner import Source, Tuner, measured

#: what is said where this host has something else
_EXPECTED = "expected the same GPU, kernels and rows as where it was begun"


def recorded_or_predicted(job: Job, gpu: str) -> Source:
    """Where times come from without a bench. gpu: a GPU's name or file, "auto": the study's."""
    if job.objective == RECORDED:
        rows = read_rows(job.rows)
        return Source(rows.gpu, rows=rows)
    return Source(load_gpu(job.gpu if gpu == "auto" else gpu))


def refuse_others(studies: Sequence[tuple[optuna.Study, Job]], source: Source) -> None:
    """Raise GemmsimError where a study is for another GPU, other kernels or other rows than this host's."""
    for study, job in studies:
        refuse_other(study.study_name, job, _here(job, source), _EXPECTED)


def _here(job: Job, source: Source) -> Job:
    """The job as this host would begin it."""
    digests = job.digests
    if job.objective == MEASURED:
        digests = kernel_digests(job.families)
    elif source.rows is not None:
        digests = {"rows": source.rows.digest}
    return replace(job, gpu=source.gpu.name, digests=digests)


def kernel_digests(families: Sequence[str]) -> dict[str, str]:
    """Family -> digest of what its kernels are compiled from."""
    return {family: source_digest(family) for family in families}


def work(storage: BaseStorage, name: str, tuner: Tuner) -> None:
    """Measure until every study of that name has its trials; those that are begun meanwhile come after.

    Raises GemmsimError where there is none, and for a study of another GPU, other kernels or other rows.
    """
    done: set[str] = set()
    while new := [(study, job) for study, job in joined(storage, name) if study.study_name not in done]:
        refuse_others(new, tuner.source)
        for study, job in new:
            space, answers = tuner.source.ready(job)
            tuner.watcher.begins(job, space, study.study_name, len(measured(space, study)), 0)
            tuner.search(study, job, space, answers)
            done.add(study.study_name)
