"""Copies of a tensor-core family as wide as strides and addresses allow: parameters copy_a, copy_b, copy_c, in bytes.

kernels/common/swizzle.cuh copies 16, 8 or 4 bytes at once by cp.async, and single elements through registers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim.config import Config
from gemmsim.families.traits import Parameter
from gemmsim.problem import DTYPE_BYTES, Form, Gemm, IntArray

WIDEST = 16
#: bytes under which a copy is no cp.async
LEAST_ASYNC = 4
_FEWER = "fewer where a stride forbids it"
COPIES = (
    Parameter("copy_a", (WIDEST,), WIDEST, 1, WIDEST, True, f"bytes of a copy of A, {_FEWER}"),
    Parameter("copy_b", (WIDEST,), WIDEST, 1, WIDEST, True, f"bytes of a copy of B, {_FEWER}"),
    Parameter("copy_c", (WIDEST,), WIDEST, 1, WIDEST, True, f"bytes of a store of C, {_FEWER}"),
)
MACROS = {"copy_a": "COPY_A", "copy_b": "COPY_B", "copy_c": "COPY_C"}


def fitted(m: int, n: int, k: int, config: Mapping[str, int], form: Form) -> dict[str, int]:
    """The configuration with the widest copies, up to its own, that the strides allow: as compiled for a problem."""
    strides = {
        "copy_a": (m if form.layout[0] == "T" else k) * DTYPE_BYTES[form.dtype],
        "copy_b": (k if form.layout[1] == "T" else n) * DTYPE_BYTES[form.dtype],
        "copy_c": n * DTYPE_BYTES[str(form.dtype_c)],
    }
    return {**config, **{name: min(config[name], stride & -stride) for name, stride in strides.items()}}


def fitted_columns(problem: Gemm, config: Config, align: bool = False) -> dict[str, IntArray]:
    """The same of many: copy_a, copy_b and copy_c. align: as if every stride allowed the widest."""
    strides = {"copy_a": problem.a_stride * problem.a_bytes, "copy_b": problem.b_stride * problem.b_bytes,
               "copy_c": problem.n * problem.c_bytes}  # fmt: skip
    allowed = {name: WIDEST if align else stride & -stride for name, stride in strides.items()}
    return {
        name: np.broadcast_to(np.minimum(config[name], most), len(config)).astype(np.int64)
        for name, most in allowed.items()
    }
