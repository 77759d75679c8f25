"""What the newer card buys: each GPU against the one named before it, with gemmsim.comparison's reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gemmsim.comparison.cost import Asked, Card, card, trial
from gemmsim.comparison.reasons import Reason, reasons
from gemmsim.hardware import Gpu
from gemmsim.model.calibration import find
from gemmsim.problem import form_of
from gemmsim.study.picks.plan import PicksStudy
from gemmsim.study.recorded import DEFAULTS, FITTED
from gemmsim.workload import Product

#: a factor that is nearer to 1 is no reason
LEAST_GAIN = 1.02
#: configurations of each GEMM and GPU that are tried again with figures of the other GPU
SHORTLIST = 12


@dataclass(frozen=True)
class Speedup:
    """One pass of a variant on two GPUs, each with its own best tiles, both with coefficients of the same kind.

    reasons: what each group of the chip's figures is due of the ratio; their factors multiply to it.
    """

    variant: str
    dtype: str
    new: str
    old: str
    new_s: float
    old_s: float
    basis: str  # FITTED or DEFAULTS
    reasons: tuple[Reason, ...]

    @property
    def ratio(self) -> float:
        """Older over newer time."""
        return self.old_s / self.new_s

    @property
    def reason(self) -> str:
        """The figures that matter, largest first."""
        told = [r for r in self.reasons if max(r.factor, 1 / r.factor) >= LEAST_GAIN]
        return ", ".join(f"{r.group} {r.factor:.2f}x" for r in told) or "no figure that matters here differs"


def speedups(study: PicksStudy) -> Iterator[Speedup]:
    """Each GPU against the one named before it, a variant and dtype at a time."""
    known: dict[tuple[str, str, str, str], Card] = {}
    for old, new in zip(study.gpus, study.gpus[1:], strict=False):
        for dtype in study.dtypes:
            asked = _asked(study, dtype, (old, new))
            for variant in study.variants:
                cards = []
                for gpu in (old, new):
                    key = (gpu.name, dtype, variant, asked.calibrated)
                    if key not in known:
                        known[key] = card(gpu.name, gpu, _products(study, variant, dtype), asked)
                    cards.append(known[key])
                yield _speedup(variant, dtype, cards[0], cards[1], asked)


def _asked(study: PicksStudy, dtype: str, pair: tuple[Gpu, Gpu]) -> Asked:
    """Fitted coefficients only where both GPUs have them: else fits would be compared, not chips."""
    names = [family for family, d in study.kernels if d == dtype]
    fitted = all(find(gpu, name, "auto", dtype).fitted for gpu in pair for name in names)
    spaces = {name: study.spaces[name] for name in names}
    return Asked("all", study.l2, "auto" if fitted else "none", spaces, SHORTLIST)


def _products(study: PicksStudy, variant: str, dtype: str) -> list[Product]:
    form = form_of(dtype)
    return [Product(variant, w.name, w.m, w.n, w.k, w.count, form) for w in study.works if w.variant == variant]


def _speedup(variant: str, dtype: str, old: Card, new: Card, asked: Asked) -> Speedup:
    fitted = asked.calibrated == "auto"
    found = reasons(old.gpu, new.gpu, trial((old, new), asked).time_s, fitted)
    return Speedup(
        variant, dtype, new.label, old.label, new.time_s, old.time_s, FITTED if fitted else DEFAULTS, found
    )  # fmt: skip
