"""Choosing: every feasible configuration of a problem best first, why one takes its time, and what would help most.

rank       every configuration of the families' spaces in one vector call; terms for the first ones only
explain    one configuration: time split, sentences, and every single change with what it gains
nearest    for a configuration that cannot launch, the nearest ones that can
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.demand import TERMS
from gemmsim.model.predict import Prediction, predict
from gemmsim.paths import data_folder
from gemmsim.problem import dtype_name

#: configurations whose times differ by less are a tie
TIE = 1e-3
#: a change that gains less is not worth naming
WORTH = 0.01
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
class Entry:
    """One configuration in a ranking. Entries of the same rank are a tie; share is the best time over this one's."""

    rank: int
    tied: bool
    family: str
    key: str
    config: Mapping[str, int]
    share: float
    time_s: float
    tflops: float
    bound_by: str
    blocks_per_sm: int
    limited_by: str
    waves: float
    dram_read_bytes: float
    dram_write_bytes: float
    l2_read_bytes: float
    regs_per_thread: int
    spill_bytes: float
    smem_bytes: int
    calibration: str
    extrapolated: bool
    demand: Mapping[str, float]
    saved: Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """A measured time, and the L2 condition it was measured under."""

    time_s: float
    l2: str


@dataclass(frozen=True)
class Ranking:
    """The first entries of a ranking; how many configurations there were, and how many were refused, by code."""

    m: int
    n: int
    k: int
    dtype: str
    gpu: Gpu
    l2: str
    families: tuple[str, ...]
    entries: tuple[Entry, ...]
    configurations: int
    refused: Mapping[str, int]
    cublas: Recorded | None

    @property
    def feasible(self) -> int:
        """How many configurations can launch."""
        return self.configurations - sum(self.refused.values())


def rank(
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str = "bf16", family: str = "all", top: int | None = 10,
    l2: str = DEFAULT_L2, calibrated: str = "auto", num_sms: int | None = None, without: Iterable[str] = (),
) -> Ranking:  # fmt: skip
    """Every configuration of the family's space (or all families' that have the dtype), fastest first.

    top: how many entries to return, None: all that can launch. The other options are `predict`'s. Raises GemmsimError
    for wrong input, and where no configuration can launch.
    """
    if top is not None and top < 1:
        raise GemmsimError(f"top = {top}: expected a whole number >= 1")
    chip, dtype = gpu if isinstance(gpu, Gpu) else load_gpu(gpu), dtype_name(dtype)
    names = _families(family, dtype)
    asked: dict[str, Any] = {
        "gpu": chip, "dtype": dtype, "l2": l2, "calibrated": calibrated, "num_sms": num_sms, "without": tuple(without),
    }  # fmt: skip
    spaces = [predict(m, n, k, family=name, config=families.space(name), **asked) for name in names]
    refused = _refused(spaces)
    entries = _best(m, n, k, spaces, asked, top)
    if not entries:
        why = ", ".join(f"{code} {count}" for code, count in refused.items())
        raise GemmsimError(f"no configuration of {', '.join(names)} can launch {m} x {n} x {k} on {chip.name}: {why}")
    used = spaces[0].gpu
    recorded = cublas(chip.name, dtype, m, n, k, l2) if used.sm_count == chip.sm_count else None
    total = sum(len(s) for s in spaces)
    return Ranking(m, n, k, dtype, used, l2, tuple(names), tuple(entries), total, refused, recorded)


def _families(family: str, dtype: str) -> list[str]:
    if family != "all":
        families.check_dtype(family, dtype)
        return [family]
    names = families.families_for(dtype)
    if not names:
        have = "; ".join(f"{f} has {', '.join(families.family(f).DTYPES)}" for f in families.FAMILIES)
        raise GemmsimError(f"no family has a {dtype} kernel: {have}")
    return names


def _refused(spaces: Sequence[Prediction]) -> dict[str, int]:
    """How many configurations each code refuses, most first."""
    counts: dict[str, int] = {}
    for p in spaces:
        rules, found = np.unique(p.refusals.rule[~p.feasible], return_counts=True)
        for rule, count in zip(rules.tolist(), found.tolist(), strict=True):
            code = p.refusals.rules[rule].code
            counts[code] = counts.get(code, 0) + count
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _best(
    m: int, n: int, k: int, spaces: Sequence[Prediction], asked: Mapping[str, Any], top: int | None
) -> list[Entry]:
    """The first entries over all spaces, with terms computed for them alone."""
    times = np.concatenate([s.time_s for s in spaces])
    order = np.argsort(times, kind="stable")[: int(np.isfinite(times).sum())][:top]
    bounds = np.cumsum([0, *(len(s) for s in spaces)])
    entries: dict[int, Entry] = {}
    ranks = _ranks(times[order])
    for space, start, end in zip(spaces, bounds, bounds[1:], strict=False):
        places = np.flatnonzero((order >= start) & (order < end))
        if not len(places):
            continue
        config = space.config.take(order[places] - start)
        p = predict(m, n, k, family=config.family, config=config, terms=True, **asked)
        for i, place in enumerate(places.tolist()):
            entries[place] = _entry(p, i, ranks[place], ranks.count(ranks[place]) > 1, float(times[order[0]]))
    return [entries[place] for place in sorted(entries)]


def _ranks(times: npt.NDArray[np.float64]) -> list[int]:
    """Rank of each sorted time; those within TIE of the first of their rank share it."""
    ranks: list[int] = []
    for place, time_s in enumerate(times.tolist()):
        tie = place > 0 and time_s < times[ranks[-1] - 1] * (1 + TIE)
        ranks.append(ranks[-1] if tie else place + 1)
    return ranks


def _entry(p: Prediction, i: int, place: int, tied: bool, best_s: float) -> Entry:
    numbers = ("time_s", "tflops", "waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes")
    launch = p.launch
    return Entry(
        rank=place, tied=tied, family=p.config.family, key=config_key(p.config.row(i)), config=p.config.row(i),
        share=best_s / float(p.time_s[i]), bound_by=p.bound_by[i], blocks_per_sm=int(p.blocks_per_sm[i]),
        limited_by=p.limited_by_names[i], regs_per_thread=int(launch.regs_per_thread[i]),
        spill_bytes=float(launch.spill_bytes[i]), smem_bytes=int(launch.smem_bytes[i]),
        calibration=p.calibration.name, extrapolated=bool(p.extrapolated[i]),
        demand={t: float(v[i]) for t, v in p.demand.items()}, saved={t: float(v[i]) for t, v in p.saved.items()},
        **{name: float(getattr(p, name)[i]) for name in numbers},
    )  # fmt: skip


def cublas(gpu: str, dtype: str, m: int, n: int, k: int, l2: str = DEFAULT_L2) -> Recorded | None:
    """cuBLAS' recorded time for exactly this problem on this GPU, in the asked L2 condition if there is one, or None.

    Rows: studies/*/cublas.csv.gz (one condition, column l2) and cublas_conditions.csv.gz (all three). A median over
    twice the minimum is a disturbed measurement; the minimum then counts.
    """
    wanted = (gpu, dtype, str(m), str(n), str(k))
    if l2 != "cold_dirty":
        exact = _row("cublas_conditions.csv.gz", wanted)
        if exact and exact.get(f"{l2}_s"):
            return Recorded(float(exact[f"{l2}_s"]), l2)
    row = _row("cublas.csv.gz", wanted)
    if row is None:
        return None
    median, least = float(row["median_s"]), float(row["min_s"])
    return Recorded(least if median > 2 * least else median, row["l2"])


def _row(name: str, wanted: tuple[str, ...]) -> dict[str, str] | None:
    """The recorded row with this gpu, dtype, m, n, k; None if there is none."""
    from gemmsim.rows import read_csv

    for path in sorted(data_folder("studies").glob(f"*/{name}")):
        table = read_csv(str(path))
        names = {text: dtype_name(text) for text in set(table.text("dtype"))}
        keys = zip(*(table.text(c) for c in ("gpu", "dtype", "m", "n", "k")), strict=True)
        for i, (gpu, dtype, *sizes) in enumerate(keys):
            if (gpu, names[dtype], *sizes) == wanted:
                return {column: cells[i] for column, cells in table.columns.items()}
    return None


@dataclass(frozen=True)
class Term:
    """One term of the time: what it would take alone, what the launch would gain with it free; shares of the time."""

    name: str
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
    """Why a configuration takes its time. `changes`: every single change, best first; `best` is the first worth it."""

    prediction: Prediction
    key: str
    terms: tuple[Term, ...]
    sentences: tuple[str, ...]
    changes: tuple[Change, ...]
    best: Change | None
    advice: str


def explain(
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str = "bf16", family: str = "triton",
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
    changes = _changes(p, asked)
    best = changes[0] if changes and changes[0].gain_share > WORTH else None
    return Explanation(p, config_key(p.config.row(0)), _terms(p), tuple(_sentences(p)), changes, best, _advice(best))


def _terms(p: Prediction) -> tuple[Term, ...]:
    time_s = float(p.time_s[0])
    rows = ((t, float(p.demand[t][0]), float(p.saved[t][0])) for t in TERMS)
    return tuple(Term(t, d, d / time_s, s, s / time_s, MEANING.get(t, "")) for t, d, s in rows)


def _advice(best: Change | None) -> str:
    if best is None:
        return "no single change gains more than 1 %"
    return f"{best.what}: {_time(best.time_s)}, {best.gain_share:.1%} less time"


def _changes(p: Prediction, asked: Mapping[str, Any]) -> tuple[Change, ...]:
    """Every single change that can launch, with its predicted time, best first."""
    m, n, k = int(p.problem.m[0]), int(p.problem.n[0]), int(p.problem.k[0])
    base, time_s = p.config.row(0), float(p.time_s[0])
    whats, sizes, configs = [], [], []
    for name, value in _neighbours(p.config.family, base):
        whats.append(f"{name} {value} instead of {base[name]}")
        sizes.append((m, n, k))
        configs.append(base | {name: value})
    for what, padded in _paddings(n, k):
        whats.append(what)
        sizes.append((m, *padded))
        configs.append(base)
    config = {name: np.asarray([c[name] for c in configs]) for name in base}
    q = predict(*np.asarray(sizes).T, gpu=p.gpu, config=config, **asked)
    found = [
        Change(what, t, time_s - t, 1 - t / time_s)
        for what, t in zip(whats, q.time_s.tolist(), strict=True)
        if np.isfinite(t)
    ]
    return tuple(sorted(found, key=lambda c: c.time_s))


def _neighbours(family: str, base: Mapping[str, int]) -> list[tuple[str, int]]:
    parameters = families.family(family).PARAMETERS
    return [(p.name, value) for p in parameters for value in p.choices if value != base[p.name]]


def _paddings(n: int, k: int) -> list[tuple[str, tuple[int, int]]]:
    """Row strides padded to PAD elements: N, K, or both, where they are not."""
    up_n, up_k = -(-n // PAD) * PAD, -(-k // PAD) * PAD
    pad_n, pad_k = f"N padded from {n} to {up_n}", f"K padded from {k} to {up_k}"
    found = [(pad_n, (up_n, k))] if up_n > n else []
    found += [(pad_k, (n, up_k))] if up_k > k else []
    return [*found, (f"{pad_n} and {pad_k}", (up_n, up_k))] if len(found) == 2 else found


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
        return f"{tiles} tiles do not fill one wave of {places}"
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
    return f"{tiles_m} x {tiles_n} tiles cover {' x '.join(map(str, covered))}, {more:.1%} more work than asked"


def _alignment(p: Prediction) -> str:
    sizes = {"N": int(p.problem.n[0]), "K": int(p.problem.k[0])}
    odd = [f"{name} = {size}" for name, size in sizes.items() if size % PAD]
    if not odd:
        return f"N and K are multiples of {PAD}"
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
    parameters = families.family(family).PARAMETERS
    choices = [sorted({*q.choices, max(q.low, min(q.high, base[q.name]))}) for q in parameters]
    grid = np.meshgrid(*(np.asarray(c, np.int64) for c in choices), indexing="ij")
    space = Config(family, {q.name: g.ravel() for q, g in zip(parameters, grid, strict=True)})
    m, n, k = (int(x[0]) for x in (p.problem.m, p.problem.n, p.problem.k))
    found = predict(m, n, k, gpu=p.gpu, dtype=p.problem.dtype, family=family, config=space, l2=p.l2)
    steps = [_STEP.get(name, 1) * np.abs(np.log2(v / base[name])) for name, v in space.values.items()]
    order = np.lexsort((found.time_s, np.round(sum(steps), 9)))
    return [space.row(int(i)) for i in order[found.feasible[order]][:count]]
