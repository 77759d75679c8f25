"""The products that cuBLAS and cuBLASLt are asked for, computed on the host and compared with numpy's."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import fake_cublas
import numpy as np
import pytest
from fake_cublas import FakeLt, HostArray, e4m3

from gemmsim.bench import cublas, cublaslt
from gemmsim.bench.task import Refused
from gemmsim.problem import LAYOUTS, Form, form_of

M, N, K = 5, 7, 3
HELD: dict[str, Any] = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float16, "tf32": np.float32}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    fake_cublas.install(monkeypatch)


def device() -> Any:
    cupy = SimpleNamespace(empty=lambda n, kind: HostArray(np.empty(n, kind)))
    return SimpleNamespace(cupy=cupy, stream=SimpleNamespace(ptr=77))


def stored(x: np.ndarray, letter: str) -> HostArray:  # type: ignore[type-arg]
    return HostArray(x.swapaxes(-1, -2) if letter == "T" else x)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", HELD)
def test_a_product_and_a_batch_of_them(dtype: str, layout: str, batch: int) -> None:
    draw = np.random.default_rng(1)
    a, b, c = (draw.integers(-4, 5, (batch, *size)).astype(HELD[dtype]) for size in ((M, K), (K, N), (M, N)))
    form = form_of(Form(dtype, layout=layout, batch=batch, beta=True))
    out = HostArray(c)
    cublas.gemm(device(), (M, N, K), form, stored(a, layout[0]), stored(b, layout[1]), out, 1.25, 0.5)()
    np.testing.assert_array_equal(out.values.reshape(c.shape), 1.25 * (a @ b) + 0.5 * c)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":65536:2"


def test_a_workspace_that_was_chosen_stays() -> None:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:2"
    assert cublas.handle() == 5
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:2"


@pytest.mark.parametrize("form", [Form("int8"), Form("fp8"), Form("bf16", dtype_c="fp8")])
def test_types_that_cublas_has_not_are_refused(form: Form) -> None:
    with pytest.raises(Refused, match=r"cublas: .* is not timed, fp32, fp64, "):
        cublas.gemm(device(), (M, N, K), form_of(form), None, None, None, 1.0, 0.0)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLt:
    """cuBLASLt on the host."""
    fake = FakeLt()
    monkeypatch.setattr(cublaslt, "library", lambda: fake)
    cublaslt._handle.cache_clear()
    return fake


def fp8(form: Form, size: tuple[int, int, int] = (M, N, K), beta: float = 0.0) -> tuple[Any, Any]:
    """What came of a product, and what should have."""
    m, n, k = size
    draw = np.random.default_rng(2)
    a, b = (draw.integers(0, 256, (form.batch, x, k)).astype(np.uint8) & 0xBF for x in (m, n))  # |x| < 2
    c = draw.integers(-4, 5, (form.batch, m, n)).astype(HELD[str(form.dtype_c)])
    out = HostArray(c)
    cublaslt.gemm(device(), size, form, HostArray(a), HostArray(b), out, 1.5, beta)()
    wide = e4m3(a) @ e4m3(b).swapaxes(1, 2)
    return out.values.reshape(c.shape), (1.5 * wide + beta * c).astype(c.dtype)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("dtype_c", "beta"), [("fp32", 0.0), ("fp16", 0.5)])
def test_fp8_by_cublaslt(library: FakeLt, dtype_c: str, beta: float, batch: int) -> None:
    form = form_of(Form("fp8", dtype_c=dtype_c, layout="NT", batch=batch, beta=bool(beta)))
    found, want = fp8(form, beta=beta)
    np.testing.assert_array_equal(found, want)


def test_c_in_fp8_is_said_to_be_read_in_bf16(library: FakeLt) -> None:
    form = form_of(Form("fp8", dtype_c="fp8", layout="NT"))
    cublaslt.gemm(device(), (M, N, K), form, *(HostArray(np.zeros(64, np.uint8)) for _ in "abc"), 1.0, 0.0)
    kinds = [made["given"][0] for made in library.made.values() if len(made["given"]) == 4]
    assert kinds == [28, 28, 28, 14]


@pytest.mark.parametrize(
    ("form", "beta", "why"),
    [
        (Form("fp8", layout="NN"), 0.0, "fp8 in layout NN is not timed, NT is: cuBLASLt takes A and B along K"),
        (Form("fp8", dtype_c="tf32", layout="NT"), 0.0, "fp8 with C in tf32 is not timed"),
        (Form("fp8", dtype_c="fp8", layout="NT", beta=True), 0.5, "fp8 with beta and C in fp8 is not timed"),
    ],
)
def test_what_cublaslt_has_not_is_refused(library: FakeLt, form: Form, beta: float, why: str) -> None:
    with pytest.raises(Refused, match=why):
        cublaslt.gemm(device(), (M, N, K), form_of(form), None, None, None, 1.0, beta)


def test_sizes_without_an_algorithm_are_refused(library: FakeLt) -> None:
    library.status = 15
    with pytest.raises(Refused, match="cuBLASLt has no fp8 kernel for 5 x 7 x 3: for N and K in multiples of 16"):
        fp8(form_of(Form("fp8", dtype_c="fp32", layout="NT")))


def test_the_librarys_own_descriptors() -> None:
    pytest.importorskip("cuda.pathfinder")
    try:
        cublaslt.library.__wrapped__()
    except Refused:
        pytest.skip("there is no libcublasLt")
    made = cublaslt._made("cublasLtMatmulDescCreate", 68, 0)
    cublaslt._set("cublasLtMatmulDescSetAttribute", made, 25, cublaslt.c_int8(1))
    assert cublaslt._matrix("fp8", 64, 128, 3).value
