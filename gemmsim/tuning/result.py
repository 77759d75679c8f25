"""What came of tuning a shape: the best configuration, what it is compared with, and how every trial ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gemmsim.config import config_key
from gemmsim.tuning.job import Job

#: what an entry is beside a configuration
DEFAULT, FIRST_PICK, LIBRARY = "default", "first_pick", "cublas"


@dataclass(frozen=True)
class Entry:
    """A configuration, or cuBLAS, beside the best configuration. roles: of DEFAULT, FIRST_PICK, LIBRARY.

    time_s: None where it has none, and status and reason say why. over: its time over the best's; low, high: the
    interval of that, NaN where the two were not timed in turn. tied: the interval leaves open which is the faster.
    unstable: why its samples should not be leaned on, as in a row.
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
    unstable: str = ""

    @property
    def key(self) -> str:
        """The configuration's one name; the library's own."""
        return config_key(self.config) if self.config else self.family


@dataclass(frozen=True)
class Ended:
    """The trials that ended in one way, and the first one's reason."""

    count: int
    reason: str = ""


@dataclass(frozen=True)
class Tuned:
    """What came of one shape. entries: the configurations compared and cuBLAS, fastest first, failed ones last.

    name: the shape's in a file of shapes. configurations: how many can launch. trials: by status, most first. in_turn:
    the entries were timed once more, in turn; else their times are those of the trials. stopped: by a person. least_s:
    of recorded rows the least time of the shape.
    """

    job: Job
    name: str
    configurations: int
    trials: Mapping[str, Ended]
    wall_s: float
    entries: Sequence[Entry]
    in_turn: bool = False
    stopped: bool = False
    least_s: float | None = None

    @property
    def best(self) -> Entry | None:
        """The fastest configuration; None if none ran."""
        return next((e for e in self.entries if e.time_s is not None and LIBRARY not in e.roles), None)

    @property
    def regret(self) -> float | None:
        """How much slower the best is than the fastest of the recorded rows, a share; None where nothing is known."""
        best = self.best
        if best is None or best.time_s is None or self.least_s is None:
            return None
        return best.time_s / self.least_s - 1

    @property
    def ties(self) -> list[Entry]:
        """Configurations that may be as fast as the best."""
        return [e for e in self.entries if e.tied and e is not self.best and LIBRARY not in e.roles]

    @property
    def count(self) -> int:
        """Trials that are over, those stopped aside."""
        return sum(ended.count for ended in self.trials.values())

    def entry(self, role: str) -> Entry | None:
        """The entry of that role; None if it was not compared."""
        return next((e for e in self.entries if role in e.roles), None)

    def tflops(self, entry: Entry) -> float | None:
        """2 m n k over an entry's time, in 1e12 a second; None where it has none."""
        m, n, k = self.job.shape
        return None if entry.time_s is None else 2e-12 * m * n * k * self.job.form.batch / entry.time_s
