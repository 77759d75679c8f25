"""What errors without each effect say, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.report.ablation.numbers import LEAST_MAPE, LEAST_REGRET, buys_nothing, effects, labelled, scored
from gemmsim.report.units import percent
from gemmsim.study.ablation import Ablated

#: effects that a sentence names as the ones missed most
_NAMED = 3
#: a regret over fewer shapes than this is rough
_FEW_SHAPES = 10


def verdict(found: Sequence[Ablated]) -> Iterator[str]:
    """How kernels differ; of each what its model needs most and what buys nothing; what a fit can hide."""
    if len(found) > 1:
        yield from _differ(found)
    for a in found:
        yield " ".join(_of_kernel(a))
    for a in found:
        yield from _hidden(a)


def _of_kernel(a: Ablated) -> Iterator[str]:
    rows, e = effects([a]).rows(), scored(a)
    yield f"{a.part.kernel}, {_how(a)}: {percent(e.mape)} off with every effect."
    needed = [r for r in rows if r["costs"] > LEAST_MAPE]
    if not needed:
        yield "No effect lowers the error of these rows."
    else:
        named = ", ".join(f"{r['effect']} {percent(r['mape'])}" for r in needed[:_NAMED])
        yield f"Without {named}."
    yield from _pick(a, rows)
    nothing = [r["effect"] for r in rows if buys_nothing(r)]
    if nothing:
        yield f"Buys nothing here: {', '.join(nothing)}."
    if a.idle:
        yield f"Moves no row: {', '.join(a.idle)}."


def _how(a: Ablated) -> str:
    e, part = scored(a), a.part
    if not part.splits:
        return f"with the shipped coefficients, which were fitted with every effect, over {e.rows:,} rows"
    times = "one split" if part.splits == 1 else f"{part.splits} splits"
    return (
        f"fitted again without each effect, scored on {e.rows:,} rows of tiles and shapes that were not fitted on "
        f"({times})"
    )


def _pick(a: Ablated, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Without what the first pick loses most."""
    ranked = [r for r in rows if r["regret_costs"] > LEAST_REGRET]
    if not ranked:
        return
    worst, e = max(ranked, key=lambda r: float(r["regret"])), scored(a)
    rough = f" (over {e.shapes} shapes: a rough figure)" if e.shapes < _FEW_SHAPES else ""
    lost = f"{percent(worst['regret'])} without {worst['effect']}, {percent(e.regret[1])} with it"
    yield f"The first pick loses {lost}{rough}."


def _differ(found: Sequence[Ablated]) -> Iterator[str]:
    """The effect whose worth differs most between kernels, coefficients not fitted again in any."""
    each = {name: {e: x.mape - a.whole.mape for e, x in a.without.items()} for name, a in labelled(found).items()}
    spans = {e: [costs[e] for costs in each.values()] for e in next(iter(each.values()))}
    effect = max(spans, key=lambda e: max(spans[e]) - min(spans[e]))
    low, high = (pick(each, key=lambda kernel: each[kernel][effect]) for pick in (min, max))
    tops = {kernel: max(costs, key=lambda e: costs[e]) for kernel, costs in each.items()}
    named = ", ".join(f"{kernel} {effect}" for kernel, effect in tops.items())
    yield (
        f"Kernels need different effects: with shipped coefficients {effect} is worth {points(each[high][effect])} to "
        f"{high} and {points(each[low][effect])} to {low}; missed most: {named}."
    )


def _hidden(a: Ablated) -> Iterator[str]:
    """The effect whose lack a fit makes up for most."""
    if not a.part.splits:
        return
    rows = effects([a]).rows()
    most = max(rows, key=lambda r: float(r["kept_costs"] - r["costs"]))
    if most["kept_costs"] - most["costs"] > LEAST_MAPE:
        yield (
            f"A fit can make up for what is missing, most for {most['effect']} of {a.part.kernel}: without it the "
            f"error of all rows rises by {points(most['kept_costs'])} if coefficients stay, that of rows held out by "
            f"{points(most['costs'])} if they are fitted again."
        )


def points(share: float) -> str:
    """A difference of shares as people read it."""
    return f"{100 * share:z.1f} points"
