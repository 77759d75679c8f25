"""Facts read from a cubin's own records are those that ptxas says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsim.bench import ptxas
from gemmsim.bench.compile import Source, compile_one
from gemmsim.bench.cubin import resources
from gemmsim.errors import GemmsimError

pytest.importorskip("cuda.core")

HEAD = 'extern "C" __global__ void __launch_bounds__(256) '
KERNELS = {
    "nothing": HEAD + "gemm(float* x) { x[threadIdx.x] = 1; }",
    "static": HEAD + "gemm(float* x) { __shared__ float s[300]; s[threadIdx.x] = *x; __syncthreads(); *x = s[7]; }",
    "dynamic": HEAD + "gemm(float* x) { extern __shared__ float d[]; d[threadIdx.x] = *x; __syncthreads(); *x = d[7]; }",
    "both": HEAD + "gemm(float* x) { extern __shared__ float d[]; __shared__ float s[100]; s[threadIdx.x] = *x;"
    " d[threadIdx.x] = 2; __syncthreads(); *x = d[7] + s[8]; }",
    "array": HEAD + "gemm(float* x, int n) { float a[90] = {}; for (int i = 0; i < n; ++i) a[(int)x[i]] += 1;"
    " *x = a[n]; }",
    "spills": 'extern "C" __global__ void __maxnreg__(24) gemm(float* x, int n) { float a[40];'
    "\n#pragma unroll\nfor (int i = 0; i < 40; ++i) a[i] = x[i * n];\n__syncthreads();"
    "\n#pragma unroll\nfor (int i = 0; i < 40; ++i) x[i] = a[i] * a[39 - i]; }",
    "two": HEAD + "gemm(float* x) { x[threadIdx.x] = 1; }" + HEAD + "reduce(float* x) { __shared__ float s[50];"
    " s[threadIdx.x] = *x; __syncthreads(); *x = s[3]; }",
}  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", KERNELS)
def test_records_are_what_ptxas_says(name: str, arch: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNELS[name])
    found = compile_one(Source(source, (), arch), cache=tmp_path / "cache")
    assert found.cubin is not None
    assert found.status == "ok"
    said = ptxas.said(found.log)
    assert set(said) == ({"gemm", "reduce"} if name == "two" else {"gemm"})
    read = resources(found.cubin.read_bytes())
    for kernel, of_log in said.items():
        of_file = read[kernel]
        assert of_file.regs_per_thread == of_log.regs_per_thread
        assert of_file.stack_bytes == of_log.stack_bytes
        assert of_file.smem_bytes == of_log.smem_bytes
    spilled = said["gemm"].spill_store_bytes > 0
    assert spilled == (name == "spills")
    assert found.spill_bytes == (found.stack_bytes if spilled else 0)
    assert found.stack_bytes > 0 or name not in ("array", "spills")
    assert [w.partition(":")[0] for w in found.warnings] == {"array": ["local memory"], "spills": ["spills"]}.get(
        name, []
    )


@pytest.mark.parametrize("data", [b"", b"nothing of the kind", b"\x7fELF\x02\x01" + bytes(80)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(GemmsimError, match=r"x\.cubin: expected a cubin"):
        resources(data, "x.cubin")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNELS["static"])
    found = compile_one(Source(source, (), "sm_90a"), cache=tmp_path / "cache")
    assert found.cubin is not None
    whole = found.cubin.read_bytes()
    for size in range(0, len(whole) - 100, 97):
        with pytest.raises(GemmsimError, match="expected a cubin"):
            resources(whole[:size])
