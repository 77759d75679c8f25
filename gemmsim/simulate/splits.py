"""Ways to share out a problem along K, side by side: whole tiles, split-K by each factor, its tail alone, stream-K.

Of each way the fastest configuration of the family's space, or of those with the parameters asked for; its time by the
closed form, and the schedule's makespan beside it. A launch with few rows is also asked the other way round, as
C^T = B^T A^T, where the family has the layouts for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.demand import Demand
from gemmsim.model.predict import Prediction, predict
from gemmsim.problem import Form, form_of, gemm
from gemmsim.simulate.schedule import schedule, solved

#: parameters that share tiles out along K
WAYS = ("split_k", "split_tail", "stream_k")
#: parameters that change places when A and B do
TURNED = {"bm": "bn", "wm": "wn", "tm": "tn"}
#: rows of C up to which A and B are also swapped
SKINNY = 128
#: times that differ by less are as long
TIE = 1e-3
WHOLE = "whole tiles"


@dataclass(frozen=True)
class Split:
    """One way and its fastest configuration.

    time_s: the closed form's; makespan_s: the schedule's, or the closed form's again where simulated is false. share:
    the best time over this one. waves, idle_share: of the schedule. partial_bytes: partial results written and read
    again; workspace_bytes: device memory that the launch is given; sharing_s: time of all that if it were alone.
    """

    way: str
    swapped: bool
    split_k: int
    key: str
    config: Mapping[str, int]
    time_s: float
    makespan_s: float
    simulated: bool
    share: float
    blocks: int
    places: int
    waves: int
    idle_share: float | None
    partial_bytes: float
    workspace_bytes: int
    sharing_s: float
    bound_by: str
    calibration: str
    extrapolated: bool


@dataclass(frozen=True)
class Splits:
    """All ways, fastest first; verdict: which wins, by how much and why; notes: what was not looked at, and why."""

    m: int
    n: int
    k: int
    gpu: Gpu
    family: str
    form: Form
    l2: str
    ways: tuple[Split, ...]
    verdict: str
    notes: tuple[str, ...]


def splits(
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str | Form, family: str, config: Mapping[str, int] | None = None,
    l2: str = DEFAULT_L2, calibrated: str = "auto", num_sms: int | None = None,
) -> Splits:  # fmt: skip
    """Every way of the family. config: parameters that are kept as they are. Raises GemmsimError for wrong input."""
    chip, form = gpu if isinstance(gpu, Gpu) else load_gpu(gpu), form_of(dtype)
    kept = {name: value for name, value in (config or {}).items() if name not in WAYS}
    asked: dict[str, Any] = {"gpu": chip, "l2": l2, "calibrated": calibrated, "num_sms": num_sms, "family": family}
    space = _space(family, kept)
    p = predict(m, n, k, dtype=form, config=space, **asked)
    found = [*_fastest(p, form, asked, swapped=False)]
    if not found:
        tile = "".join(f" {name}={value}" for name, value in kept.items())
        where = f"can launch {m} x {n} x {k} on {chip.name}"
        raise GemmsimError(f"no configuration of {family}{' with' * bool(tile)}{tile} {where}: {p.reasons[0]}")
    notes = [*_notes(p, found)]
    if m <= SKINNY and n > m:
        swapped, why = _swapped(m, n, k, form, kept, asked)
        found += swapped
        notes += why
    best = min(way.time_s for way in found)
    ways = sorted((replace(way, share=best / way.time_s) for way in found), key=lambda way: way.time_s)
    return Splits(m, n, k, p.gpu, family, form, l2, tuple(ways), _verdict(ways), tuple(notes))


def sharing_families() -> list[str]:
    """Families with a parameter that shares tiles out along K."""
    return [name for name in families.FAMILIES if {p.name for p in families.family(name).PARAMETERS} & set(WAYS)]


def _space(family: str, kept: Mapping[str, int]) -> Config:
    """Configurations of the space that have these values; if it has none, those values in every way of the space."""
    space = families.space(family)
    here = np.ones(len(space), bool)
    for name, value in kept.items():
        here &= space[name] == value
    if here.any():
        return space.take(np.flatnonzero(here))
    ways = {name: space[name] for name in WAYS if name in space.values}
    if not ways:
        return families.config(family, kept)
    first, _ = unique_rows(ways)
    return families.config(family, {**kept, **{name: column[first] for name, column in ways.items()}})


def _fastest(p: Prediction, form: Form, asked: Mapping[str, Any], *, swapped: bool) -> Iterator[Split]:
    """The fastest row of each way that can launch, with what sharing costs it."""
    names = [name for name in WAYS if name in p.config.values]
    _, way = unique_rows({name: p.config[name] for name in names}) if names else ([], np.zeros(len(p), np.int64))
    order = np.lexsort((p.time_s, way))
    order = order[p.feasible[order]]
    rows = order[np.unique(way[order], return_index=True)[1]]
    if not len(rows):
        return
    sizes = [int(x[0]) for x in (p.problem.m, p.problem.n, p.problem.k)]
    best = predict(*sizes, dtype=form, config=p.config.take(rows), terms=True, **asked)
    yield from (_split(best, row, form, swapped) for row in range(len(best)) if not _said_twice(best, row))


def _said_twice(p: Prediction, row: int) -> bool:
    """Whether a split of the tail is one of all tiles, which fill no wave, or of none, since the last wave is full."""
    if not p.config.row(row).get("split_tail"):
        return False
    _, d = solved(p, row)
    return not d.units.whole.any() or not d.units.parts.any()


def _split(p: Prediction, row: int, form: Form, swapped: bool) -> Split:
    config, s, (_, d) = p.config.row(row), schedule(p, row), solved(p, row)
    return Split(
        way=_way(config), swapped=swapped, split_k=config.get("split_k", 1), key=config_key(config), config=config,
        time_s=float(p.time_s[row]), makespan_s=s.makespan_s, simulated=s.simulated, share=1.0,
        blocks=_blocks(d, config), places=p.gpu.sm_count * s.slots, waves=s.waves,
        idle_share=s.idle_share if s.simulated else None,
        partial_bytes=2 * float(np.max(d.workspace_bytes)), workspace_bytes=_workspace_bytes(p, row, form),
        sharing_s=float(p.demand["split"][row]), bound_by=p.bound_by[row], calibration=p.calibration.name,
        extrapolated=bool(p.extrapolated[row]),
    )  # fmt: skip


def _blocks(d: Demand, config: Mapping[str, int]) -> int:
    """Blocks of the grid: those of stream-K compute whole tiles as well as their share."""
    persistent = config.get("stream_k") and d.units.parts.any()
    return int((d.units.parts if persistent else d.units.blocks)[0])


def _way(config: Mapping[str, int]) -> str:
    if config.get("stream_k"):
        return "stream-K"
    if config.get("split_k", 1) == 1:
        return WHOLE
    return f"split-K {config['split_k']}{' of the tail' if config.get('split_tail') else ''}"


def _workspace_bytes(p: Prediction, row: int, form: Form) -> int:
    """Device memory beside A, B and C, from the family's plan; 0 for one that has none."""
    plan = getattr(families.family(p.config.family), "plan", None)
    if plan is None:
        return 0
    sizes = (int(x[row]) for x in (p.problem.m, p.problem.n, p.problem.k))
    slots = p.gpu.sm_count * int(p.blocks_per_sm[row])
    return int(plan(*sizes, p.config.row(row), form, slots).workspace_bytes)


def _notes(p: Prediction, found: list[Split]) -> Iterator[str]:
    """Ways of the space of which no configuration can launch, and families that have none."""
    names = [name for name in WAYS if name in p.config.values]
    if not names:
        yield f"{p.config.family} computes whole tiles alone: {' and '.join(sharing_families())} share them out along K"
        return
    missing: dict[str, list[str]] = {}
    seen, reasons = {way.way for way in found}, p.reasons
    for row in unique_rows({name: p.config[name] for name in names})[0].tolist():
        way = _way(p.config.row(row))
        if way not in seen and reasons[row]:
            missing.setdefault(reasons[row].partition(":")[0], []).append(way)
    yield from (f"refused ({code}): {', '.join(ways)}" for code, ways in missing.items())


def _swapped(
    m: int, n: int, k: int, form: Form, kept: Mapping[str, int], asked: Mapping[str, Any]
) -> tuple[list[Split], list[str]]:
    """The fastest way of C^T = B^T A^T, whose operands are as they lie in memory; or why there is none."""
    flipped = "".join({"N": "T", "T": "N"}[side] for side in reversed(form.layout))
    turned = replace(form, layout=flipped)
    family, other = asked["family"], {b: a for a, b in TURNED.items()} | TURNED
    if form.dtype_b not in (None, form.dtype) or form.epilogue or form.beta:
        return [], ["A and B not swapped: expected the plain product of one type"]
    if not families.does(family, gemm(n, m, k, turned)):
        return [], [f"A and B not swapped: that is layout {flipped}, which {family} has no kernel for"]
    config = _space(family, {other.get(name, name): value for name, value in kept.items()})
    found = [*_fastest(predict(n, m, k, dtype=turned, config=config, **asked), turned, asked, swapped=True)]
    return sorted(found, key=lambda way: way.time_s)[:1], ["swapped: C^T is what is written, row-major"]


def _verdict(ways: Sequence[Split]) -> str:
    """Which way wins over whole tiles (or whole tiles over which), by how much, and what sets the two apart."""
    whole = next((way for way in ways if way.way == WHOLE and not way.swapped), None)
    best = next((way for way in ways if way is not whole), None)
    if whole is None or best is None:
        return f"{_name(ways[0])}: no other way can launch"
    if abs(best.time_s / whole.time_s - 1) < TIE:
        return f"{_name(best)} and whole tiles take as long, within {TIE:.1%}: {_why(whole)}"
    if best.time_s > whole.time_s:
        return (
            f"whole tiles win by {best.time_s / whole.time_s - 1:.1%} over {_name(best)}: {_why(whole)}, {_why(best)}"
        )
    return f"{_name(best)} wins by {whole.time_s / best.time_s - 1:.1%} over whole tiles: {_why(best)}, {_why(whole)}"


def _name(way: Split) -> str:
    return f"{way.way}{', A and B swapped' * way.swapped}"


def _why(way: Split) -> str:
    """split-K 4 is 128 blocks of 64x256 on 264 places, SMs idle 3.0 % of the time, bound by math, 5.1 us of sums."""
    tile = f"{way.config['bm']}x{way.config['bn']}"
    idle = "" if way.idle_share is None else f", SMs idle {way.idle_share:.1%} of the time"
    sums = f", {way.sharing_s * 1e6:.2f} us for its partial sums" if way.sharing_s else ""
    run = f"{way.way} run{'s' * (way.way != WHOLE)} {way.blocks} blocks of {tile} on {way.places} places"
    return f"{run}{idle}, bound by {way.bound_by}{sums}"
