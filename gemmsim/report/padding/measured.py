"""The tables of what was measured of padding: each kernel along the curves, and neighbouring sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemmsim.report.table import KEPT, Column, Table, Telling, largest, table
from gemmsim.study.padding.neighbours import Neighbours
from gemmsim.study.padding.outcome import Held, Outcome


def error(x: Held) -> float:
    """How much too long a measured row is predicted: 0.05 is 5 %."""
    return x.predicted_s / x.time_s - 1


def padded(outcome: Outcome) -> Table:
    """A row a curve and kernel with measured sizes: what padding gained, and how far the points are from predictions.

    Blank where the size as asked, or none larger, was timed.
    """
    shown = (
        Column("problem", "problem"), Column("gpu", "GPU"), Column("kernel", "kernel"), Column("points", "sizes"),
        Column("mean_error", "off on average", "1"), Column("worst_error", "furthest off", "1"),
        Column("worst_at", "at"), Column("time_s", "as asked", "s"), Column("family", "by"), Column("pad", "pad"),
        Column("padded_s", "padded", "s"), Column("padded_family", "by"), Column("gain_share", "less time", "1"),
        Column("predicted_gain", "predicted", "1"),
    )  # fmt: skip
    groups: dict[tuple[str, str, str, str], list[Held]] = {}
    for held in outcome.held:
        groups.setdefault((held.asked.name, held.gpu, held.kernel, held.dtype), []).append(held)
    note = (
        "The fastest timed row of each size. Off: predicted over measured, less 1, of those very rows; on average "
        "without its sign. Padded: the larger size that took least; less time: measured, and of the predictions of "
        "the same two rows."
    )
    return table("padded", "What padding gained, measured", shown, [_padded(some) for some in groups.values()], note)


def _padded(some: Sequence[Held]) -> dict[str, Any]:
    one, worst = some[0], max(some, key=lambda x: abs(error(x)))
    name, size = one.asked.dimension, one.asked.size_asked
    base = next((x for x in some if x.size == size), None)
    larger = [x for x in some if x.size > size]
    best = min(larger, key=lambda x: x.time_s) if base and larger else None
    return {
        "problem": one.asked.name, "gpu": one.gpu, "kernel": one.kernel, "dtype": one.dtype, "points": len(some),
        "mean_error": sum(abs(error(x)) for x in some) / len(some), "worst_error": error(worst),
        "worst_at": f"{name} {worst.size}", "time_s": base.time_s if base else None,
        "family": base.family if base else "", "pad": f"{name} {size} to {best.size}" if best else "",
        "padded_s": best.time_s if best else None, "padded_family": best.family if best else "",
        "gain_share": 1 - best.time_s / base.time_s if best and base else None,
        "predicted_gain": 1 - best.predicted_s / base.predicted_s if best and base else None,
    }  # fmt: skip


def recorded(outcome: Outcome) -> Table:
    """A row a pair of neighbouring problems with rows of the same configurations, the largest gain first."""
    shown = (
        Column("gpu", "GPU"), Column("family", "kernel"), Column("size", "M x N x K"),
        Column("aligned_bytes", "rows, multiple of B"), Column("other", "beside"), Column("other_bytes", "of B"),
        Column("configurations", "configurations"), Column("measured_s", "measured", "s"),
        Column("other_measured_s", "beside", "s"), Column("measured_gain", "less time, measured", "1"),
        Column("predicted_gain", "predicted", "1"), Column("l2", "L2"),
    )  # fmt: skip
    rows = [_pair(x) for x in sorted(outcome.neighbours, key=lambda x: -x.measured_gain)]
    note = (
        "The fastest of the configurations that both have rows of, each problem its own; predicted: the same rows, "
        "under their own conditions. Rows of A lie K apart, of B N: the lesser multiple of both, 16 elements "
        "at most."
    )
    return table("recorded", "Recorded neighbours, measured beside predicted", shown, rows, note,
                 telling=_telling(rows))  # fmt: skip


def _pair(x: Neighbours) -> dict[str, Any]:
    return {
        "gpu": x.gpu, "family": x.family, "dtype": x.dtype, "l2": x.l2, "size": _size(x.sizes), "other": _size(x.other),
        "aligned_bytes": x.aligned_bytes[0], "other_bytes": x.aligned_bytes[1], "configurations": x.configurations,
        "measured_s": x.measured_s[0], "other_measured_s": x.measured_s[1], "predicted_s": x.predicted_s[0],
        "other_predicted_s": x.predicted_s[1], "measured_gain": x.measured_gain, "predicted_gain": x.predicted_gain,
    }  # fmt: skip


def points_off(row: dict[str, Any]) -> float:
    """How far a pair's predicted gain is from the measured one; 0.05 is 5 points."""
    return abs(float(row["measured_gain"] - row["predicted_gain"]))


def _telling(rows: Sequence[dict[str, Any]]) -> Telling:
    """The largest gains, and the pairs whose gain is predicted worst."""
    gained = largest([row["measured_gain"] for row in rows], KEPT // 2)
    others = [i for i in largest([points_off(row) for row in rows], len(rows)) if i not in gained]
    return Telling((*gained, *others[: KEPT - len(gained)]), "the largest gains and then those predicted worst")


def _size(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
