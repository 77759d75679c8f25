"""Asks -> compiled kernels, by the compile room: CUDA families through NVRTC, Triton through its own compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gemmsim.bench.task import Ask, Kernel
from gemmsim.hardware import Gpu

if TYPE_CHECKING:
    from gemmsim.bench.compile import Compiled
    from gemmsim.bench.triton_compile import TritonCompiled


def compiled(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    """Position, why it does not compile ("" if it does) and kernel of each ask, as they finish.

    Raises GemmsimError where a compiler is not installed.
    """
    cuda = [i for i, ask in enumerate(asks) if ask.family != "triton"]
    triton = [i for i, ask in enumerate(asks) if ask.family == "triton"]
    if cuda:
        yield from _cuda(asks, cuda, gpu, jobs)
    if triton:
        yield from _triton(asks, triton, gpu, jobs)


def _cuda(asks: Sequence[Ask], where: Sequence[int], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    from gemmsim.bench.compile import Request, arch_of, compile_all

    arch = arch_of(gpu)
    requests = [Request(asks[i].family, asks[i].form, asks[i].fitted, arch) for i in where]
    for position, found in compile_all(requests, jobs=jobs):
        yield where[position], _why(found), _kernel(found, found.smem_bytes, {})


def _triton(asks: Sequence[Ask], where: Sequence[int], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    from gemmsim.bench.compile import arch_of
    from gemmsim.bench.triton_compile import TritonRequest, compile_triton

    arch = arch_of(gpu)
    requests = [TritonRequest(a.form, a.config, arch, (a.m, a.n, a.k)) for a in (asks[i] for i in where)]
    for position, found in compile_triton(requests, jobs=jobs):
        yield where[position], _why(found), _kernel(found, found.shared, _launcher(found))


def _launcher(found: TritonCompiled) -> dict[str, object]:
    """What triton_launch needs beside the cubin."""
    return {"name": found.name, "num_warps": found.num_warps, "shared": found.shared,
            "arguments": list(found.arguments)}  # fmt: skip


def _why(found: Compiled) -> str:
    return "" if found.status == "ok" else found.reason or "the compiler gave no reason"


def _kernel(found: Compiled, smem_bytes: int, extra: dict[str, object]) -> Kernel:
    if found.status != "ok":
        return Kernel(key=found.key, compiler=found.compiler)
    return Kernel(
        path=str(found.cubin), key=found.key, compiler=found.compiler, regs_per_thread=found.regs_per_thread,
        spill_bytes=found.spill_bytes, smem_bytes=smem_bytes, stack_bytes=found.stack_bytes, warnings=found.warnings,
        extra=extra,
    )  # fmt: skip
