"""One launch by both simulators: its traffic (cache), and its makespan with that traffic (schedule).

What would take too long, or what the traffic simulator does not do, is the closed form's, and `note` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsim.model.predict import Prediction
from gemmsim.problem import FloatArray
from gemmsim.simulate import cache
from gemmsim.simulate.launched import Launched, TooLarge, launched
from gemmsim.simulate.schedule import PLAIN, How, Schedule, schedule
from gemmsim.simulate.score import Bytes, closed

#: figures of a launch that the traffic simulator gives, under the names of a batch's columns
TERMS = ("dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "l2_hit_rate")


@dataclass(frozen=True)
class Simulated:
    """One launch. traffic: None where it is the closed form's, `closed`, bytes and a share under the names of TERMS."""

    schedule: Schedule
    traffic: cache.Traffic | None
    closed: dict[str, float]
    note: str

    @property
    def bytes(self) -> dict[str, float]:
        """The figures of TERMS, simulated where that could be done."""
        if self.traffic is None:
            return self.closed
        return {name: float(getattr(self.traffic, name)) for name in TERMS}

    @property
    def simulated(self) -> bool:
        """Whether nothing is the closed form's."""
        return self.traffic is not None and self.schedule.simulated


def closed_form(p: Prediction, *, profiled: bool) -> dict[str, FloatArray]:
    """The closed form of the figures of TERMS, all rows of a prediction."""
    found: Bytes = closed(p, profiled=profiled)
    return {name: getattr(found, name) for name in TERMS}


def simulate(
    p: Prediction, row: int = 0, how: How = PLAIN, *, profiled: bool = False, said: dict[str, FloatArray] | None = None
) -> Simulated:
    """One row of a prediction. profiled: as Nsight Compute counts, which empties the L2 before a second kernel too.

    said: closed_form(p, profiled=profiled), where many rows are asked for. Raises GemmsimError for a row that cannot
    launch, and for a raster or cluster that its grid cannot take.
    """
    said = said or closed_form(p, profiled=profiled)
    found, note = walked(p, row, how.raster, profiled=profiled)
    plan = schedule(p, row, how, asked(*found) if found else None)
    if note and how.raster:
        note += f"; bytes are of the configuration's own order, not {how.raster}"
    notes = [note, "" if plan.simulated else f"time: {plan.note.partition(':')[0]}"]
    closed_row = {name: float(column[row]) for name, column in said.items()}
    return Simulated(plan, found[1] if found else None, closed_row, "; ".join(text for text in notes if text))


def walked(
    p: Prediction, row: int, raster: str = "", group_m: int | None = None, *, profiled: bool = False
) -> tuple[tuple[Launched, cache.Traffic] | None, str]:
    """A launch and its traffic; None, and why, where it cannot be simulated. group_m: another than its own."""
    if p.l2 == "warm":
        return None, "traffic: a warm L2, and the simulator begins with a cold one"
    try:
        launch = launched(p, row, raster, group_m)
        return (launch, cache.traffic(launch, cold_second=profiled)), ""
    except TooLarge as error:
        return None, f"traffic: {error}"


def asked(x: Launched, t: cache.Traffic) -> dict[str, float]:
    """The traffic as the solver takes it, less what a second kernel does: that has a time of its own."""
    if x.second:
        return {"dram_read_bytes": t.a.dram_read_bytes + t.b.dram_read_bytes}
    return {"dram_read_bytes": t.dram_read_bytes, "dram_write_bytes": t.dram_write_bytes}
