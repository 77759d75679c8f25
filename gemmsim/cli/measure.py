"""`gemmsim measure`: rows timed and checked on the GPU, from a CSV, a study or one configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.campaign import Rows, measured
from gemmsim.cli.options import (
    Command,
    configuration_given,
    configuration_options,
    dimensions,
    form_options,
    number_option,
    problem_argument,
    real_option,
    refuse_beside,
    refuse_beside_batch,
)
from gemmsim.cli.tables import Column, emit_record
from gemmsim.conditions import DEFAULT_L2, L2_CONDITIONS
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.bench.campaign import Settings
    from gemmsim.cli.asked import Asked

#: campaign of configurations that are measured one by one
SINGLE = "single"
_SHOWN = (
    Column("family"), Column("configuration"), Column("gpu", "GPU"), Column("status"), Column("reason"),
    Column("time_s", "time", "s"), Column("p20_s", "20 % of samples below", "s"),
    Column("p80_s", "80 % of samples below", "s"), Column("sample_count", "samples"), Column("tflops", "TFLOP/s"),
    Column("cublas_time_s", "cuBLAS, interleaved", "s"), Column("ratio", "rate over cuBLAS's", "1"),
    Column("unstable"), Column("l2", "L2"), Column("timed_by", "timed by"),
    Column("error", "relative error to float64"), Column("error_limit", "allowed"),
    Column("regs_per_thread", "registers a thread"), Column("spill_bytes", "spilled a thread", "B"),
    Column("smem_bytes", "shared memory a block", "B"), Column("blocks_per_sm", "blocks per SM"),
    Column("sm_clock_hz_before", "SM clock before", "Hz"), Column("sm_clock_hz_after", "after", "Hz"),
    Column("power_w_after", "power after", "W"), Column("warnings"), Column("compiler"),
)  # fmt: skip


@click.command(cls=Command)
@problem_argument
@configuration_options
@click.option("--batch", metavar="IN.csv", help="Rows with m, n, k and the family's parameters; .gz too.")
@click.option("--study", metavar="NAME", help="Every configuration of every GEMM of a study.")
@click.option("--out", metavar="ROWS.csv", help="All rows go there at the end; with --batch, one a row of IN.csv.")
@click.option("--gpu", metavar="G", default="auto", show_default=True, help="The hardware file of the device.")
@click.option("--family", metavar="F", help="A kernel family, or cublas.  [default: the dtype's first]")
@click.option("--dtype", metavar="T", help="[default: the family's first]")
@click.option("--l2", metavar="C", help=f"{', '.join(L2_CONDITIONS)}.  [default: {DEFAULT_L2}]")
@form_options
@click.option("--against", metavar="cublas", help="Time cuBLAS too, sample by sample in turn, in the same math.")
@click.option("--graph", is_flag=True, help="Kernels under 20 us in CUDA graphs; the L2 is warm.")
@click.option("--samples", metavar="N", help="Samples of a row.  [default: 5 to 30, as the budget allows]")
@click.option("--budget-ms", metavar="MS", default="15", show_default=True, help="Time for a row's samples.")
@click.option("--timeout-s", metavar="S", default="30", show_default=True, help="A row that takes longer is given up.")
@click.option("--device", metavar="N", default="0", show_default=True, help="Which of the machine's GPUs.")
@click.option("--again", is_flag=True, help="Measure once more what the store has; the last time counts.")
@click.option("--jobs", metavar="N", help="Compilers at work at once.  [default: one a core]")
def command(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], batch: str | None, study: str | None,
    out: str | None, gpu: str, family: str | None, dtype: str | None, l2: str | None, shape: Form, against: str | None,
    graph: bool, samples: str | None, budget_ms: str, timeout_s: str, device: str, again: bool, jobs: str | None,
) -> int:  # fmt: skip
    """Compile, check against float64 and time configurations on a GPU; rows go to the store as they come.

    --batch takes what `gemmsim predict --batch` takes: the columns gpu, family, dtype, l2, layout, beta, epilogue and
    dtype_c go before the options. A campaign that was stopped, however, goes on where it was when it is started again.
    Times are those of one launch between two events with the stream busy, median of the samples.
    """
    from gemmsim.bench.campaign import Settings
    from gemmsim.bench.task import Conditions
    from gemmsim.cli import asked as ask
    from gemmsim.rows import check_out, read_csv
    from gemmsim.store import Store, import_sqlalchemy

    given = [name for name, value in (("M N K", mnk), ("--batch", batch), ("--study", study)) if value]
    if len(given) != 1:
        raise GemmsimError(f"found {' and '.join(given) or 'nothing to measure'}: expected M N K, --batch or --study")
    library, library_dtype = ask.against(against)
    if graph and library:
        raise GemmsimError("--graph is given with --against: expected one of them, a graph holds one kernel")
    budget_s = 1e-3 * real_option("--budget-ms", budget_ms, 0.1, 1e6)
    conditions = Conditions(
        graph=graph, against=library, samples=number_option("--samples", samples, 1, 10_000), budget_s=budget_s,
    )  # fmt: skip
    l2 = "warm" if graph and l2 is None and batch is None else l2
    said = ask.Said(None if gpu == "auto" else gpu, family, dtype, l2, shape, conditions, library_dtype)
    if out is not None:
        check_out(out)
    if batch is not None and out is None:
        raise GemmsimError("--batch is given without --out: expected the name of a CSV for the rows")
    import_sqlalchemy()
    settings = Settings(
        campaign="", gpu=gpu, device=number_option("--device", device, 0, 1023) or 0,
        timeout_s=real_option("--timeout-s", timeout_s, 0.1, 1e6), again=again,
        jobs=number_option("--jobs", jobs, 1, 4096),
    )  # fmt: skip
    if batch is not None:
        refuse_beside_batch(configuration_given(tile, parameters), batch)
        table = read_csv(batch)
        found = ask.of_batch(table, said)
        rows = measured(found, settings, Store(), os.path.realpath(str(out)))
        _write(str(out), found, rows, table)
    elif study is not None:
        refuse_beside(configuration_given(tile, parameters), "--study", "expected it where M N K are given")
        found = ask.of_study(study, said)
        rows = measured(found, settings, Store(), study)
        if out is not None:
            _write(out, found, rows, None)
    else:
        found = ask.distinct([ask.of_one(dimensions(mnk), tile, parameters, said)])
        return _one(found, settings, out)
    return 0


def _write(out: str, asked: Asked, rows: Rows, table: Any) -> None:
    """One line a row of the input, with the input's further columns behind; then what stopped the campaign."""
    from gemmsim.rowfile import columns
    from gemmsim.rows import write_csv

    lines = [rows.by_ask[i] for i in asked.of_row]
    found = columns(lines)
    if table is not None:
        found |= {name: cells for name, cells in table.columns.items() if name not in found}
    try:
        write_csv(out, found)
    except GemmsimError as error:
        raise rows.stopped or error from None
    if rows.stopped is not None:
        raise rows.stopped


def _one(asked: Asked, settings: Settings, out: str | None) -> int:
    """Exit code 2 where it cannot launch, as in compile and predict; 1 where it did and went wrong."""
    from dataclasses import replace

    from gemmsim.config import config_key
    from gemmsim.store import Store

    rows = measured(asked, replace(settings, again=True), Store(), SINGLE)
    if rows.stopped is not None:
        raise rows.stopped
    row = rows.by_ask[0]
    name = config_key(row["config"]) if row["config"] else "-"
    record = row | {"configuration": name}
    emit_record(record, [c for c in _SHOWN if record.get(c.key) not in (None, "")], "table", None)
    if out is not None:
        _write(out, asked, rows, None)
    return {"ok": 0, "refused": 2}.get(str(row["status"]), 1)
