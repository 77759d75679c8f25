"""`gemmsim tune`: a measured search for the best configuration of one shape, or of a file of them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim import families
from gemmsim.cli.batch import dimensions_of
from gemmsim.cli.held import Bench, bench_options, measuring
from gemmsim.cli.options import (
    Command,
    condition,
    dimensions,
    family_and_dtype,
    form_options,
    number_option,
    problem_argument,
    real_option,
)
from gemmsim.cli.tables import output_options
from gemmsim.conditions import DEFAULT_L2, L2_CONDITIONS
from gemmsim.errors import GemmsimError, unknown
from gemmsim.families import FAMILIES
from gemmsim.hardware import load_gpu
from gemmsim.problem import DTYPE_BYTES, Form, form_of, gemm
from gemmsim.rows import read_csv

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

    from gemmsim.tuning.job import Job
    from gemmsim.tuning.result import Tuned
    from gemmsim.tuning.tuner import Source, Tuner


@dataclass(frozen=True)
class _Asked:
    """The options as given."""

    family: str
    dtype: str | None
    l2: str | None
    trials: str
    budget_s: str | None
    seed: str
    shapes: str | None
    rows: tuple[str, ...]
    predicted: bool
    study: str | None
    storage: str | None
    shape: Form
    bench: Bench


@click.command(cls=Command)
@problem_argument
@click.option(
    "--shapes", metavar="FILE", help="CSV of shapes in place of M N K: m, n, k, and name if you like; .gz too."
)
@click.option(
    "--family",
    metavar="F",
    default="all",
    show_default=True,
    help=f"{', '.join(FAMILIES)}; all: those that have the type and can run here, in one search.",
)
@click.option("--dtype", metavar="T", help=f"{', '.join(DTYPE_BYTES)}.  [default: the family's first]")
@click.option("--l2", metavar="C", help=f"{', '.join(L2_CONDITIONS)}.  [default: {DEFAULT_L2}]")
@form_options
@click.option(
    "--trials",
    metavar="N",
    default="30",
    show_default=True,
    help="Configurations to measure, a shape; those that the study holds count.",
)
@click.option("--budget-s", metavar="S", help="Begin no trial of a shape after so many seconds.")
@click.option("--seed", metavar="N", default="0", show_default=True, help="The same seed proposes the same.")
@click.option(
    "--rows",
    metavar="FILE",
    multiple=True,
    help="Recorded rows answer instead of a GPU; one family a file, repeatable.",
)
@click.option("--predicted", is_flag=True, help="The model answers instead of a GPU: a dry run.")
@click.option("--study", metavar="NAME", help="Keep the study in --storage by this name, and carry it on.")
@click.option("--storage", metavar="URL", help="tune.journal, sqlite:///tune.db, or postgresql+psycopg://...")
@bench_options
@output_options(default=None)
def command(
    mnk: Sequence[str], format: str | None, out: str | None, gpu: str, device: str, again: bool, jobs: str | None,
    **given: Any,
) -> int:  # fmt: skip
    """Measure the configurations that the model likes, correct it by what they take, and time the fastest in turn.

    The first trials are the model's shortlist; every further one is what the corrected model promises most of. Then the
    fastest few, the default, the model's first pick and cuBLAS are timed in turn. Rows go to the store as they come:
    stopped at any moment, the same command goes on. --out x.csv or x.json says the format, too. Exit code 1 if no
    configuration ran.
    """
    from gemmsim.tuning import check_optuna

    asked = _Asked(**given, bench=Bench(gpu, device, again, jobs))
    shapes = _shapes(mnk, asked.shapes)
    trials = number_option("--trials", asked.trials, 1, 10**6) or 0
    seed = number_option("--seed", asked.seed, 0, 2**31 - 1) or 0
    budget_s = None if asked.budget_s is None else real_option("--budget-s", asked.budget_s, 1e-3, 1e9)
    _refuse_odd(asked)
    check_optuna()
    from gemmsim.cli.tuned import Screen, show

    storage = _storage(asked.storage)
    with _source(asked) as (source, what):
        if source.rows is not None:
            source.rows.refuse_missing(shapes)
        every = [replace(what, m=m, n=n, k=k, trials=trials, seed=seed, number=i) for i, (m, n, k) in enumerate(shapes)]
        from gemmsim.tuning.tuner import Tuner

        tuner = Tuner(source, budget_s, Screen(len(every)))
        found, error = _tuned(tuner, _studies(every, storage, asked.study), every, list(shapes.values()))
    if found:
        show(found, format, out, several=asked.shapes is not None)
    if error is not None:
        raise error
    return _code(found, every, asked)


def _tuned(
    tuner: Tuner, studies: Sequence[optuna.Study], jobs: Sequence[Job], names: Sequence[str]
) -> tuple[list[Tuned], BaseException | None]:
    """What came of the shapes, as far as they came, and what ended them before their time."""
    found: list[Tuned] = []
    try:
        for study, job, name in zip(studies, jobs, names, strict=True):
            found.append(tuner.tune(study, job, name))
            if found[-1].stopped:
                break
    except (GemmsimError, KeyboardInterrupt) as error:
        return found, error
    return found, None


def _shapes(mnk: Sequence[str], path: str | None) -> dict[tuple[int, int, int], str]:
    """The shapes to tune, each once, and their names in the file. Raises GemmsimError for wrong ones, or none."""
    if path is None:
        return {dimensions(mnk): ""}
    if mnk:
        raise GemmsimError(f"M N K and --shapes {path} are given: expected one of them")
    table = read_csv(path)
    sizes = dimensions_of(table)
    rows = zip(*(sizes[name].tolist() for name in "mnk"), strict=True)
    found: dict[tuple[int, int, int], str] = {}
    for shape, name in zip(rows, table.columns.get("name", [""] * len(table)), strict=True):
        found[shape] = ", ".join(dict.fromkeys(filter(None, [found.get(shape), name.strip()])))
    return found


def _refuse_odd(asked: _Asked) -> None:
    """Raise GemmsimError for options that do not go together."""
    if (asked.study is None) != (asked.storage is None):
        given, other = ("--study", "--storage") if asked.storage is None else ("--storage", "--study")
        raise GemmsimError(f"{given} is given without {other}: expected both, a study's name and where it is kept")
    if asked.study == "":
        raise GemmsimError("--study is '': expected a name")
    if asked.rows and asked.predicted:
        raise GemmsimError("--rows and --predicted are given: expected one of them")
    if asked.family not in (*FAMILIES, "all"):
        raise unknown("family", asked.family, (*FAMILIES, "all"), where="--family")
    if asked.rows or asked.predicted:
        given = "--again" if asked.bench.again else "--jobs" if asked.bench.jobs is not None else ""
        if given:
            instead = "--rows" if asked.rows else "--predicted"
            raise GemmsimError(f"{given} is given with {instead}: expected it where a GPU measures")


@contextlib.contextmanager
def _source(asked: _Asked) -> Iterator[tuple[Source, Job]]:
    """Where times come from, and what all shapes share. Raises GemmsimError for wrong options, and without a GPU."""
    from gemmsim.tuning.job import MEASURED, PREDICTED, Job
    from gemmsim.tuning.tuner import Source
    from gemmsim.tuning.worker import kernel_digests

    gpu = None if asked.bench.gpu == "auto" else asked.bench.gpu
    if asked.rows:
        yield _recorded(asked, gpu)
        return
    if asked.predicted and gpu is None:
        raise GemmsimError("--predicted is given without --gpu: expected a GPU's name or file, h200_sxm, say")
    form, names = _families(asked, gpu)
    what = Job(0, 0, 0, form, "", tuple(names), condition(asked.l2), PREDICTED)
    if asked.predicted:
        chip = load_gpu(str(gpu))
        yield Source(chip), replace(what, gpu=chip.name)
        return
    names = _kernels(names, form)
    with measuring(asked.bench) as source:
        measured = replace(what, gpu=source.gpu.name, families=tuple(names), objective=MEASURED)
        yield source, replace(measured, digests=kernel_digests(names))


def _families(asked: _Asked, gpu: str | None) -> tuple[Form, list[str]]:
    """The form, and the families that have it. Raises GemmsimError for a dtype or form that none has."""
    from gemmsim.ranking import families_of

    _, dtype = family_and_dtype(None if asked.family == "all" else asked.family, asked.dtype, gpu=gpu)
    form = form_of(replace(asked.shape, dtype=dtype))
    names = families_of(asked.family, form)
    families.check(names[0], gemm(1, 1, 1, form))
    return form, names


def _kernels(names: Sequence[str], form: Form) -> list[str]:
    """Those that can be compiled and run here. Raises GemmsimError where that is none."""
    from gemmsim.bench.data import supported

    if supported(form):
        raise GemmsimError(supported(form))
    why = {name: _missing(name, form) for name in names}
    found = [name for name in names if not why[name]]
    if not found:
        raise GemmsimError(f"no {form.dtype} kernel can run here: {'; '.join(f'{n}: {w}' for n, w in why.items())}")
    for name in names:
        if why[name]:
            click.echo(f"without family {name}: {why[name]}", err=True)
    return found


def _missing(name: str, form: Form) -> str:
    """Why a family has no kernel to run here; empty if it has."""
    from gemmsim.bench.refusal import check_kernel

    if name == "triton" and importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'gemmsim[triton]'"
    try:
        check_kernel(name, gemm(1, 1, 1, form), form, families.config(name, {}).row(0))
    except GemmsimError as error:
        return str(error)
    return ""


def _recorded(asked: _Asked, gpu: str | None) -> tuple[Source, Job]:
    from gemmsim.tuning.job import RECORDED, Job
    from gemmsim.tuning.recorded import read_rows
    from gemmsim.tuning.tuner import Source

    family = None if asked.family == "all" else asked.family
    rows = read_rows(asked.rows, gpu=gpu, family=family, dtype=asked.dtype, l2=asked.l2)
    files = tuple(os.path.abspath(file) for file in asked.rows)
    job = Job(0, 0, 0, rows.form, rows.gpu.name, rows.families, rows.l2, RECORDED, {"rows": rows.digest}, files)
    return Source(rows.gpu, rows=rows), job


def _storage(url: str | None) -> BaseStorage | None:
    """The storage, opened before anything is measured. Raises GemmsimError for one that cannot be used."""
    if url is None:
        return None
    from gemmsim.search.storage import open_storage

    return open_storage(url)


def _studies(jobs: Sequence[Job], storage: BaseStorage | None, name: str | None) -> list[optuna.Study]:
    """A study for each job; in memory without a storage."""
    import optuna

    from gemmsim.tuning import quiet_optuna

    quiet_optuna()
    if storage is None:
        return [optuna.create_study(direction="minimize") for _ in jobs]
    from gemmsim.tuning.studies import begun

    studies, there = begun(jobs, storage, str(name))
    if there:
        click.echo(f"study {name} is carried on", err=True)
    return studies


def _code(found: Sequence[Tuned], jobs: Sequence[Job], asked: _Asked) -> int:
    """Exit code: 1 if nothing ran for a shape, 130 if a person stopped it, who is told how to go on."""
    if any(tuned.stopped for tuned in found):
        done = sum(tuned.count for tuned in found)
        kept = f"study {asked.study} and " if asked.study else ""
        where = f"{kept}the rows are kept" if jobs[0].objective == "measured" else f"{kept or 'nothing'} is kept"
        click.echo(f"stopped after {done} trials: {where}; the same command goes on", err=True)
        return 130
    return 0 if all(tuned.best for tuned in found) else 1
