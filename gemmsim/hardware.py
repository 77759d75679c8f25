"""What a chip is. `Gpu` and `Arch` are the figures the model reads, in SI base units; `load_gpu` reads them strictly from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Arch:
    """Limits and per-clock rates that every product of one compute capability shares."""

    name: str  # sm80, sm90, ...
    compute_capability: str  # "9.0"
    max_warps_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    regs_per_sm: int
    regs_per_block: int
    regs_per_thread: int
    reg_alloc_unit_per_warp: int
    sub_partitions: int
    smem_per_sm_bytes: int
    smem_per_block_bytes: int  # the opt-in maximum
    smem_reserved_per_block_bytes: int
    smem_alloc_unit_bytes: int
    smem_carveouts_bytes: tuple[int, ...]
    l1_smem_bytes: int  # L1 and shared memory together
    smem_bytes_per_clk_per_sm: float
    fma_per_clk_per_sm: Mapping[str, float]  # by dtype, dense; fp32 and fp64 are the CUDA cores', the others the tensor cores'
    matrix_instructions: tuple[str, ...]  # of "mma_sync", "wgmma"
    mma_sync_fraction_of_peak: float
    smem_latency_clk: float
    l1_latency_clk: float


@dataclass(frozen=True)
class Gpu:
    """One product. Optional figures are None where no source gives them; the model then scales from the others."""

    name: str  # the file's name: h200_sxm
    product: str  # NVIDIA H200 SXM 141GB
    arch: Arch
    sm_count: int
    clock_hz: float  # boost: the clock of the SIMT peak
    clock_tensor_hz: float  # the clock at which the datasheet's tensor peak holds
    dram_bytes: float
    dram_bytes_per_s: float
    dram_measured_bytes_per_s: float | None
    l2_bytes: float
    l2_partitions: int
    l2_measured_bytes_per_s: float | None
    l2_latency_clk: float | None
    dram_latency_clk: float | None
    launch_s: float | None  # an empty kernel between two events
    tdp_w: float
    datasheet_flops: Mapping[str, float] = field(default_factory=dict)  # dense peaks, by dtype
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path: str = ""

    def peak_flops(self, dtype: str) -> float | None:
        """Dense peak in FLOP/s, derived: 2 x FMA a clock x SMs x clock; None if the chip has no path for the dtype."""
        rate = self.arch.fma_per_clk_per_sm.get(dtype)
        if rate is None:
            return None
        clock = self.clock_hz if dtype in ("fp32", "fp64") else self.clock_tensor_hz
        return 2 * rate * self.sm_count * clock
