"""A file of counters beside the simulator and the closed form: `gemmsim validate --counters FILE`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmsim.cli.batch import Options, dimensions_of, groups, predicted
from gemmsim.cli.executed import optional, warps
from gemmsim.cli.tables import Column, emit, progress
from gemmsim.errors import GemmsimError
from gemmsim.rows import Table, check_out, read_csv, write_csv

if TYPE_CHECKING:
    from gemmsim.simulate.score import Bytes, Launches

SECTOR_BYTES = 32.0
#: Nsight Compute's metrics, as `gemmsim counters` and the rows of studies/h200 write their names
READ, WRITTEN = "dram__bytes_read_sum", "dram__bytes_write_sum"
SECTORS, SECTORS_READ = "lts__t_sectors_srcunit_tex_sum", "lts__t_sectors_srcunit_tex_op_read_sum"
SECTORS_HIT = "lts__t_sectors_srcunit_tex_lookup_hit_sum"
SPILLED = "spill_bytes_moved"
COLUMNS = (
    Column("term", "term"),
    Column("rows", "rows"),
    Column("simulator_mean_pct", "simulator: mean %"),
    Column("simulator_median_pct", "median %"),
    Column("simulator_p90_pct", "p90 %"),
    Column("simulator_worst_pct", "worst %"),
    Column("closed_mean_pct", "closed form: mean %"),
    Column("closed_median_pct", "median %"),
    Column("closed_p90_pct", "p90 %"),
    Column("closed_worst_pct", "worst %"),
)


def validate(paths: Sequence[str], options: Options, each: str | None, format: str, out: str | None) -> None:
    """Print errors of both models, a term at a time; each: a CSV for what was counted and predicted, launch by launch.

    Raises GemmsimError for a file without counters.
    """
    from gemmsim.simulate import score
    from gemmsim.simulate import warps as execution

    if each is not None:
        check_out(each, "--each")
    whole = read(paths, options)
    executed = execution.joined([warps(_counted_rows(read_csv(path)), options) for path in paths])
    if each is not None:
        write_csv(each, {**score.each(whole), **execution.each(executed)})
    emit([*score.scores(whole), *execution.scores(executed)], COLUMNS, format, out, notes=[*_left_out(whole)])


def _left_out(x: Launches) -> Iterator[str]:
    """Launches that one or both models say nothing of."""
    unsaid = [int(np.isnan(said.dram_read_bytes).sum()) for said in (x.closed, x.simulated)]
    counts = {"refused by the family's rules, and not scored": unsaid[0],
              "too large to be walked: the closed form alone is scored": unsaid[1] - unsaid[0]}  # fmt: skip
    for what, count in counts.items():
        if count:
            yield f"{count} launch{'es' * (count > 1)} {what}"


def read(paths: Sequence[str], options: Options) -> Launches:
    """The launches of these files, with what both models say. Raises GemmsimError as `validate` does."""
    from gemmsim.simulate.score import joined

    return joined([_launches(_counted_rows(read_csv(path)), options) for path in paths])


def _counted_rows(table: Table) -> Table:
    """The rows that were counted. Raises GemmsimError where there are no counters."""
    for name in (READ, WRITTEN):
        if name not in table:
            raise GemmsimError(f"{table.path}: no column {name}: expected a file that `gemmsim counters` wrote")
    status = table.columns.get("status", ["ok"] * len(table))
    kept = [i for i, cell in enumerate(status) if cell in ("ok", "")]
    if not kept:
        raise GemmsimError(f"{table.path}: no row has the status ok: expected rows that were counted")
    columns = {name: [cells[i] for i in kept] for name, cells in table.columns.items()}
    return Table(table.path, columns, [table.lines[i] for i in kept])


def _launches(table: Table, options: Options) -> Launches:
    """Rows of a file in the order of their groups, with what both models say."""
    from gemmsim.simulate import score

    sizes, parts = dimensions_of(table), []
    with progress(len(table), "Simulating") as step:
        for group in groups(table, options):
            p, counted, simulated = predicted(table, sizes, group, options), _bytes(table, group.where), []
            for found in score.simulated(p):
                simulated.append(found)
                step(1)
            spills = score.spilling(optional(table, SPILLED, group.where), counted)
            both = score.together(simulated), score.closed(p)
            kind = score.is_small(p), score.is_summed(p)
            parts.append(score.Launches(counted, *both, score.operand_bytes(p), *kind, spills))
    return score.joined(parts)


def _bytes(table: Table, where: Any) -> Bytes:
    from gemmsim.simulate.score import Bytes

    sectors, hit = optional(table, SECTORS, where), optional(table, SECTORS_HIT, where)
    read, written = table.number(READ, where), table.number(WRITTEN, where)
    sectors_read = optional(table, SECTORS_READ, where)
    hits = hit / np.where(sectors > 0, sectors, np.nan)
    return Bytes(read, written, SECTOR_BYTES * sectors_read, SECTOR_BYTES * sectors, hits)
