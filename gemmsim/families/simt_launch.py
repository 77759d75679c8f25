"""How a configuration of simt is compiled and launched: macros, grid, schedule. The kernel is kernels/simt.cu.

What compiles, as the kernel's static_asserts have it, for a configuration, a dtype and a layout:

- bm, bn and bk are multiples of 4; wm divides bm, wn divides bn; tm divides wm, tn divides wn
- (wm/tm) (wn/tn) = 32, each a power of two; (bm/wm) (bn/wn) warps are at most 32
- async_copy 1: stages >= 2; async_copy 0: stages is 1 or 2
- vec is 1, 2 or 4; fp64 takes at most 2 of it
- of a matrix that runs on along K in memory (A of N., B of .T), `across` divides the threads; see `copies_across`
- `dynamic_smem_bytes` is at most what a block may have (227 KiB on sm_90)
- regs = 0, or 16 <= regs <= 255, and then blocks has no effect; stream_k 1: split_k is 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gemmsim.families.cuda import TYPES, Plan, common_macros
from gemmsim.problem import DTYPE_BYTES, Form

SOURCE = "simt.cu"
#: parameter -> macro; the others are arguments, or go into the plan
MACROS = {
    "bm": "BM", "bn": "BN", "bk": "BK", "wm": "WM", "wn": "WN", "tm": "TM", "tn": "TN", "stages": "STAGES",
    "async_copy": "ASYNC", "vec": "VEC", "order": "ORDER", "stream_k": "STREAM_K",
}  # fmt: skip
LANES = 32
#: threads of `reduce`, and the results of a block of it
REDUCE_THREADS, REDUCE_RESULTS = 256, 1024
#: k-steps of a tile that stream-K gives to one block at least, where it cuts it
LEAST_STEPS = 2
#: depth whose square root is the most blocks that share a tile: each adds a part to read, about 8 columns of K in time
PART_DEPTH = 8
#: the flags of stream-K take up a multiple of this; the workspace is an argument always, and of this at least
FLAG_ALIGNMENT = 256

Whole = TypeVar("Whole", int, npt.NDArray[np.int64])


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for a type without a kernel."""
    own = {macro: str(config[name]) for name, macro in MACROS.items()}
    limit = {"REGS": str(config["regs"])} if config["regs"] else {"BLOCKS": str(config["blocks"])}
    return common_macros(form, TYPES) | own | limit | {"FALLBACK": "0"}


def fitted(m: int, n: int, k: int, config: Mapping[str, int], form: Form) -> dict[str, int]:
    """The configuration with the widest `vec`, up to its own, that the strides allow: as compiled for a problem."""
    sizes = {name: np.full(1, size, np.int64) for name, size in (("m", m), ("n", n), ("k", k))}
    columns = {name: np.full(1, config[name], np.int64) for name in ("vec", "async_copy")}
    return {**config, "vec": int(fitted_vec(**sizes, config=columns, form=form)[0])}


def fitted_vec(
    m: npt.NDArray[np.int64], n: npt.NDArray[np.int64], k: npt.NDArray[np.int64],
    config: Mapping[str, npt.NDArray[np.int64]], form: Form,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """Elements of a global load: `vec`, 16 bytes at most, halved until it divides N and the strides of A and B.

    What runs on along K and is copied asynchronously goes element by element anyway, and has no say.
    """
    vec = np.minimum(config["vec"], 16 // DTYPE_BYTES[form.dtype])
    alone = config["async_copy"] == 1
    a = np.where(alone, 0, k) if form.layout[0] == "N" else m
    b = np.where(alone, 0, k) if form.layout[1] == "T" else n
    common = np.gcd(np.gcd(a, b), n)
    return np.asarray(np.minimum(vec, common & -common))


def dynamic_smem_bytes(config: Mapping[str, Whole], form: Form) -> Whole:
    """Shared memory of a block: `stages` tiles of A and B; 16 bytes of padding a row if K runs on in memory."""
    width = DTYPE_BYTES[form.dtype]
    padding = 16 // width * (int(form.layout[0] == "N") + int(form.layout[1] == "T"))
    return width * config["stages"] * config["bk"] * (config["bm"] + config["bn"] + padding)


def copies_across(config: Mapping[str, npt.NDArray[np.int64]], form: Form) -> npt.NDArray[np.int64]:
    """Copies along K that threads make side by side, of a matrix that runs on along K: they must divide the threads."""
    bk = config["bk"]
    widest = np.minimum(config["vec"], 16 // DTYPE_BYTES[form.dtype])
    single = np.where(bk % 16 == 0, 16, bk)  # what the kernel falls back to, and asynchronous copies always do
    wide = np.where(widest == 1, single, bk // np.maximum(widest, 1))
    return np.asarray(np.where(config["async_copy"] == 1, single, np.lcm(single, wide)))


def tiles(m: int, n: int, config: Mapping[str, int]) -> int:
    """Tiles of C."""
    return -(-m // config["bm"]) * -(-n // config["bn"])


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch; slots: blocks that reside on the GPU at once. Scalars: group_m, whole, slices (stream-K: least)."""
    one = Plan((1, 1, 1), threads(config), dynamic_smem_bytes(config, form), workspace_bytes=FLAG_ALIGNMENT)
    # more rows than there are change nothing, and group_m * columns would leave 32 bits
    group_m = max(1, min(config["group_m"], -(-m // config["bm"])))
    if config["stream_k"]:
        return _stream_k(one, m, n, k, config, form, slots, group_m)
    return _split(one, tiles(m, n, config), k, config, form, slots, group_m)


def threads(config: Mapping[str, int]) -> int:
    """Threads of a block."""
    return config["bm"] // config["wm"] * (config["bn"] // config["wn"]) * LANES


def _split(one: Plan, count: int, k: int, config: Mapping[str, int], form: Form, slots: int, group_m: int) -> Plan:
    """Whole tiles, then slices of the others; a tile has no more slices than k-steps."""
    slices = min(config["split_k"], -(-k // config["bk"]))
    whole = count if slices == 1 else count // slots * slots if config["split_tail"] else 0
    if whole == count:
        return replace(one, grid=(count, 1, 1), scalars=(group_m, count, 1))
    rest, results = count - whole, config["bm"] * config["bn"]
    scalars = (group_m, whole, slices)
    workspace = rest * slices * results * DTYPE_BYTES[form.dtype]
    grid = (rest * -(-results // REDUCE_RESULTS), 1, 1)
    second = Plan(grid, REDUCE_THREADS, 0, scalars, workspace, name="reduce")
    return replace(one, grid=(whole + rest * slices, 1, 1), scalars=scalars, workspace_bytes=workspace, second=second)


def _stream_k(
    one: Plan, m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int, group_m: int
) -> Plan:
    """One wave: whole tiles for all but the last one to two waves of them, whose k-steps are shared out.

    Fewer tiles than slots: no more blocks a tile than sqrt(k / PART_DEPTH), so that reading the parts of p blocks (p
    times PART_DEPTH columns) takes no longer than a block's share (k / p columns).
    """
    count = tiles(m, n, config)
    whole = max(0, count // slots - (count % slots > 0)) * slots
    shared = count - whole
    blocks = slots if whole else min(slots, shared * max(1, isqrt(k // PART_DEPTH)))
    flags = -(-4 * blocks // FLAG_ALIGNMENT) * FLAG_ALIGNMENT
    parts = blocks * config["bm"] * config["bn"] * DTYPE_BYTES[form.dtype]
    return replace(
        one,
        grid=(blocks, 1, 1),
        scalars=(group_m, whole, LEAST_STEPS),
        workspace_bytes=flags + parts,
        zeroed_bytes=flags,
    )


def share(block: int, blocks: int, shared: int, steps: int, least: int = LEAST_STEPS) -> int:
    """Where a block's share of the k-steps of `shared` tiles begins, as the kernel's `Shares` has it."""
    even = shared * steps * block // blocks
    within = even % steps
    if within < least:
        return even - within
    return even - within + steps if steps - within < least else even
