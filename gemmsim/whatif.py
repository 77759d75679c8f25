"""What if a GPU had another bandwidth, more SMs, a larger L2: a Gpu with figures of its file changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import Gpu, load_figures, load_gpu
from gemmsim.hwfields import ARCH, GPU, LISTS, Document, Figure, Quantity, arch_mistakes, gpu_mistakes

_PEAK, _RATE = "datasheet_flops", "fma_per_clk_per_sm"
#: figures that keep their ratio to dram_bytes_per_s where it changes: the measured share of it, and bus x clock
_WITH_BANDWIDTH = ("dram_measured_bytes_per_s", "dram_clock_hz")

#: what a chip with other SMs has not: its slices are not known
_SLICES = ("mig_profiles", "mig_sms", "mig_memory_eighths", "mig_l2_eighths")


def changed_gpu(name_or_path: str, changes: Mapping[str, float]) -> Gpu:
    """The GPU with these figures of its hardware file changed; of its architecture's file they begin with `arch.`.

    What hangs on a figure follows, unless it is changed too: the measured DRAM bandwidth and the DRAM clock keep their
    ratio to dram_bytes_per_s, the datasheet's peaks theirs to rate x SMs x clock, the SMs that clusters reach theirs to
    sm_count. Raises GemmsimError for an unknown figure, and for a value that the loader would refuse in the file.
    """
    gpu = load_gpu(name_or_path)
    said = {_key(gpu, key): value for key, value in changes.items()}
    for key, value in said.items():
        _check(key, value)
    figures = {f.key: f for f in load_figures(name_or_path)}
    after = _followed(gpu, said)
    found = _with(gpu, after)
    known = set(_mistakes(gpu, figures))
    fresh = [m for m in _mistakes(found, _replaced(figures, after)) if m not in known]
    if fresh:
        raise GemmsimError(f"{gpu.name} with {said_changes(said)}: {fresh[0]}")
    return found


def moved_gpu(gpu: Gpu, key: str, value: float) -> Gpu:
    """The GPU with one figure changed and what hangs on it, not checked: for a small step of a figure that is right."""
    return _with(gpu, _followed(gpu, {key: value}))


def figure_value(gpu: Gpu, key: str) -> float | None:
    """The value of a figure of `figure_names`; None where the GPU's file does not know it."""
    name, _, dtype = key.removeprefix("arch.").partition(".")
    if dtype:
        return gpu.arch.fma_per_clk_per_sm[dtype]
    found: float | None = getattr(gpu.arch if key.startswith("arch.") else gpu, name)
    return None if found is None or found != found else found


def said_changes(changes: Mapping[str, float]) -> str:
    """Changes as a person reads them: dram_bytes_per_s = 4.8e+12."""
    return ", ".join(f"{key} = {value:.6g}" for key, value in changes.items())


def quantity(key: str) -> Quantity:
    """Unit and range of a figure, by its key in `load_figures`."""
    name, _, dtype = key.removeprefix("arch.").partition(".")
    entry = (ARCH if key.startswith("arch.") else GPU)[name]
    return entry if isinstance(entry, Quantity) else entry[dtype]


def figure_names(gpu: Gpu) -> list[str]:
    """Figures of a GPU that can be changed: numbers that the model may read, by their keys in `load_figures`."""
    rates = {f"{_RATE}.{dtype}" for dtype in gpu.arch.fma_per_clk_per_sm}
    product = [k for k, q in GPU.items() if isinstance(q, Quantity) and k not in LISTS]
    arch = [f"arch.{k}" for k, q in ARCH.items() if isinstance(q, Quantity) and k not in LISTS]
    return [*product, *sorted(rates), *arch]


def _key(gpu: Gpu, name: str) -> str:
    """The figure's key; `arch.` may be left out, and a rate is changed as the product's own."""
    known = figure_names(gpu)
    bare = name.removeprefix("arch.")
    found = next((key for key in (name, bare, f"arch.{bare}") if key in known), None)
    if found is None:
        raise unknown("figure", name, known, where=f"the hardware file of {gpu.name}")
    return found


def _check(key: str, value: float) -> None:
    """Raise GemmsimError for a value outside the figure's range."""
    from gemmsim.hwfile import number_expected

    q = quantity(key)
    if not q.low <= value <= q.high or (q.whole and value != int(value)):
        shown = int(value) if abs(value) < 2**53 and value == int(value) else value
        raise GemmsimError(f"{key} is {shown}: {number_expected(shown, q)}")


def _followed(gpu: Gpu, said: Mapping[str, float]) -> dict[str, Any]:
    """What is said, and what follows."""
    after: dict[str, Any] = {k: int(v) if quantity(k).whole else float(v) for k, v in said.items()}
    if "dram_bytes_per_s" in after:
        ratio = after["dram_bytes_per_s"] / gpu.dram_bytes_per_s
        after = {k: v * ratio for k in _WITH_BANDWIDTH if (v := figure_value(gpu, k))} | after
    if "sm_count" in after:
        after |= {key: () for key in _SLICES if getattr(gpu, key)}
        after["cluster_sms"] = tuple(
            min(sms * after["sm_count"] // gpu.sm_count, after["sm_count"]) // size * size
            for size, sms in zip(gpu.cluster_sizes, gpu.cluster_sms, strict=True)
        )
    then = _with(gpu, after)
    for dtype, peak in gpu.datasheet_flops.items():
        was, now = gpu.peak_flops(dtype), then.peak_flops(dtype)
        if was and now and was != now:
            after[f"{_PEAK}.{dtype}"] = peak * now / was
    return after


def _with(gpu: Gpu, values: Mapping[str, Any]) -> Gpu:
    """The Gpu with these values in place of its own, by key."""
    arch = {k.removeprefix("arch."): v for k, v in values.items() if k.startswith("arch.")}
    rates = {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{_RATE}.")}
    peaks = {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{_PEAK}.")}
    own = {k: v for k, v in values.items() if "." not in k}
    chip = replace(gpu.arch, **arch, fma_per_clk_per_sm={**gpu.arch.fma_per_clk_per_sm, **rates})
    return replace(gpu, **own, arch=chip, datasheet_flops={**gpu.datasheet_flops, **peaks})


def _replaced(figures: Mapping[str, Figure], values: Mapping[str, Any]) -> dict[str, Figure]:
    """The figures with these values; one that the file did not give is new."""
    new = {k: Figure(k, v, quantity(k).unit, "inferred", "what if") for k, v in values.items() if k not in figures
           and k != "mig_profiles"}  # fmt: skip
    kept = {k: replace(f, value=values.get(k, f.value)) for k, f in figures.items()}
    return {k: f for k, f in (kept | new).items() if f.value != ()}


def _mistakes(gpu: Gpu, figures: Mapping[str, Figure]) -> Iterator[str]:
    """What of the figures cannot be true together, by the loader's rules."""
    own = {k: f for k, f in figures.items() if not k.startswith("arch.")}
    doc = Document(gpu.path, {"unknown": ()}, own)
    rates = gpu.arch.fma_per_clk_per_sm
    yield from gpu_mistakes(doc, gpu.arch.name, rates, rates)
    arch = {k.removeprefix("arch."): f for k, f in figures.items() if k.startswith("arch.")}
    yield from arch_mistakes(Document("", {"compute_capability": gpu.arch.compute_capability}, arch), gpu.arch.name)
