"""One GPU with the probe's kernels on it: what the device says of itself, launches, times, memory.

The seam between what the probe asks and CuPy: `probe` sees a `Lab`, and tests give it one without a GPU.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gemmsim.bench.compile import Source, compile_one
from gemmsim.bench.device import device_count, import_cupy
from gemmsim.bench.task import Place
from gemmsim.errors import GemmsimError
from gemmsim.paths import data_folder

#: clocks of work queued ahead of each timed launch, 50 us at 2 GHz: the host is done before the GPU gets there
DELAY_CLK = 100_000


@dataclass(frozen=True)
class Facts:
    """What driver and device say: SI units; None where they do not."""

    name: str  # NVIDIA H200
    compute_capability: str  # "9.0"
    sm_count: int
    clock_hz: float  # the SMs' maximum
    dram_bytes: int
    dram_bus_bits: int | None
    dram_clock_hz: float | None
    l2_bytes: int
    driver: str
    uuid: str  # GPU-...; the PCI address where nvidia-smi does not tell
    tdp_w: float | None
    #: limits of an SM, under the names of an architecture's file
    limits: Mapping[str, int]

    @property
    def place(self) -> Place:
        """As rows and the choice of a hardware file have it."""
        return Place(self.name, self.uuid, self.compute_capability, self.sm_count, self.driver, "")


class Lab(Protocol):
    """A GPU to probe."""

    facts: Facts

    def array(self, values: npt.NDArray[Any]) -> Any:
        """An array on the GPU that holds the values."""

    def scratch(self, size_bytes: int) -> Any:
        """Memory on the GPU that holds anything; its `address` is what a kernel takes as a number."""

    def free_bytes(self) -> int:
        """Memory that is left."""

    def address(self, array: Any) -> int:
        """Where an array lies."""

    def read(self, array: Any) -> npt.NDArray[Any]:
        """What an array holds."""

    def run(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Queue a launch."""

    def seconds(self, kernel: str, blocks: int, threads: int, *arguments: Any, repeats: int) -> list[float]:
        """Times of single launches between two events, each behind queued work."""


class CudaLab:
    """The real one, on device `number`, with kernels/probe.cu compiled for it."""

    def __init__(self, number: int) -> None:
        """Raises GemmsimError where CuPy, a GPU or a compiler is missing, or the device has no such number."""
        self._cupy = opened(number)
        self._cupy.cuda.Device(number).use()
        self.facts = device_facts(self._cupy, number)
        self._module_of_kernels = self._module("empty", ())
        self._kernels: dict[str, Any] = {}  # kept: looking one up takes the host longer than launching it

    def _module(self, kernel: str, macros: tuple[tuple[str, str], ...]) -> Any:
        arch = f"sm_{self.facts.compute_capability.replace('.', '')}"
        path = data_folder("kernels") / "probe.cu"
        built = compile_one(Source(path, macros, arch, kernel=kernel))
        if built.cubin is None:
            raise GemmsimError(f"{path} does not compile for {arch} with {built.compiler}: {built.reason}")
        return self._cupy.RawModule(path=str(built.cubin))

    def array(self, values: npt.NDArray[Any]) -> Any:
        """As Lab.array."""
        return self._cupy.asarray(values)

    def scratch(self, size_bytes: int) -> Any:
        """As Lab.scratch. Raises GemmsimError where the GPU's memory does not hold it."""
        try:
            return self._cupy.empty(size_bytes, np.uint8)
        except self._cupy.cuda.memory.OutOfMemoryError:
            raise GemmsimError(f"{self.facts.name}: no room for {size_bytes} B: expected a GPU that is free") from None

    def free_bytes(self) -> int:
        """As Lab.free_bytes."""
        return int(self._cupy.cuda.runtime.memGetInfo()[0])

    def address(self, array: Any) -> int:
        """As Lab.address."""
        return int(array.data.ptr)

    def read(self, array: Any) -> npt.NDArray[Any]:
        """As Lab.read: waits for what is queued."""
        return np.asarray(array.get())

    def run(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        """As Lab.run."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._module_of_kernels.get_function(kernel)
        self._kernels[kernel]((blocks,), (threads,), arguments)

    def seconds(self, kernel: str, blocks: int, threads: int, *arguments: Any, repeats: int) -> list[float]:
        """As Lab.seconds."""
        cuda = self._cupy.cuda
        pairs = [(cuda.Event(), cuda.Event()) for _ in range(repeats)]
        for start, stop in pairs:
            self.run("spin", 1, 1, np.uint64(DELAY_CLK))
            start.record()
            self.run(kernel, blocks, threads, *arguments)
            stop.record()
        pairs[-1][1].synchronize()
        return [cuda.get_elapsed_time(start, stop) * 1e-3 for start, stop in pairs]

    def occupancy(
        self, threads: Sequence[int], regs: Sequence[int], smem_bytes: Sequence[int]
    ) -> list[tuple[int, int, int, int]]:
        """(threads, registers a thread, dynamic shared bytes, blocks an SM) as the driver's API says, for all of them.

        regs: those of the kernels hold_R; the registers told are what the compiler gave them. 0 blocks: no launch.
        """
        module = self._module(f"hold_{regs[0]}", (("HOLD", "1"),))
        found = []
        for count in regs:
            kernel = module.get_function(f"hold_{count}")
            kernel.max_dynamic_shared_size_bytes = self.facts.limits["smem_per_block_bytes"]
            for block in threads:
                found += [(block, kernel.num_regs, s, self._blocks(kernel.kernel.ptr, block, s)) for s in smem_bytes]
        return found

    def _blocks(self, kernel: int, threads: int, smem_bytes: int) -> int:
        driver = self._cupy.cuda.driver
        try:
            return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, smem_bytes))
        except driver.CUDADriverError:  # what no block may have: the driver calls it an invalid value
            return 0


def opened(number: int) -> Any:
    """CuPy, where device `number` can be used. Raises GemmsimError that says what is missing."""
    count = device_count()
    if not 0 <= number < count:
        raise GemmsimError(f"--device is {number}: expected a GPU's number from 0 to {count - 1}")
    return import_cupy()


#: limit in an architecture's file -> the driver's name of it
_LIMITS = {
    "max_threads_per_sm": "MaxThreadsPerMultiProcessor",
    "max_blocks_per_sm": "MaxBlocksPerMultiprocessor",
    "max_threads_per_block": "MaxThreadsPerBlock",
    "regs_per_sm": "MaxRegistersPerMultiprocessor",
    "regs_per_block": "MaxRegistersPerBlock",
    "smem_per_sm_bytes": "MaxSharedMemoryPerMultiprocessor",
    "smem_per_block_bytes": "MaxSharedMemoryPerBlockOptin",
    "smem_reserved_per_block_bytes": "ReservedSharedMemoryPerBlock",
}


def device_facts(cupy: Any, number: int) -> Facts:
    """What the runtime and nvidia-smi say of a device."""
    device = cupy.cuda.Device(number)
    says, properties = device.attributes, cupy.cuda.runtime.getDeviceProperties(number)
    smi = _smi(device.pci_bus_id)
    name = properties["name"]
    return Facts(
        name=name.decode() if isinstance(name, bytes) else str(name),
        compute_capability=f"{properties['major']}.{properties['minor']}",
        sm_count=int(says["MultiProcessorCount"]),
        clock_hz=1e3 * float(says.get("ClockRate") or 0) or 1e6 * float(smi.get("clocks.max.sm") or 0),
        dram_bytes=int(properties["totalGlobalMem"]),
        dram_bus_bits=int(says.get("GlobalMemoryBusWidth") or 0) or None,
        dram_clock_hz=1e3 * float(says.get("MemoryClockRate") or 0) or None,
        l2_bytes=int(says["L2CacheSize"]),
        driver=str(smi.get("driver_version") or cupy.cuda.runtime.driverGetVersion()),
        uuid=str(smi.get("uuid") or device.pci_bus_id),
        tdp_w=smi.get("power.default_limit"),
        limits={ours: int(says[theirs]) for ours, theirs in _LIMITS.items() if says.get(theirs)},
    )


def _smi(bus_id: str) -> dict[str, Any]:
    """What nvidia-smi says; nothing where there is none."""
    asked = ("power.default_limit", "clocks.max.sm", "driver_version", "uuid")
    command = ["nvidia-smi", "-i", bus_id, f"--query-gpu={','.join(asked)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return smi_values(asked, done.stdout)


def smi_values(asked: Sequence[str], text: str) -> dict[str, Any]:
    """One line of `nvidia-smi --format=csv,noheader,nounits`: numbers as such, `[N/A]` left out."""
    line = text.strip().splitlines()[:1]
    cells = [cell.strip() for cell in line[0].split(",")] if line else []
    return {name: _value(cell) for name, cell in zip(asked, cells, strict=False) if cell and not cell.startswith("[")}


def _value(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell
