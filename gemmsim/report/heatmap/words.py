"""What a study of heat maps answers, in sentences made of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gemmsim.report.heatmap import numbers
from gemmsim.report.heatmap.numbers import WHOLE
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
        parts.append(f"{kernel}: of {_span(r['tiles'] for r in mine)} tiles that can launch {each}")
    return f"Within {100 * NEAR:.0f} % of a GEMM's best, predicted, are: {'; '.join(parts)}."


def _span(values: Iterable[int]) -> str:
    found = list(values)
    low, high = min(found), max(found)
    return str(low) if low == high else f"{low} to {high}"


def _safe(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The safest tile of each kernel and GPU, and one configuration for all."""
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        mine = [r for r in rows if r["kernel"] == kernel]
        each = [_safe_on(gpu, [r for r in mine if r["gpu"] == gpu]) for gpu in dict.fromkeys(r["gpu"] for r in mine)]
        yield f"One tile for all these GEMMs, {kernel}: {'; '.join(each)}."


def _safe_on(gpu: str, rows: Sequence[dict[str, Any]]) -> str:
    first = [next((r for r in rows if r["who"] == who), None) for who in ("predicted", WHOLE, "measured")]
    said, whole, held = first
    text = f"on {gpu}"
    if said:
        text += f" {said['tile']} is predicted to lose {_percent(said['worst'])} at most ({said['worst_gemm']})"
    if said and said["measured_worst"] is not None:
        text += f" (its measured rows: {_percent(said['measured_worst'])})"
    if whole:
        text += f", one configuration {_percent(whole['worst'])}"
    if held and said and held["tile"] != said["tile"]:
        text += f"; measured, {held['tile']} loses least, {_percent(held['worst'])} at most ({held['worst_gemm']})"
    return text


def _moving(rows: Sequence[dict[str, Any]]) -> str:
    """Whether the best tile is the same on all GPUs."""
    same, worst = sum(r["same"] for r in rows), max(rows, key=lambda r: r["loss"])
    text = f"From GPU to GPU the best tile is the same in {same} of {len(rows)} pairs of kernel and GEMM"
    if worst["loss"] > 0:
        text += (
            f"; taking another GPU's best tile loses {_percent(worst['loss'])} at most ({worst['pair']}, "
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
            f"{_percent(mean)} off on average, and the row predicted to be the fastest loses "
            f"{_percent(worst['regret'])} at most ({worst['gemm']})."
        )


def _percent(share: float) -> str:
    return f"{100 * share:z.1f} %"
