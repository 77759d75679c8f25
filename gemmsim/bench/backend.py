"""What a campaign works with: a rig to measure on and a compiler. Tests put their own in their place.

GEMMSIM_BENCH names a module with the same two functions; without it they are those of the GPU.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Sequence
from typing import Any, Protocol, cast

from gemmsim.bench.task import Ask, Kernel, Place, Task
from gemmsim.hardware import Gpu

#: environment variable: dotted name of a module that stands in for this one
BENCH_VARIABLE = "GEMMSIM_BENCH"


class Measurer(Protocol):
    """What measures tasks, one at a time."""

    place: Place

    def measure(self, task: Task) -> dict[str, Any]:
        """The outcome's columns of a row."""

    def forget(self) -> None:
        """Give memory back."""


class Backend(Protocol):
    """The two functions of this module."""

    def open_rig(self, device: int) -> Measurer:
        """The rig on a device."""

    def compile_ahead(
        self, asks: Sequence[Ask], gpu: Gpu, jobs: int | None
    ) -> Generator[tuple[int, str, Kernel], None, None]:
        """Position, error or nothing, and kernel of each ask, as they are ready."""


def backend() -> Backend:
    """The backend that GEMMSIM_BENCH names, or this module."""
    return cast(Backend, importlib.import_module(os.environ.get(BENCH_VARIABLE) or __name__))


def open_rig(device: int) -> Measurer:
    """The GPU. Raises GemmsimError where there is none."""
    from gemmsim.bench.rig import Rig

    return Rig(device)


def compile_ahead(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Generator[tuple[int, str, Kernel], None, None]:
    """Cubins of the asks' kernels, in parallel, as they are ready; the string says why one was not made."""
    from gemmsim.bench.kernel_source import compiled

    yield from compiled(asks, gpu, jobs)
