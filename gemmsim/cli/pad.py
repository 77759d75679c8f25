"""`gemmsim pad`: what padding sizes and row strides is predicted to gain and wastes, and why; or no gain at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    condition,
    dimensions,
    family_and_dtype,
    form_options,
    number_option,
    place_options,
    problem_argument,
    required_gpu,
)
from gemmsim.cli.tables import Column, emit, human, output_options, said_format, send, table_lines
from gemmsim.errors import unknown
from gemmsim.families import FAMILIES
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.padding import Padding

_SIZES = (
    Column("dimension", "pad"), Column("found", "from"), Column("padded", "to"), Column("time_s", "time", "s"),
    Column("gain", "less time"), Column("range", "80 % intervals"), Column("verdict", "verdict"),
    Column("more_flops_share", "more FLOPs", "1"), Column("more_bytes", "more bytes", "B"), Column("cause", "why"),
)  # fmt: skip
_STRIDES = (
    Column("operand", "row stride of"), Column("dimension", "is"), Column("elements", "elements"),
    Column("multiple_of", "multiple of", "B"), Column("padded", "padded"), Column("more_bytes", "more bytes", "B"),
    Column("gain", "less time"), Column("verdict", "verdict"), Column("cause", "why"),
)  # fmt: skip


@click.command(cls=Command)
@problem_argument
@place_options
@form_options
@output_options(default=None)
def command(
    mnk: Sequence[str], gpu: str | None, dtype: str | None, family: str | None, l2: str | None, calibration: str,
    num_sms: str | None, shape: Form, format: str | None, out: str | None,
) -> None:  # fmt: skip
    """Each size padded to the next multiples of 8, 16, 64 and 128, and each row stride alone: gain, waste and cause.

    Every size takes the best configuration of its own; --family all takes it from all families. `room` is the largest
    size that takes no longer, since the last wave is not full; `smaller` needs one wave less: no padding, but what
    fewer rows or columns would gain. A gain is uncertain where the intervals of both times overlap. csv holds the
    sizes, json the row strides too.
    """
    m, n, k = dimensions(mnk)
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    gpu = required_gpu(gpu)
    every = family == "all"
    if family is not None and not every and family not in FAMILIES:
        raise unknown("family", family, (*FAMILIES, "all"), where="--family")
    name, kind = family_and_dtype(None if every else family, dtype, gpu=gpu)
    l2 = condition(l2)
    from gemmsim.padding import pad

    found = pad(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family="all" if every else name, l2=l2,
                calibrated=calibration, num_sms=sms)  # fmt: skip
    format = said_format(format, out)
    if format == "json":
        import json

        send(json.dumps(_document(found), indent=2) + "\n", out)
    elif format == "csv":
        from gemmsim.padding import Candidate

        emit([asdict(c) for c in found.candidates], [Column(key) for key in Candidate.__dataclass_fields__], "csv", out)
    else:
        send("\n".join(_lines(found, wrap=out is None)) + "\n", out)


def _document(found: Padding) -> dict[str, Any]:
    p, base = found.problem, found.base
    return {
        "m": int(p.m[0]), "n": int(p.n[0]), "k": int(p.k[0]), "batch": int(p.batch[0]), "dtype": p.dtype,
        "dtype_b": p.dtype_b, "layout": p.layout, "gpu": found.gpu.name, "sm_count": found.gpu.sm_count, "l2": found.l2,
        "family": base.family, "key": base.key, "time_s": base.time_s, "time_lo_s": base.time_lo_s,
        "time_hi_s": base.time_hi_s, "calibration": base.calibration, "extrapolated": base.extrapolated,
        "advice": found.advice, "best": asdict(found.best) if found.best else None,
        "candidates": [asdict(c) for c in found.candidates], "strides": [asdict(s) for s in found.strides],
    }  # fmt: skip


def _lines(found: Padding, *, wrap: bool) -> Iterator[str]:
    """What a person reads: the problem, the advice, sizes, row strides."""
    p, base = found.problem, found.base
    yield (
        f"{p.m[0]} x {p.n[0]} x {p.k[0]} {p.dtype} {p.layout} on {found.gpu.name}, L2 {found.l2}: "
        f"{human(base.time_s, 's')} ({human(base.time_lo_s, 's')} to {human(base.time_hi_s, 's')}) with "
        f"{base.family} {base.key}"
    )
    yield found.advice
    yield ""
    if found.candidates:
        rows = [
            {
                **asdict(c), **_said(c.kind, c.dimension, c.gain_share),
                "range": f"{c.gain_lo_share:.0%} to {c.gain_hi_share:.0%}",
                "more_flops_share": round(c.more_flops_share, 3) + 0,
            }
            for c in found.candidates
        ]  # fmt: skip
        yield from table_lines(rows, _SIZES, wrap=wrap)
        yield ""
    strides = [{**asdict(s), **_said("multiple", s.dimension, s.gain_share)} for s in found.strides]
    yield from table_lines(strides, _STRIDES, wrap=wrap)
    yield ""
    plain = "uncalibrated: physical defaults scaled from the GPU's own figures"
    name = plain if base.calibration == "uncalibrated" else base.calibration
    yield f"calibration: {name}{', extrapolated' if base.extrapolated else ''}"
    yield from (f"note: {note}" for note in found.gpu.notes)


def _said(kind: str, dimension: str, gain_share: float) -> dict[str, str]:
    return {
        "dimension": dimension if kind == "multiple" else f"{dimension}, {kind}",
        "gain": f"{round(gain_share, 3) + 0:.1%}",
    }
