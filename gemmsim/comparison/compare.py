"""GPUs side by side on the same GEMMs, also with figures of their files changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmsim import families
from gemmsim.comparison.cost import SHORTLIST, Asked, Card, alone, card, trial
from gemmsim.comparison.elasticity import Elasticity, elasticities
from gemmsim.comparison.reasons import Reason, reasons
from gemmsim.conditions import DEFAULT_L2, l2_condition
from gemmsim.config import Config
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model import calibration
from gemmsim.problem import Form, form_of
from gemmsim.ranking import families_of
from gemmsim.whatif import changed_gpu, said_changes
from gemmsim.workload import Product

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Speedup:
    """A GPU against the baseline: how many times faster, and what each group of figures is due of that."""

    label: str
    ratio: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Comparison:
    """What the GEMMs cost on each GPU, the baseline among them; speed-ups of all others over it.

    changes: label -> what was changed there. calibrated: whether coefficients were fitted to measured rows.
    """

    products: tuple[Product, ...]
    cards: tuple[Card, ...]
    baseline: str
    speedups: tuple[Speedup, ...]
    elasticities: tuple[Elasticity, ...]
    changes: Mapping[str, str]
    l2: str
    calibrated: bool
    notes: tuple[str, ...]


def compare(
    what: tuple[int, int, int] | Sequence[Product], *, gpus: Sequence[str], dtype: str | Form = "bf16",
    family: str | None = None, l2: str = DEFAULT_L2, calibrated: str = "auto", baseline: str | None = None,
    what_if: Mapping[str, Mapping[str, float]] | None = None, sensitivity: bool = False,
    spaces: Mapping[str, Config] | None = None, shortlist: int = SHORTLIST,
    progress: Progress = lambda step: None,
) -> Comparison:  # fmt: skip
    """The same GEMMs on several GPUs, each with its own best configurations; no GPU needed.

    what: M, N, K of one GEMM of type `dtype`, or the Products of a workload. family: its name, "all", or None for the
    first with the dtype. baseline: the GPU that speed-ups are over, the first if None. what_if: GPU -> figures of its
    hardware file with other values; each such GPU is there twice, as it is and, with a star, as it would be.
    sensitivity: elasticities of the time of each GPU too. spaces: family -> the configurations to search, the whole
    spaces if None; shortlist: of each GEMM the fastest of them that are tried again for speed-ups and elasticities.
    calibrated: 'auto' takes fitted coefficients only where every GPU and family has its own, since fitted against
    default ones would compare fits, not chips. progress is told of each of `steps`. Raises GemmsimError for wrong
    input, and where no configuration of a GEMM can launch.
    """
    products = _products(what, dtype)
    chips, changes = _chips(gpus, what_if or {})
    name = family or families.families_for(products[0].form.dtype)[0]
    fitted, notes = _fitted(chips, products, name, calibrated, spaces)
    asked = Asked(name, l2_condition(l2), calibrated if fitted or calibrated != "auto" else "none", spaces, shortlist)
    cards = [card(label, gpu, products, asked, progress) for label, gpu in chips.items()]
    first = _baseline(cards, baseline)
    speedups = []
    for one in cards:
        if one is not first:
            speedups.append(_speedup(first, one, asked))
            progress(1)
    slopes: list[Elasticity] = []
    for one in cards if sensitivity else ():
        slopes += elasticities(one, trial((one,), asked))
        progress(1)
    notes += _too_large(products, cards)
    return Comparison(tuple(products), tuple(cards), first.label, tuple(speedups), tuple(slopes), changes, asked.l2,
                      fitted, tuple(notes))  # fmt: skip


def steps(products: int, gpus: int, sensitivity: bool) -> int:
    """How many times `compare` calls its progress function with 1, on so many GPUs, changed ones among them."""
    return gpus * (products + 1 + sensitivity) - 1


def _products(what: tuple[int, int, int] | Sequence[Product], dtype: str | Form) -> list[Product]:
    given: list[Any] = list(what)
    found = given if all(isinstance(x, Product) for x in given) else [alone(given, form_of(dtype))]
    if not found:
        raise GemmsimError("no GEMM is given: expected one or more")
    return found


def _chips(names: Sequence[str], what_if: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, Gpu], dict[str, str]]:
    """The GPUs by label, changed ones after their own, and what is changed."""
    chips: dict[str, Gpu] = {}
    changes: dict[str, str] = {}
    wanted = {load_gpu(name).name: figures for name, figures in what_if.items()}
    for name in names:
        gpu = load_gpu(name)
        if gpu.name in chips:
            raise GemmsimError(f"GPU {gpu.name} is given twice: expected each once")
        chips[gpu.name] = gpu
        if gpu.name in wanted:
            figures = wanted.pop(gpu.name)
            chips[f"{gpu.name}*"] = changed_gpu(name, figures)
            changes[f"{gpu.name}*"] = said_changes(figures)
    if wanted:
        raise unknown("GPU", next(iter(wanted)), chips, where="what is changed")
    if not chips:
        raise GemmsimError("no GPU is given: expected one or more")
    return chips, changes


def _baseline(cards: Sequence[Card], name: str | None) -> Card:
    wanted = cards[0].label if name is None else name
    labels = {one.label: one for one in cards}
    if wanted not in labels:
        wanted = load_gpu(wanted).name
    if wanted not in labels:
        raise unknown("GPU", wanted, labels, where="what is compared")
    return labels[wanted]


def _fitted(
    chips: Mapping[str, Gpu], products: Iterable[Product], family: str, calibrated: str, among: Collection[str] | None
) -> tuple[bool, list[str]]:
    """Whether coefficients are fitted everywhere, and what is to be said where they could be on some GPUs only."""
    kernels = {(name, p.form.dtype) for p in products for name in families_of(family, p.form, among)}
    found = {
        (label, name): calibration.find(gpu, name, calibrated, dtype).fitted
        for label, gpu in chips.items() for name, dtype in sorted(kernels)
    }  # fmt: skip
    if all(found.values()) or calibrated != "auto" or not any(found.values()):
        return all(found.values()), []
    has = ", ".join(dict.fromkeys(f"{name} on {label.rstrip('*')}" for (label, name), ok in found.items() if ok))
    return False, [
        f"{has} has fitted coefficients that are left aside: the other GPUs or families have none, and fitted ones "
        "against defaults would compare fits, not chips"
    ]


def _speedup(base: Card, one: Card, asked: Asked) -> Speedup:
    found = reasons(base.gpu, one.gpu, trial((base, one), asked).time_s, asked.calibrated == "auto")
    return Speedup(one.label, base.time_s / one.time_s, found)


def _too_large(products: Sequence[Product], cards: Sequence[Card]) -> list[str]:
    needed = sum(p.weight_bytes for p in products)
    return [
        f"the weights, {needed / 2**30:.1f} GiB, do not fit {one.label}, which has {one.gpu.dram_bytes / 2**30:.1f} GiB"
        for one in cards if needed > one.gpu.dram_bytes
    ]  # fmt: skip
