"""`gemmsim worker`: one more GPU, here or on another host, for a study that `gemmsim tune` has begun."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gemmsim.cli.held import Bench, bench_options, measuring
from gemmsim.cli.options import Command, real_option
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

    from gemmsim.tuning.job import Job
    from gemmsim.tuning.tuner import Source

#: s between looks whether a study has been begun
LOOK_S = 0.2


@click.command(cls=Command)
@click.option("--study", metavar="NAME", help="The study, or the name that all studies of --shapes share.")
@click.option("--storage", metavar="URL", help="Where it is kept, as gemmsim tune was told.")
@click.option("--wait-s", metavar="S", default="0", show_default=True, help="Wait so long for the study to be begun.")
@bench_options
def command(
    study: str | None, storage: str | None, wait_s: str, gpu: str, device: str, again: bool, jobs: str | None
) -> int:  # fmt: skip
    """Measure trials of a study until it has all that gemmsim tune was asked for; rows go to this host's store.

    As many workers as there are GPUs may be at one study, on any hosts that reach the storage: no configuration is
    measured twice, and what a dead worker was at is measured by another. A GPU or kernels other than the study's are
    refused. Two workers on one host need a --device each.
    """
    if not study or not storage:
        raise GemmsimError(f"{'--storage' if study else '--study'} is missing: expected a study's name and where it is "
                           "kept")  # fmt: skip
    from gemmsim.cli.tuned import Screen
    from gemmsim.tuning import check_optuna, quiet_optuna

    check_optuna()
    quiet_optuna()
    from gemmsim.tuning.tuner import Tuner
    from gemmsim.tuning.worker import work

    opened, found = _found(storage, study, real_option("--wait-s", wait_s, 0, 1e9))
    code, screen = 0, Screen(len(found))
    with _source(found[0][1], Bench(gpu, device, again, jobs)) as source:
        try:
            work(opened, study, Tuner(source, watcher=screen))
        except KeyboardInterrupt:
            code = 130
    click.echo(screen.worked())
    return code


def _found(url: str, name: str, wait_s: float) -> tuple[BaseStorage, list[tuple[Study, Job]]]:
    """The storage and the studies of a name, waited for. Raises GemmsimError where they do not come."""
    from gemmsim.search.storage import open_storage
    from gemmsim.tuning.studies import joined

    until = time.monotonic() + wait_s
    while True:
        try:
            opened = open_storage(url, create=False)
            return opened, joined(opened, name)
        except GemmsimError:
            if time.monotonic() >= until:
                raise
            time.sleep(LOOK_S)


@contextlib.contextmanager
def _source(job: Job, asked: Bench) -> Iterator[Source]:
    """Where a study's times come from here."""
    from gemmsim.tuning.job import MEASURED
    from gemmsim.tuning.worker import recorded_or_predicted

    if job.objective != MEASURED:
        yield recorded_or_predicted(job, asked.gpu)
        return
    with measuring(asked) as source:
        yield source
