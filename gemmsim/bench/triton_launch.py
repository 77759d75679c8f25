"""A Triton cubin launched without Triton: grid, arguments and shared memory as bench.triton_compile describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemmsim.bench.data import Data
from gemmsim.bench.device import Device, Launch
from gemmsim.bench.kernels import Prepared
from gemmsim.bench.task import Ask, Refused, Task

WARP_THREADS = 32


def arguments(ask: Ask, names: list[str], arrays: Mapping[str, Any]) -> list[Any]:
    """The kernel's arguments by name: arrays, 32-bit sizes and strides, then two null pointers for scratch memory."""
    sizes = {"M": ask.m, "N": ask.n, "K": ask.k, "sam": ask.k, "sbk": ask.n, "scm": ask.n}
    return [*(arrays[n] if n in arrays else np.int32(sizes[n]) for n in names), None, None]


def grid(ask: Ask) -> tuple[int, int, int]:
    """One block a tile, in one dimension."""
    config = dict(ask.config)
    return (-(-ask.m // config["bm"])) * (-(-ask.n // config["bn"])), 1, 1


def prepare_triton(device: Device, task: Task, data: Data) -> Prepared:
    """A Triton kernel on a problem's data. Raises Refused."""
    extra = task.kernel.extra
    threads, shared = WARP_THREADS * int(extra["num_warps"]), int(extra["shared"])
    function = device.function(task.kernel.path, str(extra["name"]))
    device.allow_smem(function, shared)
    blocks = device.blocks_per_sm(function, threads, shared)
    if blocks < 1:
        raise Refused(f"blocks_per_sm: no block of {threads} threads and {shared} B of shared memory fits an SM")
    given = arguments(task.ask, list(extra["arguments"]), {"a": data.a, "b": data.b, "c": data.c})
    launch: Callable[[], None] = Launch(device, function, grid(task.ask), threads, shared, given)
    return Prepared(launch, lambda: None, threads=threads, smem_bytes=shared, blocks_per_sm=blocks)
