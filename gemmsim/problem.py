"""What is multiplied: C[m, n] = A[m, k] x B[k, n], row-major, one dtype of operands and result.

m, n and k may be arrays of the same length: a Gemm is then a batch of problems that share their dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.errors import GemmsimError, unknown

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: bytes of one element, by dtype name
DTYPE_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
#: other spellings met in files and frameworks
DTYPE_ALIASES = {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float": "fp32", "f32": "fp32", "f64": "fp64",
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "f16": "fp16", "tensorfloat32": "tf32",
    "float8_e4m3": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "fp8e4m3": "fp8", "s8": "int8",
}  # fmt: skip
#: a dimension reaches at most this: kernels index with 32-bit integers
MAX_DIMENSION = 2**31 - 1


def dtype_name(text: str) -> str:
    """The canonical dtype name. Raises GemmsimError for an unknown one."""
    low = str(text).lower()
    name = DTYPE_ALIASES.get(low, low)
    if name not in DTYPE_BYTES:
        raise unknown("dtype", text, DTYPE_BYTES)
    return name


def _dimension(name: str, value: object) -> IntArray:
    """An int64 array of dimensions from one value or many. Raises GemmsimError for what is no size."""
    raw = np.asarray(value)
    if raw.dtype == object or raw.dtype.kind not in "iuf":
        raise GemmsimError(f"{name} = {value!r}: expected a whole number from 1 to {MAX_DIMENSION}")
    bad = ~((raw >= 1) & (raw <= MAX_DIMENSION))
    if raw.dtype.kind == "f":
        bad |= raw != np.floor(raw)
    if bad.any():
        first = np.atleast_1d(raw)[np.atleast_1d(bad)][0]
        raise GemmsimError(f"{name} = {first}: expected a whole number from 1 to {MAX_DIMENSION}")
    return np.atleast_1d(raw).astype(np.int64)


@dataclass(frozen=True)
class Gemm:
    """A batch of problems: m, n, k are int64 arrays of one length (see `gemm`); dtype names the operands' type."""

    m: IntArray
    n: IntArray
    k: IntArray
    dtype: str = "bf16"

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of A, B and C."""
        return DTYPE_BYTES[self.dtype]

    @property
    def flops(self) -> FloatArray:
        """2 m n k, the multiplications and additions of the product."""
        return np.asarray(2.0 * self.m * self.n * self.k, dtype=np.float64)

    @property
    def compulsory_bytes(self) -> FloatArray:
        """A and B read once and C written once."""
        m, n, k = (np.asarray(x, np.float64) for x in (self.m, self.n, self.k))
        return np.asarray(self.element_bytes * (m * k + k * n + m * n), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.m)


def gemm(m: object, n: object, k: object, dtype: str = "bf16") -> Gemm:
    """A Gemm from numbers or arrays that broadcast together. Raises GemmsimError for a size or dtype that is none."""
    sizes = [_dimension(name, value) for name, value in (("M", m), ("N", n), ("K", k))]
    try:
        m_, n_, k_ = np.broadcast_arrays(*sizes)
    except ValueError:
        shapes = ", ".join(str(len(s)) for s in sizes)
        raise GemmsimError(f"M, N and K hold {shapes} values: expected the same number, or one") from None
    return Gemm(m_, n_, k_, dtype_name(dtype))
