"""Figures of GPUs side by side, as their hardware files have them, with ratios to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.hardware import Gpu
from gemmsim.problem import DTYPE_BYTES

#: compared figures that are not by dtype: attribute path -> unit
_COMPARED = {
    "sm_count": "",
    "clock_hz": "Hz",
    "clock_tensor_hz": "Hz",
    "dram_bytes": "B",
    "dram_bytes_per_s": "B/s",
    "dram_measured_bytes_per_s": "B/s",
    "l2_bytes": "B",
    "l2_measured_bytes_per_s": "B/s",
    "l2_latency_clk": "clk",
    "dram_latency_clk": "clk",
    "tdp_w": "W",
    "arch.smem_per_sm_bytes": "B",
    "arch.smem_per_block_bytes": "B",
    "arch.regs_per_sm": "",
    "arch.max_warps_per_sm": "",
}


def side_by_side(chips: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    """A row a figure: figure, unit, a value a GPU (None where its file does not know it), NAME_ratio to the first."""
    for key, unit in _COMPARED.items():
        yield _compared(key, unit, chips, [_attribute(chip, key) for chip in chips])
    for dtype in DTYPE_BYTES:
        peaks = [chip.peak_flops(dtype) for chip in chips]
        if any(peaks):
            yield _compared(f"peak_flops.{dtype}", "FLOP/s", chips, peaks)
    for dtype in DTYPE_BYTES:
        ridges = [peak / chip.dram_bytes_per_s if (peak := chip.peak_flops(dtype)) else None for chip in chips]
        if any(ridges):
            yield _compared(f"ridge.{dtype}", "FLOP/B", chips, ridges)


def _attribute(gpu: Gpu, key: str) -> Any:
    return getattr(gpu.arch, key.removeprefix("arch.")) if key.startswith("arch.") else getattr(gpu, key)


def _compared(key: str, unit: str, chips: Sequence[Gpu], values: Sequence[float | None]) -> dict[str, Any]:
    first = values[0]
    ratios = {f"{c.name}_ratio": v / first if v and first else None for c, v in zip(chips, values, strict=True)}
    return {"figure": key, "unit": unit, **{c.name: v for c, v in zip(chips, values, strict=True)}, **ratios}
