"""cuBLAS's GEMM on row-major arrays, each type in its own math: fp32 on the CUDA cores, never as TF32."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsim.bench.device import Device
from gemmsim.bench.task import Refused
from gemmsim.problem import Form

#: dtype -> cudaDataType_t (library_types.h)
_DATA = {"fp32": 0, "fp64": 1, "fp16": 2, "bf16": 14, "tf32": 0}
#: dtype of the operands -> cublasComputeType_t (cublas_api.h): 32F, 64F, 32F_FAST_TF32
_COMPUTE = {"fp32": 68, "fp64": 70, "fp16": 68, "bf16": 68, "tf32": 77}
#: those of operands, with what cublaslt adds
DTYPES = (*_COMPUTE, "fp8")
_DEFAULT_ALGORITHM = -1
_DEFAULT_MATH = 0
_HOST_POINTERS = 0
#: two buffers of 64 MiB, where 32 MiB are recommended on Hopper: with too little cuBLAS passes some kernels by. CuPy
#: sets the stream before each call, which takes back what cublasSetWorkspace gave: so it is the environment that says
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":65536:2")


def has(form: Form) -> bool:
    """Whether the library has a product of that form at all, as far as types and layout say."""
    from gemmsim.bench import cublaslt

    return form.dtype in _COMPUTE or (form.dtype == cublaslt.DTYPE and form.layout == cublaslt.LAYOUT)


def refusal(dtype: str, against: str) -> str:
    """Why a kernel in one type is not compared with cuBLAS in another; empty where the math is the same."""
    if dtype == against:
        return ""
    return f"{dtype} against cuBLAS in {against}: expected the same math on both sides"


def handle() -> int:
    """The library's handle, which knows its workspace from its beginning."""
    from cupy.cuda.device import get_cublas_handle

    os.environ.setdefault(*_WORKSPACE)
    return int(get_cublas_handle())


def gemm(
    device: Device, size: tuple[int, int, int], form: Form, a: Any, b: Any, c: Any, alpha: float, beta: float
) -> Callable[[], None]:
    """C = alpha A B + beta C, for each problem of a batch, as a call that queues it on the current stream.

    a, b, c are flat arrays, row-major as the layout says; what the Form has beside types, layout and batch is left out.
    cuBLAS is column-major: it is asked for C's transpose, B's times A's. Raises Refused for types that it has no
    product of.
    """
    from cupy_backends.cuda.libs import cublas

    (m, n, k), dtype, dtype_c = size, form.dtype, str(form.dtype_c)
    if dtype not in _COMPUTE or dtype_c not in _DATA:
        raise Refused(f"cublas: {dtype} with C in {dtype_c} is not timed, {', '.join(DTYPES)} are")
    turned_a, turned_b = form.layout[0] == "T", form.layout[1] == "T"
    factors = np.asarray([alpha, beta], np.float64 if dtype == "fp64" else np.float32)
    at, how = int(factors.ctypes.data), (_COMPUTE[dtype], _DEFAULT_ALGORITHM)
    of_b, of_a, of_c = (b.data.ptr, _DATA[dtype]), (a.data.ptr, _DATA[dtype]), (c.data.ptr, _DATA[dtype_c])
    lines_b, lines_a = k if turned_b else n, m if turned_a else k
    head, second = (handle(), int(turned_b), int(turned_a), n, m, k, at), at + factors.itemsize
    cublas.setMathMode(head[0], _DEFAULT_MATH)
    cublas.setPointerMode(head[0], _HOST_POINTERS)
    one = (*head, *of_b, lines_b, *of_a, lines_a, second, *of_c, n, *how)
    many = (*head, *of_b, lines_b, n * k, *of_a, lines_a, m * k, second, *of_c, n, m * n, form.batch, *how)

    def launch() -> None:
        if form.batch == 1:
            cublas.gemmEx(*one)
        else:
            cublas.gemmStridedBatchedEx(*many)

    launch.kept = (a, b, c, factors)  # type: ignore[attr-defined]
    return launch
