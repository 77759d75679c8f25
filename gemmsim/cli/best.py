"""`gemmsim best`: the best measured configuration of a problem, or a near one's with the predicted loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gemmsim.cli.options import (
    Command,
    dimensions,
    form_options,
    number_option,
    problem_argument,
    said_dtype,
)
from gemmsim.cli.tables import human, output_options, send
from gemmsim.conditions import L2_CONDITIONS, l2_condition
from gemmsim.errors import GemmsimError, unknown
from gemmsim.families import FAMILIES
from gemmsim.problem import DTYPE_BYTES, Form

if TYPE_CHECKING:
    from gemmsim.picks import Pick, Wanted
    from gemmsim.picks.evidence import Evidence

_F = TypeVar("_F", bound=Callable[..., Any])
_WIDTH = 12


def picks_options(command: _F) -> _F:
    """What picks are asked for: gpu, dtype, family, l2, clock, store, rows."""
    for option in reversed(
        (
            click.option("--gpu", metavar="G", help="The GPU of the rows.  [default: their only one]"),
            click.option("--dtype", metavar="T", help=f"{', '.join(DTYPE_BYTES)}.  [default: the rows' only one]"),
            click.option("--family", metavar="F|all", default="all", show_default=True, help=", ".join(FAMILIES)),
            click.option("--l2", metavar="C", help=f"{', '.join(L2_CONDITIONS)}.  [default: the first that has rows]"),
            click.option("--clock", metavar="MHZ", help="Only rows timed at this SM clock, within 5 %."),
            click.option("--store", metavar="FILE|URL",
                         help="[default: $GEMMSIM_STORE, or gemmsim/rows.sqlite in your data]"),
            click.option("--rows", metavar="FILE", help="A CSV of measured rows in place of the store; .gz too."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def asked_for(
    gpu: str | None, dtype: str | None, family: str, l2: str | None, clock: str | None, store: str | None,
    rows: str | None, shape: Form,
) -> tuple[Evidence, Wanted]:  # fmt: skip
    """The rows and what is wanted of them. Raises GemmsimError, naming the option."""
    for option, value in {"--store": store, "--rows": rows}.items():
        if value == "":
            raise GemmsimError(f"{option} is '': expected the name of a file")
    if store is not None and rows is not None:
        raise GemmsimError(f"--store {store} is given with --rows: expected one of them")
    if family not in (*FAMILIES, "all"):
        raise unknown("family", family, (*FAMILIES, "all"), where="--family")
    clock_mhz = number_option("--clock", clock, 1, 100_000, " MHz")
    form = replace(shape, dtype=said_dtype(dtype, "--dtype") or "")
    condition = None if l2 is None else l2_condition(l2, where="--l2")
    from gemmsim.picks import evidence, wanted

    found = evidence(rows, store)
    return found, wanted(
        found, gpu=gpu, dtype=form, family=family, l2=condition, clock_hz=None if clock_mhz is None else 1e6 * clock_mhz
    )


@click.command(cls=Command)
@problem_argument
@picks_options
@form_options
@output_options()
def command(
    mnk: Sequence[str], gpu: str | None, dtype: str | None, family: str, l2: str | None, clock: str | None,
    store: str | None, rows: str | None, shape: Form, format: str, out: str | None,
) -> None:  # fmt: skip
    """The best measured configuration for C[M, N] = A[M, K] x B[K, N]. No GPU is needed.

    Where the problem was not measured, the configurations that are fastest on the nearest problems are predicted on
    this one: the fastest is shown, with its predicted loss against the model's own first.
    """
    size = dimensions(mnk)
    found, asked = asked_for(gpu, dtype, family, l2, clock, store, rows, shape)
    from gemmsim.picks import pick

    chosen = pick(found, asked, size)
    if format == "table":
        lines = [f"{title:{_WIDTH}}  {text}" for title, text in _lines(chosen)]
        send("\n".join(lines) + "\n", out)
    else:
        emit_picks([chosen], format, out)


def emit_picks(picks: Sequence[Pick], format: str, out: str | None) -> None:
    """Picks as JSON or CSV. Raises GemmsimError where the file cannot be written."""
    from gemmsim.picks.record import columns, document
    from gemmsim.rows import write_csv

    if format == "csv":
        write_csv(out, columns(picks))
        return
    import json

    send(json.dumps(document(picks), indent=2, ensure_ascii=False) + "\n", out)


def _lines(pick: Pick) -> Iterator[tuple[str, str]]:
    """What a person reads: the configuration and its time first, then how far to trust them."""
    yield "problem", f"{_problem(pick)} on {pick.wanted.gpu.name}, L2 {pick.l2}"
    yield "pick", f"{pick.family} {pick.key}"
    yield from _measured(pick) if pick.exact else _near(pick)
    for note in pick.notes:
        yield "note", note


def _problem(pick: Pick) -> str:
    form = pick.wanted.form
    parts = [f"{form.batch} of"] if form.batch > 1 else []
    parts += [f"{pick.m} x {pick.n} x {pick.k}", form.dtype]
    parts += [form.layout] if form.layout != "NN" else []
    parts += [f"with B in {form.dtype_b}"] if form.dtype_b != form.dtype else []
    steps = ["beta"] * form.beta + list(form.epilogue)
    return " ".join([*parts, *([f"with {', '.join(steps)}"] if steps else [])])


def _measured(pick: Pick) -> Iterator[tuple[str, str]]:
    row, time_s = pick.timed.row, pick.timed.time_s
    yield "measured", f"{human(time_s, 's')}, {_rate(pick, time_s)}{_spread(row)}"
    if pick.library:
        ratio = pick.library.time_s / time_s
        yield "cuBLAS", f"{human(pick.library.time_s, 's')}, {pick.library.how}: the pick has {ratio:.3f} of its rate"
    off = pick.predicted.time_s / time_s - 1
    if off == off:  # the model has it refused
        yield "predicted", f"{_forecast(pick)}, {abs(off):.1%} {'over' if off > 0 else 'under'} what was measured"
    yield "tried", _tried(pick)
    place = _place(pick)
    if place:
        yield "timed", place


def _near(pick: Pick) -> Iterator[tuple[str, str]]:
    m, n, k = pick.source
    yield "predicted", f"{_forecast(pick)}, {_rate(pick, pick.predicted.time_s)}: this problem was not measured"
    rank = pick.standing.order.index(pick.timed) + 1
    place = "the fastest" if rank == 1 else f"number {rank}"
    yield "from", (f"{m} x {n} x {k}, where it is {place} of {len(pick.standing.order)} measured, "
                   f"{human(pick.timed.time_s, 's')}")  # fmt: skip
    if pick.first is not None:
        mine = "it is this one" if pick.first.key == pick.key and pick.first.family == pick.family else (
            f"{pick.first.family} {pick.first.key}, {human(pick.first.time_s, 's')}")  # fmt: skip
        yield "model's own", f"{mine}: predicted loss {pick.loss:.1%}"
    yield "to be sure", f"gemmsim tune {pick.m} {pick.n} {pick.k} --dtype {pick.wanted.form.dtype}"


def _rate(pick: Pick, time_s: float) -> str:
    tflops = 2e-12 * pick.m * pick.n * pick.k * pick.wanted.form.batch / time_s
    return f"{tflops:.{1 if tflops >= 10 else 3}f} TFLOP/s"


def _spread(row: dict[str, Any]) -> str:
    """How many samples, and what the middle of them spans."""
    if row.get("sample_count") is None or row.get("p20_s") is None or row.get("p80_s") is None:
        return ""
    wide = (row["p80_s"] - row["p20_s"]) / row["time_s"]
    return f", {row['sample_count']} samples, the middle 60 % within {wide:.1%}"


def _forecast(pick: Pick) -> str:
    p = pick.predicted
    return f"{human(p.time_s, 's')} (80 % interval {human(p.low_s, 's')} to {human(p.high_s, 's')})"


def _tried(pick: Pick) -> str:
    stands = pick.standing
    total = sum(stands.statuses.values())
    failed = ", ".join(f"{count} {status}" for status, count in stands.statuses.items() if status != "ok")
    ties = f"; {stands.tied} more within noise ({stands.noise:.1%})" if stands.noise and stands.tied else ""
    turns = sum(t.in_turn for t in stands.order)
    in_turn = f", {turns} timed in turn" if turns else ""
    return f"{total} configurations{failed and f' ({failed})'}{in_turn}{ties}"


def _place(pick: Pick) -> str:
    row, clock = pick.timed.row, pick.timed.clock_hz
    when = str(row.get("measured_at") or "")[:16].replace("T", " ")
    where = row.get("product")
    parts = [when, where and f"on {where}", clock and f"SM clock {clock / 1e6:.0f} MHz", row.get("compiler")]
    return ", ".join(str(part) for part in parts if part)
