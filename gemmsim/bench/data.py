"""What a GEMM is measured on: standard normal inputs made afresh for each problem, and its result in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsim.bench.device import HELD_AS, TYPE_NUMBERS, Device
from gemmsim.bench.task import Ask
from gemmsim.errors import GemmsimError
from gemmsim.families.cuda import TYPES
from gemmsim.problem import Form

#: alpha; beta where C is read; the scale of that step. No powers of one another, and exact in every type: a kernel that
#: forgets one is wrong by more than rounding
ALPHA, BETA, SCALE = 1.25, 0.5, 0.75
#: number of an epilogue's step in kernels/measure.cu
STEPS = {"bias": 1, "relu": 2, "gelu": 3, "silu": 4, "residual": 5, "scale": 6}


def step_code(steps: tuple[str, ...]) -> int:
    """The steps as kernels/measure.cu takes them: four bits each, the first lowest."""
    return sum(STEPS[step] << 4 * i for i, step in enumerate(steps))


@dataclass(frozen=True)
class Scalars:
    """alpha, beta (0 where C is not read) and the scale of an epilogue."""

    alpha: float
    beta: float
    scale: float


def scalars(form: Form) -> Scalars:
    """The scalars a Form is measured with. Alpha is 1 for the types whose kernel, Triton's, does not take one."""
    alpha = ALPHA if form.dtype in TYPES else 1.0
    return Scalars(alpha, BETA if form.beta else 0.0, SCALE if "scale" in form.epilogue else 1.0)


@dataclass
class Data:
    """Arrays on the device for one problem: A, B, C as the layout stores them, what an epilogue reads, the reference.

    Problems of a batch lie one behind the other in all of them but bias. before: C's content where beta reads it.
    reference: float64, M x N. norm_a, norm_b: Euclidean norms of A's rows and B's columns. other_c: a C for a kernel
    that is timed in turn with the one that is measured.
    """

    key: tuple[int, int, int, Form]
    a: Any
    b: Any
    c: Any
    before: Any
    bias: Any
    residual: Any
    reference: Any
    norm_a: Any
    norm_b: Any
    other_c: Any = None

    @property
    def nbytes(self) -> int:
        """Device memory of all arrays."""
        arrays = (self.a, self.b, self.c, self.before, self.bias, self.residual, self.reference, self.other_c)
        return sum(int(array.nbytes) for array in arrays if array is not None)

    def poison(self, device: Device) -> None:
        """Fill C with NaN (all bits set is one in every type), or with what beta reads."""
        if self.before is None:
            self.c.data.memset_async(0xFF, self.c.nbytes, device.stream)
        else:
            self.c.data.copy_from_device_async(self.before.data, self.c.nbytes, device.stream)


def supported(form: Form) -> str:
    """Why there are no inputs of this Form; empty if there are."""
    if form.dtype_b != form.dtype:
        return f"B in {form.dtype_b} beside A in {form.dtype} is not measured: expected one type"
    return "C in int8 is not measured: expected a type with a NaN" if form.dtype_c == "int8" else ""


def make(device: Device, ask: Ask, seed: int, *, reference: bool = True) -> Data:
    """Inputs of a problem, and its reference unless that is left out.

    Raises GemmsimError for a Form without inputs, CuPy's OutOfMemoryError where they do not fit.
    """
    reason = supported(ask.form)
    if reason:
        raise GemmsimError(reason)
    device.use()
    m, n, k, form = ask.m, ask.n, ask.k, ask.form
    out, steps, results = str(form.dtype_c), form.epilogue, form.batch * m * n
    draw = _Drawer(device, seed)
    a, b = draw(form.dtype, form.batch * m * k), draw(form.dtype, form.batch * k * n)
    data = Data(
        key=(m, n, k, form), a=a, b=b, c=_empty(device, out, results), before=draw(out, results) if form.beta else None,
        bias=draw(out, n) if "bias" in steps else None, residual=draw(out, results) if "residual" in steps else None,
        reference=None, norm_a=None, norm_b=None,
    )  # fmt: skip
    if reference:
        _refer(device, ask, data)
    return data


class _Drawer:
    """Draws arrays of standard normal numbers, each from a seed of its own."""

    def __init__(self, device: Device, seed: int) -> None:
        self._device, self._seed = device, seed

    def __call__(self, dtype: str, count: int) -> Any:
        self._seed += 1
        array = _empty(self._device, dtype, count)
        # a golden-ratio stride keeps the streams of neighbouring seeds apart
        start = np.uint64(self._seed * 0xD1342543DE82EF95 % 2**64)
        self._device.own("normal", (np.int32(TYPE_NUMBERS[dtype]), array, np.uint64(count), start))()
        return array


def _empty(device: Device, dtype: str, count: int) -> Any:
    return device.cupy.empty(count, HELD_AS[dtype])


def _refer(device: Device, ask: Ask, data: Data) -> None:
    """The float64 result and the norms, by cuBLAS and kernels/measure.cu."""
    from gemmsim.bench.cublas import gemm

    m, n, k, form = ask.m, ask.n, ask.k, ask.form
    number = np.int32(TYPE_NUMBERS[form.dtype])
    a, b = (device.cupy.empty(x.size, "float64") for x in (data.a, data.b))
    for narrow, wide in ((data.a, a), (data.b, b)):
        device.own("widen", (number, narrow, wide, np.uint64(wide.size)))()
    data.reference = device.cupy.empty(data.c.size, "float64")
    wide_form = Form("fp64", "fp64", "fp64", form.layout, batch=form.batch)
    gemm(device, (m, n, k), wide_form, a, b, data.reference, 1.0, 0.0)()
    a_steps, b_steps = (1, m) if form.layout[0] == "T" else (k, 1), (k, 1) if form.layout[1] == "T" else (1, n)
    data.norm_a, data.norm_b = _norms(device, a, m, k, a_steps), _norms(device, b, n, k, b_steps)
    s = scalars(form)
    device.own(
        "finish",
        (data.reference, np.uint64(form.batch * m), np.uint64(n),
         *(np.float64(x) for x in (s.alpha, s.beta, s.scale)),
         np.int32(TYPE_NUMBERS[str(form.dtype_c)]), data.before, data.bias, data.residual,
         np.uint64(step_code(form.epilogue))),
    )()  # fmt: skip
    device.synchronize()


def _norms(device: Device, wide: Any, lines: int, k: int, steps: tuple[int, int]) -> Any:
    """Norms of so many lines of each problem, whose numbers lie `steps` apart, from line to line and along it."""
    out = device.cupy.empty(wide.size // k, "float64")
    given = (wide, *(np.uint64(x) for x in (k, *steps, lines)), out)
    device.own("norms", given, blocks=out.size)()
    return out
