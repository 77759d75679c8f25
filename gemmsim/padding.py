"""What padding a GEMM's sizes or row strides is predicted to gain and wastes, and why; or that it gains nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.explanation import MEANING, PAD, WORTH, stride_dimensions
from gemmsim.hardware import Gpu
from gemmsim.model.calibration import UNCALIBRATED
from gemmsim.problem import MAX_DIMENSION, Form, Gemm, form_of, gemm
from gemmsim.ranking import Entry, families_of, rank

#: sizes are padded to the next multiples of these
MULTIPLES = (8, 16, 64, 128)
#: bytes that one load of a thread, or TMA's step from row to row, wants a row stride to be a multiple of
WIDEST = 16
#: a smaller size is named where it takes off no more than this part of a dimension
MOST_SHRINK = 0.1
GAIN, UNCERTAIN, NONE, FREE = "gain", "uncertain", "no gain", "free"


@dataclass(frozen=True)
class Candidate:
    """One problem of other sizes, with its own best configuration, against the problem as asked.

    kind: multiple (padded to one), room (the largest that takes as many waves, where that takes no longer) or smaller
    (one wave fewer: no padding, but what fewer rows or columns would gain). gain_share: of the time, negative where it
    takes longer; its low and high end as if the intervals of both times erred apart. verdict: gain (the intervals do
    not meet), uncertain (they overlap), no gain (no more than explanation.WORTH), free (of room).
    """

    kind: str
    dimension: str  # "K", "N and K"
    found: str  # its size: "588"
    padded: str  # "592"
    m: int
    n: int
    k: int
    family: str
    key: str
    time_s: float
    time_lo_s: float
    time_hi_s: float
    gain_s: float
    gain_share: float
    gain_lo_share: float
    gain_hi_share: float
    verdict: str
    more_flops_share: float
    more_bytes: int
    cause: str


@dataclass(frozen=True)
class Stride:
    """The row stride of an operand in memory, padded alone: its rows lie further apart, and M, N, K stay."""

    operand: str
    dimension: str
    elements: int
    bytes: int
    multiple_of: int  # bytes, a power of two up to WIDEST
    padded: int  # elements
    more_bytes: int
    time_s: float | None
    gain_share: float
    verdict: str
    cause: str


@dataclass(frozen=True)
class Padding:
    """What padding a problem gains. best: the candidate to take, None where no gain is predicted."""

    problem: Gemm
    gpu: Gpu
    l2: str
    base: Entry
    candidates: tuple[Candidate, ...]
    strides: tuple[Stride, ...]
    best: Candidate | None
    advice: str


@dataclass(frozen=True)
class _Case:
    """The problem as asked, its best configuration, and what every prediction has in common."""

    sizes: Mapping[str, int]
    form: Form
    base: Entry
    gpu: Gpu
    refused: Mapping[str, int]
    asked: Mapping[str, Any]

    def loose(self, operand: str, size: int) -> bool:
        """Whether rows of an operand lie no multiple of WIDEST bytes and PAD elements apart, with this row stride."""
        return bool(size % PAD or size * self.width(operand) % WIDEST)

    def width(self, operand: str) -> int:
        """Bytes of an element."""
        problem = gemm(1, 1, 1, self.form)
        return {"A": problem.a_bytes, "B": problem.b_bytes, "C": problem.c_bytes}[operand]

    def mended(self, name: str) -> list[str]:
        """The operands that are loaded by rows as far apart as this dimension, and whose rows lie loose."""
        names = stride_dimensions(self.form.layout)
        return [o for o in "AB" if names[o] == name and self.loose(o, self.sizes[name])]


def pad(
    m: int, n: int, k: int, *, gpu: str | Gpu, dtype: str | Form = "bf16", family: str | None = None,
    l2: str = DEFAULT_L2, calibrated: str = "auto", num_sms: int | None = None,
    spaces: Mapping[str, Config] | None = None,
) -> Padding:  # fmt: skip
    """Sizes padded to multiples and to the edges of waves, and row strides padded alone: gain, waste and cause of each.

    Each problem takes the best configuration of its own. family: its name, "all", or None for the first with the
    dtype; spaces: family -> the configurations to take the best of, in place of all that `family` names. The other
    options are `predict`'s. Raises GemmsimError for wrong input, and where nothing can launch.
    """
    form = form_of(dtype)
    asked: dict[str, Any] = {
        "dtype": form, "family": family or families.families_for(form.dtype)[0], "l2": l2, "calibrated": calibrated,
        "num_sms": num_sms, "spaces": spaces,
    }  # fmt: skip
    ranking = rank(m, n, k, gpu=gpu, top=1, **asked)
    case = _Case({"M": m, "N": n, "K": k}, form, ranking.entries[0], ranking.gpu, ranking.refused,
                 asked | {"gpu": gpu})  # fmt: skip
    candidates = tuple(c for kind, sizes in _problems(case) if _worth(c := _candidate(case, kind, sizes)))
    best = _best(candidates)
    return Padding(gemm(m, n, k, form), ranking.gpu, l2, case.base, candidates, tuple(_strides(case)), best,
                   _advice(case, best))  # fmt: skip


def _problems(case: _Case) -> Iterator[tuple[str, dict[str, int]]]:
    """Kind and M, N, K of what is tried: each dimension, the row strides of A and B together, edges of waves."""
    sizes, seen = case.sizes, {tuple(case.sizes.values())}
    names = stride_dimensions(case.form.layout)
    both = list(dict.fromkeys((names["A"], names["B"])))
    tried = [("multiple", {name: up}) for name in sizes for up in _multiples(sizes[name])]
    if len(both) == 2:
        ups = product(*(_multiples(sizes[name]) for name in both))
        tried += [("multiple", dict(zip(both, up, strict=True))) for up in ups if _unit(up[0]) == _unit(up[1])]
    tried += _edges(case)
    for kind, changed in tried:
        found = {**sizes, **changed}
        if tuple(found.values()) not in seen and max(found.values()) <= MAX_DIMENSION:
            seen.add(tuple(found.values()))
            yield kind, found


def _multiples(size: int) -> list[int]:
    """The next multiples of MULTIPLES above a size that is none of them."""
    return sorted({-(-size // unit) * unit for unit in MULTIPLES if size % unit})


def _unit(size: int) -> int:
    """The largest of MULTIPLES that divides a size."""
    return max((unit for unit in MULTIPLES if size % unit == 0), default=1)


def _edges(case: _Case) -> Iterator[tuple[str, dict[str, int]]]:
    """Sizes at which the best configuration's tiles fill their last wave, and at which they need one wave less."""
    tile, batch = case.base.config, case.form.batch
    tiles = {name: ceil(case.sizes[name] / tile[side]) for name, side in (("M", "bm"), ("N", "bn"))}
    slots = case.gpu.sm_count * case.base.blocks_per_sm
    waves = ceil(prod(tiles.values()) * batch / slots)
    for name, side, other in (("M", "bm", "N"), ("N", "bn", "M")):
        for kind, count in (("room", waves), ("smaller", waves - 1)):
            edge = count * slots // (tiles[other] * batch) * tile[side]
            size = case.sizes[name]
            if edge > size if kind == "room" else (1 - MOST_SHRINK) * size <= edge < size:
                yield kind, {name: edge}


def _worth(c: Candidate) -> bool:
    """Edges of waves are named only where they are some: room that is free, a wave that is worth its rows."""
    return {"multiple": True, "room": c.verdict == FREE, "smaller": c.gain_share > WORTH}[c.kind]


def _candidate(case: _Case, kind: str, sizes: Mapping[str, int]) -> Candidate:
    m, n, k = sizes.values()
    entry = rank(m, n, k, top=1, **case.asked).entries[0]
    before, after = (gemm(of["M"], of["N"], of["K"], case.form) for of in (case.sizes, sizes))
    changed = [name for name in sizes if sizes[name] != case.sizes[name]]
    gain = 1 - entry.time_s / case.base.time_s
    return Candidate(
        kind, " and ".join(changed), " and ".join(str(case.sizes[c]) for c in changed),
        " and ".join(str(sizes[c]) for c in changed), m, n, k, entry.family, entry.key, entry.time_s, entry.time_lo_s,
        entry.time_hi_s, case.base.time_s - entry.time_s, gain,
        1 - entry.time_hi_s / case.base.time_lo_s, 1 - entry.time_lo_s / case.base.time_hi_s,
        _verdict(kind, case.base, entry),
        float(after.flops[0] / before.flops[0]) - 1, int(after.compulsory_bytes[0] - before.compulsory_bytes[0]),
        _cause(case, kind, changed, entry),
    )  # fmt: skip


def _verdict(kind: str, base: Entry, entry: Entry) -> str:
    """A gain is one where the padded problem's slowest is faster than the fastest of the one as asked.

    Fitted coefficients of one kernel against another's defaults would compare fits: no such gain is certain.
    """
    gain = 1 - entry.time_s / base.time_s
    if kind == "room":
        return FREE if abs(gain) <= WORTH else NONE
    if gain <= WORTH:
        return NONE
    alike = (base.calibration == UNCALIBRATED) == (entry.calibration == UNCALIBRATED)
    return GAIN if alike and entry.time_hi_s < base.time_lo_s else UNCERTAIN


def _cause(case: _Case, kind: str, changed: Sequence[str], entry: Entry) -> str:
    """What the change mends, or why it mends nothing."""
    mended = [(name, operand) for name in changed for operand in case.mended(name)]
    matters = case.base.saved["alignment"] > WORTH * case.base.time_s
    if kind == "room":
        return f"wave edge: the last wave of {case.base.key} has room up to here"
    if entry.time_s < (1 - WORTH) * case.base.time_s:
        return "; ".join(_gains(case, mended if matters else [], entry))
    if not mended:
        names = stride_dimensions(case.form.layout)
        loaded = set(changed) & {names["A"], names["B"]}
        return "rows are loaded 16 B at a time already" if loaded else "it is no row stride of A or B"
    return f"still no multiple of {PAD} elements" if matters else "the row strides are no limit"


def _gains(case: _Case, mended: Sequence[tuple[str, str]], entry: Entry) -> Iterator[str]:
    """Why the other sizes are faster: row strides, a kernel that can launch, fewer waves, or the term that shrinks."""
    base = case.base
    for name, operand in mended:
        size = case.sizes[name] * case.width(operand)
        yield f"alignment: rows of {operand} lie {size} B apart (stride {name}), a multiple of {_power(size)} B alone"
    if entry.family != base.family:
        tma = any(code.startswith("stride_") for code in case.refused)
        yield f"{entry.family} is then the fastest" + (", whose TMA takes multiples of 16 B alone" if tma else "")
    elif not mended and ceil(entry.waves) < ceil(base.waves):
        yield f"wave edge: {ceil(entry.waves)} instead of {ceil(base.waves)} waves"
    elif not mended:
        term = max(base.saved, key=lambda t: base.saved[t] - entry.saved[t])
        yield f"less time lost to {term}: {MEANING[term]}"


def _power(value: int) -> int:
    """The largest power of two that divides it, up to WIDEST."""
    return min(value & -value, WIDEST)


def _best(candidates: Sequence[Candidate]) -> Candidate | None:
    """Of the padded problems that gain, the one that wastes least among those within WORTH of the fastest."""
    gaining = [c for c in candidates if c.kind == "multiple" and c.verdict in (GAIN, UNCERTAIN)]
    if not gaining:
        return None
    fastest = min(c.time_s for c in gaining)
    near = [c for c in gaining if c.time_s <= (1 + WORTH) * fastest]
    return min(near, key=lambda c: (c.more_flops_share, c.time_s))


def _advice(case: _Case, best: Candidate | None) -> str:
    if best is None:
        return "no gain predicted: no padded size is faster by more than 1 %"
    text = f"pad {best.dimension} from {best.found} to {best.padded}: {best.gain_share:.1%} less time predicted"
    if best.verdict == UNCERTAIN:
        text += ", uncertain: the intervals of both times overlap, so measure before you change anything"
    return f"{text}; {best.cause}"


def _strides(case: _Case) -> Iterator[Stride]:
    """The row stride of A, B and C padded to WIDEST bytes and PAD elements, sizes as they are."""
    names = stride_dimensions(case.form.layout)
    rows = {"A": {"M": "K", "K": "M"}[names["A"]], "B": {"N": "K", "K": "N"}[names["B"]], "C": "M"}
    loose = [o for o in "AB" if case.loose(o, case.sizes[names[o]])]
    aligned_s = _aligned_time(case) if loose else None
    for operand, name in names.items():
        size, width = case.sizes[name], case.width(operand)
        padded = -(-size // PAD) * PAD
        more = (padded - size) * width * case.sizes[rows[operand]] * case.form.batch
        time_s = aligned_s if operand in loose else None
        gain = 0.0 if time_s is None else max(0.0, 1 - time_s / case.base.time_s)
        yield Stride(
            operand, name, size, size * width, _power(size * width), padded, more, time_s, gain,
            UNCERTAIN if gain > WORTH else NONE, _stride_cause(case, operand, loose, gain),
        )  # fmt: skip


def _aligned_time(case: _Case) -> float | None:
    """Time with every row stride aligned and the sizes as they are, of the kernels that load by the stride."""
    spaces = case.asked["spaces"]
    names = spaces or families_of(case.asked["family"], case.form)
    times = []
    for name in [name for name in names if not _masks_by_size(name)]:
        with suppress(GemmsimError):  # a kernel that cannot launch this problem
            m, n, k = case.sizes.values()
            alone = {"family": name, "spaces": spaces and {name: spaces[name]}}
            found = rank(m, n, k, top=1, without=["alignment"], **{**case.asked, **alone})
            times.append(found.entries[0].time_s)
    return min(times, default=None)


def _masks_by_size(family: str) -> bool:
    return bool(getattr(families.family(family), "MASKS_BY_SIZE", False))


def _stride_cause(case: _Case, operand: str, loose: Sequence[str], gain: float) -> str:
    if operand == "C":
        return "the model knows no cost of C's row stride apart from N"
    if operand not in loose:
        return f"rows lie a multiple of {WIDEST} B and {PAD} elements apart already"
    if gain > WORTH:
        return "vector width: rows can then be loaded 16 B at a time" + (", A and B together" if len(loose) > 1 else "")
    if _masks_by_size(case.base.family):
        return f"{case.base.family} masks its loads by the size itself: pad the dimension"
    return "wider loads gain nothing here"
