"""Rates that a GPU's file gives as measured, or a usual share of its other figures."""

from __future__ import annotations

from gemmsim.hardware import Gpu

#: share of the datasheet's DRAM bandwidth that reads reach where it was not measured (H200: 4.53 of 4.8 TB/s)
DRAM_EFFICIENCY = 0.94
#: bytes a clock and SM that L2 delivers where it was not measured (H200: 30, H100 PCIe: 35, A100: 36)
L2_BYTES_PER_CLK_PER_SM = 32.0


def dram_rate(gpu: Gpu) -> float:
    """Bytes a second that reads reach: measured, else the usual share of the datasheet's."""
    return gpu.dram_measured_bytes_per_s or DRAM_EFFICIENCY * gpu.dram_bytes_per_s


def l2_rate(gpu: Gpu) -> float:
    """Bytes a second that L2 delivers: measured, else a typical rate an SM."""
    return gpu.l2_measured_bytes_per_s or L2_BYTES_PER_CLK_PER_SM * gpu.sm_count * gpu.clock_hz
