"""What a study of padding answers, in sentences made of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.padding import UNCERTAIN
from gemmsim.report.padding import numbers
from gemmsim.report.units import human
from gemmsim.study.padding.outcome import Outcome

#: neighbours that the first lines name
NAMED = 4


def verdict(outcome: Outcome) -> Iterator[str]:
    """What each problem gains, and what was measured of it."""
    rows = numbers.gains(outcome).rows()
    for problem in dict.fromkeys(r["problem"] for r in rows):
        mine = [r for r in rows if r["problem"] == problem]
        yield f"{problem} ({mine[0]['size']}): {'; '.join(_kernels(mine))}."
    yield _measured(numbers.recorded(outcome).rows())


def _kernels(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One part a kernel, GPUs that say the same together."""
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        mine = [r for r in rows if r["kernel"] == kernel]
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for r in mine:
            groups.setdefault((r["pad"], r["cause"], r["verdict"]), []).append(r)
        yield f"{kernel}: " + ", ".join(_group(key[0], some) for key, some in groups.items())


def _group(pad: str, rows: Sequence[dict[str, Any]]) -> str:
    gpus = ", ".join(r["gpu"] for r in rows)
    if not numbers.worth(rows[0]):
        return f"{pad} ({gpus})"
    shares = [r["gain_share"] for r in rows]
    unsure = ", uncertain" if rows[0]["verdict"] == UNCERTAIN else ""
    return f"pad {pad}, {_span(shares)} less time, {rows[0]['cause']}{unsure} ({gpus})"


def _span(shares: Sequence[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{100 * high:.0f} %" if f"{low:.2f}" == f"{high:.2f}" else f"{100 * low:.0f} to {100 * high:.0f} %"


def _measured(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "Nothing measured stands beside these predictions."
    said = "; ".join(
        f"{r['family']} {r['size']} against {r['other']}: {_percent(r['measured_gain'])} less time measured, "
        f"{_percent(r['predicted_gain'])} predicted" for r in rows[:NAMED]
    )  # fmt: skip
    off = [abs(r["measured_gain"] - r["predicted_gain"]) for r in rows]
    return (
        f"Recorded neighbours on {', '.join(dict.fromkeys(r['gpu'] for r in rows))}, the same configurations: {said}. "
        f"Over all {len(rows)} pairs the predicted gain is {100 * sum(off) / len(off):.1f} points off on average, "
        f"{100 * max(off):.1f} at most."
    )


def _percent(share: float) -> str:
    return f"{100 * share:z.1f} %"


def section(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of one problem: what is taken where a kernel's first family cannot launch, and its time."""
    for r in rows:
        if r["refused"] and "stride" in r["refused"]:
            then = f"; padded, {r['padded_family']} takes {human(r['padded_s'], 's')}" if r["padded_s"] else ""
            yield f"{r['gpu']}: {r['refused']}. {r['family']} is taken, {human(r['time_s'], 's')}{then}."
