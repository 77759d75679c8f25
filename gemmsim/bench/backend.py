"""What a session works with: a rig to measure on and a compiler. Tests put their own in their place.

GEMMSIM_BENCH names a module with the same two functions; without it they are those of the GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from gemmsim.bench.task import Ask, Kernel, Place, Task, Turns
from gemmsim.hardware import Gpu

#: environment variable: dotted name of a module that stands in for this one
BENCH_VARIABLE = "GEMMSIM_BENCH"


class Measurer(Protocol):
    """What measures tasks, one at a time."""

    place: Place

    def load(self) -> None:
        """Do ahead what the first task would take its time for."""

    def measure(self, task: Task) -> dict[str, Any]:
        """The outcome's columns of a row."""

    def ready(self, task: Task) -> tuple[dict[str, Any], Any]:
        """The columns of a kernel that is checked and warm, and what `turns` takes for it; None if it is not right."""

    def turns(self, turns: Turns, warm: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        """The columns of the times of those kernels, by number, each timed once a round."""

    def forget(self) -> None:
        """Give memory back."""


class Compiler(Protocol):
    """What compiles asks' kernels; several threads may ask at once."""

    def expect(self, asks: Sequence[Ask]) -> None:
        """Get ready for them; returns at once."""

    def compiled(self, asks: Sequence[Ask], gpu: Gpu) -> Iterator[tuple[int, str, Kernel]]:
        """Position, error or nothing, and kernel of each ask, as they are ready."""

    def close(self) -> None:
        """End it, whatever it does."""


class Backend(Protocol):
    """The two functions of this module."""

    def open_rig(self, device: int) -> Measurer:
        """The rig on a device."""

    def open_compiler(self, jobs: int | None) -> Compiler:
        """A compiler with so many processes, one a core if left out."""


def backend() -> Backend:
    """The backend that GEMMSIM_BENCH names, or this module."""
    return cast(Backend, importlib.import_module(os.environ.get(BENCH_VARIABLE) or __name__))


def open_rig(device: int) -> Measurer:
    """The GPU. Raises GemmsimError where there is none."""
    from gemmsim.bench.rig import Rig

    return Rig(device)


def open_compiler(jobs: int | None) -> Compiler:
    """NVRTC and Triton, in parallel."""
    from gemmsim.bench.kernel_source import KernelCompiler

    return KernelCompiler(jobs)


def compile_ahead(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    """Kernels of these asks and no others, as they are ready; the string says why one was not made."""
    with contextlib.closing(backend().open_compiler(jobs)) as compiler:
        yield from compiler.compiled(asks, gpu)
