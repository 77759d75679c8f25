"""`gemmsim rows`: what is in the store, out of it and into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gemmsim.cli.options import HELP, Command, refuse_beside
from gemmsim.cli.tables import FORMATS, Column, emit
from gemmsim.errors import GemmsimError, unknown

if TYPE_CHECKING:
    from gemmsim.store import Store

_COLUMNS = (
    Column("campaign"), Column("gpu", "GPU"), Column("family"), Column("dtype"), Column("status"), Column("rows"),
    Column("last", "last measured"),
)  # fmt: skip
_store = click.option(
    "--store", metavar="FILE|URL", help="[default: $GEMMSIM_STORE, or gemmsim/rows.sqlite in your data]"
)


@click.group(context_settings=HELP)
def command() -> None:
    """The rows measured so far, in one SQLite file."""


@command.command(name="list", cls=Command)
@_store
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True)
def list_rows(store: str | None, format: str) -> None:
    """Campaigns with their rows by status, all attempts counted."""
    emit(_there(store).campaigns(), _COLUMNS, format, None)


@command.command(name="export", cls=Command)
@_store
@click.option("--campaign", metavar="NAME", help="Rows of this campaign.  [default: all]")
@click.option("--family", metavar="F", help="Rows of this family.")
@click.option("--dtype", metavar="T", help="Rows of this dtype.")
@click.option("--l2", metavar="C", help="Rows under this L2 condition.")
@click.option("--status", metavar="S", help="Rows with this status.")
@click.option("--attempts", is_flag=True, help="Every attempt of a row, not the last alone.")
@click.option("--out", metavar="FILE", required=True, help="A CSV; .gz too.")
def export(
    store: str | None, campaign: str | None, family: str | None, dtype: str | None, l2: str | None, status: str | None,
    attempts: bool, out: str,
) -> None:  # fmt: skip
    """Write rows as a CSV for validate and calibrate."""
    from gemmsim.rowfile import columns
    from gemmsim.rows import check_out, write_csv

    check_out(out)
    opened = _there(store)
    wanted = {"family": family, "dtype": dtype, "l2": l2, "status": status}
    said = {k: v for k, v in wanted.items() if v is not None}
    rows = opened.rows(campaign, latest=not attempts, samples=True, **said)
    if not rows:
        have = sorted({str(row["campaign"]) for row in opened.campaigns()})
        if campaign is not None and campaign not in have:
            raise unknown("campaign", campaign, have, where="--campaign")
        raise GemmsimError(f"{opened.name} holds no such row: expected some (gemmsim rows list shows what it holds)")
    write_csv(out, columns(rows))
    click.echo(f"{len(rows)} rows to {out}", err=True)


@command.command(name="import", cls=Command)
@_store
@click.argument("file", metavar="FILE")
@click.option("--campaign", metavar="NAME", help="[default: the file's name]")
@click.option("--kernel-tuner", is_flag=True, help="FILE is a cachefile of Kernel Tuner; the options below go with it.")
@click.option("--family", metavar="F", help="The kernel family whose rows they are.  [default: the kernel's name]")
@click.option(
    "--map", "maps", metavar="NAME=TUNABLE", multiple=True,
    help="What m, n, k or a parameter is: a tunable, problem_size_x, a number, or those with * and / between; may be "
    "given many times.  [default: the tunable of that name]",
)  # fmt: skip
@click.option("--dtype", metavar="T", help="[default: the family's, if it has one alone]")
@click.option("--gpu", metavar="G", help="Name or file of the GPU.  [default: the one that has the device's name]")
@click.option("--l2", metavar="C", help="The L2 condition of the times.  [default: warm]")
def import_rows(
    store: str | None, file: str, campaign: str | None, kernel_tuner: bool, family: str | None, maps: Sequence[str],
    dtype: str | None, gpu: str | None, l2: str | None,
) -> None:  # fmt: skip
    """Take the rows of a CSV, or of a cachefile of Kernel Tuner, into the store.

    Those that it has are left as they are.
    """
    from gemmsim.rowfile import read_rows
    from gemmsim.rows import read_csv

    said = {"--family": family, "--map": ", ".join(maps), "--dtype": dtype, "--gpu": gpu, "--l2": l2}
    unfinished = ""
    if kernel_tuner:
        from gemmsim.integrations.kernel_tuner import Wanted, read_cachefile, table

        cache = read_cachefile(file)
        unfinished = f"; {cache.unfinished} unfinished left out" if cache.unfinished else ""
        found = table(cache, Wanted(family, dtype, gpu, l2 or "warm", _mapped(maps)))
    else:
        refuse_beside(said, "a CSV", "expected --kernel-tuner too")
        found = read_csv(file)
    rows, spare = read_rows(found, campaign or Path(file).name.split(".")[0])
    added = _opened(store).add(rows)
    left = f"; columns not kept: {', '.join(spare)}" if spare else ""
    click.echo(f"{added} of {len(rows)} rows are new{unfinished}{left}", err=True)


def _mapped(maps: Sequence[str]) -> dict[str, str]:
    """NAME=TUNABLE of each --map. Raises GemmsimError for another form, and for a name that is given twice."""
    found: dict[str, str] = {}
    for text in maps:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise GemmsimError(f"--map is {text!r}: expected NAME=TUNABLE, such as bm=BLOCK_SIZE_M")
        if name in found:
            raise GemmsimError(f"--map {text}: {name} is given twice, expected it once")
        found[name] = value
    return found


@command.command(cls=Command)
@_store
@click.argument("other", metavar="ROWS.sqlite")
def merge(store: str | None, other: str) -> None:
    """Take the rows of another store into this one."""
    from gemmsim.store import Store, is_there

    if not is_there(other):
        raise GemmsimError(f"{other}: expected a store of rows, found no such file")
    added = _opened(store).merge(Store(other, create=False))
    click.echo(f"{added} rows are new", err=True)


def _there(path: str | None) -> Store:
    """A store to read: one that is named must be there. Raises GemmsimError."""
    from gemmsim.store import default_place, is_there

    if path is not None and not is_there(path):
        raise GemmsimError(f"--store {path}: expected a store of rows, found no such file")
    return _opened(path, create=path is None and not is_there(default_place()))


def _opened(path: str | None, *, create: bool = True) -> Store:
    if path == "":
        raise GemmsimError("--store is '': expected a file, or the URL of a database")
    from gemmsim.store import Store, import_sqlalchemy

    import_sqlalchemy()
    return Store(path, create=create)
