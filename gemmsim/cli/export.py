"""`gemmsim export`: the picks of a list of problems as a file that another tool reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gemmsim.cli.best import asked_for, emit_picks, picks_options
from gemmsim.cli.options import Command, dimensions, form_options, problem_argument
from gemmsim.cli.tables import send
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form
from gemmsim.rows import check_out

if TYPE_CHECKING:
    from gemmsim.picks import Pick
    from gemmsim.picks.evidence import Shape

FORMATS = ("triton", "cutlass", "json", "csv")


@click.command(cls=Command)
@problem_argument
@click.option("--best", is_flag=True, help="The best measured configuration of each problem.")
@click.option("--shapes", metavar="FILE", help="A CSV with m, n, k.  [default: every measured problem]")
@click.option("--nearest", is_flag=True, help="Of a problem that was not measured, a near one's (see gemmsim best).")
@picks_options
@form_options
@click.option("--format", type=click.Choice(FORMATS), required=True)
@click.option("--names", metavar="BM,BN,BK,G", help="With triton: the kernel's meta-parameters.  "
              "[default: those of Triton's matmul tutorial]")  # fmt: skip
@click.option("--out", metavar="FILE", required=True, help="With csv, .gz too.")
def command(
    mnk: Sequence[str], best: bool, shapes: str | None, nearest: bool, gpu: str | None, dtype: str | None, family: str,
    l2: str | None, clock: str | None, store: str | None, rows: str | None, shape: Form, format: str,
    names: str | None, out: str,
) -> None:  # fmt: skip
    """Write the picks of problems for another tool. No GPU is needed.

    triton: a Python module for triton.autotune that needs no gemmsim. cutlass: a shell script of cutlass_profiler
    command lines. json: everything known of each pick. csv: the same as columns, which gemmsim predict --batch, measure
    --batch and rows import read.
    """
    check_out(out)
    if not best:
        raise GemmsimError("--best is missing: expected it, as nothing else is exported")
    if mnk and shapes is not None:
        raise GemmsimError(f"M N K ({' '.join(mnk)}) is given with --shapes: expected one of them")
    if names is not None and format != "triton":
        raise GemmsimError(f"--names {names} is given with --format {format}: expected it with triton")
    from gemmsim.integrations.triton import meta_names

    called = meta_names(names)
    wanted = [dimensions(mnk)] if mnk else None if shapes is None else _shapes(shapes)
    found, asked = asked_for(gpu, dtype, family, l2, clock, store, rows, shape)
    from gemmsim.picks import every, listed

    picks = every(found, asked) if wanted is None else listed(found, asked, wanted, near=nearest)
    if format in ("json", "csv"):
        emit_picks(picks, format, out)
    else:
        send(_text(picks, format, called), out)
    near = sum(not pick.exact for pick in picks)
    click.echo(f"{len(picks)} picks to {out}{f', {near} of them of near problems' if near else ''}", err=True)


def _shapes(path: str) -> list[Shape]:
    """The different problems of a CSV, in its order. Raises GemmsimError for a malformed one."""
    from gemmsim.cli.batch import dimensions_of
    from gemmsim.rows import read_csv

    sizes = dimensions_of(read_csv(path))
    return list(dict.fromkeys(zip(*(column.tolist() for column in sizes.values()), strict=True)))


def _text(picks: Sequence[Pick], format: str, names: dict[str, str]) -> str:
    if format == "triton":
        from gemmsim.integrations.triton import module

        return module(picks, names)
    from gemmsim.integrations.cutlass import script

    return script(picks)
