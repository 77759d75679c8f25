"""The makespan of a launch, block by block: SMs with slots, blocks whose clocks are the solver's at the residency of
the moment, clusters, persistent grids, slices along K and stream-K's shares.

What the closed form counts as waves (gemmsim.model.solver) is here the busiest SM of pieces placed event by event
(engine). Memory, power and launch come on top by the solver's own formula and stretch the whole timeline evenly. Where
pieces are equal and in step both give the same time; they differ where slices or shares are uneven, where clusters
leave SMs empty, and in how often two blocks of an SM end together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmsim import families
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.model import effects, solver
from gemmsim.model.case import make_case
from gemmsim.model.demand import Case, Demand
from gemmsim.model.predict import Prediction
from gemmsim.model.residency import usable_sms
from gemmsim.problem import FloatArray, IntArray
from gemmsim.simulate.engine import Placed, Sms, run
from gemmsim.simulate.launched import ordered, own_raster
from gemmsim.simulate.pieces import Pieces, pieces_of
from gemmsim.simulate.raster import order

#: of the shortest block's time: blocks that end no further apart are in step (engine.run). Slices that differ by one
#: k-step in a hundred do not decide which SM is free first: real blocks drift apart by more
SLACK = 0.1
#: pieces that are simulated at most, and of those that are unequal: each is an event of some 5 us
MOST_PIECES, MOST_UNEQUAL = 2**20, 2**17
NAN = float("nan")


@dataclass(frozen=True)
class How:
    """How the launch is laid out beyond its configuration.

    raster: order of tiles (gemmsim.simulate.raster), '' for the family's own. cluster_m, cluster_n: blocks of a
    cluster along M and N. persistent: as many blocks as reside at once, n; block i computes tiles i, i + n, ...
    """

    raster: str = ""
    cluster_m: int = 1
    cluster_n: int = 1
    persistent: bool = False

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n


def _no_numbers() -> FloatArray:
    return np.zeros(0)


def _no_places() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Schedule:
    """A launch in time, s from the moment it is asked for. Arrays of pieces are in launch order, `kind` their kind.

    blocks: of the launch; a persistent one, stream-K's too, has fewer than pieces.
    busiest_clk: SM clocks from the first start to the last end, before memory and power stretch them. busy_s: of each
    SM, with at least one block. waves: most pieces a slot has in turn. idle_share: of all SMs' time while blocks run,
    what they stand idle; tail_s: from the first SM that runs out of work to the last end. row, column: tile of C (of a
    share the first); problem: of a batch; first_step, steps: along K. starting, ending, fixing: of each kind (see
    Pieces). simulated: false where makespan_s is the closed form's, for the reason in `note`, and no piece was placed.
    """

    key: str
    gpu: str
    makespan_s: float
    closed_form_s: float
    slots: int
    waves: int
    simulated: bool = True
    note: str = ""
    blocks: int = 0
    idle_share: float = NAN
    tail_s: float = NAN
    busiest_clk: float = NAN
    launch_s: float = NAN
    second_s: float = NAN
    busy_s: FloatArray = field(default_factory=_no_numbers)
    sm: IntArray = field(default_factory=_no_places)
    start_s: FloatArray = field(default_factory=_no_numbers)
    end_s: FloatArray = field(default_factory=_no_numbers)
    row: IntArray = field(default_factory=_no_places)
    column: IntArray = field(default_factory=_no_places)
    problem: IntArray = field(default_factory=_no_places)
    first_step: IntArray = field(default_factory=_no_places)
    steps: IntArray = field(default_factory=_no_places)
    kind: IntArray = field(default_factory=_no_places)
    starting: FloatArray = field(default_factory=_no_numbers)
    ending: FloatArray = field(default_factory=_no_numbers)
    fixing: FloatArray = field(default_factory=_no_numbers)

    def __len__(self) -> int:
        return len(self.sm)


PLAIN = How()


def schedule(p: Prediction, row: int = 0, how: How = PLAIN, traffic: Mapping[str, float] | None = None) -> Schedule:
    """The schedule of one row of a prediction (which holds problem, configuration, family and GPU).

    traffic: bytes of the whole launch in place of the closed form's, under the names of Demand: l2_weighted_bytes,
    dram_read_bytes, dram_write_bytes. Raises GemmsimError for a row that cannot launch, and for a raster or a cluster
    that its grid cannot take.
    """
    if not p.feasible[row]:
        key = config_key(p.config.row(row))
        raise GemmsimError(f"{p.config.family} {key} cannot launch on {p.gpu.name}: {p.reasons[row]}")
    x, d = solved(p, row, traffic, how.raster)
    how = _own(x, how)
    sms = _sms(p, x, d, how)
    why = _unplaced(d, how)
    if why:
        note = f"{why}: makespan_s is the closed form's"
        time_s, waves = float(p.time_s[row]), int(p.waves[row])
        return Schedule(config_key(p.config.row(row)), p.gpu.name, time_s, time_s, sms.slots, waves, False, note)
    pieces = pieces_of(x, d)
    if how.persistent and not pieces.stride:
        pieces = replace(pieces, stride=min(len(pieces), sms.wave))
    placed = run(pieces.kind, pieces.clk, sms, stride=pieces.stride, together=_together(x, d), slack=SLACK)
    return _schedule(p, row, (x, d), how, sms, pieces, placed)


def _own(x: Case, how: How) -> How:
    """How the family's own kernel is laid out, where it has clusters or stays on its SMs."""
    t = x.traits
    if how.cluster > 1 or not (t.persistent[0] or t.cluster_m[0] * t.cluster_n[0] > 1):
        return how
    return replace(how, cluster_m=int(t.cluster_m[0]), cluster_n=int(t.cluster_n[0]), persistent=bool(t.persistent[0]))


def _unplaced(d: Demand, how: How) -> str:
    """Why no piece is placed; empty where all are."""
    shared, count = bool(d.units.parts.any()), int(d.units.blocks[0])
    if shared and how.cluster > 1:
        return "clusters that share tiles along K are not simulated"
    most, unequal = (MOST_UNEQUAL, " unequal") if shared else (MOST_PIECES, "")
    return f"{count}{unequal} blocks, more than the {most} that are simulated" if count > most else ""


def solved(
    p: Prediction, row: int, traffic: Mapping[str, float] | None = None, raster: str = "", group_m: int | None = None
) -> tuple[Case, Demand]:
    """Case and Demand of a single row of a prediction, with bytes from elsewhere.

    raster, group_m: another order of tiles than the configuration's (launched.ordered).
    """
    part = slice(row, row + 1)
    config = Config(p.config.family, {name: v[part] for name, v in p.config.values.items()})
    blocks = p.blocks_per_sm[part]
    x = make_case(p.problem.take(part), config, p.launch.part(part), blocks, p.gpu, p.calibration.values, p.l2)
    x = ordered(x, raster, group_m)
    bytes_of: dict[str, Any] = {name: np.full(1, value) for name, value in (traffic or {}).items()}
    return x, replace(effects.fill(x), **bytes_of)


def _sms(p: Prediction, x: Case, d: Demand, how: How) -> Sms:
    """The SMs that the launch can use. Raises GemmsimError for a cluster that grid or GPU cannot take."""
    tiles_m, tiles_n, slots = int(d.tiles_m[0]), int(d.tiles_n[0]), int(x.blocks_per_sm[0])
    if how.cluster_m == how.cluster_n == 1:
        return Sms(p.gpu.sm_count, slots)
    if (how.cluster_m, how.cluster_n) == (x.traits.cluster_m[0], x.traits.cluster_n[0]):
        return Sms(int(x.sms[0]), slots, how.cluster)
    shape = f"cluster of {how.cluster_m} x {how.cluster_n} blocks"
    if min(how.cluster_m, how.cluster_n) < 1 or tiles_m % how.cluster_m or tiles_n % how.cluster_n:
        raise GemmsimError(f"{shape}: expected its sides to divide the grid of {tiles_m} x {tiles_n} tiles")
    if d.units.parts.any():
        raise GemmsimError(f"{shape}: expected whole tiles, and split_k or stream_k cuts them")
    reached = usable_sms(p.gpu, how.cluster)
    if not reached:
        raise GemmsimError(f"{shape}: expected no more blocks than the {p.gpu.sm_count} SMs in use")
    return Sms(reached, slots, how.cluster)


def _together(x: Case, d: Demand) -> bool:
    """Whether two blocks of an SM end together oftener than not when the last wave comes (solver.together)."""
    busiest = np.ceil(d.units.blocks / x.gpu.sm_count)
    full = np.floor(busiest / x.blocks_per_sm)
    return bool(solver.together(x, full, busiest - full * x.blocks_per_sm)[0] >= 0.5)


def _schedule(
    p: Prediction, row: int, demand: tuple[Case, Demand], how: How, sms: Sms, pieces: Pieces, placed: Placed
) -> Schedule:
    """Clocks to seconds: the solver says how long the launch takes whose busiest SM is at it so long."""
    x, d = demand
    last = float(placed.end_clk.max())
    makespan_s, second_s = float(solver.total_s(x, d, np.full(1, last))[0]), float(np.max(d.second_s))
    each_s = (makespan_s - d.launch_s - second_s) / last
    rows, columns = _tiles(p, row, d, how)
    problem, tile = np.divmod(pieces.tile, len(rows))
    busy = np.zeros(p.gpu.sm_count)
    busy[: len(placed.busy_clk)] = placed.busy_clk
    used = busy[: sms.groups * sms.cluster]
    return Schedule(
        key=config_key(p.config.row(row)), gpu=p.gpu.name, makespan_s=makespan_s, closed_form_s=float(p.time_s[row]),
        slots=sms.slots, blocks=pieces.stride or len(pieces), waves=int(-(-np.bincount(placed.sm).max() // sms.slots)),
        idle_share=max(0.0, float(1 - busy.mean() / last)), busiest_clk=last,
        tail_s=float(last - _ends(placed, len(used)).min()) * each_s,
        launch_s=d.launch_s, second_s=second_s, busy_s=busy * each_s, sm=placed.sm,
        start_s=d.launch_s + placed.start_clk * each_s, end_s=d.launch_s + placed.end_clk * each_s,
        row=rows[tile], column=columns[tile], problem=problem, first_step=pieces.first_step, steps=pieces.steps,
        kind=pieces.kind, starting=pieces.starting, ending=pieces.ending, fixing=pieces.fixing,
    )  # fmt: skip


def _ends(placed: Placed, sms: int) -> FloatArray:
    """The last end on each SM, 0 where nothing ran."""
    ends = np.zeros(sms)
    np.maximum.at(ends, placed.sm, placed.end_clk)
    return ends


def _tiles(p: Prediction, row: int, d: Demand, how: How) -> tuple[IntArray, IntArray]:
    """Row and column of the tiles of one problem in launch order: clusters in raster order, row by row inside."""
    down, across = -(-int(d.tiles_m[0]) // how.cluster_m), -(-int(d.tiles_n[0]) // how.cluster_n)
    config = p.config.take(np.asarray([row]))
    group = int(families.family(p.config.family).group_m(config)[0])
    rows, columns = order(how.raster or own_raster(config), down, across, max(1, group // how.cluster_m))
    inside = np.arange(how.cluster)
    rows = (rows[:, None] * how.cluster_m + inside // how.cluster_n).ravel()
    return rows, (columns[:, None] * how.cluster_n + inside % how.cluster_n).ravel()
