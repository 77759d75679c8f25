"""What the rows say, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gemmsim.report.evidence.numbers import classes, error_figures, held_out, regret_figures
from gemmsim.report.units import percent
from gemmsim.study.evidence.judged import Evidence, Judged, Ranking
from gemmsim.study.recorded import DEFAULTS, FITTED, MOST_UNSTABLE, NEW

#: a class of fewer rows is not named as the worst
LEAST_ROWS = 30
#: a pick that loses at most this is called as good as the best
AS_GOOD = 0.025


def verdict(found: Evidence) -> Iterator[str]:
    """How far off, on which basis; how good the picks are; how honest the intervals; where it is worst."""
    yield _overall(found)
    if found.rankings:
        yield _picks(found.rankings)
    yield from _bases(found)
    yield _intervals(found)
    yield from _worst_class(found)
    yield from _left_out(found)


def _overall(found: Evidence) -> str:
    rows, e = found.rows, error_figures(found.rows)
    count = len(np.unique(rows.kernel))
    return (
        f"{len(rows):,} measured rows of {count} {'kernel' if count == 1 else 'kernels'} on "
        f"{', '.join(np.unique(rows.gpu))}: predictions are {percent(e['mape'])} off on average (MAPE), "
        f"{percent(e['median'])} in the median; {percent(e['near'])} of the rows are within 10 %, and one in ten is "
        f"more than {percent(e['p90'])} off."
    )


def _bases(found: Evidence) -> Iterator[str]:
    rows = found.rows
    parts = {basis: rows.take(rows.basis == basis) for basis in (FITTED, NEW, DEFAULTS)}
    if len(parts[FITTED]):
        yield f"{_off(parts[FITTED], 'were fitted on')}: that is a fit, not a forecast.{_held_out(found)}"
    if len(new := parts[NEW]):
        yield _new(new)
    if len(parts[DEFAULTS]):
        yield f"{_off(parts[DEFAULTS], 'have no fitted coefficients')}: physical defaults."


def _off(rows: Judged, what: str) -> str:
    e = error_figures(rows)
    return f"{len(rows):,} rows {what}: {percent(e['mape'])} off on average, {percent(e['near'])} within 10 %"


def _new(new: Judged) -> str:
    """How far off rows are that were not fitted on, and how much like those that were they are."""
    strange = new.take(~new.known_shape)
    fresh = ""
    if len(strange):
        off = percent(error_figures(strange)["mape"])
        fresh = f" The {len(strange):,} rows of shapes that no fitted row has are {off} off."
    return (
        f"{_off(new, 'were not fitted on')}. {percent(new.known_shape.mean())} of them are of a shape that fitted rows "
        f"have too, {percent(new.known_launch.mean())} of a shape and tile.{fresh}"
    )


def _held_out(found: Evidence) -> str:
    """The error of the fits on rows kept from them, weighted by rows, beside the fit's own on the same kind of rows."""
    each = held_out(found)
    if not each:
        return ""
    weight, fitted, said = (np.asarray([x[i] for x in each], np.float64) for i in (1, 2, 3))
    mean_fit, mean_said = (float(np.average(x, weights=weight)) for x in (fitted, said))
    return (
        f" Held out (fitted on half of the tiles x half of the shapes, scored on the others, as the calibration files "
        f"say; rows without spills whose N and K are aligned): {percent(mean_said)}, where the fit itself has "
        f"{percent(mean_fit)}; by kernel {percent(said.min())} to {percent(said.max())}."
    )


def _picks(ranked: Sequence[Ranking]) -> str:
    e = regret_figures(ranked)
    regret = np.asarray([r.regret for r in ranked])
    new = [r for r in ranked if r.basis != FITTED]
    apart = (
        f" Of files that were not fitted on ({len(new)} shapes) it is {_regret(new)}."
        if 0 < len(new) < len(ranked)
        else ""
    )
    return (
        f"Picks: of {len(ranked)} shapes (counted in each file) the model's first pick loses {_regret(ranked)}, on the "
        f"best tile that was timed; {percent((regret <= AS_GOOD).mean())} of them lose at most {percent(AS_GOOD)}, the "
        f"worst {percent(regret.max())}. Best of its first five: {percent(e['mean_regret_of_5'])} on average.{apart}"
    )


def _regret(ranked: Sequence[Ranking]) -> str:
    e = regret_figures(ranked)
    return f"{percent(e['median_regret'])} in the median, {percent(e['mean_regret'])} on average"


def _intervals(found: Evidence) -> str:
    rows = found.rows
    new = rows.take(rows.basis != FITTED)
    apart = f", and {percent(new.inside.mean())} of those not fitted on" if 0 < len(new) < len(rows) else ""
    return f"The 80 % intervals hold {percent(rows.inside.mean())} of all rows{apart}."


def _worst_class(found: Evidence) -> Iterator[str]:
    many = [r for r in classes(found).rows() if r["rows"] >= LEAST_ROWS]
    if len(many) > 1:
        low, high = (pick(many, key=lambda r: r["median"]) for pick in (min, max))
        yield (
            f"By class of shape it is best on {low['kernel']}, {low['shape_class']} (median {percent(low['median'])}), "
            f"and worst on {high['kernel']}, {high['shape_class']} ({percent(high['median'])})."
        )


def _left_out(found: Evidence) -> Iterator[str]:
    words = (
        f"Left out are files of which more than {percent(MOST_UNSTABLE, 0)} of the rows are marked unstable, and those "
        "with several epilogues or kernels in one file."
    )
    if found.refused:
        words += f" {found.refused} recorded rows could not launch by the model and have no prediction."
    yield words
