"""What is multiplied: C[m, n] = epilogue(A[m, k] x B[k, n] + beta C), for each of `batch` equal problems.

m, n, k and batch may be arrays of the same length: a Gemm then holds many problems that share the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
#: dtype of C where none is given: 16-bit operands keep theirs, 8-bit ones widen, tf32 is fp32 in memory
RESULT_DTYPE = {
    "fp64": "fp64",
    "fp32": "fp32",
    "tf32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "bf16",
    "int8": "fp16",
}
#: how A and B lie in memory: N row-major, T transposed
LAYOUTS = ("NN", "NT", "TN", "TT")
#: what may follow the product while it is in registers
EPILOGUES = ("bias", "relu", "gelu", "silu", "residual", "scale")
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
    if raw.ndim > 1 or not raw.size:
        raise GemmsimError(f"{name} has the shape {raw.shape}: expected a number or a list of numbers")
    bad = ~((raw >= 1) & (raw <= MAX_DIMENSION))
    if raw.dtype.kind == "f":
        bad |= raw != np.floor(raw)
    if bad.any():
        first = np.atleast_1d(raw)[np.atleast_1d(bad)][0]
        raise GemmsimError(f"{name} = {first}: expected a whole number from 1 to {MAX_DIMENSION}")
    return np.atleast_1d(raw).astype(np.int64)


@dataclass(frozen=True)
class Gemm:
    """Problems: m, n, k, batch are int64 arrays of one length (see `gemm`); the rest holds for all.

    dtype is that of A and of the math; dtype_b is B's in memory (weights may be narrower), dtype_c the result's.
    layout: N row-major, T transposed, A then B. beta: C is read and added. epilogue: of EPILOGUES, in order.
    """

    m: IntArray
    n: IntArray
    k: IntArray
    batch: IntArray
    dtype: str = "bf16"
    dtype_b: str = "bf16"
    dtype_c: str = "bf16"
    layout: str = "NN"
    beta: bool = False
    epilogue: tuple[str, ...] = ()

    @property
    def a_bytes(self) -> int:
        """Bytes of an element of A."""
        return DTYPE_BYTES[self.dtype]

    @property
    def b_bytes(self) -> int:
        """Bytes of an element of B in memory."""
        return DTYPE_BYTES[self.dtype_b]

    @property
    def c_bytes(self) -> int:
        """Bytes of an element of C."""
        return DTYPE_BYTES[self.dtype_c]

    @property
    def a_stride(self) -> IntArray:
        """Elements from one row of A in memory to the next."""
        return self.m if self.layout[0] == "T" else self.k

    @property
    def b_stride(self) -> IntArray:
        """Elements from one row of B in memory to the next."""
        return self.k if self.layout[1] == "T" else self.n

    @property
    def flops(self) -> FloatArray:
        """2 m n k a problem, the multiplications and additions of the product, times the batch."""
        return np.asarray(2.0 * self.m * self.n * self.k * self.batch, dtype=np.float64)

    @property
    def beyond_plain(self) -> tuple[str, ...]:
        """What makes these more than the plain row-major product, of which calibration rows are; empty if nothing."""
        parts = [f"layout {self.layout}"] if self.layout != "NN" else []
        parts += [f"B in {self.dtype_b}"] if self.dtype_b != self.dtype else []
        parts += ["beta"] if self.beta else []
        parts += list(self.epilogue)
        return (*parts, *(["batch"] if (self.batch > 1).any() else []))

    @property
    def result_reads(self) -> int:
        """Arrays of C's shape that the epilogue reads: C itself with beta, and a residual."""
        return int(self.beta) + self.epilogue.count("residual")

    @property
    def form(self) -> Form:
        """All of them but their sizes; of the batches the first."""
        batch = int(self.batch[0])
        return Form(self.dtype, self.dtype_b, self.dtype_c, self.layout, self.beta, self.epilogue, batch)

    @property
    def compulsory_bytes(self) -> FloatArray:
        """A and B read once, C written once, and what beta and the epilogue read, times the batch."""
        m, n, k = (np.asarray(x, np.float64) for x in (self.m, self.n, self.k))
        result = self.c_bytes * m * n * (1 + self.result_reads) + self.c_bytes * n * self.epilogue.count("bias")
        return np.asarray(self.batch * (self.a_bytes * m * k + self.b_bytes * k * n + result), dtype=np.float64)

    def take(self, where: npt.NDArray[np.intp] | slice) -> Gemm:
        """Some of the problems."""
        return replace(self, m=self.m[where], n=self.n[where], k=self.k[where], batch=self.batch[where])

    def __len__(self) -> int:
        return len(self.m)


@dataclass(frozen=True)
class Form:
    """All of a problem but its size: see Gemm. Left out: dtype_b is dtype, dtype_c the usual result of it."""

    dtype: str = "bf16"
    dtype_b: str | None = None
    dtype_c: str | None = None
    layout: str = "NN"
    beta: bool = False
    epilogue: tuple[str, ...] = ()
    batch: int = 1


def form_of(form: str | Form) -> Form:
    """The Form with every name canonical, from a Form or a dtype. Raises GemmsimError for a name that is none."""
    given = Form(form) if isinstance(form, str) else form
    if given.layout not in LAYOUTS:
        raise unknown("layout", str(given.layout), LAYOUTS)
    for step in given.epilogue:
        if step not in EPILOGUES:
            raise unknown("epilogue", str(step), EPILOGUES)
    a = dtype_name(given.dtype)
    b = a if given.dtype_b is None else dtype_name(given.dtype_b)
    if DTYPE_BYTES[b] > DTYPE_BYTES[a]:
        raise GemmsimError(f"dtype_b = {b}: expected {a}, or a narrower type that is widened to it")
    c = RESULT_DTYPE[a] if given.dtype_c is None else dtype_name(given.dtype_c)
    return replace(given, dtype=a, dtype_b=b, dtype_c=c, epilogue=tuple(given.epilogue), beta=bool(given.beta))


def gemm(m: object, n: object, k: object, form: str | Form = "bf16") -> Gemm:
    """A Gemm from numbers or arrays that broadcast together; form: a dtype, or a Form.

    Raises GemmsimError for a size, type, layout or epilogue that is none.
    """
    f = form_of(form)
    sizes = [_dimension(name, value) for name, value in (("M", m), ("N", n), ("K", k), ("batch", f.batch))]
    try:
        m_, n_, k_, batch = np.broadcast_arrays(*sizes)
    except ValueError:
        lengths = ", ".join(str(len(s)) for s in sizes[:3])
        raise GemmsimError(f"M, N and K hold {lengths} values: expected the same number, or one") from None
    return Gemm(m_, n_, k_, batch, f.dtype, str(f.dtype_b), str(f.dtype_c), f.layout, f.beta, f.epilogue)
