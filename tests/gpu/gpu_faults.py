"""A bench whose kernels go wrong where the number of rows says so: GEMMSIM_BENCH=gpu_faults."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gemmsim.bench import backend
from gemmsim.bench.backend import open_rig  # noqa: F401
from gemmsim.bench.task import Ask, Kernel
from gemmsim.hardware import Gpu

ILLEGAL, HANG, IDLE = 661, 662, 663
_BODIES = {
    ILLEGAL: "*(volatile int*)8 = 1;",
    HANG: 'while (M) asm volatile("nanosleep.u32 1000;");',
    IDLE: "",
}
_HEAD = (
    'extern "C" __global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C, float alpha, '
    "float beta, float scale, const float* bias, const float* residual)"
)


def compile_ahead(asks: Sequence[Ask], gpu: Gpu, jobs: int | None) -> Iterator[tuple[int, str, Kernel]]:
    from gemmsim.bench.compile import Source, arch_of, compile_one

    for i, error, kernel in backend.compile_ahead(asks, gpu, jobs):
        body = _BODIES.get(asks[i].m)
        if body is None:
            yield i, error, kernel
            continue
        path = Path(tempfile.gettempdir()) / f"gemmsim-fault-{os.getpid()}-{asks[i].m}.cu"
        path.write_text(f"{_HEAD} {{ {body} }}\n")
        made = compile_one(Source(path, (), arch_of(gpu)))
        yield i, made.reason, Kernel(path=str(made.cubin), key=made.key, compiler=made.compiler)
