"""What counts as a right result: the limits against numpy's own fp32 and against planted faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmsim.bench.check import ElementBound, element_bound, frobenius_limit, verdict
from gemmsim.bench.data import ALPHA, BETA, SCALE, scalars, step_code
from gemmsim.problem import Form, form_of


def compared(got: np.ndarray, want: np.ndarray, a: np.ndarray, b: np.ndarray, bound: ElementBound) -> tuple:  # type: ignore[type-arg]
    """What kernels/measure.cu's `compare` adds up."""
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
    off = np.abs(got.astype(np.float64) - want)
    fine = np.isfinite(got)
    worst = (off / (bound.product * norms + bound.fixed + bound.relative * np.abs(want)))[fine]
    return (off[fine] ** 2).sum(), (want**2).sum(), float((~fine).sum()), worst.max(initial=0.0)


def product(k: int, kind: type = np.float32) -> tuple[np.ndarray, ...]:
    """A, B, alpha A B summed one product at a time in the type, and the same in a wider one."""
    draw = np.random.default_rng(k)
    a, b = draw.standard_normal((40, k)).astype(kind), draw.standard_normal((k, 30)).astype(kind)
    total = np.zeros((40, 30), kind)
    for i in range(k):
        total += a[:, i, None] * b[i]
    wide = np.longdouble if kind is np.float64 else np.float64
    return a, b, kind(ALPHA) * total, ALPHA * (a.astype(wide) @ b.astype(wide)).astype(np.float64)


@pytest.mark.parametrize("k", [1, 2, 17, 128, 1031, 8192])
@pytest.mark.parametrize(("dtype", "kind"), [("fp32", np.float32), ("fp64", np.float64)])
def test_plain_summation_passes(k: int, dtype: str, kind: type) -> None:
    form = form_of(dtype)
    a, b, got, want = product(k, kind)
    found = verdict(compared(got, want, a, b, element_bound(form)), form, k)
    assert found.reason == ""
    assert found.element_error < 0.7


@pytest.mark.parametrize("k", [1, 17, 1031, 8192])
def test_a_product_left_out_of_one_element_does_not(k: int) -> None:
    form = form_of("fp32")
    a, b, got, want = product(k)
    got[3, 4] -= np.float32(ALPHA) * a[3, k // 2] * b[k // 2, 4]
    found = verdict(compared(got, want, a, b, element_bound(form)), form, k)
    assert found.element_error > 1
    assert found.reason


def test_an_element_not_written_does_not() -> None:
    a, b, got, want = product(64)
    got[0, 0] = np.nan
    found = verdict(compared(got, want, a, b, element_bound(form_of("fp32"))), form_of("fp32"), 64)
    assert (found.nan_count, found.reason[:21]) == (1, "1 elements of C are N")


def test_alpha_forgotten_does_not() -> None:
    a, b, got, want = product(64)
    reason = verdict(compared(got / np.float32(ALPHA), want, a, b, element_bound(form_of("fp32"))), form_of("fp32"), 64)
    assert reason.reason.startswith("relative Frobenius error 0.2, limit 1.6e-05")


def as_e4m3(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Rounded to e4m3, to nearest even, at most 448."""
    size = np.minimum(np.abs(x), 448.0)
    step = 2.0 ** (np.floor(np.log2(np.maximum(size, 2.0**-6))) - 3)
    return np.asarray(np.copysign(np.round(size / step) * step, x))


def cut(x: np.ndarray, step: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return np.asarray(np.trunc(x / step) * step)


def on_hopper(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Sums of fp8 products by steps of 32, each cut off 13 bits below its largest number, and so is its sum."""
    total = np.zeros((len(a), b.shape[1]))
    for k in range(0, a.shape[1], 32):
        products = a[:, k : k + 32, None] * b[None, k : k + 32]
        top = np.maximum(np.abs(products).max(1), np.abs(total))
        step = 2.0 ** (np.floor(np.log2(np.maximum(top, 1e-30))) - 13)
        total = cut(total, step) + cut(products, step[:, None]).sum(1)
        total = cut(total, 2.0 ** (np.floor(np.log2(np.maximum(np.abs(total), 1e-30))) - 13))
    return total


def fp8_product(k: int) -> tuple[np.ndarray, ...]:
    """A, B, their product as Hopper adds it up, and exact."""
    draw = np.random.default_rng(k)
    a, b = as_e4m3(draw.standard_normal((24, k))), as_e4m3(draw.standard_normal((k, 20)))
    return a, b, on_hopper(a, b), a @ b


@pytest.mark.parametrize(
    ("k", "dtype_c"),
    [(16, "fp32"), (32, "bf16"), (512, "fp32"), (512, "fp8"), (4096, "bf16"), (4096, "fp8"), (16384, "fp32")],
)
def test_fp8_sums_of_13_bits_pass_and_a_step_left_out_does_not(k: int, dtype_c: str) -> None:
    form = form_of(Form("fp8", dtype_c=dtype_c, layout="NT"))
    a, b, got, want = fp8_product(k)
    if dtype_c == "fp8":
        got, want = as_e4m3(got), np.clip(want, -448, 448)
    found = verdict(compared(got, want, a, b, element_bound(form)), form, k)
    assert found.reason == ""
    assert found.error < 0.6 * found.limit
    assert found.element_error < 0.6
    less = got - a[:, -32:] @ b[-32:]
    assert verdict(compared(less, want, a, b, element_bound(form)), form, k).reason != ""


def test_sums_of_int8_are_exact_but_for_the_cast() -> None:
    draw = np.random.default_rng(3)
    a, b = (np.rint(8 * draw.standard_normal(size)) for size in ((24, 4096), (4096, 20)))
    want = a @ b
    for dtype_c, kind in (("fp32", np.float32), ("fp16", np.float16)):
        form = form_of(Form("int8", dtype_c=dtype_c))
        good = verdict(compared(want.astype(kind), want, a, b, element_bound(form)), form, 4096)
        assert good.reason == ""
        assert good.element_error < 0.6
    off = want.astype(np.float32)
    off[3, 4] += 60  # about a product
    assert verdict(compared(off, want, a, b, element_bound(form_of(Form("int8", dtype_c="fp32")))),
                   form_of(Form("int8", dtype_c="fp32")), 4096).reason != ""  # fmt: skip


def test_limits() -> None:
    assert frobenius_limit(form_of("fp32"), 4096) == pytest.approx(2e-6 * 64)
    assert frobenius_limit(form_of("fp64"), 4096) == pytest.approx(2e-6 * 64 * 2.0**-29)
    assert frobenius_limit(form_of("bf16"), 4096) == 5e-3
    assert frobenius_limit(form_of("tf32"), 4096) == 1e-3
    assert frobenius_limit(form_of(Form("fp32", dtype_c="bf16")), 4096) == 5e-3


def test_a_result_of_nothing_but_zeros_is_no_division() -> None:
    assert verdict((0.0, 0.0, 0.0, 0.0), form_of("fp32"), 1).reason == ""
    assert verdict((1.0, 0.0, 0.0, 0.0), form_of("fp32"), 1).reason != ""
    assert verdict((math.nan, 1.0, 0.0, 0.0), form_of("fp32"), 1).reason != ""


def test_scalars_and_steps() -> None:
    assert len({ALPHA, BETA, SCALE, 1.0, 0.0}) == 5
    assert scalars(form_of(Form("fp32", beta=True))).beta == BETA
    assert scalars(form_of("fp32")).beta == 0
    assert scalars(form_of("bf16")).alpha == 1
    assert step_code(("bias", "gelu", "residual")) == 0x531
    assert step_code(()) == 0
