"""One study or several, one after another: planned, answered, written, summed up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.answers import (
    PAGE,
    REPORTS,
    Written,
    check_parent,
    document,
    folder_of,
    said_written,
    send_json,
    show,
    write,
)
from gemmsim.cli.study_timing import Asked, Timer, check_kept, kept, open_timer, timed, would_time
from gemmsim.cli.tables import Column, emit, progress
from gemmsim.errors import GemmsimError
from gemmsim.study import Study, open_study, study_names

if TYPE_CHECKING:
    from gemmsim.report.kinds import Report
    from gemmsim.study.base import Progress

INDEX = "index.html"
_SUMMARY = (
    Column("study"), Column("seconds", "took", "s"), Column("page_bytes", "page", "B"), Column("answer"),
)  # fmt: skip
_MORE = ("kind", "title", "question", "folder", "failed")


@dataclass(frozen=True)
class Wanted:
    """The options of a run that hold for every study of it."""

    gpus: str | None
    pictures: tuple[str, ...]
    timing: Asked


@dataclass(frozen=True)
class Done:
    """What became of a study. page_bytes: None without a page; failed: why there is no answer, else ""."""

    study: str
    kind: str
    title: str
    question: str
    folder: str
    seconds: float
    page_bytes: int | None = None
    answer: str = ""
    failed: str = ""


def opened(names: Sequence[str], wanted: Wanted) -> list[Study]:
    """The studies, on the GPUs asked for. Raises GemmsimError for a wrong one, and for two of one name."""
    found = [open_study(name) for name in names]
    for i, study in enumerate(found):
        if study.name in [other.name for other in found[:i]]:
            raise GemmsimError(f"study {study.name} is there twice: expected different names, each gives a folder one")
    return _on_gpus(found, wanted.gpus)


def shipped(wanted: Wanted) -> tuple[list[Study], dict[str, str]]:
    """Every study that ships, on the GPUs asked for; and those that cannot be opened, with the reason."""
    found, lost = [], {}
    for name in study_names():
        try:
            found.append(open_study(name))
        except GemmsimError as error:
            lost[name] = str(error)
    return _on_gpus(found, wanted.gpus), lost


def _on_gpus(studies: list[Study], gpus: str | None) -> list[Study]:
    """Raises GemmsimError where one of several is not asked of GPUs by name: it would stay on others than the rest."""
    if gpus is None:
        return studies
    fixed = [s.name for s in studies if type(s).with_gpus is Study.with_gpus]
    if fixed and len(studies) > 1:
        free = [s.name for s in studies if s.name not in fixed]
        raise GemmsimError(
            f"--gpus {gpus}: {', '.join(fixed)} {'are' if len(fixed) > 1 else 'is'} not asked of GPUs by name: "
            f"expected only studies that are, here {', '.join(free) or 'none'}"
        )
    names = [name.strip() for name in gpus.split(",")]
    return [study.with_gpus(names) for study in studies]


def plan(studies: Sequence[Study], out: str | None, format: str, *, apart: bool) -> None:
    """What would be done, and where things would go; apart: a folder and an entry of a list in JSON for each study."""
    from gemmsim.report.kinds import plan_of

    if format == "csv" and len(studies) > 1:
        raise GemmsimError("--format csv is given with --dry-run and several studies: expected table or json")
    folders = _folders(studies, out, apart=apart)
    plans = [(study, plan_of(study), folder) for study, folder in zip(studies, folders, strict=True)]
    if format == "json":
        documents = [
            document(study, said.tables, {**said.more, "folder": str(folder), "timing": study.timing()})
            for study, said, folder in plans
        ]
        send_json(documents if apart else documents[0])
        return
    for i, (study, said, folder) in enumerate(plans):
        if i:
            click.echo("\n")
        show(study, said.tables, format, {})
        if format == "table":
            where = f"Page and rows would go to {folder}."
            click.echo("\n" + "\n".join(x for x in (said.sentence, where, would_time(study, folder)) if x))


def run_one(study: Study, wanted: Wanted, out: str | None, format: str) -> None:
    """Answer a study, write it and print it."""
    folder = folder_of(out, study.name)
    timer = _timers([study], wanted, [folder])[0]
    found = _answered(study, folder, timer)
    written = write(found, folder, wanted.pictures)  # first: who reads only the head of the tables has the page too
    show(study, found.shown, format, found.more, files=found.files)
    click.echo(f"\n{said_written(written)}", err=True)


def _answered(study: Study, folder: Path, timer: Timer | None) -> Report:
    """The report of a study, with rows timed now or, by an earlier run, left in the folder."""
    from gemmsim.report.kinds import report_of

    earlier = None if timer else kept(study, folder)
    with progress(study.steps(), study.doing) as update:
        answer = _run(study, update)
    if timer is not None:
        answer = timed(study, answer, timer, folder)
    elif earlier is not None:
        answer = study.with_timings(answer, earlier)
    return report_of(study, answer)


def _run(study: Study, update: Progress) -> Any:
    """The answer. Raises GemmsimError, the study's file in front."""
    try:
        return study.run(update)
    except GemmsimError as error:
        sentence = str(error)
        raise GemmsimError(sentence if sentence.startswith(study.path) else f"{study.path}: {sentence}") from None


def _timers(studies: Sequence[Study], wanted: Wanted, folders: Sequence[Path]) -> list[Timer | None]:
    """The machine's GPU for each study that it is to time, opened once. Raises GemmsimError where it cannot time any.

    Of several studies those of other GPUs are answered without.
    """
    asked = wanted.timing
    asked.check(studies)
    mine = [asked.wanted(study) and bool(study.timing()) for study in studies]
    if not any(mine):
        return [None] * len(studies)
    for study, folder, wants in zip(studies, folders, mine, strict=True):
        if wants:
            check_kept(study, folder)
    timer = open_timer(asked)
    fitting = [wants and timer.gpu in study.timed_on for study, wants in zip(studies, mine, strict=True)]
    if not any(fitting):
        timer.check(next(study for study, wants in zip(studies, mine, strict=True) if wants))
    return [timer if fits else None for fits in fitting]


def _folders(studies: Sequence[Study], out: str | None, *, apart: bool) -> list[Path]:
    """A folder a study: --out itself, or apart in it. Raises GemmsimError where one cannot be."""
    if not apart:
        return [folder_of(out, study.name) for study in studies]
    if out is not None:
        check_parent(out)
    return [folder_of(None, study.name, within=out or REPORTS) for study in studies]


def run_several(
    studies: Sequence[Study], lost: Mapping[str, str], wanted: Wanted, out: str | None, format: str, *, index: bool
) -> int:
    """Answer studies, each into its own folder; a summary, and with index a page of links. 2 where one failed."""
    folders = _folders(studies, out, apart=True)
    timers = _timers(studies, wanted, folders)
    done = [Done(name, "", "", "", "", 0.0, failed=why) for name, why in lost.items()]
    tasks = [_Task(study, folder, wanted, timer) for study, folder, timer in zip(studies, folders, timers, strict=True)]
    for found in map(_done, tasks):
        done.append(found)
        what = "failed" if found.failed else f"{found.seconds:.1f} s"
        click.echo(f"{len(done)} of {len(studies) + len(lost)}: {found.study}, {what}", err=True)
    done.sort(key=lambda x: x.study)
    page = _index(done, Path(out or REPORTS)) if index else None
    _summary(done, format)
    if page is not None:
        click.echo(f"\nLinks: {page}", err=True)
    return said_lost({one.study: one.failed for one in done if one.failed})


def said_lost(lost: Mapping[str, str]) -> int:
    """Studies without an answer and the reason, a line each on stderr; the exit code."""
    for name, why in lost.items():
        click.echo(f"gemmsim: {name}: {why}", err=True)
    return 2 if lost else 0


@dataclass(frozen=True)
class _Task:
    study: Study
    folder: Path
    wanted: Wanted
    timer: Timer | None


def _done(task: _Task) -> Done:
    """Answer and write one study; what goes wrong with it is its own."""
    began = time.monotonic()
    try:
        found = _answered(task.study, task.folder, task.timer)
        written = write(found, task.folder, task.wanted.pictures)
    except GemmsimError as error:
        return _ended(task, str(error).removeprefix(f"{task.study.path}: "), time.monotonic() - began)
    except Exception as error:  # a mistake of gemmsim's own costs this study alone
        return _ended(task, f"{type(error).__name__}: {error}", time.monotonic() - began)
    return _finished(task.study, written, time.monotonic() - began)


def _finished(study: Study, written: Written, seconds: float) -> Done:
    size = written.page.stat().st_size if written.page is not None else None
    return Done(study.name, study.kind, study.title, study.question, str(written.folder), seconds, size, written.first)


def _ended(task: _Task, why: str, seconds: float = 0.0) -> Done:
    study = task.study
    return Done(study.name, study.kind, study.title, study.question, str(task.folder), seconds, failed=why)


def _summary(done: Sequence[Done], format: str) -> None:
    """A line a study."""
    rows = [
        {**asdict(x), "answer": f"failed: {x.failed}" if x.failed and format == "table" else x.answer} for x in done
    ]
    more = () if format == "table" else tuple(Column(name) for name in _MORE)
    emit(rows, (*_SUMMARY, *more), format, None)


def _index(done: Sequence[Done], parent: Path) -> Path | None:
    """The page that links the reports; None where there is none to link."""
    from gemmsim.cli.answers import made
    from gemmsim.rows import whole_file

    if not any(x.page_bytes for x in done):
        return None
    from gemmsim.report.index import Entry, render

    entries = [
        Entry(x.study, x.kind, x.title, x.question, f"{Path(x.folder).name}/{PAGE}" if x.page_bytes else "", x.answer,
              x.failed)
        for x in done
    ]  # fmt: skip
    with whole_file(str(made(parent) / INDEX)) as file:
        file.write(render(entries).encode())
    return parent / INDEX
