"""Orders of a launch's tiles side by side: rows, columns, groups of rows, Hilbert's curve; and whether it matters.

DRAM bytes are the simulator's; the time is the closed form's with those bytes. Along Hilbert's curve, which the closed
form does not know, blocks wait for memory as in the order that reads most nearly as much. A kernel can walk the curve
where its family has a parameter `hilbert`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gemmsim import families
from gemmsim.conditions import NOISE_FLOOR
from gemmsim.config import config_key
from gemmsim.errors import GemmsimError
from gemmsim.model import solver
from gemmsim.model.predict import Prediction
from gemmsim.simulate.launch import asked, walked
from gemmsim.simulate.launched import own_raster
from gemmsim.simulate.raster import COLUMN, GROUPED, HILBERT, ROW
from gemmsim.simulate.schedule import solved
from gemmsim.simulate.score import operand_bytes

#: groups that are looked at, beside the configuration's own
GROUPS = (2, 4, 8, 16, 32)
#: DRAM reads that differ by less are the same
SAME_BYTES = 0.02


@dataclass(frozen=True)
class Order:
    """One order. group_m: tile rows walked together, 0 along Hilbert's curve. read_share: DRAM reads over A and B.

    in_kernel: whether the family's kernel walks it; own: the configuration's. share: the shortest time of the orders
    that the kernel walks over this one's. simulated: false where the bytes are the closed form's.
    """

    name: str
    raster: str
    group_m: int
    dram_read_bytes: float
    dram_write_bytes: float
    read_share: float
    l2_hit_rate: float | None
    time_s: float
    share: float
    in_kernel: bool
    own: bool
    simulated: bool


@dataclass(frozen=True)
class Rasters:
    """The orders, fastest first; verdict: which wins, by how much, or why it does not matter."""

    key: str
    orders: tuple[Order, ...]
    verdict: str
    notes: tuple[str, ...]


def rasters(p: Prediction) -> Rasters:
    """The orders of the first row of a prediction.

    Raises GemmsimError for a row that cannot launch, and for a warm L2: the simulator begins with a cold one.
    """
    key = config_key(p.config.row(0))
    if not p.feasible[0]:
        raise GemmsimError(f"{p.config.family} {key} cannot launch on {p.gpu.name}: {p.reasons[0]}")
    if p.l2 == "warm":
        raise GemmsimError("L2 condition is warm: expected cold_clean or cold_dirty, with which the simulator begins")
    found = [*_orders(p)]
    best = min(o.time_s for o in found if o.in_kernel)
    ranked = sorted((replace(o, share=best / o.time_s) for o in found), key=lambda o: o.time_s)
    return Rasters(key, tuple(ranked), _verdict(p, ranked), tuple(_unwalked(found)))


def _unwalked(found: Sequence[Order]) -> Iterator[str]:
    missed = [o.name for o in found if not o.simulated]
    if missed:
        which = "" if len(missed) == len(found) else f" of {', '.join(missed)}"
        curve = "" if found[-1].raster == HILBERT else ", no Hilbert"
        yield f"too many blocks to walk: DRAM bytes{which} are the closed form's{curve}"


def _orders(p: Prediction) -> Iterator[Order]:
    """Every order that differs from the others; one alone where there is one row or column of tiles."""
    _, d = solved(p, 0)
    tiles_m, tiles_n = int(d.tiles_m[0]), int(d.tiles_n[0])
    counts_as = min(int(families.family(p.config.family).group_m(p.config)[0]), tiles_m)
    one, curved = min(tiles_m, tiles_n) == 1, own_raster(p.config) == HILBERT
    own = 0 if curved and not one else counts_as
    groups = {own} if one else {1, tiles_m, own or 1, *(g for g in GROUPS if g < tiles_m)}
    found = []
    for group in sorted(groups):
        raster = ROW if group == 1 else COLUMN if group == tiles_m else GROUPED
        found.append(_order(p, raster, group, group, own))
        yield found[-1]
    if not one and (found[0].simulated or curved):
        curve = _order(p, HILBERT, 0, counts_as, own)
        near = min(found, key=lambda o: abs(o.dram_read_bytes - curve.dram_read_bytes))
        yield _order(p, HILBERT, 0, near.group_m, own) if curve.simulated else curve


def _order(p: Prediction, raster: str, group_m: int, waits_as: int, own: int) -> Order:
    """One order; waits_as: the group whose waits for memory the closed form takes; group_m, own: 0 for the curve."""
    walk, _ = walked(p, 0, raster, group_m or None)
    x, d = solved(p, 0, asked(*walk) if walk else None, group_m=waits_as)
    read, written = float(d.dram_read_bytes[0] + d.second_read_bytes[0]), float(d.dram_write_bytes[0])
    if walk is not None:
        read, written = walk[1].dram_read_bytes, walk[1].dram_write_bytes
    return Order(
        name=f"grouped by {group_m}" if raster == GROUPED else raster, raster=raster, group_m=group_m,
        dram_read_bytes=read, dram_write_bytes=written, read_share=read / float(operand_bytes(p)[0]),
        l2_hit_rate=walk[1].l2_hit_rate if walk else None, time_s=float(solver.time_s(x, d)[0]), share=1.0,
        in_kernel=group_m == own or _chosen(p, "group_m" if group_m else "hilbert", group_m or 1), own=group_m == own,
        simulated=walk is not None,
    )  # fmt: skip


def _chosen(p: Prediction, parameter: str, value: int) -> bool:
    """Whether the family's kernel can be told to walk so many tile rows together (group_m), or the curve (hilbert)."""
    parameters = families.family(p.config.family).PARAMETERS
    return any(q.name == parameter and q.low <= value <= q.high for q in parameters)


def _verdict(p: Prediction, ranked: Sequence[Order]) -> str:
    """Which order of the kernel's wins, by how much; or why it does not matter."""
    kernel = [o for o in ranked if o.in_kernel]
    if len(ranked) == 1:
        return f"does not matter: one row or column of tiles, {_reads(ranked[0])}"
    if len(kernel) == 1:
        every = [o for o in ranked if o.raster != HILBERT]
        return f"{p.config.family} walks {kernel[0].name} order alone; of all: {_compared(p, every)}"
    return _compared(p, kernel) + _beyond(p, ranked, kernel[0])


def _compared(p: Prediction, orders: Sequence[Order]) -> str:
    """The verdict on some orders, fastest first."""
    best, worst = orders[0], orders[-1]
    least, most = (pick(orders, key=lambda o: o.dram_read_bytes) for pick in (min, max))
    spread, noise = worst.time_s / best.time_s - 1, _noise(p)
    if most.dram_read_bytes / least.dram_read_bytes - 1 < SAME_BYTES:
        return f"does not matter: every order reads {_mb(most)} from DRAM{_why_same(p, most)}"
    bytes_ = f"DRAM reads go from {_mb(least)} ({least.name}) to {_mb(most)} ({most.name})"
    if spread < noise:
        return (
            f"hardly matters: {bytes_}, the times differ by {spread:.1%}, and one row's differ by {noise:.1%} from one "
            "GPU to the next"
        )
    return f"{best.name} wins by {spread:.1%} over {worst.name}{_over_own(orders)}: {bytes_}"


def _noise(p: Prediction) -> float:
    """What the same row differs by from GPU to GPU; the most that is known where the type was not timed twice."""
    return NOISE_FLOOR.get(p.problem.dtype, max(NOISE_FLOOR.values()))


def _over_own(orders: Sequence[Order]) -> str:
    own = next((o for o in orders[1:-1] if o.own), None)
    return f" and by {own.time_s / orders[0].time_s - 1:.1%} over the configuration's {own.name}" if own else ""


def _why_same(p: Prediction, o: Order) -> str:
    """Both operands fit in a side of the L2; or all orders read them as often."""
    operands, side = float(operand_bytes(p)[0]), p.gpu.l2_bytes / p.gpu.l2_partitions
    if operands <= side:
        halves = f", of which a side holds {side / 2**20:.0f}" if p.gpu.l2_partitions > 1 else ""
        return f": both operands, {operands / 2**20:.1f} MiB, fit in L2 ({p.gpu.l2_bytes / 2**20:.0f} MiB{halves})"
    return f", {o.read_share:.2f} x A and B"


def _beyond(p: Prediction, ranked: Sequence[Order], best: Order) -> str:
    """Hilbert's curve, where it would be faster than what the kernel can do."""
    curve = next((o for o in ranked if o.raster == HILBERT), None)
    if curve is None or curve.in_kernel or best.time_s / curve.time_s - 1 < _noise(p):
        return ""
    return f"; Hilbert's curve, which the kernel does not walk, would win by {best.time_s / curve.time_s - 1:.1%} more"


def _reads(o: Order) -> str:
    return f"{_mb(o)} read from DRAM"


def _mb(o: Order) -> str:
    return f"{o.dram_read_bytes / 1e6:,.0f} MB"
