"""How a configuration of a CUDA family becomes a compiled kernel and a launch: macros, grid, arguments.

Every CUDA family's kernel is `gemm` in kernels/<source>, with the arguments

    int M, int N, int K, const TYPE* A, const TYPE* B, OUT* C, TYPE alpha, TYPE beta, TYPE scale,
    const OUT* bias, const OUT* residual, then `Plan.scalars` as int, and the workspace if there is one

and the macros of `common_macros`, then those of its family. C = steps(alpha A B + beta C), steps in their order: bias
(a row of N), relu, gelu (tanh form), silu, residual (M x N), scale; then the cast to OUT. Without the macro BETA beta
is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

#: dtype of operands and accumulators -> C++ type
TYPES = {"fp32": "float", "fp64": "double"}
#: dtype of C, bias and residual -> C++ type, as kernels/common/epilogue.cuh defines them
OUT_TYPES = {"fp32": "float", "fp64": "double", "fp16": "half_t", "bf16": "bfloat_t"}
#: step of an epilogue -> the functor of kernels/common/epilogue.cuh
STEPS = {"bias": "Bias", "relu": "Relu", "gelu": "Gelu", "silu": "Silu", "residual": "Residual", "scale": "Scale"}


@dataclass(frozen=True)
class Plan:
    """One launch of a compiled kernel for one problem.

    scalars: int32 arguments behind the common ones. workspace_bytes: device memory the kernel is given as its last
    argument (0: no such argument), of which the first zeroed_bytes are zero before the first launch and again after
    each. second: a kernel that follows (`name` says which), on the same workspace; its arguments are M, N, C, alpha,
    beta, scale, bias, residual, scalars, workspace.
    """

    grid: tuple[int, int, int]
    threads: int
    dynamic_smem_bytes: int = 0
    scalars: tuple[int, ...] = ()
    workspace_bytes: int = 0
    zeroed_bytes: int = 0
    name: str = "gemm"
    second: Plan | None = None


def common_macros(form: Form) -> dict[str, str]:
    """Macros of types, layout and epilogue. Raises GemmsimError for a type without a kernel."""
    for what, dtype, known in (("A and B", form.dtype, TYPES), ("C", str(form.dtype_c), OUT_TYPES)):
        if dtype not in known:
            raise GemmsimError(f"CUDA-core kernels have no {what} in {dtype}: they have {', '.join(known)}")
    macros = {
        "TYPE": TYPES[form.dtype],
        "OUT": OUT_TYPES[str(form.dtype_c)],
        "A_TRANSPOSED": str(int(form.layout[0] == "T")),
        "B_TRANSPOSED": str(int(form.layout[1] == "T")),
        "BETA": str(int(form.beta)),
    }
    if form.epilogue:
        macros["STEPS"] = ",".join(STEPS[step] for step in form.epilogue)
    return macros


def plan_by_tile(m: int, n: int, bm: int, bn: int, threads: int) -> Plan:
    """A block a tile of C, blockIdx.x along N, and no shared memory but the static."""
    return Plan((-(-n // bn), -(-m // bm), 1), threads)


def tile_macros(form: Form, config: Mapping[str, int], names: Mapping[str, str]) -> dict[str, str]:
    """The common macros and those of the parameters, parameter -> macro. Raises as `common_macros` does."""
    return common_macros(form) | {macro: str(config[name]) for name, macro in names.items()}
