"""One GPU through CuPy: what it is, kernels out of cubins, launches without Python's cost in between."""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsim.bench.task import Place
from gemmsim.bench.tensor_map import by_value
from gemmsim.errors import GemmsimError
from gemmsim.paths import data_folder

#: what to install where CuPy is not
INSTALL = "pip install 'gemmsim[cuda13]' (CUDA 13) or 'gemmsim[cuda12]'"
#: modules kept loaded, the one not used for longest given up first
MODULES = 4096
#: shared memory a block gets without asking for more
PLAIN_SMEM_BYTES = 48 * 1024
#: number of an element type in kernels/measure.cu, and CuPy's type that holds it
TYPE_NUMBERS = {"fp32": 0, "fp64": 1, "fp16": 2, "bf16": 3, "tf32": 4, "fp8": 5, "int8": 6}
HELD_AS = {
    "fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "uint16", "tf32": "float32", "fp8": "uint8",
    "int8": "int8",
}  # fmt: skip


def import_cupy() -> Any:
    """CuPy. Raises GemmsimError, with what to install, where it is not or cannot be loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of paths that it looked for libraries in
            import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise GemmsimError(f"CuPy cannot be loaded: {error}: {INSTALL}") from None
        raise GemmsimError(f"CuPy is not installed, and the GPU is reached through it: {INSTALL}") from None
    except ImportError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise GemmsimError(f"CuPy cannot be loaded: {first}: {INSTALL}") from None
    return cupy


def device_count() -> int:
    """GPUs that the driver shows. Raises GemmsimError without CuPy, a driver new enough, or a GPU."""
    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    wanted, found = _version(runtime.runtimeGetVersion()), _version(_driver(runtime))
    if found == "0.0":
        raise GemmsimError("no NVIDIA driver was found: expected one for a GPU of this machine (nvidia-smi shows it)")
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error):
            raise GemmsimError(
                f"the NVIDIA driver knows CUDA {found} and CuPy wants {wanted}: install a newer driver, or {INSTALL}"
            ) from None
        raise GemmsimError(f"no GPU can be used: {error}") from None
    if not count:
        raise GemmsimError("no NVIDIA GPU was found: expected one that the driver shows (nvidia-smi)")
    return count


def _driver(runtime: Any) -> int:
    try:
        return int(runtime.driverGetVersion())
    except runtime.CUDARuntimeError:
        return 0


def _version(number: int) -> str:
    """13000 -> 13.0"""
    return f"{number // 1000}.{number % 1000 // 10}"


@dataclass(frozen=True)
class Function:
    """A kernel of a loaded module: its handle, static shared memory in bytes, most threads of a block it can take."""

    handle: int
    smem_bytes: int
    max_threads: int
    regs_per_thread: int
    local_bytes: int
    raw: Any


class Device:
    """One GPU, opened: a stream of our own, the kernels of kernels/measure.cu, modules by path.

    Raises GemmsimError where there is no such GPU or no CuPy.
    """

    def __init__(self, number: int = 0) -> None:
        count = device_count()
        if not 0 <= number < count:
            raise GemmsimError(f"--device is {number}: expected a GPU's number from 0 to {count - 1}")
        self.cupy = import_cupy()
        self.number = number
        self.cupy.cuda.Device(number).use()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.use()
        self._driver = self.cupy.cuda.driver
        self._modules: OrderedDict[str, tuple[Any, dict[str, Function]]] = OrderedDict()
        source = (data_folder("kernels") / "measure.cu").read_text("utf-8")
        self._own = self.cupy.RawModule(code=source, options=("--std=c++17",))
        self._helpers: dict[str, Function] = {}
        self._sink = self.cupy.zeros(1, self.cupy.uint32)
        known = self.cupy.cuda.runtime.getDeviceProperties(number)
        self.sm_count, self.memory_bytes = int(known["multiProcessorCount"]), int(known["totalGlobalMem"])

    def use(self) -> None:
        """Have CuPy and cuBLAS queue on this device's stream, also where another Device was opened since."""
        self.stream.use()

    @property
    def pci(self) -> str:
        """The card's PCI address, by which NVML finds it."""
        return str(self.cupy.cuda.runtime.deviceGetPCIBusId(self.number))

    def place(self, uuid: str, driver: str) -> Place:
        """What rows say of the device."""
        runtime = self.cupy.cuda.runtime
        known = runtime.getDeviceProperties(self.number)
        name = known["name"]
        return Place(
            product=name.decode() if isinstance(name, bytes) else str(name), uuid=uuid,
            compute_capability=f"{known['major']}.{known['minor']}", sm_count=self.sm_count, driver=driver,
            cuda=_version(_driver(runtime)),
        )  # fmt: skip

    def function(self, path: str, name: str) -> Function:
        """A kernel of the cubin at path. Raises CuPy's error where it cannot be loaded."""
        if path not in self._modules:
            self._modules[path] = self.cupy.RawModule(path=path), {}
        self._modules.move_to_end(path)
        if len(self._modules) > MODULES:
            self._modules.popitem(last=False)
        module, functions = self._modules[path]
        if name not in functions:
            functions[name] = _function(module, name)
        return functions[name]

    def allow_smem(self, function: Function, dynamic_bytes: int) -> None:
        """Let a kernel have so much dynamic shared memory. Raises CuPy's error where the GPU has less."""
        if function.smem_bytes + dynamic_bytes <= PLAIN_SMEM_BYTES:
            return
        if function.raw.max_dynamic_shared_size_bytes < dynamic_bytes:  # what another launch was allowed stays
            function.raw.max_dynamic_shared_size_bytes = dynamic_bytes

    def blocks_per_sm(self, function: Function, threads: int, dynamic_bytes: int) -> int:
        """Blocks of a kernel that an SM holds, by the driver; 0: it cannot launch."""
        if threads > function.max_threads:
            return 0
        ask = self._driver.occupancyMaxActiveBlocksPerMultiprocessor
        return int(ask(function.handle, threads, dynamic_bytes))

    def clusters(self, function: Function, grid: tuple[int, int, int], threads: int, dynamic_bytes: int) -> int:
        """Clusters of a kernel that is compiled for them which the GPU holds at once, by the driver.

        Raises RuntimeError for a grid that is no multiple of the cluster.
        """
        from cuda.bindings import driver

        config = driver.CUlaunchConfig()  # without the cluster's size, which is the kernel's own
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = dynamic_bytes
        error, count = driver.cuOccupancyMaxActiveClusters(function.handle, config)
        if int(error):
            raise RuntimeError(f"cuOccupancyMaxActiveClusters says {error.name} to a grid of {grid}")
        return int(count)

    def own(self, name: str, arguments: Sequence[Any], *, blocks: int | None = None, threads: int = 256) -> Launch:
        """A launch of a kernel of kernels/measure.cu; arguments as in Launch."""
        if name not in self._helpers:
            self._helpers[name] = _function(self._own, name)
        grid = 8 * self.sm_count if blocks is None else blocks
        return Launch(self, self._helpers[name], (grid, 1, 1), threads, 0, arguments)

    def spin(self, seconds: float) -> None:
        """Keep the stream busy for so long."""
        self.own("spin", (np.uint64(int(seconds * 1e9)),), blocks=1, threads=1)()

    def sweep(self, buffer: Any) -> Launch:
        """A launch that reads a buffer of zeros through the L2."""
        return self.own("sweep", (buffer, np.uint64(buffer.nbytes // 16), self._sink), threads=512)

    def synchronize(self) -> None:
        """Wait for all that was queued. Raises CuPy's error if any of it failed."""
        self.stream.synchronize()

    @contextlib.contextmanager
    def profiled(self) -> Iterator[None]:
        """What runs inside is what a profiler that waits for cudaProfilerStart sees."""
        self.cupy.cuda.runtime.profilerStart()
        try:
            yield
        finally:
            self.synchronize()
            self.cupy.cuda.runtime.profilerStop()


def _function(module: Any, name: str) -> Function:
    raw = module.get_function(name)
    return Function(
        int(raw.kernel.ptr), int(raw.shared_size_bytes), int(raw.max_threads_per_block), int(raw.num_regs),
        int(raw.local_size_bytes), raw,
    )  # fmt: skip


class Launch:
    """A kernel, its grid and its arguments, packed once: called, it costs the host a driver call."""

    def __init__(
        self, device: Device, function: Function, grid: tuple[int, int, int], threads: int, dynamic_smem_bytes: int,
        arguments: Sequence[Any],
    ) -> None:  # fmt: skip
        self._values = [_packed(value) for value in arguments]
        self._kept = (function, *arguments)  # arrays and module live as long as their pointers
        pointers = [ctypes.addressof(value) for value in self._values]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self._call = device.cupy.cuda.driver.launchKernel
        self._given = (
            function.handle, *grid, threads, 1, 1, dynamic_smem_bytes, int(device.stream.ptr),
            ctypes.addressof(self._pointers), 0,
        )  # fmt: skip

    def __call__(self) -> None:
        """Queue one launch."""
        self._call(*self._given)


_C_TYPES: Mapping[str, Any] = {
    "int32": ctypes.c_int32, "uint64": ctypes.c_uint64, "float32": ctypes.c_float, "float64": ctypes.c_double,
}  # fmt: skip


def _packed(value: Any) -> Any:
    """A kernel's argument in memory: numpy scalar, tensor map and words of a struct by value, None as null, an array
    as its address.
    """
    if value is None:
        return ctypes.c_void_p(0)
    if isinstance(value, tuple):
        return (ctypes.c_uint32 * len(value))(*(word % 2**32 for word in value))
    if isinstance(value, bytes):
        return by_value(value)
    if isinstance(value, np.generic):
        return _C_TYPES[value.dtype.name](value.item())
    return ctypes.c_void_p(value.data.ptr)
