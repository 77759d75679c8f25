"""What a list of GEMMs costs on one GPU, each with its best configuration, and quickly again on one that differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.model.predict import predict
from gemmsim.problem import FloatArray, Form, IntArray
from gemmsim.ranking import Entry, rank
from gemmsim.workload import Product

#: configurations of each GEMM on each GPU, the fastest, that are tried again where figures of the GPU are changed
SHORTLIST = 32


@dataclass(frozen=True)
class Asked:
    """What holds for every prediction of a comparison. calibrated: 'auto', 'none' or a file; spaces: as of `rank`.

    shortlist: configurations of each GEMM that are tried again where figures are changed.
    """

    family: str
    l2: str
    calibrated: str
    spaces: Mapping[str, Config] | None = None
    shortlist: int = SHORTLIST


@dataclass(frozen=True)
class Pick:
    """The best configuration of one GEMM on one GPU: `entry`, of one launch, which is made `product.count` times."""

    product: Product
    entry: Entry
    shortlist: tuple[Entry, ...]

    @property
    def time_s(self) -> float:
        """Of all launches."""
        return self.product.count * self.entry.time_s


@dataclass(frozen=True)
class Card:
    """A GPU of a comparison and what the GEMMs cost on it. label: its name; with a star where figures are changed."""

    label: str
    gpu: Gpu
    picks: tuple[Pick, ...]

    @property
    def time_s(self) -> float:
        """Of all launches of all GEMMs, one after the other."""
        return sum(p.time_s for p in self.picks)

    @property
    def interval_s(self) -> tuple[float, float]:
        """The sums of the low and of the high ends of each launch's interval: as if all erred to one side."""
        return (
            sum(p.product.count * p.entry.time_lo_s for p in self.picks),
            sum(p.product.count * p.entry.time_hi_s for p in self.picks),
        )

    @property
    def flops_per_s(self) -> float:
        """FLOPs of all launches over the time."""
        return sum(p.product.flops for p in self.picks) / self.time_s

    @property
    def energy_j(self) -> float:
        """An estimate from above: the board's power limit (tdp_w) times the time. A kernel may draw less."""
        return self.gpu.tdp_w * self.time_s

    @property
    def bounds(self) -> Mapping[str, float]:
        """Share of the time in launches that each term bounds, most first."""
        found: dict[str, float] = defaultdict(float)
        for pick in self.picks:
            found[pick.entry.bound_by] += pick.time_s / self.time_s
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def bound_by(self) -> str:
        """The term that bounds most of the time."""
        return next(iter(self.bounds))

    @property
    def calibrations(self) -> tuple[str, ...]:
        """Names of the coefficients used, each once."""
        return tuple(dict.fromkeys(p.entry.calibration for p in self.picks))

    @property
    def extrapolated(self) -> bool:
        """Whether a pick lies outside the rows that its coefficients were fitted on."""
        return any(p.entry.extrapolated for p in self.picks)


def card(
    label: str, gpu: Gpu, products: Sequence[Product], asked: Asked, progress: Callable[[int], object] = lambda n: None
) -> Card:
    """The best configuration of each GEMM. Raises GemmsimError, naming the GEMM, where none can launch."""
    picks = []
    for product in products:
        picks.append(_pick(gpu, product, asked))
        progress(1)
    return Card(label, gpu, tuple(picks))


def _pick(gpu: Gpu, p: Product, asked: Asked) -> Pick:
    try:
        found = rank(p.m, p.n, p.k, gpu=gpu, dtype=p.form, family=asked.family, top=asked.shortlist, l2=asked.l2,
                     calibrated=asked.calibrated, spaces=asked.spaces)  # fmt: skip
    except GemmsimError as error:
        raise GemmsimError(f"GEMM {p.name}: {error}" if p.name else str(error)) from None
    return Pick(p, found.entries[0], found.entries)


@dataclass(frozen=True)
class _Rows:
    """Configurations of one family for GEMMs of one form; which: position of a row's GEMM."""

    family: str
    form: Form
    which: IntArray
    sizes: npt.NDArray[np.int64]  # m, n, k by row
    config: Config


@dataclass(frozen=True)
class Trial:
    """The shortlists of some cards for the same GEMMs: what is tried on a GPU with changed figures."""

    rows: tuple[_Rows, ...]
    counts: FloatArray
    asked: Asked

    def time_s(self, gpu: Gpu) -> float:
        """Of all launches, each GEMM with the fastest of its shortlists; infinite where none can launch."""
        best = np.full(len(self.counts), np.inf)
        for rows in self.rows:
            p = predict(*rows.sizes, gpu=gpu, dtype=rows.form, family=rows.family, config=rows.config,
                        l2=self.asked.l2, calibrated=self.asked.calibrated)  # fmt: skip
            np.fmin.at(best, rows.which, p.time_s)
        return float(best @ self.counts)


def trial(cards: Sequence[Card], asked: Asked) -> Trial:
    """A Trial of the shortlists of all cards, which hold the same GEMMs in the same order."""
    found: dict[tuple[str, Form], dict[tuple[int, str], Entry]] = defaultdict(dict)
    for one in cards:
        for which, pick in enumerate(one.picks):
            for entry in pick.shortlist:
                found[entry.family, pick.product.form][which, entry.key] = entry
    products = [pick.product for pick in cards[0].picks]
    rows = tuple(_rows(family, form, of, products) for (family, form), of in found.items())
    return Trial(rows, np.asarray([p.count for p in products], np.float64), asked)


def _rows(family: str, form: Form, of: Mapping[tuple[int, str], Entry], products: Sequence[Product]) -> _Rows:
    which = np.asarray([i for i, _ in of], np.int64)
    sizes = np.asarray([(products[i].m, products[i].n, products[i].k) for i in which], np.int64).T
    entries: Iterable[Entry] = of.values()
    columns = {name: np.asarray([e.config[name] for e in entries], np.int64) for name in next(iter(entries)).config}
    return _Rows(family, form, which, sizes, Config(family, columns))


def alone(size: Sequence[int], form: Form) -> Product:
    """One GEMM of size M, N, K, launched once. Raises GemmsimError for what is no size or type."""
    if len(size) != 3:
        raise GemmsimError(f"a GEMM of size {tuple(size)}: expected M, N and K")
    m, n, k = size
    found = Product("", "", m, n, k, 1, form, weight=False)
    found.gemm  # noqa: B018 - refuses what is none
    return found
