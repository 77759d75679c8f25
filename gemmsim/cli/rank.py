"""`gemmsim rank`: every feasible configuration of a problem, best first, and cuBLAS' recorded time beside them."""

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
    known_effects,
    model_options,
    number_option,
    problem_argument,
    required_gpu,
)
from gemmsim.cli.tables import Column, emit, output_options, send
from gemmsim.errors import unknown
from gemmsim.families import FAMILIES
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.ranking import Entry, Ranking


@click.command(cls=Command)
@problem_argument
@model_options
@form_options
@click.option("--top", metavar="N", default="10", show_default=True, help="How many to show.")
@click.option("--distinct", is_flag=True, help="Of each block and thread tile the fastest alone: a shortlist to time.")
@output_options()
def command(
    mnk: Sequence[str], gpu: str | None, dtype: str | None, family: str | None, l2: str | None,
    without: Sequence[str], calibration: str, num_sms: str | None, shape: Form, top: str, distinct: bool, format: str,
    out: str | None,
) -> None:  # fmt: skip
    """Every configuration of the family's space (or of all families that have the dtype), fastest first.

    Configurations within 0.1 % of each other are a tie: they share a rank and are marked =. The last line is cuBLAS'
    recorded time for exactly this problem on this GPU, if there is one.
    """
    m, n, k = dimensions(mnk)
    shown = number_option("--top", top, 1, 10**6)
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    gpu = required_gpu(gpu)
    every = family in (None, "all")
    if not every and family not in FAMILIES:
        raise unknown("family", str(family), (*FAMILIES, "all"), where="--family")
    name, kind = family_and_dtype(None if every else family, dtype, gpu=gpu)
    asked: dict[str, Any] = {"l2": condition(l2), "without": known_effects(without)}
    from gemmsim.ranking import rank

    found = rank(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family="all" if every else name, top=shown,
                 calibrated=calibration, num_sms=sms, distinct=distinct, **asked)  # fmt: skip
    if format == "json":
        import json

        send(json.dumps(_document(found), indent=2) + "\n", out)
    elif format == "csv":
        rows = [_row(entry) for entry in found.entries]
        columns = list(dict.fromkeys(key for row in rows for key in row))
        emit(rows, [Column(key) for key in columns], "csv", out)
    else:
        send("\n".join(_lines(found)) + "\n", out)


def _row(entry: Entry) -> dict[str, Any]:
    row = asdict(entry)
    flat = {f"{kind}_{term}_s": v for kind in ("demand", "saved") for term, v in row.pop(kind).items()}
    config = row.pop("config")
    return {"rank": row.pop("rank"), "tied": row.pop("tied"), "family": row.pop("family"), "key": row.pop("key"),
            **config, **row, **flat}  # fmt: skip


def _document(found: Ranking) -> dict[str, Any]:
    return {
        "m": found.m, "n": found.n, "k": found.k, "dtype": found.dtype, "gpu": found.gpu.name,
        "sm_count": found.gpu.sm_count, "notes": list(found.gpu.notes),
        "l2": found.l2, "families": list(found.families),
        "configurations": found.configurations, "feasible": found.feasible, "refused": dict(found.refused),
        "ranking": [_row(entry) for entry in found.entries],
        "cublas": asdict(found.cublas) if found.cublas else None,
    }  # fmt: skip


def _lines(found: Ranking) -> Iterator[str]:
    """What a person reads: the problem, the ranking, what was refused, cuBLAS."""
    yield (
        f"{found.m} x {found.n} x {found.k} {found.dtype} on {found.gpu.name}, {found.gpu.sm_count} SMs, "
        f"L2 {found.l2}, {' and '.join(found.families)}"
    )
    several = len(found.families) > 1
    labels = [f"{e.family} {e.key}" if several else e.key for e in found.entries]
    width = max(len(label) for label in ("configuration", *labels))
    place = max(len(str(found.entries[-1].rank)), 4)
    yield (f"{'rank':>{place + 1}}  {'configuration':{width}}  {'time':>10}  {'speed':>6}  {'TFLOP/s':>7}  "
           f"{'bound by':9}  blocks/SM  waves")  # fmt: skip
    for label, e in zip(labels, found.entries, strict=True):
        mark = "=" if e.tied else " "
        yield (
            f"{mark}{e.rank:>{place}}  {label:{width}}  {_speed(e.time_s, e.share, e.tflops)}  {e.bound_by:9}  "
            f"{e.blocks_per_sm:9}  {e.waves:5g}"
        )
    yield from _notes(found)
    yield from (f"note: {note}" for note in found.gpu.notes)
    yield _cublas(found, place, width)


def _speed(time_s: float, share: float, tflops: float) -> str:
    return f"{time_s * 1e3:7.4f} ms  {share:6.1%}  {tflops:7.1f}"


def _notes(found: Ranking) -> Iterator[str]:
    why = ", ".join(f"{count} {code}" for code, count in found.refused.items())
    yield (
        f"{found.configurations} configurations: {found.feasible} can launch, "
        f"{found.configurations - found.feasible} refused{f' ({why})' if why else ''}"
    )
    if any(e.tied for e in found.entries):
        yield "= a tie: within 0.1 % of the first of its rank"
    names = list(dict.fromkeys(e.calibration for e in found.entries))
    plain = "uncalibrated: physical defaults scaled from the GPU's own figures"
    yield f"calibration: {', '.join(plain if name == 'uncalibrated' else name for name in names)}"
    odd = [e for e in found.entries if e.extrapolated]
    if odd:
        yield f"extrapolated: {len(odd)} of these {len(found.entries)} lie outside the range of the fitted rows"


def _cublas(found: Ranking, place: int, width: int) -> str:
    recorded = found.cublas
    if recorded is None:
        return "cuBLAS: not measured"
    share = found.entries[0].time_s / recorded.time_s
    tflops = 2 * found.m * found.n * found.k / recorded.time_s / 1e12
    other = "" if recorded.l2 == found.l2 else f", not {found.l2}"
    return f"cuBLAS: {_speed(recorded.time_s, share, tflops).lstrip()} TFLOP/s, measured, L2 {recorded.l2}{other}"
