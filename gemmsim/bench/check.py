"""Whether a kernel's result is right: against float64, as a whole and element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gemmsim.bench.data import Data, scalars
from gemmsim.bench.device import TYPE_NUMBERS, Device
from gemmsim.problem import Form

#: unit roundoff of a type: what a number loses when it is rounded to it
ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8,
            "fp8": 2.0**-4}  # fmt: skip
#: relative Frobenius error over sqrt(K) that fp32 sums of standard normal products are allowed
FP32_LIMIT = 2e-6
#: relative Frobenius error of types whose result is narrow, or whose sums are on tensor cores
_FLAT_LIMIT = {"bf16": 5e-3, "fp16": 5e-3, "tf32": 1e-3, "fp8": 5e-3}
#: the same of a result in fp8, some of it rounded twice: by cuBLAS, and by the epilogue behind it
_FP8_RESULT_LIMIT = 6e-2
#: relative Frobenius error over sqrt(K) of sums of fp8 products on Hopper, which adds with about 13 bits of mantissa
#: and cuts off the rest at each step of 32 products (arXiv 2412.19437, 3.3.2; test_check emulates it). A step left out
#: is off by sqrt(32 / K)
_FP8_SUMS_LIMIT = 1e-4
#: a sum of K rounded products errs by about u |a| |b| on standard normal rows; so many times that is a fault. Tensor
#: cores align and cut before they add, which costs some bits more, 10 with fp8. Sums of int8 are exact, and rounded
#: when they become fp32
_PRODUCT = {"fp64": 16.0, "fp32": 16.0, "tf32": 128.0, "fp16": 128.0, "bf16": 128.0, "fp8": 16384.0, "int8": 2.0}
#: error of what an epilogue adds and of its exponential or tanh, in roundoffs of the accumulator
_FIXED = 64.0


def frobenius_limit(form: Form, k: int) -> float:
    """The largest relative Frobenius error of a right result."""
    sums = _FP8_SUMS_LIMIT * math.sqrt(k) if form.dtype == "fp8" else 0.0
    if form.dtype_c == "fp8":
        return _FP8_RESULT_LIMIT + sums
    if form.dtype in _FLAT_LIMIT or form.dtype_c in ("bf16", "fp16"):
        return max(_FLAT_LIMIT.get(form.dtype, _FLAT_LIMIT["bf16"]), sums)
    return FP32_LIMIT * (ROUNDOFF["fp64"] / ROUNDOFF["fp32"] if form.dtype == "fp64" else 1.0) * math.sqrt(k)


@dataclass(frozen=True)
class ElementBound:
    """|error| of an element <= product |row of A| |column of B| + fixed + relative |result|; the norms grow with K."""

    product: float
    fixed: float
    relative: float


def element_bound(form: Form, unfused: bool = False) -> ElementBound:
    """The bound of a Form: rounding of the sums, of what the epilogue adds, and of the cast to C's type.

    unfused: the epilogue is a kernel of its own, which finds the product rounded to C's type.
    """
    u = ROUNDOFF["fp64" if form.dtype == "fp64" else "fp32"]
    s = scalars(form)
    slope = 1.13  # of gelu, the steepest step
    return ElementBound(
        product=(_PRODUCT[form.dtype] * u + unfused * _roundoff(form)) * s.alpha * slope * max(1.0, s.scale),
        fixed=max(_FIXED * u if form.beta or form.epilogue else 2 * u, _least(form)),
        relative=2 * _roundoff(form) + 16 * u,
    )


def _least(form: Form) -> float:
    """Half of the smallest number of C's type, where that matters, and as much again."""
    return 2.0**-9 if form.dtype_c == "fp8" else 0.0


def _roundoff(form: Form) -> float:
    """Of C's type."""
    return ROUNDOFF["fp32" if form.dtype_c == "tf32" else str(form.dtype_c)]


@dataclass(frozen=True)
class Verdict:
    """What the comparison found: relative Frobenius error and its limit, the worst element over its bound, NaN left."""

    error: float
    limit: float
    element_error: float
    nan_count: int

    @property
    def reason(self) -> str:
        """Why the result is wrong; empty if it is right."""
        if self.nan_count:
            return f"{self.nan_count} elements of C are NaN or infinite: not written, or from what is none"
        if not self.error <= self.limit:
            return f"relative Frobenius error {self.error:.3g}, limit {self.limit:.3g}"
        if not self.element_error <= 1:
            return f"an element is off by {self.element_error:.3g} times its bound"
        return ""

    def columns(self) -> dict[str, float | int]:
        """The columns of a row."""
        return {"error": self.error, "error_limit": self.limit, "element_error": self.element_error,
                "nan_count": self.nan_count}  # fmt: skip


def verdict(found: tuple[float, float, float, float], form: Form, k: int) -> Verdict:
    """The Verdict on what kernels/measure.cu's `compare` added up."""
    square, size, broken, worst = found
    error = math.sqrt(square / size) if size > 0 else math.sqrt(square)
    return Verdict(error, frobenius_limit(form, k), worst, int(broken))


def compare(device: Device, data: Data, unfused: bool = False) -> Verdict:
    """Compare C, which a launch has just filled, with the reference; unfused: see element_bound."""
    device.use()
    m, n, k, form = data.key
    found = device.cupy.zeros(4, "float64")
    bound = element_bound(form, unfused)
    numbers = (np.float64(x) for x in (bound.product, bound.fixed, bound.relative))
    device.own(
        "compare",
        (np.int32(TYPE_NUMBERS[str(form.dtype_c)]), data.c, data.reference, np.uint64(m), np.uint64(n),
         np.uint64(form.batch), data.norm_a, data.norm_b, *numbers, found),
    )()  # fmt: skip
    a, b, c, d = found.get().tolist()
    return verdict((a, b, c, d), form, k)
