"""Every feasible configuration of a problem, best first, one vector call a family; cuBLAS' recorded time beside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.families.unique import unique_rows
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.predict import Prediction, check_time, predict
from gemmsim.paths import data_folder
from gemmsim.problem import Form, dtype_name, form_of, gemm

#: configurations whose times differ by less are a tie
TIE = 1e-3
#: parameters that make two configurations different tiles
TILE = ("bm", "bn", "tm", "tn")


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
    time_lo_s: float
    time_hi_s: float
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
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str | Form = "bf16", family: str = "all", top: int | None = 10,
    l2: str = DEFAULT_L2, calibrated: str = "auto", num_sms: int | None = None, without: Iterable[str] = (),
    distinct: bool = False, spaces: Mapping[str, Config] | None = None,
) -> Ranking:  # fmt: skip
    """Every configuration of the family's space (or all families' that have the dtype), fastest first.

    top: how many entries to return, None: all that can launch. distinct: of each block and thread tile the fastest
    alone, so that a shortlist to be timed does not stand and fall with the model's error on one tile. spaces: family ->
    the configurations to rank, in place of all that `family` names. The other options are `predict`'s. Raises
    GemmsimError for wrong input, and where no configuration can launch.
    """
    if top is not None and top < 1:
        raise GemmsimError(f"top = {top}: expected a whole number >= 1")
    chip, form = gpu if isinstance(gpu, Gpu) else load_gpu(gpu), form_of(dtype)
    searched = spaces or {name: families.space(name) for name in families_of(family, form)}
    names = list(searched)
    asked: dict[str, Any] = {
        "gpu": chip, "dtype": form, "l2": l2, "calibrated": calibrated, "num_sms": num_sms, "without": tuple(without),
    }  # fmt: skip
    found = [predict(m, n, k, family=name, config=config, **asked) for name, config in searched.items()]
    for space in found:
        check_time(space.time_s, asked["without"])
    refused = _refused(found)
    entries = _best(m, n, k, found, asked, top, distinct)
    if not entries:
        why = ", ".join(f"{code} {count}" for code, count in refused.items())
        why += f", as {next(filter(None, found[0].reasons))}"
        raise GemmsimError(f"no configuration of {', '.join(names)} can launch {m} x {n} x {k} on {chip.name}: {why}")
    used = found[0].gpu
    plain = used.sm_count == chip.sm_count and form == form_of(form.dtype)
    recorded = cublas(chip.name, form.dtype, m, n, k, l2) if plain else None
    total = sum(len(space) for space in found)
    return Ranking(m, n, k, form.dtype, used, l2, tuple(names), tuple(entries), total, refused, recorded)


def families_of(family: str, form: Form) -> list[str]:
    """The family of that name, or with "all" those that have a kernel for the form. Raises GemmsimError for none."""
    dtype = form.dtype
    if family != "all":
        families.check_dtype(family, dtype)
        return [family]
    names = families.families_for(dtype)
    one = gemm(1, 1, 1, form)
    names = [name for name in names if families.does(name, one)] or names
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
    m: int, n: int, k: int, spaces: Sequence[Prediction], asked: Mapping[str, Any], top: int | None, distinct: bool
) -> list[Entry]:
    """The first entries over all spaces, with terms computed for them alone."""
    times = np.concatenate([s.time_s for s in spaces])
    order = np.argsort(times, kind="stable")[: int(np.isfinite(times).sum())]
    if distinct:
        _, first = np.unique(_tiles(spaces)[order], return_index=True)
        order = order[np.sort(first)]
    order = order[:top]
    bounds = np.cumsum([0, *(len(s) for s in spaces)])
    entries: dict[int, Entry] = {}
    ranks = _ranks(times[order])
    sizes = Counter(ranks)
    for space, start, end in zip(spaces, bounds, bounds[1:], strict=False):
        places = np.flatnonzero((order >= start) & (order < end))
        if not len(places):
            continue
        config = space.config.take(order[places] - start)
        p = predict(m, n, k, family=config.family, config=config, terms=True, **asked)
        rows = _entries(p, [ranks[i] for i in places], [sizes[ranks[i]] > 1 for i in places], float(times[order[0]]))
        entries |= dict(zip(places.tolist(), rows, strict=True))
    return [entries[place] for place in sorted(entries)]


def _tiles(spaces: Sequence[Prediction]) -> npt.NDArray[np.int64]:
    """A number for the block and thread tile of each configuration, no two families sharing one."""
    numbers, used = [], 0
    for space in spaces:
        _, tile = unique_rows({name: space.config[name] for name in TILE if name in space.config.values})
        numbers.append(used + tile)
        used += int(tile.max()) + 1
    return np.concatenate(numbers)


def _ranks(times: npt.NDArray[np.float64]) -> list[int]:
    """Rank of each sorted time; those within TIE of the first of their rank share it."""
    ranks: list[int] = []
    for place, time_s in enumerate(times.tolist()):
        tie = place > 0 and time_s < times[ranks[-1] - 1] * (1 + TIE)
        ranks.append(ranks[-1] if tie else place + 1)
    return ranks


def _entries(p: Prediction, places: Sequence[int], tied: Sequence[bool], best_s: float) -> Iterator[Entry]:
    """One entry a row of a prediction with terms."""
    numbers = ("time_s", "tflops", "waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes")
    columns = {name: getattr(p, name).tolist() for name in numbers}
    columns |= {"time_lo_s": p.interval_s[0].tolist(), "time_hi_s": p.interval_s[1].tolist()}
    bounds, limiters, outside, launch = p.bound_by, p.limited_by_names, p.extrapolated, p.launch
    for i in range(len(p)):
        config = p.config.row(i)
        yield Entry(
            rank=places[i], tied=tied[i], family=p.config.family, key=config_key(config), config=config,
            share=best_s / columns["time_s"][i], bound_by=bounds[i], blocks_per_sm=int(p.blocks_per_sm[i]),
            limited_by=limiters[i], regs_per_thread=int(launch.regs_per_thread[i]),
            spill_bytes=float(launch.spill_bytes[i]), smem_bytes=int(launch.smem_bytes[i]),
            calibration=p.calibration.name, extrapolated=bool(outside[i]),
            demand={t: float(v[i]) for t, v in p.demand.items()}, saved={t: float(v[i]) for t, v in p.saved.items()},
            **{name: column[i] for name, column in columns.items()},
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
