"""What came of tuning a shape: the best configuration, what it is compared with, and how every trial ended."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optuna.trial import FrozenTrial

from gemmsim.config import config_key
from gemmsim.search.trials import STATUS
from gemmsim.tuning.job import Job

#: what an entry is beside a configuration
DEFAULT, FIRST_PICK, LIBRARY = "default", "first pick", "cublas"


@dataclass(frozen=True)
class Entry:
    """A configuration, or cuBLAS, beside the best configuration. roles: of DEFAULT, FIRST_PICK, LIBRARY.

    over: its time over the best's; low, high: the interval of that, NaN where the two were not timed in turn. tied: the
    interval leaves open which of the two is faster.
    """

    family: str
    config: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    time_s: float | None = None
    predicted_s: float | None = None
    status: str = "ok"
    reason: str = ""
    over: float = math.nan
    low: float = math.nan
    high: float = math.nan
    tied: bool = False

    @property
    def key(self) -> str:
        """The configuration's one name; the library's own."""
        return config_key(self.config) if self.config else self.family


@dataclass(frozen=True)
class Tuned:
    """What came of one shape. entries: the configurations compared and cuBLAS, fastest first, failed ones last.

    name: the shape's in a file of shapes. configurations: how many can launch. statuses: trials by how they ended.
    in_turn: the entries were timed again, in turn; else times are those of the trials. stopped: by a person.
    """

    job: Job
    name: str
    configurations: int
    statuses: Mapping[str, int]
    wall_s: float
    entries: Sequence[Entry]
    in_turn: bool = False
    stopped: bool = False

    @property
    def best(self) -> Entry | None:
        """The fastest configuration; None if none ran."""
        return next((e for e in self.entries if e.status == "ok" and LIBRARY not in e.roles), None)

    @property
    def ties(self) -> list[Entry]:
        """Configurations that may be as fast as the best."""
        return [e for e in self.entries if e.tied and e is not self.best and LIBRARY not in e.roles]

    def entry(self, role: str) -> Entry | None:
        """The entry of that role; None if it was not compared."""
        return next((e for e in self.entries if role in e.roles), None)

    def tflops(self, entry: Entry) -> float | None:
        """2 m n k over an entry's time, 1e12 operations/s; None where it has none."""
        m, n, k = self.job.shape
        return None if entry.time_s is None else 2e-12 * m * n * k * self.job.form.batch / entry.time_s


def statuses(trials: Sequence[FrozenTrial]) -> dict[str, int]:
    """Trials that are over by how they ended, most first."""
    found = Counter(str(t.user_attrs.get(STATUS, "no status")) for t in trials if t.state.is_finished())
    return dict(found.most_common())
