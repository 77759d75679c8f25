"""What a study of heat maps answers, in sentences made of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gemmsim.report.heatmap import numbers
from gemmsim.report.heatmap.numbers import WHOLE
from gemmsim.report.units import percent
from gemmsim.study.heatmap.outcome import NEAR, Outcome


def verdict(outcome: Outcome) -> Iterator[str]:
    """How flat the top is, which tile is safest, whether the best moves, and what was measured."""
    yield _flat(numbers.tops(outcome).rows())
    yield from _safe(numbers.safest(outcome).rows())
    if outcome.moves:
        yield _moving(numbers.moves(outcome).rows())
    yield from _measured(outcome)


def _flat(tops: Sequence[dict[str, Any]]) -> str:
    """Tiles within NEAR of the best, a kernel and GPU."""
    if not tops:
        return "No configuration can launch on any of the GPUs."
    parts = []
    for kernel in dict.fromkeys(r["kernel"] for r in tops):
        mine = [r for r in tops if r["kernel"] == kernel]
        each = ", ".join(
            f"{_span(r['near'] for r in mine if r['gpu'] == gpu)} on {gpu}"
            for gpu in dict.fromkeys(r["gpu"] for r in mine)
        )
        parts.append(f"{kernel}, of {_span(r['tiles'] for r in mine)} tiles, {each}")
    share = sum(r["near"] for r in tops) / sum(r["tiles"] for r in tops)
    return (
        f"Of the tiles that can launch {100 * share:.0f} % are predicted to be within {100 * NEAR:.0f} % of a GEMM's "
        f"best: {'; '.join(parts)}."
    )


def _span(values: Iterable[int]) -> str:
    found = list(values)
    low, high = min(found), max(found)
    return str(low) if low == high else f"{low} to {high}"


def _safe(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The safest tile of each kernel and GPU, predicted, as one configuration, and by the measured rows."""
    said = _firsts(rows, "predicted")
    if said:
        safe = sum(r["worst"] <= NEAR for r in said)
        losses = "; ".join(_each(said, lambda r: f"{r['tile']} {percent(r['worst'])} ({r['worst_gemm']})"))
        yield (
            f"One tile for all these GEMMs: {safe or 'none'} of {len(said)} kernels and GPUs {_has(safe)} one that is "
            f"predicted to lose no more than {100 * NEAR:.0f} % in its worst GEMM. The safest loses at most: {losses}."
        )
    whole = _firsts(rows, WHOLE)
    if whole:
        losses = "; ".join(_each(whole, lambda r: f"{r['tile']} {percent(r['worst'])}"))
        yield f"With one configuration for all of them it loses at most, predicted: {losses}."
    yield from _held(said, _firsts(rows, "measured"))


def _has(count: int) -> str:
    return "has" if count <= 1 else "have"


def _firsts(rows: Sequence[dict[str, Any]], who: str) -> list[dict[str, Any]]:
    """The first row of each kernel and GPU."""
    return list({(r["kernel"], r["gpu"]): r for r in reversed(rows) if r["who"] == who}.values())[::-1]


def _each(rows: Sequence[dict[str, Any]], text: Callable[[dict[str, Any]], str]) -> Iterator[str]:
    """A part a kernel, its GPUs one after another."""
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        yield f"{kernel}, " + ", ".join(f"{text(r)} on {r['gpu']}" for r in rows if r["kernel"] == kernel)


def _held(said: Sequence[dict[str, Any]], held: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the safest tile loses by the measured rows, and which loses least by them."""
    predicted = {(r["kernel"], r["gpu"]): r for r in said}
    for r in held:
        text = f"By the measured rows on {r['gpu']}, {r['kernel']}, {r['tile']} loses least, "
        text += f"{percent(r['worst'])} at most ({r['worst_gemm']})"
        other = predicted.get((r["kernel"], r["gpu"]))
        if other and other["tile"] != r["tile"] and other["measured_worst"] is not None:
            text += f"; {other['tile']}, which is predicted to be safest, {percent(other['measured_worst'])}"
        yield f"{text}."


def _moving(rows: Sequence[dict[str, Any]]) -> str:
    """Whether the best tile is the same on all GPUs."""
    same, worst = sum(r["same"] for r in rows), max(rows, key=lambda r: r["loss"])
    text = f"From GPU to GPU the best tile is the same in {same} of {len(rows)} pairs of kernel and GEMM"
    if worst["loss"] > 0:
        text += (
            f"; taking another GPU's best tile loses {percent(worst['loss'])} at most ({worst['pair']}, "
            f"{worst['kernel']}, {worst['gemm']})"
        )
    return f"{text}; basis of this: {', '.join(dict.fromkeys(r['basis'] for r in rows))}."


def _measured(outcome: Outcome) -> Iterator[str]:
    rows = numbers.errors(outcome).rows()
    for conditions in outcome.elsewhere:
        yield f"Rows of {conditions} are left out: the study is of {outcome.study.l2}."
    if not rows:
        yield "Nothing measured stands beside these maps."
        return
    for kernel in dict.fromkeys((r["gpu"], r["kernel"]) for r in rows):
        mine = [r for r in rows if (r["gpu"], r["kernel"]) == kernel]
        mean = sum(r["mape"] * r["cells"] for r in mine) / sum(r["cells"] for r in mine)
        worst = max(mine, key=lambda r: r["regret"])
        near, said, of = (_span(r[key] for r in mine) for key in ("near", "said_near", "cells"))
        yield (
            f"Measured on {kernel[0]}, {kernel[1]}: within {100 * NEAR:.0f} % of a GEMM's best are {near} of {of} "
            f"tiles that have rows (predicted of the same rows: {said}); the best of a tile is predicted "
            f"{percent(mean)} off on average, and the row predicted to be the fastest loses "
            f"{percent(worst['regret'])} at most ({worst['gemm']})."
        )
