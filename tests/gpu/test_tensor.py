"""What tensor-core families stand on: tensor maps, clusters, narrow types, batches and their reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsim.bench.check import compare
from gemmsim.bench.compile import Source, arch_of, compile_one
from gemmsim.bench.data import BETA, make
from gemmsim.bench.device import Launch
from gemmsim.bench.task import Ask
from gemmsim.bench.tensor_map import encoded
from gemmsim.families.cuda import TensorMap
from gemmsim.paths import data_folder
from gemmsim.problem import LAYOUTS, Form, form_of

pytestmark = pytest.mark.gpu

#: one box by TMA at (x, y) to shared memory, and from there, byte by byte, to `out`
COPY = """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void gemm(unsigned char* out, int x, int y, const __grid_constant__ Map map) {
  __shared__ alignas(1024) unsigned char box[BYTES];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned to = (unsigned)__cvta_generic_to_shared(box), at = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(BYTES) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(at) : "memory");
  }
  __syncthreads();
  asm volatile(
      "{ .reg .pred done;\\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n"
      "@!done bra again; }" ::"r"(at) : "memory");
  for (int i = threadIdx.x; i < BYTES; i += blockDim.x) out[i] = box[i];
}
"""
CLUSTER = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) gemm(int* out) { out[blockIdx.x] = blockIdx.x + 1; }
"""
#: from e4m3 and back, by the headers, 256 codes and some floats
NARROW = """
#include "common/types.cuh"
extern "C" __global__ void gemm(const unsigned char* codes, float* wide, const float* x, unsigned char* narrow,
                                int count) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < 256) wide[i] = widen(e4m3_t{codes[i]});
  if (i < count) narrow[i] = Narrow<e4m3_t>::of(x[i]).bits;
}
"""


@pytest.fixture
def built(gpu: Any, rig: Any, tmp_path: Path) -> Any:
    """Source and macros -> a kernel on the device."""

    (tmp_path / "common").symlink_to(data_folder("kernels") / "common")

    def function(source: str, **macros: str) -> Any:
        path = tmp_path / f"kernel{len(list(tmp_path.iterdir()))}.cu"
        path.write_text(source)
        found = compile_one(Source(path, tuple(macros.items()), arch_of(gpu)), cache=tmp_path / "cache")
        assert found.status == "ok", found.reason
        return rig.device.function(str(found.cubin), "gemm")

    return function


def hopper(rig: Any) -> None:
    if rig.place.compute_capability != "9.0":
        pytest.skip("needs compute capability 9.0")


def swizzled(box: np.ndarray, row_bytes: int) -> np.ndarray:  # type: ignore[type-arg]
    """Rows of bytes as TMA lays them: 16-byte words of a row exchanged by bits of the row's address."""
    rows = box.reshape(-1, row_bytes // 16, 16)
    out, times = np.empty_like(rows), 128 // row_bytes
    for i, row in enumerate(rows):
        for j, word in enumerate(row):
            out[i, j ^ (i // times % (row_bytes // 16))] = word
    return out.reshape(-1)


@pytest.mark.parametrize(("dtype", "swizzle"), [("bf16", 128), ("bf16", 0), ("fp8", 64), ("tf32", 32)])
def test_a_box_by_tma(rig: Any, built: Any, dtype: str, swizzle: int) -> None:
    hopper(rig)
    cupy = rig.device.cupy
    width = {"bf16": 2, "fp8": 1, "tf32": 4}[dtype]
    inner, rows = (swizzle or 64) // width, 40
    matrix = np.random.default_rng(1).integers(0, 100, (64, 256 // width, width)).astype(np.uint8)
    if width == 4:
        matrix[..., :2] = 0  # tf32 has no such bits
        matrix[..., 3] += 10  # and nothing here is denormal
    given = cupy.asarray(matrix)
    map_ = TensorMap("a", dtype, (256 // width, 64), (256,), (inner, rows), swizzle)
    out = cupy.zeros(inner * width * rows, "uint8")
    kernel = built(COPY, BYTES=str(out.size))
    x, y = 256 // width - inner // 2, 50  # past both ends: zeros
    code = encoded(map_, int(given.data.ptr))
    Launch(rig.device, kernel, (1, 1, 1), 128, 0, [out, np.int32(x), np.int32(y), code])()
    rig.device.synchronize()
    want = np.zeros((rows, inner, width), np.uint8)
    want[: 64 - y, : 256 // width - x] = matrix[y:, x:]
    flat = want.reshape(-1)
    np.testing.assert_array_equal(out.get(), swizzled(flat, swizzle) if swizzle else flat)


def test_clusters_that_the_gpu_holds(rig: Any, built: Any) -> None:
    hopper(rig)
    kernel = built(CLUSTER)
    count = rig.device.clusters(kernel, (8, 1, 1), 1024, 0)
    assert 0 < 2 * count <= 2 * rig.device.sm_count
    assert rig.device.clusters(kernel, (8, 1, 1), 1024, 40_000) <= count
    out = rig.device.cupy.zeros(8, "int32")
    Launch(rig.device, kernel, (8, 1, 1), 64, 0, [out])()
    rig.device.synchronize()
    assert out.get().tolist() == list(range(1, 9))


def e4m3() -> np.ndarray:  # type: ignore[type-arg]
    """The numbers of the 256 codes."""
    from fake_cublas import e4m3 as numbers

    return np.asarray(numbers(np.arange(256, dtype=np.uint8)))


def test_e4m3_there_and_back(rig: Any, built: Any) -> None:
    cupy = rig.device.cupy
    numbers = e4m3()
    fine = numbers[np.isfinite(numbers)]
    x = np.concatenate([fine, np.linspace(-500, 500, 4001), np.linspace(-0.05, 0.05, 4001), [np.inf, -np.inf, np.nan]])
    x = x.astype(np.float32)
    codes, wide, narrow = cupy.arange(256, dtype="uint8"), cupy.zeros(256, "float32"), cupy.zeros(x.size, "uint8")
    kernel = built(NARROW)
    given = [codes, wide, cupy.asarray(x), narrow, np.int32(x.size)]
    Launch(rig.device, kernel, (-(-x.size // 256), 1, 1), 256, 0, given)()
    own = cupy.zeros(x.size, "float64")
    rig.device.own("widen", (np.int32(5), narrow, own, np.uint64(x.size)))()
    rig.device.synchronize()
    np.testing.assert_array_equal(wide.get(), numbers.astype(np.float32))
    found = numbers[narrow.get()]
    np.testing.assert_array_equal(own.get(), found)
    np.testing.assert_array_equal(found[: fine.size], fine)
    within = np.abs(x[:-3]) <= 448
    off = np.abs(found[:-3] - x[:-3])[within]
    nearest = np.abs(fine[:, None] - x[:-3][within].astype(float)).min(0)
    np.testing.assert_allclose(off, nearest, rtol=1e-6, atol=1e-12)
    assert found[-3:-1].tolist() == [448, -448]
    assert np.isnan(found[-1])


@pytest.mark.parametrize("dtype", ["fp8", "int8", "bf16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_and_reference_of_a_batch(rig: Any, dtype: str, layout: str) -> None:
    m, n, k, batch = 33, 48, 80, 3
    form = form_of(Form(dtype, layout=layout, batch=batch, beta=True, epilogue=("bias", "relu")))
    data = make(rig.device, Ask(m, n, k, form, "cublas", ()), 5)
    arrays = ((data.a, dtype), (data.b, dtype), (data.before, form.dtype_c), (data.bias, form.dtype_c))
    a, b, before, bias = (_wide(rig, array, str(kind)) for array, kind in arrays)
    a = a.reshape(batch, k, m).swapaxes(1, 2) if layout[0] == "T" else a.reshape(batch, m, k)
    b = b.reshape(batch, n, k).swapaxes(1, 2) if layout[1] == "T" else b.reshape(batch, k, n)
    want = np.maximum(a @ b + BETA * before.reshape(batch, m, n) + bias, 0)
    np.testing.assert_allclose(data.reference.get().reshape(want.shape), want, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(data.norm_a.get(), np.linalg.norm(a, axis=2).ravel(), rtol=1e-12)
    np.testing.assert_allclose(data.norm_b.get(), np.linalg.norm(b, axis=1).ravel(), rtol=1e-12)
    spread = 8 if dtype == "int8" else 1
    assert abs(a.std() / spread - 1) < 0.1
    assert len(np.unique(a)) > 30


def _wide(rig: Any, array: Any, dtype: str) -> Any:
    from gemmsim.bench.device import TYPE_NUMBERS

    out = rig.device.cupy.empty(array.size, "float64")
    rig.device.own("widen", (np.int32(TYPE_NUMBERS[dtype]), array, out, np.uint64(array.size)))()
    rig.device.synchronize()
    return out.get()


def test_a_problem_of_a_batch_that_is_left_out_is_wrong(rig: Any) -> None:
    from gemmsim.bench.kernels import library

    m, n, k = 64, 48, 32
    ask = Ask(m, n, k, form_of(Form("bf16", batch=3)), "cublas", ())
    data = make(rig.device, ask, 7)
    data.poison(rig.device)
    library(rig.device, ask, data, data.c).launch()
    assert compare(rig.device, data).reason == ""
    data.c[2 * m * n :] = data.c[: m * n]
    assert "limit" in compare(rig.device, data).reason
