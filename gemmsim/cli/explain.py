"""`gemmsim explain`: where the time of one configuration goes, what bounds it, and the one change that helps most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import (
    Command,
    condition,
    configuration,
    configuration_options,
    dimensions,
    family_and_dtype,
    form_options,
    known_effects,
    model_options,
    number_option,
    problem_argument,
    required_gpu,
)
from gemmsim.cli.tables import Column, emit, human, output_options, send
from gemmsim.problem import Form

if TYPE_CHECKING:
    from gemmsim.explanation import Explanation

#: terms under this share of the time, alone and saved, are left out of the table
_VISIBLE = 0.001
#: terms that have no time of their own, only what they cost
_NO_TIME = ("waves", "edge", "alignment", "power")


@click.command(cls=Command)
@problem_argument
@configuration_options
@model_options
@form_options
@output_options()
def command(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], gpu: str | None, dtype: str | None,
    family: str | None, l2: str | None, without: Sequence[str], calibration: str, num_sms: str | None, shape: Form,
    format: str, out: str | None,
) -> None:  # fmt: skip
    """Where the time of one configuration goes, what bounds it, and the one change that helps most.

    `alone` is what a term would take if nothing else took time; `saved` what the launch would gain if the term took
    none. Overlapping terms hide each other, so that neither column adds up to the time; `part` does: what freeing the
    term gains on average over the orders of freeing terms (Shapley's value). Below: what comes after the best change.
    """
    m, n, k = dimensions(mnk)
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    gpu = required_gpu(gpu)
    name, kind = family_and_dtype(family, dtype, gpu=gpu)
    asked: dict[str, Any] = {"l2": condition(l2), "without": known_effects(without)}
    config = configuration(name, tile, parameters)
    from gemmsim.explanation import explain

    found = explain(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family=name, config=config,
                    calibrated=calibration, num_sms=sms, **asked)  # fmt: skip
    if format == "json":
        import json

        send(json.dumps(_document(found), indent=2) + "\n", out)
    elif format == "csv":
        rows = [asdict(term) for term in found.terms]
        emit(rows, [Column(key) for key in rows[0]], "csv", out)
    else:
        send("\n".join(_lines(found)) + "\n", out)


def _document(found: Explanation) -> dict[str, Any]:
    p = found.prediction
    low, high = (float(end[0]) for end in p.interval_s)
    return {
        "m": int(p.problem.m[0]), "n": int(p.problem.n[0]), "k": int(p.problem.k[0]), "dtype": p.problem.dtype,
        "gpu": p.gpu.name, "sm_count": p.gpu.sm_count, "l2": p.l2, "family": p.config.family, "key": found.key,
        "config": p.config.row(0), "time_s": float(p.time_s[0]), "time_lo_s": low, "time_hi_s": high,
        "tflops": float(p.tflops[0]),
        "bound_by": p.bound_by[0], "terms": {t.name: asdict(t) for t in found.terms},
        "sentences": list(found.sentences), "changes": [asdict(c) for c in found.changes],
        "best": asdict(found.best) if found.best else None, "advice": found.advice,
        "rest_s": found.rest_s, "outlook": list(found.outlook),
        "calibration": p.calibration.name, "extrapolated": bool(p.extrapolated[0]),
    }  # fmt: skip


def _lines(found: Explanation) -> Iterator[str]:
    """What a person reads: the launch, its terms, sentences, the change that helps most."""
    p = found.prediction
    m, n, k = (int(x[0]) for x in (p.problem.m, p.problem.n, p.problem.k))
    yield f"{m} x {n} x {k} {p.problem.dtype} on {p.gpu.name}, {p.gpu.sm_count} SMs, L2 {p.l2}"
    yield f"{p.config.family} {found.key}: {human(p.time_s[0], 's')}, {p.tflops[0]:.1f} TFLOP/s"
    yield ""
    yield f"{'term':10} {'part':>11} {'':7} {'alone':>11} {'':7} {'saved':>11}"
    shown = [t for t in found.terms if max(t.demand_share, t.saved_share) >= _VISIBLE]
    for t in sorted(shown, key=lambda t: (-t.part_s, -t.saved_s, -t.demand_s)):
        alone = f"{'-':>11} {'':7}" if t.name in _NO_TIME else f"{human(t.demand_s, 's'):>11} {t.demand_share:7.1%}"
        part = f"{human(t.part_s, 's'):>11} {t.part_share:7.1%}" if t.part_s else f"{'-':>11} {'':7}"
        yield f"{t.name:10} {part} {alone} {human(t.saved_s, 's'):>11} {t.saved_share:7.1%}  {t.meaning}"
    yield f"{'others':10} {human(found.rest_s, 's'):>11} {found.rest_s / float(p.time_s[0]):7.1%}"
    hidden = [t.name for t in found.terms if t not in shown]
    if hidden:
        yield f"nothing to speak of: {', '.join(hidden)}"
    yield ""
    yield from found.sentences
    yield from _changes(found)
    from gemmsim.cli.predict import calibration_text

    yield f"calibration: {calibration_text(p)}{', extrapolated' if p.extrapolated[0] else ''}"
    yield from (f"note: {note}" for note in p.gpu.notes)


def _changes(found: Explanation) -> Iterator[str]:
    if found.best is None:
        yield found.advice
        yield from found.outlook
        return
    yield f"what helps most: {found.advice}"
    others = [c for c in found.changes[1:3] if c.gain_share > 0.01]
    if others:
        yield f"next best alone: {'; '.join(f'{c.what} ({c.gain_share:.1%})' for c in others)}"
    yield from found.outlook
