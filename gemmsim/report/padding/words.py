"""What a study of padding answers, in sentences made of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.padding import UNCERTAIN
from gemmsim.report.padding import numbers
from gemmsim.report.units import human, percent, span
from gemmsim.study.padding.outcome import Outcome

#: causes as they stand after "pays"
_CAUSES = {
    numbers.ALIGNMENT: "where it aligns the rows of an operand",
    numbers.WAVE: "at the edge of a wave",
    numbers.OTHER: "for other causes",
}
#: neighbours that the first lines name
NAMED = 4


def verdict(outcome: Outcome) -> Iterator[str]:
    """When padding pays and when not; what each problem gains; what was measured of it."""
    rows = numbers.gains(outcome).rows()
    yield _when(rows)
    for problem in dict.fromkeys(r["problem"] for r in rows):
        mine = [r for r in rows if r["problem"] == problem]
        said = "; ".join(_kernels(mine)) if any(map(numbers.worth, mine)) else f"{numbers.NOTHING} on any GPU"
        yield f"{problem} ({mine[0]['size']}): {said}."
    yield _measured(numbers.recorded(outcome).rows())


def _when(rows: Sequence[dict[str, Any]]) -> str:
    """Causes, each with what it saves and where; problems that gain nothing anywhere."""
    causes: dict[str, list[dict[str, Any]]] = {}
    for r in filter(numbers.worth, rows):
        causes.setdefault(r["cause"], []).append(r)
    gaining = {r["problem"] for some in causes.values() for r in some}
    bare = [problem for problem in dict.fromkeys(r["problem"] for r in rows) if problem not in gaining]
    if not causes:
        return "Padding is predicted to gain nothing for any of these problems."
    paid = "; ".join(
        f"{_CAUSES.get(cause, cause)}, {span([r['gain_share'] for r in some], 0)} less time "
        f"({', '.join(dict.fromkeys(r['problem'] for r in some))})" for cause, some in causes.items()
    )  # fmt: skip
    nothing = f" It gains nothing for {', '.join(bare)}." if bare else ""
    return f"Padding is predicted to pay {paid}.{nothing}"


def _kernels(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One part a kernel, GPUs that pad alike together."""
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        mine = [r for r in rows if r["kernel"] == kernel]
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for r in mine:
            groups.setdefault((r["pad"], r["cause"]), []).append(r)
        yield f"{kernel}: " + ", ".join(_group(some, alone=len(groups) == 1) for some in groups.values())


def _group(rows: Sequence[dict[str, Any]], *, alone: bool) -> str:
    """The padding of some GPUs; alone: of all."""
    where = "" if alone else f" on {_gpus(rows)}"
    if not numbers.worth(rows[0]):
        return f"{rows[0]['pad']}{where}"
    unsure = [r for r in rows if r["verdict"] == UNCERTAIN]
    said = f"pad {rows[0]['pad']}{where}, {span([r['gain_share'] for r in rows], 0)} less time"
    return said + (f" (uncertain{'' if len(unsure) == len(rows) else f' on {_gpus(unsure)}'})" if unsure else "")


def _gpus(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(r["gpu"] for r in rows))


def _measured(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "Nothing measured stands beside these predictions."
    said = "; ".join(
        f"{r['family']} {r['size']} against {r['other']}: {percent(r['measured_gain'])} less time measured, "
        f"{percent(r['predicted_gain'])} predicted" for r in rows[:NAMED]
    )  # fmt: skip
    off = [abs(r["measured_gain"] - r["predicted_gain"]) for r in rows]
    return (
        f"Recorded neighbours on {', '.join(dict.fromkeys(r['gpu'] for r in rows))}, the same configurations: {said}. "
        f"Over all {len(rows)} pairs the predicted gain is {100 * sum(off) / len(off):.1f} points off on average, "
        f"{100 * max(off):.1f} at most."
    )


def section(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of one problem: what is taken where a kernel's first family cannot launch, and its time."""
    for r in rows:
        if r["refused"] and "stride" in r["refused"]:
            then = f"; padded, {r['padded_family']} takes {human(r['padded_s'], 's')}" if r["padded_s"] else ""
            yield f"{r['gpu']}: {r['refused']}. {r['family']} is taken, {human(r['time_s'], 's')}{then}."
