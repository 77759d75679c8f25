"""cuBLAS and cuBLASLt on arrays of the host, column-major as they are, for what they are called with."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest


def e4m3(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """The numbers that bytes stand for."""
    size, sign = codes & 127, np.where(codes & 128, -1.0, 1.0)
    exponent, mantissa = (size >> 3).astype(float), (size & 7).astype(float)
    normal, small = (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9
    return np.asarray(sign * np.where(size == 127, np.nan, np.where(exponent > 0, normal, small)))


#: cudaDataType_t -> what holds it
HELD: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 28: np.uint8}


class HostArray:
    """A flat array with the little of CuPy's that is used."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = np.array(values, order="C").ravel()
        self.nbytes = self.values.nbytes
        self.data = SimpleNamespace(ptr=int(self.values.ctypes.data))


def column_major(at: int, kind: int, rows: int, columns: int) -> npt.NDArray[Any]:
    """The matrix at an address, which writes through."""
    held = np.dtype(HELD[kind])
    buffer = (ctypes.c_ubyte * (held.itemsize * rows * columns)).from_address(at)
    return np.frombuffer(buffer, held).reshape(columns, rows).T


def product(a: Any, b: Any, c: Any, factors: tuple[float, float]) -> None:
    """c = alpha a b + beta c; a, b: address, cudaDataType_t, rows, columns, whether it is turned."""
    left, right = (_operand(*x) for x in (a, b))
    out = column_major(*c)
    out[...] = factors[0] * (left @ right) + (factors[1] * out if factors[1] else 0)


def _operand(at: int, kind: int, rows: int, columns: int, turned: bool) -> npt.NDArray[Any]:
    raw = column_major(at, kind, rows, columns)
    wide = e4m3(raw) if kind == 28 else raw.astype(np.float64)
    return wide.T if turned else wide


def gemm_batched(
    handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, a_kind: int, lda: int, a_step: int,
    b: int, b_kind: int, ldb: int, b_step: int, beta: int, c: int, c_kind: int, ldc: int, c_step: int, count: int,
    compute: int, algorithm: int,
) -> None:  # fmt: skip
    """cublasGemmStridedBatchedEx."""
    assert (handle, algorithm) == (5, -1)
    assert (lda, ldb, ldc) == (k if ta else m, n if tb else k, m)
    real: Any = ctypes.c_double if compute == 70 else ctypes.c_float
    factors = real.from_address(alpha).value, real.from_address(beta).value
    width = [np.dtype(HELD[kind]).itemsize for kind in (a_kind, b_kind, c_kind)]
    for i in range(count):
        of_a = (a + i * a_step * width[0], a_kind, lda, m if ta else k, bool(ta))
        of_b = (b + i * b_step * width[1], b_kind, ldb, k if tb else n, bool(tb))
        product(of_a, of_b, (c + i * c_step * width[2], c_kind, m, n), factors)


def gemm_one(*given: Any) -> None:
    """cublasGemmEx."""
    handle, ta, tb, m, n, k, alpha, a, a_kind, lda, b, b_kind, ldb, beta, c, c_kind, ldc, *how = given
    gemm_batched(handle, ta, tb, m, n, k, alpha, a, a_kind, lda, 0, b, b_kind, ldb, 0, beta, c, c_kind, ldc, 0, 1, *how)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have CuPy's modules of cuBLAS be these."""
    library = SimpleNamespace(
        gemmEx=gemm_one, gemmStridedBatchedEx=gemm_batched, setMathMode=lambda *x: None, setPointerMode=lambda *x: None
    )
    names = ("cupy", "cupy.cuda", "cupy.cuda.device", "cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs")
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    modules["cupy.cuda.device"].get_cublas_handle = lambda: 5
    modules["cupy_backends.cuda.libs"].cublas = library
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@dataclass
class FakeLt:
    """cuBLASLt; `status` is what the heuristic answers. What it makes is numbered from 1 on."""

    status: int = 0
    made: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.endswith("Create"):
            return lambda into, *given: self._create(into._obj, given)
        return self._set

    def _create(self, into: ctypes.c_void_p, given: tuple[int, ...]) -> int:
        into.value = len(self.made) + 1
        self.made[into.value] = {"given": given}
        return 0

    def _set(self, what: ctypes.c_void_p, attribute: int, value: Any, size: int) -> int:
        assert ctypes.sizeof(value._obj) == size
        self.made[what.value or 0][attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle: Any, *given: Any) -> int:
        *descriptors, wanted, most, found, count = given
        assert len(descriptors) == 5
        assert self.made[wanted.value] == {"given": (), 1: 64 << 20}
        found._obj.workspace_bytes, count._obj.value = 4096, most
        return self.status

    def cublasLtMatmul(
        self, handle: Any, how: Any, alpha: int, a: int, of_a: Any, b: int, of_b: Any, beta: int, c: int | None,
        of_c: Any, d: int, of_d: Any, algorithm: Any, work: int, work_bytes: int, stream: int,
    ) -> int:  # fmt: skip
        described = self.made[how.value]
        assert described == {"given": (68, 0), 3: 1, 25: 1}
        factors = tuple(ctypes.c_float.from_address(x).value for x in (alpha, beta))
        assert c == (d if factors[1] else None)
        assert (work_bytes, stream) == (4096, 77)
        left, right, out = (self.made[x.value] for x in (of_a, of_b, of_d))
        for i in range(out.get(5, 1)):
            at = [p + i * x.get(6, 0) * np.dtype(HELD[x["given"][0]]).itemsize for p, x in
                  ((a, left), (b, right), (d, out))]  # fmt: skip
            of = [x["given"][:3] for x in (left, right, out)]
            product((at[0], *of[0], True), (at[1], *of[1], False), (at[2], *of[2]), (factors[0], factors[1]))
        return 0
