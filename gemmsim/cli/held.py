"""The GPU that `gemmsim tune` and `gemmsim worker` measure on: their options, and the session that they get."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gemmsim.cli.options import number_option
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.tuning.tuner import Source

_F = TypeVar("_F", bound=Callable[..., Any])
#: campaign of the rows that tuning measures, whatever its study: what one has measured no other measures again
CAMPAIGN = "tune"


@dataclass(frozen=True)
class Bench:
    """The options of bench_options as given."""

    gpu: str
    device: str
    again: bool
    jobs: str | None

    @property
    def compilers(self) -> int | None:
        """The value of --jobs. Raises GemmsimError for a wrong one."""
        return number_option("--jobs", self.jobs, 1, 4096)


def bench_options(command: _F) -> _F:
    """Options of what is measured on this machine's GPU: gpu, device, again, jobs."""
    for option in (
        click.option("--jobs", metavar="N", help="Compilers at work at once.  [default: one a core]"),
        click.option("--again", is_flag=True, help="Measure once more what the store has; the last time counts."),
        click.option("--device", metavar="N", default="0", show_default=True, help="Which of the machine's GPUs."),
        click.option("--gpu", metavar="G", default="auto", show_default=True, help="The hardware file of the device."),
    ):
        command = option(command)
    return command


@contextlib.contextmanager
def measuring(asked: Bench) -> Iterator[Source]:
    """A search's source on the GPU, once that has answered; what the search needs is imported meanwhile.

    Raises GemmsimError for a wrong option, and without a GPU.
    """
    from gemmsim.bench.session import Session, Settings
    from gemmsim.store import Store, import_sqlalchemy

    import_sqlalchemy()
    settings = Settings(
        CAMPAIGN, gpu=asked.gpu, device=number_option("--device", asked.device, 0, 1023) or 0, again=asked.again,
        jobs=asked.compilers,
    )  # fmt: skip
    store = Store()
    with Session(settings, store) as opened:
        for late in ("gemmsim.tuning.tuner", "scipy.stats"):  # seconds, in which the device starts
            importlib.import_module(late)
        try:
            opened.gpu  # noqa: B018
        except GemmsimError as error:
            raise GemmsimError(f"{error} (gemmsim tune with --rows FILE or --predicted needs no GPU)") from None
        from gemmsim.tuning.stored import stored
        from gemmsim.tuning.tuner import Source

        known = (lambda job, space: ()) if asked.again else functools.partial(stored, store, CAMPAIGN)
        yield Source(opened.gpu, opened, compilers=asked.compilers, stored=known)
