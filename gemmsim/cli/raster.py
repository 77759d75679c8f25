"""`gemmsim raster`: orders of the tiles of one configuration side by side, and whether the order matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    configuration_options,
    form_options,
    one_launch,
    place_options,
    problem_argument,
)
from gemmsim.cli.tables import Column, emit, output_options, send
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.model.predict import Prediction
    from gemmsim.simulate.rasters import Rasters

COLUMNS = (
    Column("name", "order"),
    Column("dram_read_bytes", "DRAM read", "B"),
    Column("read_share", "x A and B"),
    Column("dram_write_bytes", "DRAM written", "B"),
    Column("l2_hit_rate", "L2 hits", "1"),
    Column("time_s", "time", "s"),
    Column("share", "speed", "1"),
    Column("in_kernel", "in the kernel"),
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
    """Row by row, column by column, in groups of tile rows (group_m), along Hilbert's curve: DRAM bytes, time, verdict.

    Bytes are the simulator's, times the closed form's with those bytes. Hilbert's curve is shown also where the
    kernel does not walk it; its blocks are taken to wait for memory as in the order that reads most nearly as much.
    """
    p = one_launch(mnk, tile, parameters, gpu, dtype, family, l2, calibration, num_sms, shape)
    from gemmsim.simulate.rasters import rasters

    found = rasters(p)
    if format == "json":
        import json

        send(json.dumps(_document(p, found), indent=2) + "\n", out)
        return
    rows = [asdict(order) for order in found.orders]
    columns = COLUMNS if format == "table" else [Column(key) for key in rows[0]]
    emit(rows, columns, format, out, notes=_notes(p, found))


def _document(p: Prediction, found: Rasters) -> dict[str, Any]:
    return {
        "m": int(p.problem.m[0]), "n": int(p.problem.n[0]), "k": int(p.problem.k[0]), "dtype": p.problem.dtype,
        "gpu": p.gpu.name, "sm_count": p.gpu.sm_count, "l2": p.l2, "family": p.config.family, "key": found.key,
        **p.config.row(0), "verdict": found.verdict, "notes": list(found.notes),
        "orders": [asdict(order) for order in found.orders],
    }  # fmt: skip


def _notes(p: Prediction, found: Rasters) -> list[str]:
    """Below the table: the verdict, and what its numbers are."""
    own = next(order.name for order in found.orders if order.own)
    notes = [found.verdict, *found.notes, f"configuration: {p.config.family} {found.key}, {own}"]
    notes += [f"calibration: {p.calibration.name}"]
    notes += ["extrapolated: outside the range of the fitted rows"] if p.extrapolated[0] else []
    return [*notes, *(f"note: {note}" for note in p.gpu.notes)]
