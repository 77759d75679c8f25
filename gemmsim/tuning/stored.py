"""What the store has of a problem already: the first trials of its search."""

from __future__ import annotations

import math

from gemmsim.search.space import Candidate, Space
from gemmsim.store import IDENTITY, Row, Store
from gemmsim.tuning.job import Job
from gemmsim.tuning.objectives import ask_of

#: of a row's identity, what no problem says
_OF_KERNELS = ("family", "kernel_hash")


def stored(store: Store, campaign: str, job: Job, space: Space) -> list[int]:
    """Positions of the configurations that a campaign has rows of for a job's problem and conditions, fastest first.

    Whether a row is of the kernel that is compiled today is seen when it is asked for.
    """
    wanted = ask_of(job, "", {}).identity(campaign, job.gpu, "")
    same = {name: wanted[name] for name in IDENTITY if name not in _OF_KERNELS}
    found = {space.place_of(Candidate(row["family"], row["config"])): row for row in store.rows(samples=False, **same)}
    places = {place: _time_s(row) for place, row in found.items() if place is not None}
    return sorted(places, key=lambda place: places[place])


def _time_s(row: Row) -> float:
    return float(row["time_s"]) if row["status"] == "ok" else math.inf
