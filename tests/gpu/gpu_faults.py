"""A bench whose kernels go wrong where the number of rows says so: GEMMSIM_BENCH=gpu_faults."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gemmsim.bench.backend import open_rig  # noqa: F401
from gemmsim.bench.compile import Source, arch_of, compile_one
from gemmsim.bench.kernel_source import KernelCompiler
from gemmsim.bench.task import Ask, Kernel
from gemmsim.hardware import Gpu

ILLEGAL, HANG, IDLE = 661, 662, 663
#: a tile that is as ILLEGAL whatever the size
ILLEGAL_BK = 48
_BODIES = {
    ILLEGAL: "*(volatile int*)8 = 1;",
    HANG: 'while (M) asm volatile("nanosleep.u32 1000;");',
    IDLE: "",
}
_HEAD = (
    'extern "C" __global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C, float alpha, '
    "float beta, float scale, const float* bias, const float* residual)"
)


class FaultyCompiler(KernelCompiler):
    def compiled(self, asks: Sequence[Ask], gpu: Gpu) -> Iterator[tuple[int, str, Kernel]]:
        for i, error, kernel in super().compiled(asks, gpu):
            body = _BODIES.get(ILLEGAL if dict(asks[i].config).get("bk") == ILLEGAL_BK else asks[i].m)
            if body is None:
                yield i, error, kernel
                continue
            path = Path(tempfile.gettempdir()) / f"gemmsim-fault-{os.getpid()}-{i}-{asks[i].m}.cu"
            path.write_text(f"{_HEAD} {{ {body} }}\n")
            made = compile_one(Source(path, (), arch_of(gpu)))
            yield i, made.reason, Kernel(path=str(made.cubin), key=made.key, compiler=made.compiler)


def open_compiler(jobs: int | None) -> FaultyCompiler:
    return FaultyCompiler(jobs)
