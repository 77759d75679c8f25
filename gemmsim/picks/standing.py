"""What the rows of one problem say: the configurations that ran, best first, and what does not count any more.

A row counts if its kernel is the newest of its configuration. The kernel's hash holds source, options and compiler: a
configuration that was measured again under another hash makes its earlier rows stale. Where the compiler is the same,
the source changed, and so stale are all rows of the family that are no newer than the last of those. Stale rows count
only where nothing else ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gemmsim.conditions import NOISE_FLOOR
from gemmsim.config import config_key
from gemmsim.families import family
from gemmsim.store import Row

#: what stands in `against` of a row that was timed in turn with other configurations
TURNS = "turns"
#: SM clocks that differ by more are not compared, as a fraction
CLOCK_APART = 0.05


@dataclass(frozen=True)
class Timed:
    """A configuration that ran, and the row that says how fast."""

    family: str
    config: Mapping[str, int]
    row: Row

    @property
    def time_s(self) -> float:
        """Median of its samples, s."""
        return float(self.row["time_s"])

    @property
    def key(self) -> str:
        """The configuration's name."""
        return config_key(self.config)

    @property
    def unstable(self) -> str:
        """What was unstable about the timing; empty if nothing."""
        return str(self.row.get("unstable") or "")

    @property
    def in_turn(self) -> bool:
        """Whether it was timed in turn with other configurations."""
        return TURNS in str(self.row.get("against") or "")

    @property
    def clock_hz(self) -> float | None:
        """The lower of the SM clocks before and after, Hz; None where no row says."""
        clocks = [self.row.get(f"sm_clock_hz_{when}") for when in ("before", "after")]
        return min((float(clock) for clock in clocks if clock), default=None)


@dataclass(frozen=True)
class Standing:
    """The configurations measured on one problem in one condition.

    order: those that ran, the pick first, unstable ones behind stable ones; stale: the best of what an older kernel
    did, fastest first; old: order is of an older kernel, for want of another; statuses: what came of how many
    configurations; noise: what the same row differs by when it is timed again, as a fraction.
    """

    order: tuple[Timed, ...]
    stale: tuple[Timed, ...]
    old: bool
    statuses: Mapping[str, int]
    noise: float

    @property
    def tied(self) -> int:
        """How many other stable configurations are as fast as the pick but for noise."""
        limit = self.order[0].time_s * (1 + self.noise)
        return sum(t.time_s <= limit and not t.unstable for t in self.order[1:])

    def notes(self) -> list[str]:
        """What a reader must know before trusting the pick."""
        return [note for note in (self._unstable(), self._old(), self._turns(), self._clocks()) if note]

    def _unstable(self) -> str:
        pick = self.order[0]
        if pick.unstable:
            return f"unstable ({pick.unstable}): no stable row of this problem"
        faster = [t for t in self.order if t.unstable and t.time_s < pick.time_s]
        if not faster:
            return ""
        best = min(faster, key=lambda t: t.time_s)
        return f"an unstable row is faster and does not count: {best.key}, {_less(best, pick)}, {best.unstable}"

    def _old(self) -> str:
        pick = self.order[0]
        if self.old:
            return "measured with an older kernel: with the newest, nothing ran"
        if not self.stale or self.stale[0].time_s >= pick.time_s:
            return ""
        when = str(self.stale[0].row.get("measured_at") or "")[:10]
        return f"an older kernel was faster: {self.stale[0].key}, {_less(self.stale[0], pick)}{when and f', {when}'}"

    def _turns(self) -> str:
        pick = self.order[0]
        finalists = [t for t in self.order if t.in_turn and not t.unstable]
        if pick.in_turn or not finalists:
            return ""
        return f"timed by itself, {_less(pick, finalists[0])} than the best of {len(finalists)} timed in turn"

    def _clocks(self) -> str:
        clock = self.order[0].clock_hz
        if clock is None:
            return ""
        apart = sum(t.clock_hz is not None and abs(t.clock_hz / clock - 1) > CLOCK_APART for t in self.order)
        many = f"{apart} of {len(self.order)} configurations were timed"
        return f"{many} at an SM clock more than {CLOCK_APART:.0%} away from the pick's" if apart else ""


def _less(fast: Timed, slow: Timed) -> str:
    return f"{1 - fast.time_s / slow.time_s:.1%} less time"


def standing(rows: Iterable[Row], dtype: str) -> Standing | None:
    """Where the configurations of one problem and condition stand; None if none ever ran."""
    histories = _histories(rows)
    limits = _limits(histories)
    best: list[Timed] = []
    stale: list[Timed] = []
    statuses: Counter[str] = Counter()
    for history in histories:
        last, row = history[-1]
        gone = last <= limits.get(row["family"], -1)
        stale += _best([r for _, r in history if gone or r["kernel_hash"] != row["kernel_hash"]])
        if gone:
            statuses["older kernel"] += 1
            continue
        newest = [r for _, r in history if r["kernel_hash"] == row["kernel_hash"]]
        status = _status(newest)
        statuses[status] += 1
        best += _best(newest) if status == "ok" else []
    old = not best
    if not (best or stale):
        return None
    noise = NOISE_FLOOR.get(dtype, 0.0)
    order, rest = _ordered(best or stale, noise), [] if old else sorted(stale, key=lambda t: t.time_s)
    return Standing(tuple(order), tuple(rest), old, dict(statuses.most_common()), noise)


def _histories(rows: Iterable[Row]) -> list[list[tuple[int, Row]]]:
    """The rows of each configuration, numbered as they were measured; those that do not say when come first."""
    histories: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for number, row in enumerate(sorted(rows, key=lambda row: str(row.get("measured_at") or ""))):
        histories.setdefault((row["family"], config_key(_whole(row))), []).append((number, row))
    return list(histories.values())


def _whole(row: Row) -> dict[str, int]:
    """The row's configuration; parameters that it does not say have their defaults, as where rows are validated."""
    return {p.name: row["config"].get(p.name, p.default) for p in family(row["family"]).PARAMETERS}


def _limits(histories: Iterable[Sequence[tuple[int, Row]]]) -> dict[str, int]:
    """Family -> the number up to which its rows are of an older source (see above)."""
    limits: dict[str, int] = {}
    for history in histories:
        newest = history[-1][1]
        for number, row in history:
            changed = row["kernel_hash"] != newest["kernel_hash"] and row["kernel_hash"] and newest["kernel_hash"]
            if changed and row.get("compiler") == newest.get("compiler"):
                limits[row["family"]] = max(limits.get(row["family"], -1), number)
    return limits


def _status(rows: Sequence[Row]) -> str:
    """What came of a configuration: one wrong result is wrong for good, else what ran counts, else the last."""
    found = [str(row["status"]) for row in rows]
    return next((status for status in ("wrong", "ok") if status in found), found[-1])


def _best(rows: Sequence[Row]) -> list[Timed]:
    """The row that says most of one configuration: stable before unstable, in turn before alone, then the last."""
    ran = [Timed(row["family"], _whole(row), row) for row in rows if row["status"] == "ok"]
    return [max(enumerate(ran), key=lambda item: (not item[1].unstable, item[1].in_turn, item[0]))[1]] if ran else []


def _ordered(timed: Sequence[Timed], noise: float) -> list[Timed]:
    """Stable ones by time, then the rest; one timed in turn goes before a first that is faster by noise alone."""
    order = sorted(timed, key=lambda t: (bool(t.unstable), t.time_s))
    limit = order[0].time_s * (1 + noise)
    if not (order[0].in_turn or order[0].unstable):
        rival = next((t for t in order if t.in_turn and not t.unstable and t.time_s <= limit), order[0])
        order.remove(rival)
        order.insert(0, rival)
    return order
