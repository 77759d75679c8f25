"""`gemmsim calibrate`: measured rows -> the coefficients of a family on a GPU, as a calibration file."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from gemmsim import __version__
from gemmsim.cli.options import Command, rows_options, whole
from gemmsim.cli.tables import send
from gemmsim.errors import GemmsimError
from gemmsim.rows import check_out

#: slices whose held-out errors stand in the file
LEAST_SEEDS = 5  # splits that the intervals need
SPLIT_PARTS = 5  # half of configurations x half of shapes: about a quarter of the rows, a fifth to be sure
SHOWN = ("no spills, aligned", "spills", "unaligned N or K")


def _date(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A day in ISO form. Raises GemmsimError for any other text."""
    try:
        return None if text is None else datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise GemmsimError(f"--recorded is {text!r}: expected a day, as 2026-11-30") from None


@click.command(cls=Command)
@rows_options
@click.option("--recorded", metavar="DATE", callback=_date, help="When the rows were timed, as 2026-11-30.")
@click.option("--kernel", metavar="FILE", help="Source of the measured kernel; its hash goes into the file.")
@click.option(
    "--seeds",
    metavar="N",
    callback=whole(0, 100),
    default="5",
    show_default=True,
    help="Held-out halves to score; the errors go into the file.",
)
@click.option("--out", metavar="FILE", help="Write there instead of to stdout.")
def command(
    rows: Sequence[str],
    gpu: str | None,
    family: str | None,
    dtype: str | None,
    l2: str | None,
    recorded: str | None,
    kernel: str | None,
    seeds: int,
    out: str | None,
) -> None:
    """Fit the coefficients of a family on a GPU to measured rows, with bounds, priors and a robust loss.

    Put the file beside the GPU's own, as calibration/<gpu>.<family>.yaml, or give it as --calibration. It names its
    rows, their conditions, the kernel's hash, the range it holds in and the errors of rows it was not fitted on.
    """
    if out is not None:
        check_out(out)
    from gemmsim.calibrate import document, enough, fit, spread, to_yaml
    from gemmsim.measured import joined, read_measured

    measured = joined([read_measured(f, gpu=gpu, family=family, dtype=dtype, l2=l2) for f in rows])
    found = fit(measured)
    provenance: dict[str, object] = {"files": [_hashed(f) for f in rows]}
    if recorded:
        provenance["recorded"] = recorded
    if kernel:
        provenance["kernel"] = _hashed(kernel)
    if seeds and enough(measured, SPLIT_PARTS):
        provenance["held_out"] = _scores(measured, seeds)
    provenance["by"] = f"gemmsim {__version__}"
    within = spread(measured, max(seeds, LEAST_SEEDS)) if enough(measured, SPLIT_PARTS) else None
    if within is None:
        click.echo("gemmsim: too few rows for held-out halves: no intervals, no held-out errors", err=True)
    send(to_yaml(document(measured, found, within, provenance)), out)
    for name in found.on_bound:
        click.echo(f"gemmsim: {name} ended on its bound ({found.values[name]:g})", err=True)
    if not found.converged:
        click.echo("gemmsim: the fit did not converge within its evaluations", err=True)


def _hashed(path: str) -> str:
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise GemmsimError(f"{path}: {error.strerror}, expected a readable file") from None
    return f"{Path(path).name} sha256:{digest[:16]}"


def _scores(measured: object, seeds: int) -> Mapping[str, object]:
    from gemmsim.measured import Measured
    from gemmsim.validate import held_out

    assert isinstance(measured, Measured)
    found = held_out(measured, seeds=seeds)
    of = {name: _figures(found[name].columns()) for name in SHOWN if name in found}
    return {"split": "half of configurations x half of shapes", "seeds": seeds, "of": of}


def _figures(columns: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(v), 3) for name, v in columns.items() if name not in ("rows", "shapes") and v == v}
