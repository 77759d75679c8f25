"""Tensor maps, by which TMA finds an operand: encoded by the driver, for an array at an address."""

from __future__ import annotations

import ctypes
from typing import Any

from gemmsim.bench.task import Refused
from gemmsim.families.cuda import TensorMap
from gemmsim.problem import DTYPE_BYTES

#: bytes of an encoded map (CUtensorMap), and what its address is a multiple of
SIZE, ALIGNMENT = 128, 64
#: address, strides and the inner side of a box are multiples of so many bytes
BYTES = 16
#: elements of a box along a dimension; dimensions; elements of a dimension; bytes of a stride
MOST_BOX, MOST_DIMENSIONS, MOST_SIZE, MOST_STRIDE = 256, 5, 2**32, 2**40
#: dtype -> CU_TENSOR_MAP_DATA_TYPE_*
_TYPES = {
    "fp64": "FLOAT64", "fp32": "FLOAT32", "tf32": "TFLOAT32", "bf16": "BFLOAT16", "fp16": "FLOAT16", "fp8": "UINT8",
    "int8": "UINT8",
}  # fmt: skip
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}


def broken(given: TensorMap, address: int) -> str:
    """The rule of cuTensorMapEncodeTiled that a map breaks, with number and limit; empty where it breaks none."""
    width = DTYPE_BYTES[given.dtype]
    inner, row = width * given.box[0], given.swizzle_bytes
    rules = (
        (address % BYTES, f"address {address:#x}, expected a multiple of {BYTES} B"),
        (len(given.sizes) > MOST_DIMENSIONS, f"{len(given.sizes)} dimensions, limit {MOST_DIMENSIONS}"),
        *((s < 1 or s > MOST_SIZE, f"{s} elements along a dimension, limit {MOST_SIZE}") for s in given.sizes),
        *((s % BYTES, f"stride of {s} B, expected a multiple of {BYTES} B") for s in given.strides),
        *((s >= MOST_STRIDE, f"stride of {s} B, limit {MOST_STRIDE - 1}") for s in given.strides),
        *((b < 1 or b > MOST_BOX, f"box of {b} elements along a dimension, limit {MOST_BOX}") for b in given.box),
        (inner % BYTES, f"inner side of the box is {inner} B, expected a multiple of {BYTES} B"),
        (row and inner > row, f"inner side of the box is {inner} B, limit {row} by its swizzle"),
    )
    return next((f"tensor_map: {given.operand}: {sentence}" for found, sentence in rules if found), "")


def encoded(given: TensorMap, address: int) -> bytes:
    """The 128 bytes of a map for an array at the address; elements beyond its sizes are read as zeros.

    Raises Refused with the rule for a map that cannot be encoded.
    """
    from cuda.bindings import driver

    reason = broken(given, address)
    if reason:
        raise Refused(reason)
    error, found = driver.cuTensorMapEncodeTiled(
        _named(driver.CUtensorMapDataType, "DATA_TYPE", _TYPES[given.dtype]), len(given.sizes), address,
        [driver.cuuint64_t(s) for s in given.sizes], [driver.cuuint64_t(s) for s in given.strides],
        [driver.cuuint32_t(b) for b in given.box], [driver.cuuint32_t(1) for _ in given.box],
        _named(driver.CUtensorMapInterleave, "INTERLEAVE", "NONE"),
        _named(driver.CUtensorMapSwizzle, "SWIZZLE", _SWIZZLES[given.swizzle_bytes]),
        _named(driver.CUtensorMapL2promotion, "L2_PROMOTION", _PROMOTIONS[given.l2_promotion_bytes]),
        _named(driver.CUtensorMapFloatOOBfill, "FLOAT_OOB_FILL", "NONE"),
    )  # fmt: skip
    if int(error):
        raise Refused(f"tensor_map: {given.operand}: the driver says {error.name} to {given}")
    return ctypes.string_at(found.getPtr(), SIZE)


def _named(kinds: Any, what: str, name: str) -> Any:
    """A value of one of the driver's enumerations."""
    return getattr(kinds, f"CU_TENSOR_MAP_{what}_{name}")


def by_value(code: bytes) -> Any:
    """An encoded map as an argument in memory, aligned as a launch wants it."""
    room = (ctypes.c_ubyte * (SIZE + ALIGNMENT))()
    array = (ctypes.c_ubyte * SIZE).from_buffer(room, -ctypes.addressof(room) % ALIGNMENT)
    ctypes.memmove(array, code, SIZE)
    return array
