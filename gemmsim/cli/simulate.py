"""`gemmsim simulate`: a launch walked block by block, its traffic and its schedule, beside the closed form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    configuration_given,
    configuration_options,
    form_options,
    number_option,
    one_launch,
    place_options,
    problem_argument,
    refuse_beside,
    refuse_beside_batch,
    whole_number,
)
from gemmsim.cli.tables import Column, emit, emit_record, human, output_options, progress, said_format
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form
from gemmsim.rows import check_out

if TYPE_CHECKING:
    from gemmsim.cli.batch import Options
    from gemmsim.model.predict import Prediction
    from gemmsim.simulate.launch import Simulated
    from gemmsim.simulate.schedule import How

#: columns of a batch; what a row that cannot launch has no value of is empty
NAMES = (
    "feasible", "reason", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "l2_hit_rate", "makespan_s", "waves",
    "idle_share", "a_dram_read_bytes", "b_dram_read_bytes", "c_dram_read_bytes", "closed_dram_read_bytes",
    "closed_dram_write_bytes", "closed_l2_read_bytes", "closed_l2_hit_rate", "closed_time_s", "simulated", "note",
)  # fmt: skip
_TEXTS = ("feasible", "reason", "simulated", "note")
_OPERANDS = ("dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "l2_write_bytes")
_COLUMNS = (
    Column("what", "operand"),
    Column("dram_read_bytes", "DRAM read", "B"),
    Column("dram_write_bytes", "DRAM written", "B"),
    Column("l2_read_bytes", "L2 -> SMs", "B"),
    Column("l2_write_bytes", "SMs -> L2", "B"),
    Column("l2_hit_rate", "L2 hits", "1"),
    Column("time_s", "time", "s"),
)


@click.command(cls=Command)
@problem_argument
@configuration_options
@place_options
@form_options
@click.option("--raster", metavar="R", default="", help="Order of the tiles: row, column, grouped, hilbert.  [default: "
              "the configuration's]")  # fmt: skip
@click.option("--cluster", metavar="MxN", default="", help="Blocks of a cluster, which start together.")
@click.option("--persistent", is_flag=True, help="As many blocks as run at once; each computes tile after tile.")
@click.option("--profiled", is_flag=True, help="As Nsight Compute counts: before a second kernel, too, L2 is emptied.")
@click.option("--trace", metavar="FILE", help="Write a timeline that ui.perfetto.dev opens, a track a slot of an SM.")
@click.option("--batch", metavar="IN.csv", help="Rows with m, n, k and the family's parameters; .gz too.")
@click.option("--no-facts", is_flag=True, help="With --batch: estimate registers, spills and shared memory anyway.")
@output_options(default=None)
def command(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], gpu: str | None, dtype: str | None,
    family: str | None, l2: str | None, calibration: str, num_sms: str | None, shape: Form, raster: str, cluster: str,
    persistent: bool, profiled: bool, trace: str | None, batch: str | None, no_facts: bool, format: str | None,
    out: str | None,
) -> None:  # fmt: skip
    """DRAM and L2 traffic by operand, hit rate, makespan, waves and tail of a launch, and what the closed form says.

    Blocks start on SMs one by one; each walks K through an L2 of two sides. Clusters and persistent blocks change the
    schedule, not the order in which the traffic is walked. With --batch, of every row of a CSV, as in predict. What is
    too large to simulate is the closed form's, and marked: column simulated 0, and why in note.
    """
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    if batch is not None:
        given = {"--raster": raster, "--cluster": cluster, "--trace": trace, "--persistent": "on" * persistent}
        refuse_beside(given, "--batch", "expected it with one configuration")
        refuse_beside_batch({"M N K": " ".join(mnk), **configuration_given(tile, parameters)}, batch)
        if format not in (None, "csv"):
            raise GemmsimError(f"--format {format} is given with --batch: expected csv, the format of a batch")
        from gemmsim.cli.batch import Options

        options = Options(gpu, family, dtype, l2, (), calibration, sms, not no_facts, False, shape)
        _batch(batch, out, options, profiled)
        return
    if no_facts:
        raise GemmsimError("--no-facts is given without --batch: expected it with a CSV")
    if trace is not None:
        check_out(trace, "--trace")
    how = _how(raster, cluster, persistent)
    p = one_launch(mnk, tile, parameters, gpu, dtype, family, l2, calibration, num_sms, shape)
    from gemmsim.simulate.launch import simulate

    found = simulate(p, how=how, profiled=profiled)
    notes = [*_notes(p, found, how), *_traced(found, trace)]
    format = said_format(format, out)
    if format == "table":
        emit([*_rows(found)], _COLUMNS, "table", out, notes=notes)
    else:
        record = _record(p, found, how)
        emit_record(record, [Column(key) for key in record], format, out)


def _how(raster: str, cluster: str, persistent: bool) -> How:
    """How the launch is laid out. Raises GemmsimError for what is none."""
    from gemmsim.errors import unknown
    from gemmsim.simulate.raster import RASTERS
    from gemmsim.simulate.schedule import How

    if raster and raster not in RASTERS:
        raise unknown("raster", raster, RASTERS, where="--raster")
    sides = re.fullmatch(r"(\d{1,9})x(\d{1,9})", cluster or "1x1")
    if not sides or not all(whole_number(side) for side in sides.groups()):
        raise GemmsimError(f"--cluster is {cluster!r}: expected MxN, two whole numbers from 1, such as 2x1")
    return How(raster, int(sides[1]), int(sides[2]), persistent)


def _traced(found: Simulated, path: str | None) -> Iterator[str]:
    if path is not None:
        from gemmsim.simulate.trace import trace

        left_out = trace(found.schedule, path)
        yield f"trace: {path}, for ui.perfetto.dev{f'; left out: {left_out}' if left_out else ''}"


def _rows(found: Simulated) -> Iterator[dict[str, Any]]:
    """A row an operand where they are known apart, all together, and the closed form."""
    t, s = found.traffic, found.schedule
    if t is not None:
        for name in "abc":
            operand = getattr(t, name)
            yield {"what": name.upper(), **{key: getattr(operand, key) for key in _OPERANDS}}
        whole = {key: getattr(t, key) for key in _OPERANDS}
        yield {"what": "simulated", **whole, "l2_hit_rate": t.l2_hit_rate, "time_s": s.makespan_s}
    elif s.simulated:
        yield {"what": "simulated", "time_s": s.makespan_s}
    yield {"what": "closed form", **found.closed, "time_s": s.closed_form_s}


def _notes(p: Prediction, found: Simulated, how: How) -> Iterator[str]:
    """Below the table: what was launched, how it fills the GPU, and what was not simulated."""
    from gemmsim.config import config_key

    s, q = found.schedule, p.problem
    batch = f"{q.batch[0]} of " if q.batch[0] > 1 else ""
    layout = "" if q.layout == "NN" else f"{q.layout} "
    yield f"{p.config.family} {config_key(p.config.row(0))}, {batch}{layout}{q.m[0]} x {q.n[0]} x {q.k[0]} {q.dtype} "\
          f"on {p.gpu.name}, {p.gpu.sm_count} SMs, L2 {p.l2}"  # fmt: skip
    if s.simulated:
        blocks = f"{s.blocks} block{'s' * (s.blocks > 1)} on {p.gpu.sm_count * s.slots} places"
        turns = f", {len(s)} tiles and parts of tiles in turn" if s.blocks < len(s) else ""
        waves = f"{s.waves} wave{'s' * (s.waves > 1)}, SMs idle {s.idle_share:.1%} of the time"
        yield f"{blocks}{turns}: {waves}, the last {human(s.tail_s, 's')} with some out of work"
    if found.traffic is not None:
        read, operands = found.traffic.dram_read_bytes, _operand_bytes(p)
        yield f"DRAM reads are {read / operands:.2f} x A and B ({human(operands, 'B')})"
    if how.raster:
        yield f"order of tiles: {how.raster}; what is the closed form's is of the configuration's own"
    if found.note:
        yield f"not simulated, the closed form's: {found.note}"


def _operand_bytes(p: Prediction) -> float:
    from gemmsim.simulate.score import operand_bytes

    return float(operand_bytes(p)[0])


def _record(p: Prediction, found: Simulated, how: How) -> dict[str, Any]:
    """One launch in SI base units, under the names of a batch's columns."""
    q, s, t = p.problem, found.schedule, found.traffic
    operands = {f"{o}_{key}": getattr(getattr(t, o), key) for o in "abc" for key in _OPERANDS} if t else {}
    return {
        "m": q.m[0], "n": q.n[0], "k": q.k[0], "dtype": q.dtype, "gpu": p.gpu.name, "sm_count": p.gpu.sm_count,
        "family": p.config.family, "l2": p.l2, **p.config.row(0), "raster": how.raster or None,
        "cluster_m": how.cluster_m, "cluster_n": how.cluster_n, "persistent": how.persistent, **found.bytes,
        **operands, "makespan_s": s.makespan_s, "blocks": s.blocks if s.simulated else None, "places": p.gpu.sm_count *
        s.slots, "waves": s.waves, "idle_share": s.idle_share, "tail_s": s.tail_s,
        **{f"closed_{name}": value for name, value in found.closed.items()}, "closed_time_s": s.closed_form_s,
        "operand_bytes": _operand_bytes(p), "calibration": p.calibration.name, "simulated": int(found.simulated),
        "note": found.note,
    }  # fmt: skip


def _batch(path: str, out: str | None, options: Options, profiled: bool) -> None:
    """Read, simulate row by row, write."""
    from gemmsim.cli.batch import answered
    from gemmsim.rows import read_csv, write_csv

    table = read_csv(path)
    with progress(len(table), "Simulating") as step:
        found = answered(table, options, NAMES, lambda p: _columns(p, profiled, step))
    write_csv(out, found)


def _columns(p: Prediction, profiled: bool, step: Callable[[int], object]) -> dict[str, Any]:
    """The columns of NAMES for the rows of a prediction, simulated one by one; step is told of each."""
    import numpy as np

    from gemmsim.cli.batch import flags
    from gemmsim.simulate.launch import TERMS, closed_form, simulate

    feasible, said = p.feasible, closed_form(p, profiled=profiled)
    numbers = {name: np.full(len(p), np.nan) for name in NAMES if name not in _TEXTS}
    notes, simulated = [""] * len(p), np.zeros(len(p), bool)
    for row in range(len(p)):
        if feasible[row]:
            found = simulate(p, row, profiled=profiled, said=said)
            for name, value in _figures(found).items():
                numbers[name][row] = value
            notes[row], simulated[row] = found.note, found.simulated
        step(1)
    numbers |= {f"closed_{name}": said[name] for name in TERMS}
    return {
        "feasible": feasible, "reason": p.reasons, **numbers, "closed_time_s": p.time_s,
        "simulated": flags(simulated, feasible), "note": notes,
    }  # fmt: skip


def _figures(found: Simulated) -> dict[str, float]:
    """Numbers of a row of a batch, less the closed form's."""
    s, t = found.schedule, found.traffic
    apart = {f"{o}_dram_read_bytes": getattr(t, o).dram_read_bytes for o in "abc"} if t else {}
    return {**found.bytes, **apart, "makespan_s": s.makespan_s, "waves": s.waves, "idle_share": s.idle_share}
