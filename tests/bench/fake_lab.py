"""A GPU that is none: an H200's facts, and times that follow from rates the tests set, by the kernels' own counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmsim.bench.lab import Facts

LIMITS = {
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "max_threads_per_block": 1024,
    "regs_per_sm": 65536,
    "regs_per_block": 65536,
    "smem_per_sm_bytes": 233472,
    "smem_per_block_bytes": 232448,
    "smem_reserved_per_block_bytes": 1024,
}
H200 = Facts(
    name="NVIDIA H200", compute_capability="9.0", sm_count=132, clock_hz=1.98e9, dram_bytes=150109880320,
    dram_bus_bits=6016, dram_clock_hz=3.201e9, l2_bytes=62914560, driver="580.95.05",
    uuid="GPU-none", tdp_w=700.0, limits=LIMITS,
)  # fmt: skip
STRANGER = replace(H200, name="NVIDIA H900 NVL", sm_count=78)


@dataclass
class FakeArray:
    values: npt.NDArray[Any]


@dataclass
class FakeLab:
    """A `Lab`; `launches` holds what was asked."""

    facts: Facts = H200
    dram: float = 4.5e12
    copy: float = 4.2e12
    l2: float = 7.9e12
    ffma: float = 64e12
    dfma: float = 32e12
    clock_hz: float = 1.98e9
    shared: float = 126.0
    clk: dict[str, float] = field(
        default_factory=lambda: {"chase_l1": 33.0, "chase_shared": 29.0, "near": 285.0, "wide": 324.0, "far": 690.0}
    )
    empty: float = 2.8e-6
    launches: list[tuple[str, int, int]] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def array(self, values: npt.NDArray[Any]) -> FakeArray:
        return FakeArray(values.copy())

    def scratch(self, size_bytes: int) -> FakeArray:
        x = FakeArray(np.zeros(1, np.uint8))
        self.sizes[id(x)] = size_bytes
        self.last = size_bytes
        return x

    def free_bytes(self) -> int:
        return 140 * 2**30

    def address(self, array: FakeArray) -> int:
        return 2**40

    def read(self, array: FakeArray) -> npt.NDArray[Any]:
        return array.values

    def run(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        self.launches.append((kernel, blocks, threads))
        if kernel == "shared_bytes":
            iterations, _, clocks, _ = arguments
            clocks.values[:] = int(threads * iterations * 8 * 16 / (self.shared * min(1, threads / 512)))
        elif kernel == "chase_shared":
            arguments[1].values[0] = int(self.clk[kernel] * int(arguments[0]))
        elif kernel.startswith("chase"):
            arguments[3].values[0] = int(self._latency(kernel) * int(arguments[2]))

    def _latency(self, kernel: str) -> float:
        if kernel == "chase_l1":
            return self.clk[kernel]
        l2 = self.facts.l2_bytes
        return self.clk["near" if self.last < l2 / 4 else "wide" if self.last < l2 else "far"]

    def seconds(self, kernel: str, blocks: int, threads: int, *arguments: Any, repeats: int) -> list[float]:
        self.launches.append((kernel, blocks, threads))
        return [self._seconds(kernel, blocks, threads, arguments)] * repeats

    def _seconds(self, kernel: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> float:
        if kernel == "empty":
            return self.empty
        if kernel == "read_bytes":
            size = 16 * int(arguments[1])
            return size * int(arguments[2]) / (self.l2 if size <= 0.8 * self.facts.l2_bytes else self.dram)
        if kernel == "copy_bytes":
            return 2 * 16 * int(arguments[2]) / self.copy
        chains, rate = (32, self.ffma) if kernel == "fma_f" else (16, self.dfma)
        seconds = 2.0 * blocks * threads * int(arguments[0]) * 8 * chains / rate
        arguments[3].values.reshape(-1, 2)[:] = (round(seconds * self.clock_hz), round(seconds * 1e9))
        return seconds

    def occupancy(self, threads: Any, regs: Any, smem_bytes: Any) -> list[tuple[int, int, int, int]]:
        from gemmsim.hardware import load_gpu
        from gemmsim.model.occupancy import blocks_per_sm

        arch = load_gpu("h200_sxm").arch
        grid = [(t, r, int(s)) for r in regs for t in threads for s in smem_bytes]
        blocks = blocks_per_sm(arch, *zip(*grid, strict=True)).blocks_per_sm.tolist()
        return [(*row, b) for row, b in zip(grid, blocks, strict=True)]
