"""`gemmsim compile`: configurations to cubins, and the compiler's facts that predict takes. No GPU is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    configuration,
    configuration_given,
    configuration_options,
    family_and_dtype,
    form_options,
    number_option,
    refuse_beside_batch,
    required_gpu,
)
from gemmsim.cli.tables import Column, emit_record, output_options, progress, said_format
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.cli.facts import Asked

#: columns of the table that a person reads
_SHOWN = (
    Column("family"), Column("configuration"), Column("gpu", "GPU"), Column("status"), Column("reason"),
    Column("regs_per_thread", "registers a thread"), Column("spill_bytes", "spilled a thread", "B"),
    Column("stack_bytes", "stack a thread", "B"), Column("smem_bytes", "shared memory a block", "B"),
    Column("warnings"), Column("compiler"), Column("kernel_hash", "hash"), Column("cubin"),
)  # fmt: skip


@click.command(cls=Command)
@configuration_options
@click.option("--gpu", metavar="G", help="Name (h200_sxm), device string, or file (./mychip.yaml).")
@click.option("--family", metavar="F", help="A family with a kernel.  [default: the dtype's first]")
@click.option("--dtype", metavar="T", help="[default: the family's first]")
@form_options
@click.option("--batch", metavar="IN.csv", help="Rows with the family's parameters, as predict takes them; .gz too.")
@click.option("--jobs", metavar="N", help="Compilers at work at once.  [default: one a core]")
@click.option("--cache", metavar="DIR", help="Compiled kernels are kept there.  [default: $GEMMSIM_CACHE/cubins, or "
              "gemmsim/cubins in the folder for caches]")  # fmt: skip
@click.option("--cubin", metavar="DIR", help="Copy each cubin there, under the configuration's name.")
@click.option("--ptx", metavar="DIR", help="Write each kernel's PTX there, under the configuration's name.")
@click.option("--sass", is_flag=True, help="Count the main loop's instructions too: columns sass_X.")
@output_options(default=None)
def command(
    tile: str | None, parameters: Sequence[str], gpu: str | None, family: str | None, dtype: str | None, shape: Form,
    batch: str | None, jobs: str | None, cache: str | None, cubin: str | None, ptx: str | None, sass: bool,
    format: str | None, out: str | None,
) -> None:  # fmt: skip
    """Compile configurations and say what the compiler found: registers, spills, shared memory, warnings.

    With --batch, of every row of a CSV: every column is kept, and the columns regs_per_thread, spill_bytes, smem_bytes,
    stack_bytes, warnings, compiler, kernel_hash, status and reason follow, from which `gemmsim predict --batch` takes
    the facts. status: ok, refused (no such kernel can run; it is not compiled) or compile (it does not compile).
    """
    workers = number_option("--jobs", jobs, 1, 4096)
    exports = {kind: _folder(f"--{kind}", path) for kind, path in (("cubin", cubin), ("ptx", ptx)) if path is not None}
    from gemmsim.cli.facts import Settings

    if cache == "":
        raise GemmsimError("--cache is '': expected a folder")
    settings = Settings(workers, None if cache is None else Path(cache), exports, sass)
    if batch is not None:
        _batch(batch, out, format, tile, parameters, (gpu, family, dtype, shape), settings)
        return
    name, kind = family_and_dtype(family, dtype, gpu=required_gpu(gpu))
    config = configuration(name, tile, parameters)
    _one(name, replace(shape, dtype=kind), config, str(gpu), settings, format, out)


def _folder(option: str, path: str) -> Path:
    if not os.path.isdir(path):
        raise GemmsimError(f"{option} is {path!r}: expected an existing folder")
    return Path(path)


def _one(
    family: str, form: Form, config: dict[str, int], gpu: str, settings: Any, format: str | None, out: str | None
) -> None:
    from gemmsim.cli.facts import asked_one, facts
    from gemmsim.config import config_key

    asked = asked_one(family, form, config, gpu)
    columns = facts([asked], 1, settings, lambda done: None)
    record: dict[str, Any] = {"family": family, "gpu": asked.gpu.name, "configuration": config_key(config), **config}
    record |= {name: _number(cells[0]) for name, cells in columns.items()}
    if record["status"] != "ok":
        raise GemmsimError(f"{family} {config_key(config)}: status {record['status']}: {record['reason']}")
    extra = [Column(name) for name in columns if name.startswith("sass_")]
    shown = [c for c in (*_SHOWN, *extra) if record.get(c.key) not in (None, "")]
    format = said_format(format, out)
    if format == "table":
        emit_record(record, shown, "table", out)
    else:
        emit_record(record, [Column(key) for key in record], format, out)


def _number(cell: str) -> Any:
    """A cell as JSON should have it."""
    return int(cell) if cell.isdigit() else cell


def _batch(
    path: str, out: str | None, format: str | None, tile: str | None, parameters: Sequence[str], said: tuple[Any, ...],
    settings: Any,
) -> None:  # fmt: skip
    refuse_beside_batch(configuration_given(tile, parameters), path)
    if format not in (None, "csv"):
        raise GemmsimError(f"--format {format} is given with --batch: expected csv, the format of a batch")
    from gemmsim.cli.facts import asked_of, facts
    from gemmsim.rows import out_names, read_csv, write_csv

    table = read_csv(path)
    groups: list[Asked] = asked_of(table, *said)
    with progress(len(table), "Compiling") as step:
        columns = facts(groups, len(table), settings, step)
    given = out_names(table.columns, columns)
    write_csv(out, {given[name]: cells for name, cells in table.columns.items()} | columns)
