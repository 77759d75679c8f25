"""cuBLAS's GEMM on row-major arrays, each type in its own math: fp32 on the CUDA cores, never as TF32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsim.bench.device import Device

#: dtype -> cudaDataType_t (library_types.h)
_DATA = {"fp32": 0, "fp64": 1, "fp16": 2, "bf16": 14, "tf32": 0}
#: dtype of the operands -> cublasComputeType_t (cublas_api.h): 32F, 64F, 32F_FAST_TF32
_COMPUTE = {"fp32": 68, "fp64": 70, "fp16": 68, "bf16": 68, "tf32": 77}
DTYPES = tuple(_DATA)
_DEFAULT_ALGORITHM = -1
_DEFAULT_MATH = 0
_HOST_POINTERS = 0


def refusal(dtype: str, against: str) -> str:
    """Why a kernel in one type is not compared with cuBLAS in another; empty where the math is the same."""
    if dtype == against:
        return ""
    return f"{dtype} against cuBLAS in {against}: expected the same math on both sides"


def gemm(
    device: Device, size: tuple[int, int, int], layout: str, dtype: str, dtype_c: str, a: Any, b: Any, c: Any,
    alpha: float, beta: float,
) -> Callable[[], None]:  # fmt: skip
    """C = alpha A B + beta C as a call that queues it on the current stream.

    a, b, c are flat arrays, row-major as `layout` says. cuBLAS is column-major: it is asked for C's transpose, B's
    times A's.
    """
    from cupy.cuda import device as cupy_device
    from cupy_backends.cuda.libs import cublas

    m, n, k = size
    handle = cupy_device.get_cublas_handle()
    cublas.setMathMode(handle, _DEFAULT_MATH)
    cublas.setPointerMode(handle, _HOST_POINTERS)
    real = np.float64 if dtype == "fp64" else np.float32
    factors = np.asarray([alpha, beta], real)
    at = int(factors.ctypes.data)
    given = (
        handle, int(layout[1] == "T"), int(layout[0] == "T"), n, m, k, at,
        b.data.ptr, _DATA[dtype], k if layout[1] == "T" else n,
        a.data.ptr, _DATA[dtype], m if layout[0] == "T" else k, at + factors.itemsize,
        c.data.ptr, _DATA[dtype_c], n, _COMPUTE[dtype], _DEFAULT_ALGORITHM,
    )  # fmt: skip
    kept = (a, b, c, factors)

    def launch() -> None:
        cublas.gemmEx(*given)

    launch.kept = kept  # type: ignore[attr-defined]
    return launch
