"""How a configuration of a CUDA family becomes a compiled kernel and a launch: macros, grid, arguments.

Every CUDA family's kernel is `gemm` in kernels/<source>, with the arguments

    int M, int N, int K, const IN* A, const IN* B, OUT* C, TYPE alpha, TYPE beta, TYPE scale,
    const OUT* bias, const OUT* residual, then `Plan.scalars` as int, the workspace if there is one, the order table
    (const int*) if there is one, and a `const __grid_constant__` tensor map (128 bytes, by value) for each of
    `Plan.maps`

and the macros of `common_macros`, then those of its family. C = steps(alpha A B + beta C), steps in their order: bias
(a row of N), relu, gelu (tanh form), silu, residual (M x N), scale; then the cast to OUT. Without the macro BETA beta
is 0. CUDA-core kernels have no IN: their A and B are of TYPE. Of a batch, problem b has its matrices behind those of
problem b - 1, without a gap; bias is shared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form, IntArray

#: dtype of operands and accumulators on CUDA cores -> C++ type
TYPES = {"fp32": "float", "fp64": "double"}
#: dtype of a tensor-core family's operands -> C++ type, as kernels/common/types.cuh has them; the sums are fp32
IN_TYPES = {"bf16": "bfloat_t", "fp16": "half_t", "tf32": "tf32_t", "fp8": "e4m3_t", "int8": "signed char"}
#: dtype of C, bias and residual -> C++ type, as kernels/common/types.cuh has them
OUT_TYPES = {"fp32": "float", "fp64": "double", "fp16": "half_t", "bf16": "bfloat_t", "fp8": "e4m3_t"}
#: step of an epilogue -> the functor of kernels/common/epilogue.cuh
STEPS = {"bias": "Bias", "relu": "Relu", "gelu": "Gelu", "silu": "Silu", "residual": "Residual", "scale": "Scale"}


@dataclass(frozen=True)
class TensorMap:
    """How TMA sees an operand, "a", "b" or "c" (cuTensorMapEncodeTiled): elements of `dtype`, innermost first.

    sizes: elements of each dimension. strides: bytes from one to the next in each dimension but the innermost,
    multiples of 16. box: elements of a copy, 256 at most. swizzle_bytes: 0, 32, 64 or 128. l2_promotion_bytes: 0, 64,
    128 or 256.
    """

    operand: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int
    l2_promotion_bytes: int = 128


@dataclass(frozen=True)
class Plan:
    """One launch of a compiled kernel for one problem.

    scalars: int32 arguments behind the common ones; a tuple is a struct of 32-bit words. workspace_bytes: device memory
    the kernel is given behind them (0: no such argument), of which the first zeroed_bytes are zero before the first
    launch and again after each. second: a kernel that follows (`name` says which), on the same workspace; its arguments
    are M, N, C, alpha, beta, scale, bias, residual, scalars, workspace. order: an int32 table that goes to the device
    once. cluster: blocks of a cluster, which the kernel is compiled for (__cluster_dims__).
    """

    grid: tuple[int, int, int]
    threads: int
    dynamic_smem_bytes: int = 0
    scalars: tuple[int | tuple[int, ...], ...] = ()
    workspace_bytes: int = 0
    zeroed_bytes: int = 0
    name: str = "gemm"
    second: Plan | None = None
    maps: tuple[TensorMap, ...] = ()
    order: tuple[int, ...] | IntArray | None = None
    cluster: int = 1


def common_macros(form: Form, dtypes: Collection[str] = (*TYPES, *IN_TYPES)) -> dict[str, str]:
    """Macros of types, layout and epilogue; dtypes: those of A and B that the kernel has.

    Raises GemmsimError for a type without a kernel.
    """
    unit = "CUDA-core" if set(dtypes) <= set(TYPES) else "tensor-core"
    for what, dtype, known in (("A and B", form.dtype, dtypes), ("C", str(form.dtype_c), OUT_TYPES)):
        if dtype not in known:
            raise GemmsimError(f"{unit} kernels have no {what} in {dtype}: they have {', '.join(known)}")
    macros = {"IN": IN_TYPES[form.dtype]} if form.dtype in IN_TYPES else {}
    macros |= {
        "TYPE": TYPES.get(form.dtype, "float"),
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
    """A CUDA-core family's macros, names: parameter -> macro. Raises as `common_macros` does."""
    return common_macros(form, TYPES) | {macro: str(config[name]) for name, macro in names.items()}
