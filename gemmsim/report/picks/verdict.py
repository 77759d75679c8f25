"""The answer of a study of picks in sentences: each a function of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gemmsim.report.picks.numbers import label
from gemmsim.report.table import Table
from gemmsim.report.units import human, listed, percent
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Candidate, Outcome
from gemmsim.study.recorded import DEFAULTS


def verdict(outcome: Outcome, totals: Table) -> Iterator[str]:
    """What a pass takes on each GPU and which tile is picked most, a sentence each; then the speed-ups."""
    for variant in outcome.study.variants:
        for dtype in outcome.study.dtypes:
            rows = [r for r in totals.rows() if (r["variant"], r["dtype"]) == (variant, dtype)]
            picked = [c for c in outcome.picks if (c.variant, c.dtype) == (variant, dtype)]
            yield _pass(outcome.study, variant, dtype, rows, picked)
    yield from _gains(outcome)


def _pass(study: PicksStudy, variant: str, dtype: str, rows: Sequence[dict[str, Any]], picked: list[Candidate]) -> str:
    what = label(study, variant) + (f", {dtype}" if len(study.dtypes) > 1 else "")
    times = listed([f"{human(r['time_s'], 's')} on {r['gpu']} (bound by {_bound(r)})" for r in rows])
    tiles = listed([_most([c for c in picked if c.gpu == r["gpu"]]) for r in rows])
    return f"{what}: the GEMMs of a pass are predicted to take {times}; the tile picked most is {tiles}."


def _bound(total: Mapping[str, Any]) -> str:
    """What bounds most of a pass, or all."""
    first, *others = total["bounds"].split(", ")
    name = first.rpartition(" ")[0].rpartition(" ")[0]
    return f"{name}, mostly" if others else name


def _most(picked: Sequence[Candidate]) -> str:
    """The block tile of most picks on a GPU."""
    tiles = Counter("x".join(str(c.parameters[p]) for p in ("bm", "bn", "bk") if p in c.parameters) for c in picked)
    (tile, count), *_ = tiles.most_common(1)
    return f"{tile} on {picked[0].gpu} ({count} of {len(picked)})"


def _gains(outcome: Outcome) -> Iterator[str]:
    """Each pair of GPUs: the ratio of every variant and why."""
    for new, old in dict.fromkeys((s.new, s.old) for s in outcome.speedups):
        mine = [s for s in outcome.speedups if (s.new, s.old) == (new, old)]
        parts = [
            f"{s.ratio:.2f}x in {s.variant}{f' {s.dtype}' if len(outcome.study.dtypes) > 1 else ''} ({s.reason})"
            for s in mine
        ]
        plain = ", both by physical defaults" if all(s.basis == DEFAULTS for s in mine) else ""
        yield f"{new} over {old}{plain}: {listed(parts)}."


def timed(outcome: Outcome, hand: Table) -> Iterator[str]:
    """What came of the rows that were timed for this study; hand: the table of timed GEMMs."""
    found = outcome.timings
    if found is None:
        return
    counts = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    yield (
        f"Measured for this study on {listed(found.products) or 'a GPU'}: {len(found.table)} launches, {counts}"
        f"{f', {found.unstable} marked unstable' if found.unstable else ''}."
    )
    here = [r for r in hand.rows() if r["source"] == "this machine"]
    if here:
        off = np.concatenate([np.abs(t.prediction.time_s / t.rows.time_s - 1) for t in outcome.timed])
        lost = [r["regret"] for r in here]
        yield (
            f"Of {len(here)} GEMMs timed the model's choice is {percent(np.mean(lost))} slower than the best timed of "
            f"its candidates in the mean, {percent(max(lost))} at most; predictions are off by "
            f"{percent(np.mean(off))} in the mean.{_library(here)}"
        )


def _library(here: Sequence[dict[str, Any]]) -> str:
    ratios = [r["measured_s"] / r["cublas_s"] for r in here if r["cublas_s"]]
    if not ratios:
        return ""
    mean = float(np.exp(np.mean(np.log(ratios))))
    return f" cuBLAS takes {1 / mean:.2f} times as long as the choice, geometric mean over {len(ratios)}."
