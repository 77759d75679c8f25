"""What a sweep says, in sentences that follow from its tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemmsim.report.sweep.measured import at_edges
from gemmsim.report.sweep.numbers import LONGER, SAME, gains, reach
from gemmsim.report.sweep.verdict_measured import held, to_sizes
from gemmsim.report.units import count, percent, span
from gemmsim.study.recorded import DEFAULTS, EXTRAPOLATED
from gemmsim.study.sweep.edges import Edge
from gemmsim.study.sweep.outcome import Outcome


def verdict(outcome: Outcome) -> Iterator[str]:
    """The answer, figures first: waves or the reach of the memory, what was measured of it, gains, the basis."""
    if outcome.edges:
        yield _waves(outcome)
    elif outcome.study.baseline and outcome.study.curve(outcome.study.baseline).alone:
        yield f"{outcome.study.baseline} takes no further wave at any {outcome.study.vary.upper()} of this range."
    yield from _reached(outcome)
    yield from held(outcome)
    if outcome.edges:
        yield f"Worth choosing, the last {outcome.study.vary.upper()} before an edge: {_last(outcome)}."
        yield from _regained(outcome) if not len(at_edges(outcome)) else ()
        yield _placed(outcome)
    yield from _gained(outcome)
    yield from _basis(outcome)


def _waves(outcome: Outcome) -> str:
    study, vary, found = outcome.study, outcome.study.vary.upper(), outcome.edges
    worst, least = max(found, key=lambda e: e.drop), min(found, key=lambda e: e.drop)
    again = (
        f"it is {vary} {worst.again} before it is as fast again"
        if worst.again
        else "as fast again nowhere in this range"
    )
    return (
        f"Predicted, {study.baseline}: where a further wave begins the rate falls by {percent(worst.drop)} at worst "
        f"({_place(outcome, worst)}; {again}) and by {percent(least.drop)} at least ({_place(outcome, least)}), over "
        f"{count(len(found), 'edge')}."
    )


def _last(outcome: Outcome) -> str:
    """The last sizes before edges, a GPU and product at a time where there are several."""
    groups: dict[str, list[str]] = {}
    for edge in outcome.edges:
        groups.setdefault(_group(outcome, edge.gpu, edge.product), []).append(str(edge.before.size))
    return "; ".join(f"{name + ': ' if name else ''}{', '.join(sizes)}" for name, sizes in groups.items())


def _group(outcome: Outcome, gpu: str, product: str) -> str:
    """GPU and product, as far as there are several."""
    study = outcome.study
    return ", ".join([gpu] * (len(study.gpus) > 1) + [product] * (len(study.products) > 1))


def _place(outcome: Outcome, edge: Edge) -> str:
    group = _group(outcome, edge.gpu, edge.product)
    return f"{group + ', ' if group else ''}{outcome.study.vary.upper()} {edge.before.size} to {edge.after.size}"


def _regained(outcome: Outcome) -> Iterator[str]:
    """What each other curve does just past the edges."""
    found = []
    for curve in outcome.study.curves:
        back = np.asarray([gain for e in outcome.edges if (gain := e.back(curve.name)) is not None])
        if len(back):
            gained = f"{span(back)} faster" if back.max() > SAME else f"no gain ({span(back)})"
            found.append(f"{curve.name} {gained}")
    if found:
        yield f"Predicted just past an edge, against {outcome.study.baseline}: {'; '.join(found)}."


def _placed(outcome: Outcome) -> str:
    """Whether the schedule of blocks counts the same waves."""
    known = [(e, e.scheduled) for e in outcome.edges if e.scheduled is not None]
    if not known:
        return "No launch beside an edge could be placed block by block: the waves are the closed form's alone."
    pairs = [pair for e, s in known for pair in ((e.before, s[0]), (e.after, s[1]))]
    same = sum(point.waves == placed.waves for point, placed in pairs)
    off = max(abs(placed.time_s / point.time_s - 1) for point, placed in pairs)
    return (
        f"Placed block by block, {same} of the {len(pairs)} launches beside edges take as many waves as the closed "
        f"form says, and their times differ by {percent(off, 2)} at most."
    )


def _gained(outcome: Outcome) -> Iterator[str]:
    """Each curve against the baseline over all sizes, products and GPUs."""
    study = outcome.study
    for curve in study.curves if study.baseline else ():
        found = {
            (x.gpu, x.product, size): g for x in outcome.lines if x.curve == curve.name
            for size, g in gains(outcome, x).items()
        }  # fmt: skip
        if not found or curve.name == study.baseline:
            continue
        yield _against(outcome, curve.name, found)


def _against(outcome: Outcome, name: str, found: dict[tuple[str, str, int], float]) -> str:
    values, base = np.asarray(list(found.values())), outcome.study.baseline
    most, least = max(found, key=lambda x: found[x]), min(found, key=lambda x: found[x])
    faster, slower = int((values > SAME).sum()), int((values < -SAME).sum())
    first = (
        f"more than 1 % faster at {faster} of {len(found)} points, by {percent(found[most])} at most "
        f"({_where(outcome, most)})"
        if faster
        else f"at none of {len(found)} points more than 1 % faster: no gain is predicted"
    )
    then = (
        f"at {slower} it takes more than 1 % longer, {percent(1 / (1 + found[least]) - 1)} at worst "
        f"({_where(outcome, least)})"
        if slower
        else "nowhere does it take more than 1 % longer"
    )
    return f"Predicted, {name} against {base}: {first}; {then}.{_by_product(outcome, found)}"


def _by_product(outcome: Outcome, found: dict[tuple[str, str, int], float]) -> str:
    """The median over GPUs and sizes of each product, where there are several."""
    names = [product.name for product in outcome.study.products]
    if len(names) == 1:
        return ""
    medians = {name: [g for at, g in found.items() if at[1] == name] for name in names}
    said = [f"{name} {100 * float(np.median(gains)):+z.1f} %" for name, gains in medians.items() if gains]
    return f" In the median by product: {', '.join(said)}."


def _where(outcome: Outcome, at: tuple[str, str, int]) -> str:
    group = _group(outcome, at[0], at[1])
    return f"{group + ', ' if group else ''}{outcome.study.vary.upper()} {at[2]}"


def _reached(outcome: Outcome) -> Iterator[str]:
    """How far a launch stays as short as the first, a GPU at a time."""
    vary, found = outcome.study.vary.upper(), reach(outcome).rows()
    for gpu in dict.fromkeys(row["gpu"] for row in found):
        here = [row for row in found if row["gpu"] == gpu]
        shares = np.asarray([row["most_share"] for row in here])
        yield (
            f"Predicted, {gpu}: a launch takes at most {100 * LONGER:.0f} % longer than at {vary} "
            f"{outcome.study.sizes[0]} up to {vary} {to_sizes([row['short_to'] for row in here])}, and DRAM or L2 "
            f"bounds it up to {vary} {to_sizes([row['memory_to'] for row in here])}; the fastest kernel reaches "
            f"{span(shares, 0)} of the memory's bandwidth at best."
        )


def _basis(outcome: Outcome) -> Iterator[str]:
    """Where the coefficients come from."""
    bases: dict[str, set[str]] = {}
    for line in outcome.lines:
        bases.setdefault(line.gpu, set()).update(point.basis for point in line.points)
    plain = [gpu for gpu, found in bases.items() if found == {DEFAULTS}]
    fitted = [gpu for gpu in bases if gpu not in plain]
    beyond = sum(p.basis == EXTRAPOLATED for line in outcome.lines for p in line.points)
    total = sum(len(line.points) for line in outcome.lines)
    if fitted:
        yield (
            f"Coefficients of {', '.join(fitted)} are fitted to rows measured there"
            + (f"; {beyond} of all {total} points lie outside their range (extrapolated)." if beyond else ".")
        )
    if plain:
        yield f"Those of {', '.join(plain)} are physical defaults: no rows of those GPUs were measured."
