"""What a hardware file holds: every figure with its unit and the range it must lie in, and a file once it is read.

A figure is a mapping `{value, kind, source}`: what it is in SI base units, how it is known, where that can be read.
The ranges hold every NVIDIA GPU from P100 to B200, and are narrow enough to refuse a wrong unit (MHz, GB/s, MiB).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmsim.problem import DTYPE_BYTES

KINDS = ("datasheet", "device", "measured", "derived", "inferred")
#: a derived peak may miss the datasheet's by this much, or by the second if the file names the conflict
PEAK_TOLERANCE, CONFLICT_TOLERANCE = 0.015, 0.12


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
    "mma_sync_fraction_of_peak": Quantity("", 0.05, 1),
    "smem_latency_clk": _CLK,
    "l1_latency_clk": _CLK,
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
    "datasheet_flops": {d: Quantity("FLOP/s", 1e10, 1e17, optional=True) for d in DTYPE_BYTES},
}
#: figures that hold several values
LISTS = ("smem_carveouts_bytes", "matrix_instructions")


@dataclass(frozen=True)
class Form:
    """What one sort of file must hold: numbers with source, texts with source, and plain keys."""

    numbers: Mapping[str, Quantity | Mapping[str, Quantity]]
    texts: Mapping[str, tuple[str, ...]]  # the texts allowed, or none for any
    plain: Mapping[str, type]  # text, or a list of texts
    absent: str  # the plain key that names the optional figures which are not given

    @property
    def optional(self) -> set[str]:
        """Figures that may be named under `absent` instead, by dotted key."""
        flat = {key: q for key, q in self.numbers.items() if isinstance(q, Quantity)}
        flat |= {
            f"{key}.{d}": q for key, by in self.numbers.items() if not isinstance(by, Quantity) for d, q in by.items()
        }
        return {key for key, quantity in flat.items() if quantity.optional}

    def absent_key(self, name: str) -> str:
        """The dotted key of a name under `absent`: an architecture names dtypes, a product figures."""
        return f"fma_per_clk_per_sm.{name}" if self.absent == "no_path_for" else name


ARCH_FORM = Form(
    ARCH,
    {"matrix_instructions": ("mma_sync", "wgmma")},
    {"compute_capability": str, "no_path_for": list},
    "no_path_for",
)
GPU_FORM = Form(
    GPU,
    {"dram_type": ()},
    {"product": str, "arch": str, "aliases": list, "unknown": list, "notes": list},
    "unknown",
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
    """A checked file: its plain keys, and its figures by dotted key."""

    path: str
    plain: Mapping[str, Any]
    figures: Mapping[str, Figure]

    def value(self, key: str) -> Any:
        """The value of a figure, None where the file says it is unknown."""
        return self.figures[key].value if key in self.figures else None

    def by_dtype(self, key: str) -> dict[str, float]:
        """The figures under `key`, by dtype."""
        return {k.split(".")[1]: float(f.value) for k, f in self.figures.items() if k.startswith(key + ".")}
