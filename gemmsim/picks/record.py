"""Picks as rows: the columns of a measured row, so that predict, measure and rows import read them, and what is more.

A pick of a near problem is a row that was not measured: status pending, no time, and the near problem in from_m,
from_n, from_k and from_time_s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmsim import __version__
from gemmsim.picks.pick import Pick
from gemmsim.rowfile import PENDING
from gemmsim.rowfile import columns as row_columns
from gemmsim.rows import Column
from gemmsim.store import COLUMNS, IDENTITY, JSON_COLUMNS

#: of the columns and of the document; another one where a name changes its meaning
VERSION = 1
#: columns of a row that say nothing of a pick
_ELSEWHERE = ("campaign", "reason", "wall_s", *(name for name in JSON_COLUMNS if name != "config"))


def row(pick: Pick) -> dict[str, Any]:
    """The pick's row, of its own problem."""
    whole = {name: pick.timed.row.get(name) for name in COLUMNS} | {"config": dict(pick.config)}
    if pick.exact:
        return whole | {"campaign": ""}
    size = {"m": pick.m, "n": pick.n, "k": pick.k, "l2": pick.l2}
    known = {name: whole[name] for name in IDENTITY} | size | {"kernel_hash": "", "campaign": "", "against": ""}
    return known | {"config": whole["config"], "status": PENDING}


def more(pick: Pick) -> dict[str, Any]:
    """What a pick is beside a row, in SI base units; None where it does not apply."""
    m, n, k = (None,) * 3 if pick.exact else pick.source
    library, first, stands = pick.library, pick.first, pick.standing
    return {
        "configuration": pick.key, "predicted_s": pick.predicted.time_s, "predicted_lo_s": pick.predicted.low_s,
        "predicted_hi_s": pick.predicted.high_s, "configurations": sum(stands.statuses.values()),
        "tied": stands.tied if pick.exact else None, "library_s": library.time_s if library else None,
        "library_timed": library.how if library else None, "from_m": m, "from_n": n, "from_k": k,
        "from_time_s": None if pick.exact else pick.timed.time_s, "predicted_loss": pick.loss,
        "first_family": first.family if first else None, "first_configuration": first.key if first else None,
        "first_predicted_s": first.time_s if first else None, "notes": "; ".join(pick.notes),
    }  # fmt: skip


def columns(picks: Sequence[Pick]) -> dict[str, Column]:
    """The columns of a CSV, a row a pick; picks_version is VERSION."""
    found = {name: cells for name, cells in row_columns([row(p) for p in picks]).items() if name not in _ELSEWHERE}
    extra = [more(p) for p in picks]
    found |= {name: _cells([e[name] for e in extra]) for name in extra[0]}
    return found | {"picks_version": np.full(len(picks), VERSION)}


def _cells(values: Sequence[Any]) -> Column:
    """Numbers as an array, None as nothing; text as text."""
    if any(isinstance(value, float) for value in values):
        return np.asarray([np.nan if value is None else value for value in values], np.float64)
    return ["" if value is None else str(value) for value in values]


def document(picks: Sequence[Pick]) -> dict[str, Any]:
    """All picks as JSON holds them: those columns that say something, the configuration as an object."""
    return {"schema": "gemmsim picks", "version": VERSION, "gemmsim": __version__,
            "picks": [_object(pick) for pick in picks]}  # fmt: skip


def _object(pick: Pick) -> dict[str, Any]:
    whole = {name: value for name, value in row(pick).items() if name not in _ELSEWHERE} | more(pick)
    said = {name: value for name, value in whole.items() if value is not None and value == value}
    return said | {"notes": list(pick.notes)}
