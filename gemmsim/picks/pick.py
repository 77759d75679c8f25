"""The pick of a problem: measured on it, or the near problem's that the model predicts fastest on it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf

import numpy as np

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2, L2_CONDITIONS, l2_condition
from gemmsim.config import FACTS, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.predict import Prediction, predict
from gemmsim.picks.evidence import Evidence, Shape, evidence
from gemmsim.picks.standing import CLOCK_APART, TURNS, Standing, Timed, standing
from gemmsim.problem import Form, dtype_name, form_of
from gemmsim.ranking import cublas, rank
from gemmsim.store import Row

#: near problems, and configurations of each, fastest first, that the model compares on a problem that was not measured
#: (how good that is: studies/h200/nearest.py)
NEAREST, DEPTH = 8, 3
#: rows that were timed in turn are stored together: a greater distance, s, and they were not
TOGETHER_S = 60.0
#: problems that a message names
_NAMED = 5


@dataclass(frozen=True)
class Wanted:
    """What picks are asked for. family: a name or "all"; l2 None: the first of L2_CONDITIONS that has rows."""

    gpu: Gpu
    form: Form
    family: str = "all"
    l2: str | None = None
    clock_hz: float | None = None

    def holds(self, row: Row) -> bool:
        """Whether a row of the GPU and dtype is of the form, family, condition and clock."""
        form = self.form
        same = {"dtype_b": form.dtype_b, "dtype_c": form.dtype_c, "layout": form.layout, "batch": form.batch,
                "beta": int(form.beta), "epilogue": ",".join(form.epilogue)}  # fmt: skip
        fits = row["family"] == self.family if self.family != "all" else row["family"] in families.FAMILIES
        return (
            fits
            and self.l2 in (None, row["l2"])
            and all(row[name] == value for name, value in same.items())
            and self._clocked(row)
        )

    def _clocked(self, row: Row) -> bool:
        """Whether both readings of the SM clock are the asked one."""
        if self.clock_hz is None:
            return True
        clocks = [row.get(f"sm_clock_hz_{when}") for when in ("before", "after")]
        return all(clock and abs(clock / self.clock_hz - 1) <= CLOCK_APART for clock in clocks)


@dataclass(frozen=True)
class Forecast:
    """What the model says of a configuration on a problem, s; low, high: 10th and 90th percentile; NaN if refused."""

    time_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class First:
    """The model's own first configuration of a problem, and its predicted time, s."""

    family: str
    config: Mapping[str, int]
    time_s: float

    @property
    def key(self) -> str:
        """The configuration's name."""
        return config_key(self.config)


@dataclass(frozen=True)
class Library:
    """What cuBLAS takes for the same problem, s, and how that was timed."""

    time_s: float
    how: str


@dataclass(frozen=True)
class Pick:
    """The configuration to use for a problem, and why.

    timed: the row it comes from, of the problem `source`, M, N, K, which is another one where the problem was not
    measured (`exact` is then false). library: None where cuBLAS was not timed on the problem. first, loss: the model's
    own first configuration, and how much longer than it the pick is predicted to take, as a fraction; None if exact.
    notes: sentences on how far to trust it.
    """

    m: int
    n: int
    k: int
    wanted: Wanted
    l2: str
    timed: Timed
    source: Shape
    standing: Standing
    predicted: Forecast
    library: Library | None = None
    first: First | None = None
    loss: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exact(self) -> bool:
        """Whether it was measured on this very problem."""
        return self.source == (self.m, self.n, self.k)

    @property
    def family(self) -> str:
        """Its kernel family."""
        return self.timed.family

    @property
    def config(self) -> Mapping[str, int]:
        """Its parameters."""
        return self.timed.config

    @property
    def key(self) -> str:
        """The configuration's name."""
        return self.timed.key


def best(
    m: int, n: int, k: int, *, gpu: str | Gpu | None = None, dtype: str | Form | None = None, family: str = "all",
    l2: str | None = None, clock_hz: float | None = None, rows: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Pick:  # fmt: skip
    """The best measured configuration for a problem, from a CSV of rows or a store (left out: the user's own).

    gpu, dtype: left out, the only one of the rows. dtype may be a Form. l2: left out, the first of cold_clean,
    cold_dirty, warm that has rows. clock_hz: only rows timed at this SM clock, within 5 %. Where the problem was not
    measured, near problems' picks are compared by the model. Raises GemmsimError for wrong input, and without rows.
    """
    found = evidence(rows, store)
    asked = wanted(found, gpu=gpu, dtype=dtype, family=family, l2=l2, clock_hz=clock_hz)
    return pick(found, asked, (m, n, k))


def wanted(
    found: Evidence, *, gpu: str | Gpu | None = None, dtype: str | Form | None = None, family: str = "all",
    l2: str | None = None, clock_hz: float | None = None,
) -> Wanted:  # fmt: skip
    """What is asked for, with the rows' only GPU and dtype where none is given.

    A Form whose dtype is "" has the rows' only one. Raises GemmsimError where the rows have several, or none.
    """
    form = dtype if isinstance(dtype, Form) else Form(dtype or "")
    chip = gpu if isinstance(gpu, Gpu) or gpu is None else load_gpu(gpu)
    if family != "all":
        families.family(family)
    said = {"gpu": chip.name if chip else "", "dtype": dtype_name(form.dtype) if form.dtype else "",
            "family": "" if family == "all" else family}  # fmt: skip
    every = found.kinds()
    kinds = [kind for kind in every if all(s in ("", x) for s, x in zip(said.values(), kind, strict=True))]
    if not kinds:
        have = ", ".join(" ".join(kind) for kind in every[:_NAMED])
        raise _no_rows(found, " ".join(filter(None, said.values())) + (have and f" (but of {have})"))
    name, kind = (_only(found, option, [row[i] for row in kinds]) for i, option in enumerate(("gpu", "dtype")))
    return Wanted(
        chip or load_gpu(name), form_of(replace(form, dtype=kind)), family,
        None if l2 is None else l2_condition(l2), clock_hz,
    )  # fmt: skip


def _only(found: Evidence, option: str, values: Sequence[str]) -> str:
    different = list(dict.fromkeys(values))
    if len(different) > 1:
        have = ", ".join(different)
        raise GemmsimError(f"{found.place} holds rows of {have}: expected one of them as --{option}")
    return different[0]


def _no_rows(found: Evidence, what: str) -> GemmsimError:
    return GemmsimError(
        f"{found.place} holds no row{what and f' of {what}'} that ran: gemmsim tune measures some, and gemmsim rank "
        "predicts without"
    )


def pick(found: Evidence, asked: Wanted, shape: Shape) -> Pick:
    """The pick of a problem, or of a near one where it was not measured. Raises GemmsimError where there is none."""
    return measured(found, asked, shape) or _nearest(found, asked, shape)


def measured(found: Evidence, asked: Wanted, shape: Shape) -> Pick | None:
    """The pick of a problem that was measured; None for another."""
    own = _standing(found, asked, shape)
    if own is None:
        return None
    l2, stands = own
    chosen = stands.order[0]
    p = _predicted(asked, shape, [chosen], l2, {f: _fact(chosen.row, f) for f in FACTS})
    notes = stands.notes() + _condition(asked, l2, chosen.row)
    notes += [] if p.feasible[0] else [f"the model has it refused: {p.reasons[0]}"]
    library = _library(found, asked, shape, chosen.row)
    return Pick(*shape, asked, l2, chosen, shape, stands, _forecast(p, 0), library, notes=tuple(notes))


def every(found: Evidence, asked: Wanted) -> list[Pick]:
    """The picks of all problems that were measured, ascending. Raises GemmsimError without any."""
    own = (measured(found, asked, shape) for shape in sorted(found.shapes(asked.gpu.name, asked.form.dtype)))
    picks = [one for one in own if one is not None]
    if not picks:
        raise _no_rows(found, _what(asked))
    return picks


def listed(found: Evidence, asked: Wanted, shapes: Iterable[Shape], *, near: bool = False) -> list[Pick]:
    """The picks of some problems; near: of those that were not measured, near ones'.

    Raises GemmsimError for problems that were not measured, naming them, unless near ones' will do.
    """
    own = {shape: measured(found, asked, shape) for shape in shapes}
    missing = [" x ".join(map(str, shape)) for shape, one in own.items() if one is None]
    if missing and not near:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        named = f"{', '.join(missing[:_NAMED])}{more}"
        raise GemmsimError(f"{found.place} holds no row of {named} for {_what(asked)} that ran: expected some, or near "
                           "ones (--nearest)")  # fmt: skip
    return [one or _nearest(found, asked, shape) for shape, one in own.items()]


def _what(asked: Wanted) -> str:
    form = asked.form
    parts = [asked.gpu.name, form.dtype, "" if asked.family == "all" else asked.family, asked.l2]
    plain = form_of(form.dtype)
    parts += [f"{name} {getattr(form, name)}" for name in ("dtype_b", "dtype_c", "layout", "batch")
              if getattr(form, name) != getattr(plain, name)]  # fmt: skip
    parts += ["beta"] * form.beta + list(form.epilogue)
    parts += [f"at {asked.clock_hz / 1e6:.0f} MHz"] if asked.clock_hz else []
    return " ".join(filter(None, parts))


def _standing(found: Evidence, asked: Wanted, shape: Shape) -> tuple[str, Standing] | None:
    """The first condition under which a problem was measured, and how its configurations stand; None without any."""
    rows = [row for row in found.at(asked.gpu.name, asked.form.dtype, shape) if asked.holds(row)]
    for l2, timing in itertools.product(L2_CONDITIONS, ("event", "graph")):
        stands = standing((r for r in rows if (r["l2"], r["timing"]) == (l2, timing)), asked.form.dtype)
        if stands is not None:
            return l2, stands
    return None


def _fact(row: Row, name: str) -> float:
    return float("nan") if row.get(name) is None else float(row[name])


def _library(found: Evidence, asked: Wanted, shape: Shape, row: Row) -> Library | None:
    """cuBLAS beside a row: its own samples in turn, else a row of the same condition, else what is recorded."""
    if row.get("cublas_time_s"):
        return Library(float(row["cublas_time_s"]), "timed in turn")
    theirs = replace(asked, family="cublas")
    rows = [r for r in found.at(asked.gpu.name, asked.form.dtype, shape) if r["status"] == "ok" and theirs.holds(r)
            and (r["l2"], r["timing"]) == (row["l2"], row["timing"])]  # fmt: skip
    if rows:
        near = min(rows, key=lambda r: (_apart_s(r, row), r["against"] != row["against"]))
        in_turn = TURNS in near["against"] and TURNS in row["against"] and _apart_s(near, row) < TOGETHER_S
        return Library(float(near["time_s"]), "timed in turn" if in_turn else "timed by itself")
    plain = asked.form == form_of(asked.form.dtype)
    known = cublas(asked.gpu.name, asked.form.dtype, *shape, row["l2"]) if plain else None
    return Library(known.time_s, f"of the rows that come with gemmsim, L2 {known.l2}") if known else None


def _apart_s(a: Row, b: Row) -> float:
    """Seconds between two measurements; infinite where a row does not say when, as gemmsim says it."""
    try:
        first, second = (datetime.fromisoformat(str(row.get("measured_at"))) for row in (a, b))
        return abs((first - second).total_seconds())
    except (ValueError, TypeError):  # no date; one with a time zone and one without
        return inf


def _condition(asked: Wanted, l2: str, row: Row) -> list[str]:
    """That the rows are of another condition than predictions usually are."""
    notes = [f"L2 {l2}: no row of {DEFAULT_L2}"] if asked.l2 is None and l2 != DEFAULT_L2 else []
    return notes + (["timed in a CUDA graph: no row of single launches"] if row["timing"] == "graph" else [])


def _predicted(
    asked: Wanted, shape: Shape, timed: Sequence[Timed], l2: str, facts: Mapping[str, float] | None = None
) -> Prediction:
    """The model on a problem: configurations of one family."""
    config = {name: np.asarray([t.config[name] for t in timed]) for name in timed[0].config}
    return predict(*shape, gpu=asked.gpu, dtype=asked.form, family=timed[0].family, config=config, l2=l2, facts=facts)


def _forecast(p: Prediction, i: int) -> Forecast:
    low, high = p.interval_s
    return Forecast(float(p.time_s[i]), float(low[i]), float(high[i]))


def _nearest(found: Evidence, asked: Wanted, shape: Shape) -> Pick:
    """Of what is fastest on the nearest measured problems that which the model predicts fastest on this one.

    By tile parameters alone, as those of the model's own first configuration are all that is known of it.
    """
    near = list(_near(found, asked, shape))
    if not near:
        raise _no_rows(found, _what(asked))
    l2 = asked.l2 or near[0].l2
    forecasts: dict[int, Forecast] = {}
    for family in dict.fromkeys(n.timed.family for n in near):
        where = [i for i, n in enumerate(near) if n.timed.family == family]
        p = _predicted(asked, shape, [near[i].timed for i in where], l2)
        forecasts |= {i: _forecast(p, place) for place, i in enumerate(where) if p.feasible[place]}
    if not forecasts:
        raise GemmsimError(f"no pick of the problems in {found.place} can launch {' x '.join(map(str, shape))}: "
                           "gemmsim rank predicts what can")  # fmt: skip
    chosen = min(forecasts, key=lambda i: forecasts[i].time_s)
    one = near[chosen]
    return _with_first(Pick(*shape, asked, l2, one.timed, one.shape, one.standing, forecasts[chosen]))


@dataclass(frozen=True)
class _Near:
    """A configuration that is fast on a near problem."""

    shape: Shape
    l2: str
    standing: Standing
    timed: Timed


def _near(found: Evidence, asked: Wanted, shape: Shape) -> Iterator[_Near]:
    """The first configurations of the nearest problems, by the ratios of their sizes."""
    others = sorted(found.shapes(asked.gpu.name, asked.form.dtype), key=lambda other: _distance(shape, other))
    own = ((other, _standing(found, asked, other)) for other in others)
    there = ((other, stands) for other, stands in own if stands is not None)
    for other, (l2, stands) in itertools.islice(there, NEAREST):
        yield from (_Near(other, l2, stands, timed) for timed in stands.order[:DEPTH])


def _distance(a: Shape, b: Shape) -> float:
    return math.dist([math.log(x) for x in a], [math.log(x) for x in b])


def _with_first(found: Pick) -> Pick:
    """The pick with the model's own first beside it."""
    asked, mine = found.wanted, found.predicted
    entry = rank(found.m, found.n, found.k, gpu=asked.gpu, dtype=asked.form, family=asked.family, l2=found.l2,
                 top=1).entries[0]  # fmt: skip
    first = First(entry.family, entry.config, entry.time_s)
    notes = ["the model's own first pick is predicted faster by more than the interval: measure both"]
    notes = notes if first.time_s < mine.low_s else []
    notes += [f"unstable there ({found.timed.unstable})"] if found.timed.unstable else []
    notes += ["measured there with an older kernel"] if found.standing.old else []
    return replace(found, first=first, loss=max(mine.time_s / first.time_s - 1, 0.0), notes=tuple(notes))
