"""`gemmsim predict`: time of one configuration and its reasons, or of a CSV of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    condition,
    configuration,
    configuration_given,
    configuration_options,
    dimensions,
    family_and_dtype,
    form_options,
    known_effects,
    model_options,
    number_option,
    problem_argument,
    refuse_beside_batch,
    required_gpu,
)
from gemmsim.cli.tables import Column, emit_record, human, output_options, said_format, send
from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.model.predict import Prediction

#: batches of fewer rows are done before a progress bar could be read
_LONG = 100_000


@click.command(cls=Command)
@problem_argument
@configuration_options
@model_options
@form_options
@click.option("--batch", metavar="IN.csv", help="Rows with m, n, k and the family's parameters; .gz too.")
@click.option("--no-facts", is_flag=True, help="With --batch: estimate registers, spills and shared memory anyway.")
@click.option("--no-terms", is_flag=True, help="With --batch: leave out the columns demand_X_s and saved_X_s.")
@output_options(default=None)
def command(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], gpu: str | None, dtype: str | None,
    family: str | None, l2: str | None, without: Sequence[str], calibration: str, num_sms: str | None, shape: Form,
    batch: str | None, no_facts: bool, no_terms: bool, format: str | None, out: str | None,
) -> None:  # fmt: skip
    """Predicted time of C[M, N] = A[M, K] x B[K, N] in one configuration, and what bounds it. No GPU is needed.

    The time is that of one launch between two events with the stream busy. With --batch, of every row of a CSV: its
    columns gpu, family, dtype and l2 go before the options, an empty cell of another parameter than the tile's is the
    family's default; regs_per_thread, spill_bytes and smem_bytes are taken for
    the compiler's; every column is kept and the results follow.
    """
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    effects, cache = known_effects(without), condition(l2)
    if batch is not None:
        refuse_beside_batch({"M N K": " ".join(mnk), **configuration_given(tile, parameters)}, batch)
        if format not in (None, "csv"):
            raise GemmsimError(f"--format {format} is given with --batch: expected csv, the format of a batch")
        from gemmsim.cli.batch import Options

        _batch(
            batch, out, Options(gpu, family, dtype, l2, effects, calibration, sms, not no_facts, not no_terms, shape)
        )
        return
    for flag, given in {"--no-facts": no_facts, "--no-terms": no_terms}.items():
        if given:
            raise GemmsimError(f"{flag} is given without --batch: expected it with a CSV")
    m, n, k = dimensions(mnk)
    gpu = required_gpu(gpu)
    name, kind = family_and_dtype(family, dtype, gpu=gpu)
    config = configuration(name, tile, parameters)
    from gemmsim.model.predict import check_time, predict

    p = predict(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family=name, config=config, l2=cache,
                without=effects, calibrated=calibration, num_sms=sms, terms=True)  # fmt: skip
    if not p.feasible[0]:
        from gemmsim.explanation import check_feasible

        check_feasible(p)
    check_time(p.time_s, effects)
    format = said_format(format, out)
    if format == "table":
        send("".join(f"{title:19}  {text}\n" for title, text in _lines(p, effects)), out)
    else:
        record = _record(p)
        emit_record(record, [Column(key) for key in record], format, out)


def _batch(path: str, out: str | None, options: Any) -> None:
    """Read, predict, write; without the garbage collector, which finds nothing and takes a tenth of the time."""
    import gc

    from gemmsim.cli.batch import predict_table
    from gemmsim.rows import read_csv, write_csv

    was_on = gc.isenabled()
    gc.disable()
    try:
        table = read_csv(path)
        columns = predict_table(table, options)
        with _progress(len(table), out) as step:
            write_csv(out, columns, progress=step)
    finally:
        if was_on:
            gc.enable()


def _progress(rows: int, out: str | None) -> Any:
    """A context that gives a function to report written rows to: a bar for long work before a person, else nothing."""
    import contextlib

    if rows < _LONG or out is None or not sys.stderr.isatty():
        return contextlib.nullcontext(lambda done: None)
    return _bar(rows, os.path.basename(out))


def _bar(rows: int, name: str) -> Any:
    import contextlib

    @contextlib.contextmanager
    def shown() -> Iterator[Callable[[int], None]]:
        with click.progressbar(length=rows, label=name, file=sys.stderr) as bar:
            yield bar.update

    return shown()


def _record(p: Prediction) -> dict[str, Any]:
    """One prediction in SI base units, under the names of a batch's columns."""
    launch = p.launch
    names = ("time_s", "tflops", "blocks_per_sm", "waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes")
    peak = p.gpu.peak_flops(p.problem.dtype)
    low, high = p.interval_s
    return {
        "m": p.problem.m[0], "n": p.problem.n[0], "k": p.problem.k[0], "dtype": p.problem.dtype, "gpu": p.gpu.name,
        "sm_count": p.gpu.sm_count, **_said(p), "family": p.config.family, "l2": p.l2, **p.config.row(0),
        **{name: getattr(p, name)[0] for name in names}, "time_lo_s": low[0], "time_hi_s": high[0],
        "peak_fraction": p.tflops[0] * 1e12 / peak if peak else None, "bound_by": p.bound_by[0],
        "limited_by": p.limited_by_names[0], "threads": launch.threads[0], "regs_per_thread": launch.regs_per_thread[0],
        "spill_bytes": launch.spill_bytes[0], "smem_bytes": launch.smem_bytes[0],
        "resources": "fact" if launch.from_facts[0] else "estimate", "calibration": p.calibration.name,
        "extrapolated": int(p.extrapolated[0]), "notes": "; ".join(p.gpu.notes),
        **{f"demand_{t}_s": v[0] for t, v in p.demand.items()},
        **{f"saved_{t}_s": v[0] for t, v in p.saved.items()},
    }  # fmt: skip


def _said(p: Prediction) -> dict[str, Any]:
    q = p.problem
    return {"batch": q.batch[0], "layout": q.layout, "dtype_b": q.dtype_b, "dtype_c": q.dtype_c, "beta": int(q.beta),
            "epilogue": ",".join(q.epilogue)}  # fmt: skip


def _lines(p: Prediction, free: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a person reads: title and text of each line."""
    from gemmsim.config import config_key

    r = _record(p)
    sms = f"{r['sm_count']} SMs"
    yield "problem", f"{_form(p)}{r['m']} x {r['n']} x {r['k']} {r['dtype']}, L2 {r['l2']}"
    yield "GPU", f"{r['gpu']} ({p.gpu.product}), {sms}"
    yield "configuration", f"{r['family']} {config_key(p.config.row(0))}"
    yield "time", human(r["time_s"], "s")
    yield "80 % interval", f"{human(r['time_lo_s'], 's')} to {human(r['time_hi_s'], 's')}"
    share = f", {r['peak_fraction']:.1%} of the dense {r['dtype']} peak" if r["peak_fraction"] else ""
    rate = r["tflops"]
    if p.problem.beta or p.problem.epilogue:
        yield "epilogue", _epilogue(p, free)
    yield "rate", f"{rate:.{1 if rate >= 10 else 3}f} TFLOP/s{share}"
    bound = r["bound_by"]
    yield "bound by", f"{bound}, {human(r[f'demand_{bound}_s'], 's')} alone"
    yield "blocks per SM", f"{r['blocks_per_sm']}, limited by {r['limited_by'].replace('_', ' ')}"
    yield "waves", f"{r['waves']:g}"
    yield "DRAM read, written", f"{human(r['dram_read_bytes'], 'B')}, {human(r['dram_write_bytes'], 'B')}"
    yield "L2 read", human(r["l2_read_bytes"], "B")
    yield "registers", f"{r['regs_per_thread']} a thread ({r['resources']}){_spills(r)}"
    yield "shared memory", f"{r['smem_bytes']} B ({human(r['smem_bytes'], 'B')}) a block ({r['resources']})"
    yield "calibration", calibration_text(p)
    for note in p.gpu.notes:
        yield "note", note
    if p.extrapolated[0]:
        yield "extrapolated", f"outside the range of the rows it was fitted on ({', '.join(_outside(p))})"


def _form(p: Prediction) -> str:
    """What the problem is beside its size and type, where it is not the plain product."""
    q, parts = p.problem, []
    if q.batch[0] > 1:
        parts.append(f"{q.batch[0]} of")
    if q.layout != "NN":
        parts.append(q.layout)
    if q.dtype_b != q.dtype:
        parts.append(f"B in {q.dtype_b},")
    return "".join(f"{part} " for part in parts)


def _epilogue(p: Prediction, free: Sequence[str]) -> str:
    """What beta and the epilogue cost fused, and as kernels of their own."""
    from gemmsim.model.epilogue import separate_s
    from gemmsim.model.predict import predict

    q = p.problem
    plain = Form(q.dtype, q.dtype_b, q.dtype_c, q.layout, False, (), int(q.batch[0]))
    product = predict(q.m, q.n, q.k, gpu=p.gpu, dtype=plain, family=p.config.family, config=p.config, l2=p.l2,
                      calibrated=p.calibration, without=free)  # fmt: skip
    steps = ", ".join([*(["beta"] if q.beta else []), *q.epilogue])
    fused, apart = float(p.time_s[0] - product.time_s[0]), float(separate_s(q, p.gpu)[0])
    return f"{steps}: {human(fused, 's')} fused; {human(apart, 's')} as kernels of their own"


def _spills(record: dict[str, Any]) -> str:
    return f", {record['spill_bytes']:.0f} B a thread spilled" if record["spill_bytes"] else ""


def calibration_text(p: Prediction) -> str:
    """The calibration's name; without one, what stands in for it."""
    if not p.calibration.fitted:
        return "uncalibrated: physical defaults scaled from the GPU's own figures"
    fitted = p.calibration.dtypes
    other = f", fitted on {', '.join(fitted)}" if fitted and p.problem.dtype not in fitted else ""
    return p.calibration.name + other


def _outside(p: Prediction) -> Iterator[str]:
    if p.problem.dtype not in p.calibration.dtypes:
        yield f"dtype {p.problem.dtype}, fitted on {', '.join(p.calibration.dtypes)}"
    if p.problem.beyond_plain:
        yield f"{', '.join(p.problem.beyond_plain)}: fitted on the plain row-major product"
    values = {name: int(getattr(p.problem, name)[0]) for name in "mnk"} | p.config.row(0)
    if p.gpu.name.partition(":")[0] != p.calibration.gpu:
        yield f"GPU {p.gpu.name}, fitted on {p.calibration.gpu}"
    for name, (low, high) in p.calibration.ranges.items():
        if name in values and not low <= values[name] <= high:
            yield f"{name} {values[name]}, fitted from {low:g} to {high:g}"
