"""What was measured of a sweep, in sentences that follow from its tables of measured rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemmsim.report.sweep.measured import at_edges, by_curve, reached
from gemmsim.report.units import count, percent, signed, span
from gemmsim.study.sweep.outcome import Outcome


def held(outcome: Outcome) -> Iterator[str]:
    """How far measured is from predicted, what an edge costs and the memory gives, and which gains were foreseen."""
    if not outcome.timed:
        files = ", ".join(name for name, _ in outcome.study.rows)
        yield (
            f"No row of {files} lies on a curve: every figure is predicted."
            if files
            else "Nothing was measured for this study: every figure is predicted."
        )
        return
    curves = by_curve(outcome).rows()
    yield from _edges(outcome)
    yield from _reached(outcome)
    for gpu in dict.fromkeys(row["gpu"] for row in curves):
        yield _off(gpu, [row for row in curves if row["gpu"] == gpu])
    for row in curves:
        if row["both"]:
            yield _gained(outcome, row)


def _off(gpu: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """How far a GPU's points are from what is predicted of them, by curve."""
    worst = max(rows, key=lambda row: abs(row["worst_error"]))
    said = ", ".join(f"{row['curve']} {percent(row['mean_error'])}" for row in rows)
    way = "long" if worst["worst_error"] > 0 else "short"
    return (
        f"Measured: {count(sum(row['points'] for row in rows), 'point')} on {gpu}, each the fastest timed row of a "
        f"curve at a size. Predictions of those rows are off on average, by curve: {said}; furthest off is "
        f"{worst['curve']} at {worst['worst_at']}, predicted {percent(abs(worst['worst_error']))} too {way}."
    )


def _edges(outcome: Outcome) -> Iterator[str]:
    """What a wave edge costs, measured, and what the other curves do on both sides of it."""
    rows, base = at_edges(outcome).rows(), outcome.study.baseline
    past = [row for row in rows if row["lost"] is not None]
    if not past:
        return
    yield (
        f"Measured at {len(past)} of the {count(len(outcome.edges), 'edge')}: the rate falls by "
        f"{span(row['lost'] for row in past)}; of the same rows {span(row['predicted_lost'] for row in past)} is "
        "predicted."
    )
    sides = (("just past an edge", past), ("at the last size before one", [row for row in rows if row not in past]))
    names = [curve.name for curve in outcome.study.curves if curve.name != base]
    parts = [f"{side} {said}" for side, some in sides if (said := ", ".join(_beside(some, names)))]
    if parts:
        yield f"Measured, how much faster than {base}, the prediction of the same rows in brackets: {'; '.join(parts)}."


def _beside(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """The gains of each curve over some sizes: measured (predicted)."""
    for i, name in enumerate(names):
        both = [(r[f"gain_{i}"], r[f"predicted_gain_{i}"]) for r in rows if r[f"gain_{i}"] is not None]
        if both:
            yield f"{name} {signed(own for own, _ in both)} ({signed(said for _, said in both)})"


def _reached(outcome: Outcome) -> Iterator[str]:
    """How far a launch stays as short as the first and what it reaches of the bandwidth, a GPU at a time."""
    vary, found = outcome.study.vary.upper(), reached(outcome).rows()
    for gpu in dict.fromkeys(row["gpu"] for row in found):
        here = [row for row in found if row["gpu"] == gpu]
        yield (
            f"Measured, {gpu}, the fastest timed row of each size: within 10 % of the time at {vary} "
            f"{outcome.study.sizes[0]} up to {vary} {to_sizes([row['short_to'] for row in here])}; "
            f"{span((row['most_share'] for row in here), 0)} of the memory's bandwidth at best."
        )


def _gained(outcome: Outcome, row: Mapping[str, Any]) -> str:
    """A curve against the baseline where both were timed, and whether that was foreseen."""
    return (
        f"Measured, {row['curve']} against {outcome.study.baseline}, the fastest timed of each at "
        f"{count(row['both'], 'point')}: more than 1 % faster at {row['faster']} (foreseen at "
        f"{row['faster_foreseen']}), more than 1 % slower at {row['slower']} (foreseen at {row['slower_foreseen']}), "
        f"from {percent(row['least'])} ({row['least_at']}) to {percent(row['most'])} ({row['most_at']})."
    )


def to_sizes(found: Sequence[int | None]) -> str:
    """From the least to the largest over products."""
    there = sorted(size for size in found if size is not None)
    if not there:
        return "none"
    span = str(there[0]) if there[0] == there[-1] else f"{there[0]} to {there[-1]}, by product"
    return span if len(there) == len(found) else f"{span} (of {len(found) - len(there)} products nowhere)"
