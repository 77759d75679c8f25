"""`gemmsim study run --measure`: a study's launches timed on the GPU of this machine, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import number_option, refuse_beside
from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.bench.campaign import Settings
    from gemmsim.cli.asked import Said
    from gemmsim.store import Row, Store
    from gemmsim.study import Study
    from gemmsim.study.timed import Timings

TIMED = "measured.csv"


@dataclass(frozen=True)
class Asked:
    """The options as given. measure: None where neither --measure nor --no-measure is."""

    measure: bool | None
    against: str | None
    gpu: str
    device: str

    def wanted(self, study: Study) -> bool:
        """Whether the launches of a study are to be timed."""
        return study.measures if self.measure is None else self.measure

    def check(self, studies: Sequence[Study]) -> None:
        """Raise GemmsimError where nothing can be timed that was asked to be, and for options of a run without."""
        if not any(self.wanted(study) for study in studies):
            why = "expected it with --measure, or a study that says measure: run"
            given = {"--against": self.against, "--gpu": self.gpu if self.gpu != "auto" else None,
                     "--device": self.device if self.device != "0" else None}  # fmt: skip
            refuse_beside(given, "a run that measures nothing", why)
        elif not any(study.timing() for study in studies):
            raise GemmsimError(f"--measure: {nothing(studies[0])}")


def nothing(study: Study) -> str:
    """Why a study has no launches."""
    return f"study {study.name} is of kind {study.kind}, of which nothing is timed: its rows are recorded or predicted"


@dataclass(frozen=True)
class Timer:
    """The GPU of this machine, which has answered, and the store that takes its rows."""

    gpu: str
    settings: Settings
    store: Store
    said: Said

    def check(self, study: Study) -> None:
        """Raise GemmsimError for a study of other GPUs."""
        if self.gpu not in study.timed_on:
            raise GemmsimError(
                f"--measure: the GPU of this machine is {self.gpu}, and study {study.name} is of "
                f"{', '.join(study.timed_on)}: expected one of them, or --gpus {self.gpu}"
            )


def open_timer(asked: Asked) -> Timer:
    """The timer. Raises GemmsimError without a GPU, a store, or a package that measuring needs."""
    from gemmsim.bench.session import Session, Settings
    from gemmsim.bench.task import Conditions
    from gemmsim.cli import asked as ask
    from gemmsim.store import Store, import_sqlalchemy

    library, dtype = ask.against(asked.against)
    import_sqlalchemy()
    settings = Settings(campaign="", gpu=asked.gpu, device=number_option("--device", asked.device, 0, 1023) or 0)
    store = Store()
    with Session(settings, store) as session:
        gpu = session.gpu.name
    return Timer(gpu, settings, store, ask.Said(conditions=Conditions(against=library), against_dtype=dtype))


def timed(study: Study, answer: Any, timer: Timer, folder: Path) -> Any:
    """The answer with its launches timed: those that the store lacks are measured, all are written beside the report.

    Raises what stopped it, once it has said where the rows are that were measured before.
    """
    from gemmsim.cli.asked import of_launches
    from gemmsim.cli.campaign import measured

    asked = of_launches([x for x in study.launches(answer) if x.gpu == timer.gpu], timer.said)
    rows = measured(asked, replace(timer.settings, campaign=study.name), timer.store, study.name)
    if rows.stopped is not None:
        click.echo(f"Rows measured so far are in {timer.store.name}; the same command goes on from there.", err=True)
        raise rows.stopped
    return study.with_timings(answer, _kept(study, folder, timer.gpu, rows.by_ask))


def _kept(study: Study, folder: Path, gpu: str, rows: Sequence[Row]) -> Timings:
    """The rows in the study's file, beside those of other GPUs that it holds."""
    from gemmsim.cli.answers import made
    from gemmsim.rowfile import columns, read_rows
    from gemmsim.rows import write_csv
    from gemmsim.study.timed import read_timings

    path = made(folder) / TIMED
    others: list[Row] = []
    if path.exists():
        held, _ = read_rows(read_timings(str(path), study.name).table, study.name)
        others = [row for row in held if row["gpu"] != gpu]
    write_csv(str(path), columns([*others, *rows]))
    return read_timings(str(path), study.name)


def check_kept(study: Study, folder: Path) -> None:
    """Raise GemmsimError for a file where the rows are to go that holds others."""
    from gemmsim.study.timed import read_timings

    if (folder / TIMED).exists():
        read_timings(str(folder / TIMED), study.name)


def kept(study: Study, folder: Path) -> Timings | None:
    """Rows that an earlier run left in the folder, said in a line; so is why they are left out."""
    from gemmsim.study.timed import read_timings

    path = folder / TIMED
    if not study.timing() or not path.exists():
        return None
    try:
        found = read_timings(str(path), study.name)
    except GemmsimError as error:
        click.echo(f"Left out: {error}", err=True)
        return None
    click.echo(f"Shown too: {len(found.table)} rows of {path}, timed earlier on {', '.join(found.products)}.", err=True)
    return found


def would_time(study: Study, folder: Path) -> str:
    """What --measure would do, in a sentence."""
    if not study.timing():
        return f"--measure would time nothing: {nothing(study)}."
    return f"--measure would time {study.timing()}; rows would go to {_store()} and {folder / TIMED}."


def _store() -> str:
    """The store's name, where the package is there that reads a URL."""
    from gemmsim.store import STORE_VARIABLE, default_name

    try:
        return f"the store {default_name()}"
    except ModuleNotFoundError:
        return f"the store ${STORE_VARIABLE}"
