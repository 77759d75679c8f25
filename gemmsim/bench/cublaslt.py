"""cuBLASLt's GEMM of fp8 operands (e4m3), which cuBLAS's plain interface does not have; through ctypes.

Sums stay on the tensor cores from beginning to end ("fast accumulation"), as in a kernel that adds up by wgmma alone:
it is the faster of cuBLASLt's two ways, and the less exact.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from gemmsim.bench.device import Device
from gemmsim.bench.task import Refused
from gemmsim.problem import Form

DTYPE, LAYOUT = "fp8", "NT"
#: what NVIDIA recommends on Hopper is 32 MiB
WORKSPACE_BYTES = 64 << 20
#: dtype -> cudaDataType_t (library_types.h)
_DATA = {"fp32": 0, "fp16": 2, "bf16": 14, "fp8": 28}
_COMPUTE_32F, _SCALE_32F = 68, 0
#: attributes of cublasLt.h: of a product, of a matrix, of what is looked for
_TRANSPOSED_A, _FAST_ACCUMULATION = 3, 25
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_MOST_WORKSPACE = 1


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8), ("workspace_bytes", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    )  # fmt: skip


#: arguments of the functions of the library
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (c_void_p,),
    "cublasLtMatmulDescCreate": (c_void_p, c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceCreate": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, c_void_p, c_void_p),
    "cublasLtMatmul": (*[c_void_p] * 14, c_size_t, c_void_p),
}


@functools.cache
def library() -> Any:
    """The library, its functions with their types. Raises Refused where it is not."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        found = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (DynamicLibNotFoundError, OSError):
        raise Refused("cublas: libcublasLt is not found: pip install nvidia-cublas") from None
    for name, arguments in _FUNCTIONS.items():
        getattr(found, name).argtypes = arguments
    return found


@functools.cache
def _handle() -> c_void_p:
    return _made("cublasLtCreate")


def gemm(
    device: Device, size: tuple[int, int, int], form: Form, a: Any, b: Any, c: Any, alpha: float, beta: float
) -> Callable[[], None]:
    """As cublas.gemm, by the algorithm that the library's heuristic puts first. Raises Refused."""
    m, n, k = size
    dtype_c = str(form.dtype_c)
    _check_form(form, dtype_c, beta)
    product = _made("cublasLtMatmulDescCreate", _COMPUTE_32F, _SCALE_32F)
    _set("cublasLtMatmulDescSetAttribute", product, _TRANSPOSED_A, c_int32(1))
    _set("cublasLtMatmulDescSetAttribute", product, _FAST_ACCUMULATION, c_int8(1))
    # the library is column-major: C's transpose, N x M, is B's times A's, both with K running on in memory
    of_b, of_a = _matrix(DTYPE, k, n, form.batch), _matrix(DTYPE, k, m, form.batch)
    of_d = _matrix(dtype_c, n, m, form.batch)
    of_c = _matrix("bf16", n, m, form.batch) if dtype_c == DTYPE else of_d
    best = _best(size, (product, of_b, of_a, of_c, of_d))
    work = device.cupy.empty(max(int(best.workspace_bytes), 1), "uint8")
    factors = (c_float * 2)(alpha, beta)
    at = ctypes.addressof(factors)
    given = (
        _handle(), product, at, b.data.ptr, of_b, a.data.ptr, of_a, at + ctypes.sizeof(c_float),
        c.data.ptr if beta else None, of_c, c.data.ptr, of_d, byref(best), work.data.ptr, work.nbytes,
        int(device.stream.ptr),
    )  # fmt: skip

    def launch() -> None:
        _check("cublasLtMatmul", library().cublasLtMatmul(*given))

    launch.kept = (a, b, c, work, factors)  # type: ignore[attr-defined]
    return launch


def _check_form(form: Form, dtype_c: str, beta: float) -> None:
    """Raise Refused for what the library has no fp8 product of."""
    if form.layout != LAYOUT:
        raise Refused(f"cublas: fp8 in layout {form.layout} is not timed, {LAYOUT} is: cuBLASLt takes A and B along K")
    if dtype_c not in _DATA:
        raise Refused(f"cublas: fp8 with C in {dtype_c} is not timed, {', '.join(_DATA)} are")
    if beta and dtype_c == DTYPE:
        raise Refused("cublas: fp8 with beta and C in fp8 is not timed: cuBLASLt reads C in bf16 or fp16")


def _best(size: tuple[int, int, int], descriptors: tuple[c_void_p, ...]) -> _Algorithm:
    """The heuristic's first choice. Raises Refused where it has none."""
    wanted, found, count = _made("cublasLtMatmulPreferenceCreate"), _Algorithm(), c_int(0)
    _set("cublasLtMatmulPreferenceSetAttribute", wanted, _MOST_WORKSPACE, c_uint64(WORKSPACE_BYTES))
    ask = library().cublasLtMatmulAlgoGetHeuristic
    status = ask(_handle(), *descriptors, wanted, 1, byref(found), byref(count))
    if status or not count.value or found.state:
        sizes = " x ".join(map(str, size))
        raise Refused(f"cublas: cuBLASLt has no fp8 kernel for {sizes}: for N and K in multiples of 16 it has")
    return found


def _matrix(dtype: str, rows: int, columns: int, batch: int) -> c_void_p:
    """A dense column-major matrix, `batch` times one behind the other."""
    made = _made("cublasLtMatrixLayoutCreate", _DATA[dtype], rows, columns, rows)
    if batch > 1:
        _set("cublasLtMatrixLayoutSetAttribute", made, _BATCH_COUNT, c_int32(batch))
        _set("cublasLtMatrixLayoutSetAttribute", made, _BATCH_STRIDE, c_int64(rows * columns))
    return made


def _made(name: str, *given: int) -> c_void_p:
    """What a function of the library makes."""
    made = c_void_p()
    _check(name, getattr(library(), name)(byref(made), *given))
    return made


def _set(name: str, what: c_void_p, attribute: int, value: Any) -> None:
    _check(name, getattr(library(), name)(what, attribute, byref(value), ctypes.sizeof(value)))


def _check(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{name} failed with cublasStatus_t {status}")
