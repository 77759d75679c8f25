"""`gemmsim split`: whole tiles, split-K and stream-K of a problem side by side, which wins and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    condition,
    configuration_options,
    dimensions,
    family_and_dtype,
    form_options,
    number_option,
    parameter_name,
    parameters_given,
    place_options,
    problem_argument,
    required_gpu,
    said_dtype,
)
from gemmsim.cli.tables import Column, emit, output_options, send
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.simulate.splits import Split, Splits

COLUMNS = (
    Column("way", "tiles"),
    Column("time_s", "time", "s"),
    Column("share", "speed", "1"),
    Column("makespan_s", "schedule", "s"),
    Column("blocks", "blocks"),
    Column("waves", "waves"),
    Column("idle_share", "idle", "1"),
    Column("partial_bytes", "partial sums", "B"),
    Column("workspace_bytes", "workspace", "B"),
    Column("sharing_s", "sharing", "s"),
    Column("bound_by", "bound by"),
    Column("key", "configuration"),
)


@click.command(cls=Command)
@problem_argument
@configuration_options
@place_options
@form_options
@output_options()
def command(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], gpu: str | None, dtype: str | None,
    family: str | None, l2: str | None, calibration: str, num_sms: str | None, shape: Form, format: str,
    out: str | None,
) -> None:  # fmt: skip
    """Whole tiles, split-K by each factor, its tail alone, and stream-K: time, partial sums, workspace; which wins.

    Of each the fastest configuration of the family's space, or of those with the tile and parameters given. Time is the
    closed form's, schedule the makespan of its blocks placed on the SMs one by one; idle is the SMs' time without a
    block, partial sums are bytes written and read again, sharing is the time of all that if it were alone. With few
    rows A and B are also swapped, where the family has the layouts.
    """
    m, n, k = dimensions(mnk)
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    gpu = required_gpu(gpu)
    name, kind = family_and_dtype(_family(family, said_dtype(dtype, "--dtype")), dtype, gpu=gpu)
    kept = parameters_given(name, tile, parameters)
    from gemmsim.simulate.splits import WAYS, splits

    for text in parameters:
        if parameter_name(text.partition("=")[0].strip()) in WAYS:
            raise GemmsimError(f"-p {text}: expected another parameter, {', '.join(WAYS)} are what is compared")
    found = splits(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family=name, config=kept, l2=condition(l2),
                   calibrated=calibration, num_sms=sms)  # fmt: skip
    if format == "json":
        import json

        send(json.dumps(_document(found), indent=2) + "\n", out)
        return
    rows = [_row(way, format) for way in found.ways]
    columns = COLUMNS if format == "table" else [Column(key) for key in rows[0]]
    emit(rows, columns, format, out, notes=[*_notes(found)])


def _family(family: str | None, dtype: str | None) -> str | None:
    """The family asked for; else the first of the dtype that shares tiles out along K, if there is one."""
    from gemmsim import families
    from gemmsim.simulate.splits import sharing_families

    if family is not None:
        return family
    return next((name for name in sharing_families() if dtype in (None, *families.family(name).DTYPES)), None)


def _row(way: Split, format: str) -> dict[str, Any]:
    row: dict[str, Any] = asdict(way)
    config: dict[str, int] = row.pop("config")
    if format == "table":
        return row | {"way": f"{way.way}{', swapped' * way.swapped}"}
    return row | config


def _document(found: Splits) -> dict[str, Any]:
    return {
        "m": found.m, "n": found.n, "k": found.k, "dtype": found.form.dtype, "gpu": found.gpu.name,
        "sm_count": found.gpu.sm_count, "l2": found.l2, "family": found.family, "verdict": found.verdict,
        "notes": list(found.notes), "ways": [_row(way, "json") for way in found.ways],
    }  # fmt: skip


def _notes(found: Splits) -> list[str]:
    """Below the table: the verdict, and what its numbers are."""
    odd = [way.way for way in found.ways if way.extrapolated]
    notes = [found.verdict, *found.notes, f"calibration: {found.ways[0].calibration}"]
    notes += [f"extrapolated: {len(odd)} of {len(found.ways)} lie outside the fitted rows"] if odd else []
    unplaced = [way.way for way in found.ways if not way.simulated]
    notes += (
        [f"schedule is the closed form's, for too many blocks or clusters: {', '.join(unplaced)}"] if unplaced else []
    )
    return [*notes, *(f"note: {note}" for note in found.gpu.notes)]
