"""How a configuration of mma is compiled and launched: macros, grid, split-K. The kernel is kernels/mma.cu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gemmsim.families import copies
from gemmsim.families.cuda import Plan, common_macros
from gemmsim.families.refuse import check_layout
from gemmsim.families.simt_launch import REDUCE_RESULTS, REDUCE_THREADS
from gemmsim.hardware import Arch
from gemmsim.problem import DTYPE_BYTES, Form

SOURCE = "mma.cu"
DTYPES = ("bf16", "fp16", "tf32", "int8")
LAYOUTS = ("NN", "NT", "TN", "TT")
#: dtype of A and B -> layouts, where not all
LAYOUTS_OF = {"int8": ("NT",)}
LAYOUT_RULE = "ldmatrix turns 16-bit elements alone, and 8-bit operands must run along K in memory"
#: parameter -> macro; group_m is an argument, split_k in the plan
MACROS = {
    "bm": "BM", "bn": "BN", "bk": "BK", "wm": "WM", "wn": "WN", "stages": "STAGES", "blocks": "BLOCKS", **copies.MACROS,
}  # fmt: skip
LANES = 32
#: compute capability that has cp.async, bf16 and tf32
SINCE = (8, 0)
#: bytes of a slice's part of a result, fp32
PART_BYTES = 4

Whole = TypeVar("Whole", int, npt.NDArray[np.int64])


def able(arch: Arch) -> bool:
    """Whether the chip has what mma and wmma are made of."""
    return tuple(int(part) for part in arch.compute_capability.split(".")) >= SINCE


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for types or a layout without a kernel."""
    common = common_macros(form, DTYPES)
    check_layout("mma", form.layout, LAYOUTS_OF.get(form.dtype, LAYOUTS), LAYOUT_RULE)
    own = {macro: str(config[name]) for name, macro in MACROS.items()}
    return common | own | {"SPLIT": str(int(config["split_k"] > 1))}


def threads(config: Mapping[str, int]) -> int:
    """Threads of a block."""
    return config["bm"] // config["wm"] * (config["bn"] // config["wn"]) * LANES


def dynamic_smem_bytes(config: Mapping[str, Whole], width: int) -> Whole:
    """Shared memory of a block, all of it dynamic: `stages` tiles of A and B; width: bytes of an element."""
    return width * config["stages"] * config["bk"] * (config["bm"] + config["bn"])


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch. Scalars: group_m; of split-K behind it the slices, no more than k-steps, which `reduce` sums."""
    rows = -(-m // config["bm"])
    tiles = rows * -(-n // config["bn"])
    # more rows than there are change nothing, and group_m * columns would leave 32 bits
    group = max(1, min(config["group_m"], rows))
    shape = (threads(config), dynamic_smem_bytes(config, DTYPE_BYTES[form.dtype]))
    if config["split_k"] == 1:
        return Plan((tiles, 1, form.batch), *shape, (group,))
    slices = min(config["split_k"], -(-k // config["bk"]))
    results = config["bm"] * config["bn"]
    scalars = (group, slices)
    workspace = form.batch * tiles * slices * results * PART_BYTES
    grid = (tiles * -(-results // REDUCE_RESULTS), 1, form.batch)
    second = Plan(grid, REDUCE_THREADS, 0, scalars, workspace, name="reduce")
    return Plan((tiles * slices, 1, form.batch), *shape, scalars, workspace, second=second)
