"""Why a configuration takes its time, what would help most, and for one that cannot launch the nearest that can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu
from gemmsim.model.demand import TERMS
from gemmsim.model.parts import parts
from gemmsim.model.predict import Prediction, check_time, predict
from gemmsim.problem import MAX_DIMENSION, FloatArray, Form, Gemm

#: a change that gains less is not worth naming
WORTH = 0.01
#: combinations of a family's choices that are looked at all for the nearest that can launch
MOST_COMBINATIONS = 100_000
#: elements that row strides are padded to
PAD = 16
#: what one step (a factor of two) in a parameter counts when configurations are compared; others count 1
_STEP = {"num_stages": 0.5, "bm": 2.0, "bn": 2.0}
#: term -> what it is, as `demand` and `saved` mean it
MEANING: Mapping[str, str] = {
    "math": "the multiply-adds themselves",
    "shared": "shared-memory passes that feed the math",
    "issue": "issue slots of the warps' instructions",
    "integer": "address arithmetic on the half-rate integer pipe",
    "spill": "registers spilled to local memory",
    "latency": "waiting for loads that are on their way",
    "fill": "starting blocks and filling their pipelines",
    "epilogue": "converting and storing C",
    "split": "tiles shared along K: partial results, and what sums them",
    "l2": "bytes from L2 to the SMs",
    "dram": "bytes to and from DRAM",
    "writeback": "dirty lines of somebody else written back",
    "waves": "SMs idle in a partly filled wave",
    "edge": "work outside M x N x K in the last tiles",
    "alignment": "rows that cannot be loaded 16 B at a time, for their stride",
    "power": "clock lowered by the power cap",
    "launch": "the launch itself",
}


@dataclass(frozen=True)
class Term:
    """One term of the time: its part, what it would take alone, what the launch would gain with it free.

    The parts of all terms and Explanation.rest_s add up to the time: a part is what freeing the term gains on average
    over the orders of freeing terms (Shapley's value), so that terms that hide each other share what both hide. It is 0
    for terms that count little. Shares are of the time.
    """

    name: str
    part_s: float
    part_share: float
    demand_s: float
    demand_share: float
    saved_s: float
    saved_share: float
    meaning: str


@dataclass(frozen=True)
class Change:
    """One thing changed, everything else kept: the time then, and what is gained (negative: lost)."""

    what: str
    time_s: float
    gain_s: float
    gain_share: float


@dataclass(frozen=True)
class Explanation:
    """Why a configuration takes its time. `changes`: every single change, best first; `best` is the first worth it.

    rest_s: time that is left with every term free that has a part. outlook: what comes after the best change, and what
    would have to be true for more.
    """

    prediction: Prediction
    key: str
    terms: tuple[Term, ...]
    sentences: tuple[str, ...]
    changes: tuple[Change, ...]
    best: Change | None
    advice: str
    rest_s: float
    outlook: tuple[str, ...]


def explain(
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str | Form = "bf16", family: str = "triton",
    config: Mapping[str, int] | None = None, l2: str = DEFAULT_L2, calibrated: str = "auto",
    num_sms: int | None = None, without: Iterable[str] = (),
) -> Explanation:  # fmt: skip
    """Where the time of one configuration goes, what bounds it, and the one change that helps most.

    config: parameters (the rest are the family's defaults). The other options are `predict`'s. Raises GemmsimError for
    wrong input, and for a configuration that cannot launch, with the nearest that can.
    """
    asked: dict[str, Any] = {
        "dtype": dtype, "family": family, "l2": l2, "calibrated": calibrated, "without": tuple(without)
    }  # fmt: skip
    p = predict(m, n, k, gpu=gpu, config=config, num_sms=num_sms, terms=True, **asked)
    check_feasible(p)
    check_time(p.time_s, asked["without"])
    of_time = parts(p, asked["without"])[0]
    tried = _changes(p, asked)
    changes = tuple(one.change for one in tried)
    best = changes[0] if changes and changes[0].gain_share > WORTH else None
    outlook = tuple(_outlook(p, tried[0] if best else None, asked))
    rest_s = float(p.time_s[0]) - sum(of_time.values())
    key = config_key(p.config.row(0))
    return Explanation(
        p, key, _terms(p, of_time), tuple(_sentences(p)), changes, best, _advice(best), rest_s, outlook
    )  # fmt: skip


def _outlook(p: Prediction, tried: _Tried | None, asked: Mapping[str, Any]) -> Iterable[str]:
    """What bounds the launch after the best change, the next one, and what would have to be true for more."""
    then = p
    if tried is not None:
        m, n, k = tried.sizes
        then = predict(m, n, k, gpu=p.gpu, config=tried.config, terms=True, **asked)
        bound = then.bound_by[0]
        yield f"after that it is bound by {bound} ({MEANING.get(bound, bound)})"
        further = _changes(then, asked)
        if further and further[0].change.gain_share > WORTH:
            yield f"then: {_advice(further[0].change)}"
            return
    time_s = float(then.time_s[0])
    term = max(then.saved, key=lambda t: float(then.saved[t][0]))
    least = float(then.saved[term][0])
    if least <= WORTH * time_s:
        yield "for more, several terms would have to shrink together: none alone is worth 1 %"
    else:
        cost = _cost(least, time_s)
        yield f"for more, {term} would have to cost less ({MEANING.get(term, term)}): free, it would save {cost}"


def _terms(p: Prediction, parts: Mapping[str, float]) -> tuple[Term, ...]:
    time_s = float(p.time_s[0])
    rows = ((t, parts.get(t, 0.0), float(p.demand[t][0]), float(p.saved[t][0])) for t in TERMS)
    return tuple(Term(t, x, x / time_s, d, d / time_s, s, s / time_s, MEANING.get(t, "")) for t, x, d, s in rows)


def _advice(best: Change | None) -> str:
    if best is None:
        return "no single change gains more than 1 %"
    return f"{best.what}: {_time(best.time_s)}, {best.gain_share:.1%} less time"


@dataclass(frozen=True)
class _Tried:
    """A change, and what it makes of the launch."""

    change: Change
    sizes: tuple[int, int, int]
    config: Mapping[str, int]


def _changes(p: Prediction, asked: Mapping[str, Any]) -> tuple[_Tried, ...]:
    """Every single change that can launch, with its predicted time, best first."""
    m, n, k = int(p.problem.m[0]), int(p.problem.n[0]), int(p.problem.k[0])
    base, time_s = p.config.row(0), float(p.time_s[0])
    whats, sizes, configs = [], [], []
    for name, value in _neighbours(p.config.family, base):
        whats.append(f"{name} {value} instead of {base[name]}")
        sizes.append((m, n, k))
        configs.append(base | {name: value})
    for what, padded in _paddings(p.problem):
        whats.append(what)
        sizes.append(padded)
        configs.append(base)
    config = {name: np.asarray([c[name] for c in configs]) for name in base}
    q = predict(*np.asarray(sizes).T, gpu=p.gpu, config=config, **asked)
    found = [
        _Tried(Change(what, t, time_s - t, 1 - t / time_s), size, one)
        for what, size, one, t in zip(whats, sizes, configs, q.time_s.tolist(), strict=True)
        if np.isfinite(t)
    ]
    return tuple(sorted(found, key=lambda one: one.change.time_s))


def _neighbours(family: str, base: Mapping[str, int]) -> list[tuple[str, int]]:
    parameters = families.family(family).PARAMETERS
    return [(p.name, value) for p in parameters for value in p.choices if value != base[p.name]]


def stride_dimensions(layout: str) -> dict[str, str]:
    """The dimension that is the row stride of each operand in memory."""
    return {"A": "M" if layout[0] == "T" else "K", "B": "K" if layout[1] == "T" else "N", "C": "N"}


def _strides(problem: Gemm) -> dict[str, int]:
    """Dimensions that are row strides of B and A in memory, which their layout says, with their sizes."""
    names = stride_dimensions(problem.layout)
    return {names["B"]: int(problem.b_stride[0]), names["A"]: int(problem.a_stride[0])}


def _paddings(problem: Gemm) -> list[tuple[str, tuple[int, int, int]]]:
    """Row strides padded to PAD elements, one or both, where they are not: what is padded, and M, N, K."""
    sizes = {"M": int(problem.m[0]), "N": int(problem.n[0]), "K": int(problem.k[0])}
    up = {name: -(-size // PAD) * PAD for name, size in _strides(problem).items() if size % PAD}
    chosen = [*([name] for name in up), *([list(up)] if len(up) == 2 else [])]
    found = []
    for names in chosen:
        what = " and ".join(f"{name} padded from {sizes[name]} to {up[name]}" for name in names)
        m, n, k = (sizes | {name: up[name] for name in names}).values()
        found.append((what, (m, n, k)))
    return [(what, padded) for what, padded in found if max(padded) <= MAX_DIMENSION]


def _sentences(p: Prediction) -> Iterable[str]:
    """What bounds the launch, and what its shape costs: waves, edges, alignment, each with its own figure."""
    time_s, bound = float(p.time_s[0]), p.bound_by[0]
    alone, saved = float(p.demand[bound][0]), float(p.saved[bound][0])
    yield (
        f"bound by {bound} ({MEANING.get(bound, bound)}): alone {_time(alone)} of {_time(time_s)}; "
        f"free, it would save {_cost(saved, time_s)}"
    )
    yield f"waves: {_waves(p)}: {_verdict(p, 'waves')}"
    yield f"edge: {_edge(p)}: {_verdict(p, 'edge')}"
    yield f"alignment: {_alignment(p)}: {_verdict(p, 'alignment')}"
    costs = {t: float(p.saved[t][0]) / time_s for t in ("waves", "edge", "alignment")}
    worst = max(costs, key=lambda t: costs[t])
    rest = " and ".join(t for t in costs if costs[t] <= WORTH)
    if costs[worst] > WORTH:
        yield f"of its shape, {worst} costs most{f'; {rest} cost nothing to speak of' if rest else ''}"


def _verdict(p: Prediction, term: str) -> str:
    saved, time_s = float(p.saved[term][0]), float(p.time_s[0])
    return f"costs {_cost(saved, time_s)}" if saved > 0.001 * time_s else "costs nothing"


def _cost(saved_s: float, time_s: float) -> str:
    return f"{_time(saved_s)} ({saved_s / time_s:.1%})"


def _waves(p: Prediction) -> str:
    """Tiles over the places for blocks: 1089 tiles = 8 full waves of 132 and a last one of 33."""
    tiles_m, tiles_n = _tiles(p)
    sms, blocks = p.gpu.sm_count, int(p.blocks_per_sm[0])
    slots, tiles = sms * blocks, tiles_m * tiles_n
    full, rest = divmod(tiles, slots)
    places = f"{slots} blocks ({sms} SMs x {blocks})" if blocks > 1 else f"{sms} blocks, one an SM"
    if not rest:
        return f"{tiles} tiles are exactly {full} wave{'s' * (full > 1)} of {places}"
    if not full:
        return f"{tiles} tile{'s do' if tiles > 1 else ' does'} not fill one wave of {places}"
    return f"{tiles} tiles are {full} full wave{'s' * (full > 1)} of {places}, and a last one of {rest}"


def _tiles(p: Prediction) -> tuple[int, int]:
    config = p.config.row(0)
    return -(-int(p.problem.m[0]) // config["bm"]), -(-int(p.problem.n[0]) // config["bn"])


def _edge(p: Prediction) -> str:
    config, (tiles_m, tiles_n) = p.config.row(0), _tiles(p)
    m, n, k = (int(x[0]) for x in (p.problem.m, p.problem.n, p.problem.k))
    covered = (tiles_m * config["bm"], tiles_n * config["bn"], -(-k // config["bk"]) * config["bk"])
    more = covered[0] * covered[1] * covered[2] / (m * n * k) - 1
    if not more:
        return f"{tiles_m} x {tiles_n} tiles cover {m} x {n} x {k} exactly"
    extra = f"{more:.1%} more work than asked" if more < 1 else f"{1 + more:.3g} times the work asked"
    return f"{tiles_m} x {tiles_n} tiles cover {' x '.join(map(str, covered))}, {extra}"


def _alignment(p: Prediction) -> str:
    strides = _strides(p.problem)
    odd = [f"{name} = {size}" for name, size in strides.items() if size % PAD]
    if not odd:
        return f"{' and '.join(strides)} {'are multiples' if len(strides) > 1 else 'is a multiple'} of {PAD}"
    return f"{' and '.join(odd)} {'is' if len(odd) == 1 else 'are'} no multiple of {PAD}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def check_feasible(p: Prediction) -> None:
    """Raise GemmsimError if the first row cannot launch: why, and the nearest configurations that can."""
    if p.feasible[0]:
        return
    key, near = config_key(p.config.row(0)), [config_key(c) for c in nearest(p)]
    hint = f"nearest that {'fit' if len(near) > 1 else 'fits'}: {', '.join(near)}" if near else "none of its space fits"
    raise GemmsimError(f"{p.config.family} {key} cannot launch on {p.gpu.name}: {p.reasons[0]}; {hint}")


def nearest(p: Prediction, count: int = 3) -> list[dict[str, int]]:
    """Configurations that can launch the first row's problem, nearest to its own first; of equally near, the fastest.

    Distance: factors of two in each parameter, weighted so that stages go first and the tile's sides last.
    """
    family, base = p.config.family, p.config.row(0)
    space = _around(family, base)
    m, n, k = (int(x[0]) for x in (p.problem.m, p.problem.n, p.problem.k))
    found = predict(m, n, k, gpu=p.gpu, dtype=p.problem.form, family=family, config=space, l2=p.l2)
    steps = [_STEP.get(name, 1) * np.abs(_log2(v) - _log2(base[name])) for name, v in space.values.items()]
    order = np.lexsort((found.time_s, np.round(sum(steps), 9)))
    return [space.row(int(i)) for i in order[found.feasible[order]][:count]]


def _around(family: str, base: Mapping[str, int]) -> Config:
    """Every combination of the family's choices and the base's own values, where those are few; else the family's space
    and what differs from the base in one or two parameters.
    """
    parameters = families.family(family).PARAMETERS
    own = {q.name: max(q.low, min(q.high, base[q.name])) for q in parameters}
    choices = {q.name: sorted({*q.choices, own[q.name]}) for q in parameters}
    if prod(len(c) for c in choices.values()) <= MOST_COMBINATIONS:
        grid = np.meshgrid(*(np.asarray(c, np.int64) for c in choices.values()), indexing="ij")
        return Config(family, {name: g.ravel() for name, g in zip(choices, grid, strict=True)})
    single = [(name, value) for name in own for value in choices[name]]
    near = [own | {a: x, b: y} for (a, x), (b, y) in combinations(single, 2) if a != b]
    space = families.space(family)
    columns = {n: np.concatenate([np.asarray([row[n] for row in near]), space[n]]) for n in own}
    first, _ = unique_rows(columns)
    return Config(family, columns).take(np.sort(first))


def _log2(value: npt.ArrayLike) -> FloatArray:
    """Base-2 logarithm, a 0 (a switch that is off, no padding) being half of 1."""
    return np.asarray(np.log2(np.maximum(value, 0.5)))
