"""The fastest configurations of a search beside the kernel's default, the model's first pick and cuBLAS.

A trial's time is one of many and the least of them is a lucky one; what is compared is therefore timed once more, in
turn, where there is a bench.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from gemmsim.bench import cublas
from gemmsim.bench.summary import Compared, compared
from gemmsim.bench.task import CUBLAS
from gemmsim.problem import FloatArray
from gemmsim.search.space import Space
from gemmsim.search.trials import REASON, STATUS, Trials
from gemmsim.store import Row
from gemmsim.tuning.job import Job
from gemmsim.tuning.objectives import Bench, ask_of
from gemmsim.tuning.result import DEFAULT, FIRST_PICK, LIBRARY, Entry

#: configurations that are compared, the default and the first pick aside, and how far from the fastest they may be
FINALISTS, WITHIN = 4, 0.03
#: launches of each, and s for all of them: they end with what comes first
ROUNDS, BUDGET_S = 30, 3.0


def of_trials(space: Space, trials: Sequence[FrozenTrial], known_s: FloatArray | None = None) -> list[Entry]:
    """Entries with the times of their trials, each measured at its own moment: no intervals, no ties.

    known_s: times of all configurations, of recorded rows; the default and the first pick have theirs then, tried or
    not.
    """
    times, lost = _times(space, trials), _failed(space, trials)
    entries = _entries(space, times)
    if known_s is not None and times:
        times |= {place: float(known_s[place]) for place in entries if place not in lost}
    best = min(times.values(), default=math.nan)
    return _ordered([
        replace(entry, time_s=times[place], over=times[place] / best) if place in times
        else _lost(entry, *lost.get(place, ("not tried", "")))
        for place, entry in entries.items()
    ])  # fmt: skip


def in_turn(bench: Bench, job: Job, space: Space, trials: Sequence[FrozenTrial]) -> list[Entry]:
    """Entries timed in turn, cuBLAS among them where it has the form; what failed in its trial is not tried again."""
    lost = _failed(space, trials)
    every = _entries(space, _times(space, trials))
    entries = [entry for place, entry in every.items() if place not in lost]
    if cublas.has(job.form):
        entries.append(Entry(CUBLAS, roles=(LIBRARY,)))
    rows = bench.turns([ask_of(job, entry.family, dict(entry.config)) for entry in entries], ROUNDS, BUDGET_S)
    gone = [_lost(every[place], *lost[place]) for place in every if place in lost]
    return _ordered([*_compared(entries, rows), *gone])


def _times(space: Space, trials: Sequence[FrozenTrial]) -> dict[int, float]:
    """Position -> time of the trials that have one, s, fastest first."""
    places = Trials(space)
    found = [(places.place(t), t.value) for t in trials if t.state == TrialState.COMPLETE]
    known = [(place, time_s) for place, time_s in found if place is not None and time_s is not None]
    return dict(sorted(known, key=lambda item: item[1]))


def _failed(space: Space, trials: Sequence[FrozenTrial]) -> dict[int, tuple[str, str]]:
    """Position -> status and reason of the trials that ended without a time."""
    places = Trials(space)
    found = {places.place(t): t.user_attrs for t in trials if t.state == TrialState.FAIL}
    return {p: (str(a.get(STATUS)), str(a.get(REASON, ""))) for p, a in found.items() if p is not None}


def _entries(space: Space, times: Mapping[int, float]) -> dict[int, Entry]:
    """Position -> entry of what is compared: the fastest few, the kernel's default, the model's first pick."""
    limit = (1 + WITHIN) * min(times.values(), default=math.inf)
    roles: dict[int, tuple[str, ...]] = dict.fromkeys([p for p, t in times.items() if t <= limit][:FINALISTS], ())
    for place, role in ((space.default, DEFAULT), (int(np.argmin(space.predicted_s)), FIRST_PICK)):
        roles[place] = (*roles.get(place, ()), role)
    return {
        place: Entry(*space.candidate(place), roles=said, predicted_s=float(space.predicted_s[place]))
        for place, said in roles.items()
    }


def _compared(entries: Sequence[Entry], rows: Sequence[Row]) -> list[Entry]:
    """Entries with their times and what they are over the best configuration's; rows: what was found of each."""
    ok = [i for i, row in enumerate(rows) if row["status"] == "ok"]
    samples = {str(i): rows[i]["samples_s"] for i in ok}
    if not samples:
        return [_timed(entry, row, None) for entry, row in zip(entries, rows, strict=True)]
    own = compared({name: s for name, s in samples.items() if LIBRARY not in entries[int(name)].roles} or samples)
    best = next(iter(own))
    found = {name: own[name] if name in own else _beside(samples, name, best) for name in samples}
    found[best] = replace(found[best], tie=False)
    return [_timed(entry, row, found.get(str(i))) for i, (entry, row) in enumerate(zip(entries, rows, strict=True))]


def _beside(samples: Mapping[str, Sequence[float]], name: str, best: str) -> Compared:
    """What may be faster than the best configuration, against it."""
    pair = compared({best: samples[best], name: samples[name]})
    other = pair[best]
    if pair[name].ratio > 1 or other.ratio == 1:
        return pair[name]
    low = 1 / other.low if other.low else math.inf
    return Compared(pair[name].time_s, 1 / other.ratio, 1 / other.high, low, other.tie)


def _timed(entry: Entry, row: Row, found: Compared | None) -> Entry:
    if found is None:
        return _lost(entry, str(row["status"]), str(row.get("reason") or ""))
    return replace(entry, time_s=found.time_s, over=found.ratio, low=found.low, high=found.high, tied=found.tie,
                   unstable=str(row.get("unstable") or ""))  # fmt: skip


def _lost(entry: Entry, status: str, reason: str) -> Entry:
    return replace(entry, status=status, reason=reason)


def _ordered(entries: Sequence[Entry]) -> list[Entry]:
    """Fastest first, those without a time last."""
    return sorted(entries, key=lambda entry: math.inf if entry.time_s is None else entry.time_s)
