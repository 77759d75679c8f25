"""What a study of padding answers, in sentences made of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gemmsim.padding import UNCERTAIN
from gemmsim.report.padding import measured, numbers
from gemmsim.report.units import count, human, percent, span
from gemmsim.study.padding.outcome import Outcome

#: causes as they stand after "pays"
_CAUSES = {
    numbers.ALIGNMENT: "where it aligns the rows of an operand",
    numbers.WAVE: "at the edge of a wave",
    numbers.OTHER: "for other causes",
}


def verdict(outcome: Outcome) -> Iterator[str]:
    """When padding pays and when not; what was measured of it; what each problem gains."""
    rows = numbers.gains(outcome).rows()
    yield _when(rows)
    yield from _measured(outcome)
    for problem in dict.fromkeys(r["problem"] for r in rows):
        mine = [r for r in rows if r["problem"] == problem]
        said = "; ".join(_kernels(mine)) if any(map(numbers.worth, mine)) else f"{numbers.NOTHING} on any GPU"
        yield f"{problem} ({mine[0]['size']}): {said}."


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


def _measured(outcome: Outcome) -> Iterator[str]:
    """What padding gained, how far predictions of timed rows are off, curve by curve, and neighbours."""
    rows, pairs = measured.padded(outcome).rows(), measured.recorded(outcome).rows()
    if not rows and not pairs:
        yield "Nothing measured stands beside these predictions."
    for gpu in dict.fromkeys(r["gpu"] for r in rows):
        mine = [r for r in rows if r["gpu"] == gpu]
        yield from _gained(gpu, [r for r in mine if r["gain_share"] is not None])
        yield _off(gpu, mine)
    if pairs:
        yield _neighbours(pairs)


def _gained(gpu: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the fastest larger size that was timed saved of the time as asked, a problem at a time."""
    if rows:
        yield (
            f"Measured on {gpu}, the fastest timed row as asked against that of the larger size that took least, the "
            f"prediction of the same rows in brackets: {'; '.join(_by_problem(rows, _share))}."
        )


def _share(r: dict[str, Any]) -> str:
    """Less time, or that no larger size takes less."""
    if r["gain_share"] <= 0:
        return "gains nothing at any larger size timed"
    return f"{r['pad']}, {percent(r['gain_share'], 0)} less time ({percent(r['predicted_gain'], 0)})"


def _off(gpu: str, rows: Sequence[dict[str, Any]]) -> str:
    """How far the points of a GPU's curves are from what is predicted of them."""
    points, worst = sum(r["points"] for r in rows), max(rows, key=lambda r: abs(r["worst_error"]))
    mean = sum(r["mean_error"] * r["points"] for r in rows) / points
    return (
        f"Predictions of the {points} timed points on {gpu} are off by {percent(mean)} on average, by curve: "
        f"{'; '.join(_by_problem(rows, lambda r: percent(r['mean_error'], 0)))}. Furthest off: {worst['problem']}, "
        f"{worst['kernel']} at {worst['worst_at']}, predicted {percent(abs(worst['worst_error']), 0)} too "
        f"{'long' if worst['worst_error'] > 0 else 'short'}."
    )


def _by_problem(rows: Sequence[dict[str, Any]], said: Callable[[dict[str, Any]], str]) -> Iterator[str]:
    """Something of each kernel, the problem's name in front."""
    for problem in dict.fromkeys(r["problem"] for r in rows):
        yield f"{problem}: " + ", ".join(f"{r['kernel']} {said(r)}" for r in rows if r["problem"] == problem)


def _neighbours(rows: Sequence[dict[str, Any]]) -> str:
    worst, off = max(rows, key=measured.points_off), [measured.points_off(r) for r in rows]
    return (
        f"{count(len(rows), 'pair')} of recorded neighbours on {', '.join(dict.fromkeys(r['gpu'] for r in rows))}, the "
        f"same configurations on two sizes: the predicted gain is {100 * sum(off) / len(off):.1f} points off on "
        f"average; furthest off is {worst['family']} {worst['size']} against {worst['other']}, "
        f"{percent(worst['measured_gain'])} less time measured, {percent(worst['predicted_gain'])} predicted."
    )


def section(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of one problem: what is taken where a kernel's first family cannot launch, and its time."""
    for r in rows:
        if r["refused"] and "stride" in r["refused"]:
            then = f"; padded, {r['padded_family']} takes {human(r['padded_s'], 's')}" if r["padded_s"] else ""
            yield f"{r['gpu']}: {r['refused']}. {r['family']} is taken, {human(r['time_s'], 's')}{then}."
