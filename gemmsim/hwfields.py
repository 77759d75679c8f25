"""What a hardware file holds: every figure with its unit and range, a file once it is read, and what in it disagrees.

A figure is a mapping `{value, kind, source}`: what it is in SI base units, how it is known, where that can be read.
The ranges hold every NVIDIA GPU from P100 to B200, and are narrow enough to refuse a wrong unit (MHz, GB/s, MiB).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gemmsim.problem import DTYPE_BYTES

KINDS = ("datasheet", "device", "measured", "derived", "inferred")
#: a derived peak may miss the datasheet's by this much, or by the second if the file names the conflict
PEAK_TOLERANCE, CONFLICT_TOLERANCE = 0.015, 0.12


def peak_clock(dtype: str) -> str:
    """The figure that holds the clock of a dtype's peak: the CUDA cores' for fp32 and fp64, else the tensor cores'."""
    return "clock_hz" if dtype in ("fp32", "fp64") else "clock_tensor_hz"


@dataclass(frozen=True)
class Quantity:
    """What a figure must be: unit and the range that holds every GPU from P100 to B200 and no wrong unit of theirs."""

    unit: str
    low: float
    high: float
    whole: bool = False
    optional: bool = False  # may be named under `unknown` instead


_BYTES_SM = Quantity("B", 2**14, 2**20, whole=True)
_CLK = Quantity("clk", 5, 500)

#: figures of an architecture file; a nested mapping is by dtype
ARCH: Mapping[str, Quantity | Mapping[str, Quantity]] = {
    "max_warps_per_sm": Quantity("warps", 16, 128, whole=True),
    "max_threads_per_sm": Quantity("threads", 512, 4096, whole=True),
    "max_blocks_per_sm": Quantity("blocks", 4, 64, whole=True),
    "max_threads_per_block": Quantity("threads", 256, 2048, whole=True),
    "regs_per_sm": Quantity("registers", 2**14, 2**18, whole=True),
    "regs_per_block": Quantity("registers", 2**14, 2**18, whole=True),
    "regs_per_thread": Quantity("registers", 63, 512, whole=True),
    "reg_alloc_unit_per_warp": Quantity("registers", 32, 1024, whole=True),
    "sub_partitions": Quantity("", 1, 8, whole=True),
    "smem_per_sm_bytes": _BYTES_SM,
    "smem_per_block_bytes": _BYTES_SM,
    "smem_reserved_per_block_bytes": Quantity("B", 0, 8192, whole=True),
    "smem_alloc_unit_bytes": Quantity("B", 32, 1024, whole=True),
    "smem_carveouts_bytes": Quantity("B", 0, 2**20, whole=True),
    "l1_smem_bytes": _BYTES_SM,
    "smem_bytes_per_clk_per_sm": Quantity("B/clk", 32, 512),
    "fma_per_clk_per_sm": {
        "fp64": Quantity("FMA/clk", 1, 256),
        "fp32": Quantity("FMA/clk", 32, 512),
        **{d: Quantity("FMA/clk", 32, 2**14, optional=True) for d in ("tf32", "bf16", "fp16", "fp8", "int8")},
    },
    "mma_sync_fraction_of_peak": Quantity("", 0.05, 1, optional=True),
    "smem_latency_clk": replace(_CLK, optional=True),
    "l1_latency_clk": replace(_CLK, optional=True),
}
#: figures of a product file
GPU: Mapping[str, Quantity | Mapping[str, Quantity]] = {
    "sm_count": Quantity("SMs", 1, 1000, whole=True),
    "clock_hz": Quantity("Hz", 5e8, 5e9),
    "clock_tensor_hz": Quantity("Hz", 5e8, 5e9),
    "clock_base_hz": Quantity("Hz", 1e8, 5e9, optional=True),
    "dram_bytes": Quantity("B", 2e9, 1e12, whole=True),
    "dram_bus_bits": Quantity("bit", 64, 16384, whole=True, optional=True),
    "dram_clock_hz": Quantity("Hz", 3e8, 3e10, optional=True),
    "dram_bytes_per_s": Quantity("B/s", 5e10, 5e13),
    "dram_measured_bytes_per_s": Quantity("B/s", 5e10, 5e13, optional=True),
    "dram_latency_clk": Quantity("clk", 100, 5000, optional=True),
    "l2_bytes": Quantity("B", 5e5, 1e9, whole=True),
    "l2_partitions": Quantity("", 1, 16, whole=True),
    "l2_measured_bytes_per_s": Quantity("B/s", 2e11, 1e14, optional=True),
    "l2_latency_clk": Quantity("clk", 50, 2000, optional=True),
    "l2_far_latency_clk": Quantity("clk", 50, 3000, optional=True),
    "launch_s": Quantity("s", 5e-7, 1e-4, optional=True),
    "tdp_w": Quantity("W", 20, 3000),
    "fma_per_clk_per_sm": {d: Quantity("FMA/clk", 1, 2**14, optional=True) for d in DTYPE_BYTES},
    "datasheet_flops": {d: Quantity("FLOP/s", 1e10, 1e17, optional=True) for d in DTYPE_BYTES},
    "cluster_sizes": Quantity("blocks", 1, 32, whole=True, optional=True),
    "cluster_sms": Quantity("SMs", 1, 1000, whole=True, optional=True),
    "mig_sms": Quantity("SMs", 1, 1000, whole=True, optional=True),
    "mig_memory_eighths": Quantity("eighths", 1, 8, whole=True, optional=True),
    "mig_l2_eighths": Quantity("eighths", 1, 8, whole=True, optional=True),
}
#: figures that hold several values
LISTS = (
    "smem_carveouts_bytes",
    "matrix_instructions",
    "mma_shapes",
    "cluster_sizes",
    "cluster_sms",
    "mig_profiles",
    "mig_sms",
    "mig_memory_eighths",
    "mig_l2_eighths",
)
#: lists of one length that a file gives all of, or none: a chip without them need not say so
GROUPS = (("cluster_sizes", "cluster_sms"), ("mig_profiles", "mig_sms", "mig_memory_eighths", "mig_l2_eighths"))
#: keys by dtype of a product, which it gives where the architecture's figure is not its own
OVERRIDES = ("fma_per_clk_per_sm",)


@dataclass(frozen=True)
class Form:
    """What one sort of file must hold: numbers with source, texts with source, and plain keys."""

    numbers: Mapping[str, Quantity | Mapping[str, Quantity]]
    texts: Mapping[str, tuple[str, ...]]  # the texts allowed, or none for any
    plain: Mapping[str, type]  # text, or a list of texts
    absent: tuple[str, ...]  # the plain keys that name the optional figures which are not given

    @property
    def optional(self) -> set[str]:
        """Figures that may be named under `absent` instead, by dotted key."""
        flat = {key: q for key, q in self.numbers.items() if isinstance(q, Quantity)}
        flat |= {
            f"{key}.{d}": q for key, by in self.numbers.items() if not isinstance(by, Quantity) for d, q in by.items()
        }
        grouped = {key for group in GROUPS for key in group}
        return {key for key, quantity in flat.items() if quantity.optional} - grouped

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Starts of the optional figures' keys that need no word where they are not given.

        Which peaks of a datasheet must be there depends on the architecture's dtypes: `load_gpu` sees to them.
        """
        return ("datasheet_flops.", *(f"{key}." for key in OVERRIDES)) if "product" in self.plain else ()


def absent_key(list_name: str, name: str) -> str:
    """The dotted key of a name in an absent list: no_path_for names dtypes, unknown figures."""
    return f"fma_per_clk_per_sm.{name}" if list_name == "no_path_for" else name


ARCH_FORM = Form(
    ARCH,
    {"matrix_instructions": ("mma_sync", "wgmma", "tcgen05"), "mma_shapes": ()},
    {"compute_capability": str, "no_path_for": list, "unknown": list},
    ("no_path_for", "unknown"),
)
GPU_FORM = Form(
    GPU,
    {"dram_type": (), "mig_profiles": ()},
    {"product": str, "arch": str, "aliases": list, "unknown": list, "notes": list},
    ("unknown",),
)


@dataclass(frozen=True)
class Figure:
    """One sourced figure of a file: key is dotted (`datasheet_flops.bf16`), value in `unit`."""

    key: str
    value: Any
    unit: str
    kind: str
    source: str
    conflict: str = ""


@dataclass(frozen=True)
class Document:
    """A file that was read: its plain keys, its figures by dotted key, and what is wrong with the others."""

    path: str
    plain: Mapping[str, Any]
    figures: Mapping[str, Figure]
    mistakes: tuple[str, ...] = ()

    def value(self, key: str) -> Any:
        """The value of a figure, None where the file says it is unknown."""
        return self.figures[key].value if key in self.figures else None

    def by_dtype(self, key: str) -> dict[str, float]:
        """The figures under `key`, by dtype."""
        return {k.split(".")[1]: float(f.value) for k, f in self.figures.items() if k.startswith(key + ".")}


# ---------------------------------------------------------------------------------------------- figures together


def arch_mistakes(doc: Document, name: str) -> Iterator[str]:
    """What of an architecture's figures cannot be true together; figures that are wrong by themselves are skipped."""
    cc, v = doc.plain["compute_capability"], doc.value
    digits = cc.replace(".", "")
    if cc and (not digits.isdigit() or cc.count(".") != 1):
        yield f'compute_capability is {cc!r}: expected text like "9.0"'
    elif cc and name.startswith("sm") and name[2:].isdigit() and name != f"sm{digits}":
        yield f"compute_capability is {cc!r}: expected that of the file's name, {name}"
    for key, bound in _AT_MOST.items():
        if v(key) is not None and v(bound) is not None and v(key) > v(bound):
            yield f"{key} is {v(key)}: expected at most {bound}, {v(bound)}"
    threads, warps = v("max_threads_per_sm"), v("max_warps_per_sm")
    if threads and warps and threads != 32 * warps:
        yield f"max_threads_per_sm is {threads}: expected 32 x max_warps_per_sm, {32 * warps}"
    sizes, most = v("smem_carveouts_bytes"), v("smem_per_sm_bytes")
    if sizes and most and (list(sizes) != sorted(set(sizes)) or sizes[-1] != most):
        yield f"smem_carveouts_bytes is {list(sizes)}: expected to rise up to smem_per_sm_bytes, {most}"
    for key in ("mma_shapes", "mma_sync_fraction_of_peak"):
        if "mma_sync" in (v("matrix_instructions") or ()) and not v(key) and f"key {key}" not in str(doc.mistakes):
            yield f"{key} is missing or empty: expected it, for matrix_instructions has mma_sync"


_AT_MOST = {
    "max_threads_per_block": "max_threads_per_sm", "regs_per_block": "regs_per_sm",
    "smem_per_block_bytes": "smem_per_sm_bytes", "smem_per_sm_bytes": "l1_smem_bytes",
}  # fmt: skip


def gpu_mistakes(
    doc: Document, arch: str, arch_rates: Mapping[str, float], rates: Mapping[str, float]
) -> Iterator[str]:
    """What of a product's figures cannot be true together; figures that are wrong by themselves are skipped.

    arch_rates: FMA a clock and SM of the architecture; rates: the product's own.
    """
    yield from _dtype_mistakes(doc, arch, arch_rates, rates)
    yield from _peak_mistakes(doc, rates)
    yield from _bandwidth_mistakes(doc)
    yield from _group_mistakes(doc)
    clock, v = doc.value("clock_hz"), doc.value
    if clock and (v("clock_base_hz") or 0) > clock:
        yield f"clock_base_hz is {v('clock_base_hz'):.4g}: expected at most clock_hz, {clock:.4g}"
    if clock and (v("clock_tensor_hz") or 0) > 1.05 * clock:
        yield f"clock_tensor_hz is {v('clock_tensor_hz'):.4g}: expected at most clock_hz, {clock:.4g}"
    if (v("l2_latency_clk") or 0) >= (v("dram_latency_clk") or float("inf")):
        yield f"l2_latency_clk is {v('l2_latency_clk')}: expected less than dram_latency_clk, {v('dram_latency_clk')}"


def _dtype_mistakes(
    doc: Document, arch: str, arch_rates: Mapping[str, float], rates: Mapping[str, float]
) -> Iterator[str]:
    """Every dtype the product computes has a datasheet peak, or is named as unknown; no other has."""
    for dtype in sorted(set(rates) - set(arch_rates)):
        yield f"fma_per_clk_per_sm.{dtype} is given: arch {arch} has no path for it"
    given = set(doc.by_dtype("datasheet_flops"))
    said = {k.split(".")[1] for k in doc.plain["unknown"] if k.startswith("datasheet_flops.")}
    wrong = {d for d in rates if f"datasheet_flops.{d}" in " ".join(doc.mistakes)}
    if not any(m.startswith(("missing key datasheet_flops", "datasheet_flops is")) for m in doc.mistakes):
        for dtype in (d for d in rates if d not in given | said | wrong):
            yield f"missing key datasheet_flops.{dtype}: give the dense peak with its source, or name it under unknown"
    for dtype in sorted((given | said) - set(rates)):
        yield f"datasheet_flops.{dtype} is given: arch {arch} has no fma_per_clk_per_sm.{dtype} for this product"


def _peak_mistakes(doc: Document, rates: Mapping[str, float]) -> Iterator[str]:
    """A derived peak is the datasheet's within PEAK_TOLERANCE, or the file names the conflict."""
    wrong: dict[tuple[str, int], list[str]] = {}  # by clock and factor: one cause, one mistake
    peaks = doc.by_dtype("datasheet_flops")
    derived = {d: 2 * rates[d] * sms * clock for d in peaks if d in rates and (sms := doc.value("sm_count"))
               and (clock := doc.value(peak_clock(d)))}  # fmt: skip
    for dtype, peak in derived.items():
        ratio = peaks[dtype] / peak
        if abs(ratio - 1) > _tolerance(doc, f"datasheet_flops.{dtype}"):
            wrong.setdefault((peak_clock(dtype), round(100 * ratio)), []).append(dtype)
    for (clock, percent), (dtype, *more) in wrong.items():
        key = f"datasheet_flops.{dtype}"
        hint = " (with 2:4 sparsity? halve it)" if 190 < percent < 210 else ""
        hint = " (with fp16 accumulate? give the rate with fp32 accumulate)" if 45 < percent < 55 else hint
        hint = f" (if both stand, say why in {key}.conflict)" if 88 <= percent <= 112 else hint
        yield (
            f"{key}.value is {peaks[dtype]:.4g}: expected the dense peak, {derived[dtype]:.4g} FLOP/s, which is "
            f"2 x fma_per_clk_per_sm.{dtype} x sm_count x {clock}{hint}{', and so for ' * bool(more)}{', '.join(more)}"
        )


def _tolerance(doc: Document, key: str) -> float:
    return CONFLICT_TOLERANCE if doc.figures[key].conflict else PEAK_TOLERANCE


def _bandwidth_mistakes(doc: Document) -> Iterator[str]:
    """Measured bandwidth is below nominal, nominal is bus times clock, L2 is faster than DRAM."""
    nominal, measured = doc.value("dram_bytes_per_s"), doc.value("dram_measured_bytes_per_s")
    l2, bus, clock = (doc.value(k) for k in ("l2_measured_bytes_per_s", "dram_bus_bits", "dram_clock_hz"))
    if nominal is None:
        return
    if measured is not None and not 0.3 * nominal <= measured <= 1.02 * nominal:
        yield f"dram_measured_bytes_per_s is {measured:.4g}: expected 30 to 102 % of dram_bytes_per_s, {nominal:.4g}"
    if l2 is not None and l2 < (measured or nominal):
        yield f"l2_measured_bytes_per_s is {l2:.4g}: expected more than DRAM's, {nominal:.4g}"
    if bus is None or clock is None:
        return
    derived = bus / 8 * 2 * clock
    if abs(nominal / derived - 1) > _tolerance(doc, "dram_bytes_per_s"):
        yield f"dram_bytes_per_s is {nominal:.4g}: expected dram_bus_bits / 8 x 2 x dram_clock_hz, {derived:.4g}"


def _group_mistakes(doc: Document) -> Iterator[str]:
    """Lists that belong together have one length; no part has more SMs than the whole; clusters do not gain by size."""
    for first, *others in GROUPS:
        for key in others:
            one, two = doc.value(first), doc.value(key)
            if one is not None and two is not None and len(one) != len(two):
                yield f"{key} holds {len(two)} values: expected {len(one)}, as many as {first}"
    sms = doc.value("sm_count")
    for key in ("cluster_sms", "mig_sms"):
        if sms and max(doc.value(key) or (0,)) > sms:
            yield f"{key} is {list(doc.value(key))}: expected at most sm_count, {sms}"
    sizes = doc.value("cluster_sizes")
    if sizes and list(sizes) != sorted(set(sizes)):
        yield f"cluster_sizes is {list(sizes)}: expected to rise"
