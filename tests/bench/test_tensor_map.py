"""The rules of tensor maps, and what the driver is asked to encode."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsim.bench.task import Refused
from gemmsim.bench.tensor_map import broken, by_value, encoded
from gemmsim.families.cuda import TensorMap
from gemmsim.problem import DTYPE_BYTES

GOOD = TensorMap("a", "bf16", (4096, 100, 3), (8192, 819200), (64, 128, 1), 128)


@pytest.mark.parametrize(
    ("change", "address", "rule"),
    [
        ({}, 1032, "address 0x408, expected a multiple of 16 B"),
        ({"strides": (8194, 819200)}, 0, "stride of 8194 B, expected a multiple of 16 B"),
        ({"strides": (8192, 2**40)}, 0, "limit 1099511627775"),
        ({"box": (64, 257, 1)}, 0, "box of 257 elements along a dimension, limit 256"),
        ({"box": (64, 0, 1)}, 0, "box of 0 elements"),
        ({"box": (65, 128, 1)}, 0, "inner side of the box is 130 B, expected a multiple of 16 B"),
        ({"box": (128, 128, 1)}, 0, "inner side of the box is 256 B, limit 128 by its swizzle"),
        ({"sizes": (2**32 + 1, 100, 3)}, 0, "4294967297 elements along a dimension, limit 4294967296"),
        ({"sizes": (1,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, 0, "6 dimensions, limit 5"),
    ],
)
def test_each_rule_has_its_number_and_limit(change: dict[str, Any], address: int, rule: str) -> None:
    assert broken(GOOD, 1024) == ""
    found = broken(replace(GOOD, **change), address)
    assert found.startswith("tensor_map: a: ")
    assert rule in found


def test_an_argument_by_value_is_aligned() -> None:
    code = bytes(range(128))
    for _ in range(8):
        found = by_value(code)
        assert ctypes.addressof(found) % 64 == 0
        assert bytes(found) == code


def test_what_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    room = ctypes.create_string_buffer(b"x" * 128, 128)
    asked: list[Any] = []

    def encode(*given: Any) -> tuple[Any, Any]:
        asked.append(given)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(room))

    monkeypatch.setattr(driver, "cuTensorMapEncodeTiled", encode)
    assert encoded(GOOD, 1024) == b"x" * 128
    kind, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill = asked[0]
    assert (kind.name, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 3, 1024)
    numbers = [[int(x) for x in some] for some in (sizes, strides, box, steps)]
    assert numbers == [[4096, 100, 3], [8192, 819200], [64, 128, 1], [1, 1, 1]]
    assert [int(x) for x in (interleave, swizzle, promotion, fill)] == [0, 3, 2, 0]


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp64"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("promotion", [0, 64, 128, 256])
def test_what_it_refuses_is_refused(monkeypatch: pytest.MonkeyPatch, dtype: str, swizzle: int, promotion: int) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    error = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    monkeypatch.setattr(driver, "cuTensorMapEncodeTiled", lambda *given: (error, None))
    given = TensorMap("b", dtype, (64, 64), (512,), (16 // DTYPE_BYTES[dtype], 1), swizzle, promotion)
    with pytest.raises(Refused, match="tensor_map: b: the driver says CUDA_ERROR_INVALID_VALUE"):
        encoded(given, 0)
