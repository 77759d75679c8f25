"""Parts of a predicted time: what each term adds to it, on average over the orders in which terms are freed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import cache, partial

import numpy as np

from gemmsim.model.demand import TERMS
from gemmsim.model.predict import Prediction, freed
from gemmsim.problem import FloatArray
from gemmsim.shapley import Players, shapley

#: terms with a part of the time: those whose time alone, or what they would save, is this share; and so many at most
LEAST_PART, MOST_PARTS = 0.03, 7
#: what is no term's part, where parts are listed
OTHER = "other"


def parts(p: Prediction, without: Iterable[str] = ()) -> list[dict[str, float]]:
    """Of each row the parts of the terms that count most, s; what time_s has besides is left with all of them free.

    A part is what freeing the term gains on average over the orders of freeing terms (Shapley's value), so that terms
    that hide each other share what both hide. p: made with `terms`, and without the terms `without`. A row that cannot
    launch has no parts.
    """
    gone = frozenset(without)
    heavy = [_heavy(p, i, gone) for i in range(len(p))]
    found: list[dict[str, float]] = [{} for _ in heavy]
    for terms in {own for own in heavy if own}:
        rows = [i for i, own in enumerate(heavy) if own == terms]
        saved = _saved(freed(p, np.asarray(rows, np.intp)), gone)
        for place, row in enumerate(rows):
            found[row] = shapley(terms, partial(_at, saved, place))
    return found


def _at(saved: Callable[[Players], FloatArray], place: int, mine: Players) -> float:
    return float(saved(mine)[place])


def _saved(time_s: Callable[[Set[str]], FloatArray], gone: frozenset[str]) -> Callable[[Players], FloatArray]:
    """What freeing some terms saves, s: a function of the terms, each set of them solved once."""
    whole = time_s(gone)

    @cache
    def saved(mine: Players) -> FloatArray:
        return np.asarray(whole - time_s(gone | set(mine)))

    return saved


def _heavy(p: Prediction, row: int, gone: frozenset[str]) -> tuple[str, ...]:
    """The terms that count most in a row, largest first."""
    if not p.feasible[row]:
        return ()
    time_s = float(p.time_s[row])
    weights = {t: max(float(p.saved[t][row]), float(p.demand[t][row])) / time_s for t in TERMS if t not in gone}
    order = sorted(weights, key=lambda t: -weights[t])
    return tuple(t for t in order if weights[t] >= LEAST_PART)[:MOST_PARTS]
