"""How a configuration of wgmma is compiled and launched: macros, tensor maps, grid, schedule. See kernels/wgmma.cu."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np

from gemmsim.families.cuda import Plan, TensorMap, common_macros
from gemmsim.families.hilbert import curve
from gemmsim.families.refuse import check_layout
from gemmsim.families.wgmma_resources import (
    ROW_BYTES,
    ROWS,
    STORED_BYTES,
    along_k,
    chunk,
    dynamic_smem_bytes,
    sharers,
    stored_columns,
    threads,
)
from gemmsim.problem import DTYPE_BYTES, Form, IntArray, form_of

SOURCE = "wgmma.cu"
DTYPES = ("bf16", "fp16", "tf32", "fp8")
#: dtype of A and B -> layouts: operands of other than 16 bits run along K, both of them
LAYOUTS_OF = {"bf16": ("NN", "NT", "TN", "TT"), "fp16": ("NN", "NT", "TN", "TT"), "tf32": ("NT",), "fp8": ("NT",)}
LAYOUT_RULE = (
    "wgmma takes operands of other than 16 bits only where they run along K, "
    "A row-major and B transposed, which is TN to BLAS"
)
#: parameter -> macro; the others are arguments, or go into the plan
MACROS = {
    "bm": "BM", "bn": "BN", "bk": "BK", "stages": "STAGES", "consumers": "CONSUMERS", "pingpong": "PINGPONG",
    "cluster_m": "CLUSTER_M",
    "cluster_n": "CLUSTER_N", "swap": "SWAP", "blocks": "BLOCKS", "hilbert": "HILBERT", "stream_k": "STREAM_K",
}  # fmt: skip
#: k-steps of a tile that stream-K gives to one cluster at least, where it cuts it
LEAST_STEPS = 2
#: depth whose square root is the most clusters that share a tile: each adds a part to read
PART_DEPTH = 8
#: the flags take up a multiple of this; the workspace is an argument always, and of this at least
FLAG_ALIGNMENT = 256
#: of strides in a tensor map
TMA_BYTES = 16


def macros(form: Form, config: Mapping[str, int]) -> dict[str, str]:
    """What the kernel is compiled with. Raises GemmsimError for types or a layout without a kernel."""
    own = {macro: str(config[name]) for name, macro in MACROS.items()}
    common = common_macros(form, DTYPES)
    check_layout("wgmma", form.layout, LAYOUTS_OF[form.dtype], LAYOUT_RULE)
    return common | own


def plan(m: int, n: int, k: int, config: Mapping[str, int], form: Form, slots: int) -> Plan:
    """The launch; slots: blocks that reside on the GPU at once.

    Scalars: cluster tiles of all problems, those computed in one go, slices of the others (stream-K: least k-steps),
    group_m; and a struct with a `divisor` for each number that the kernel divides by: tiles of a problem, of a group of
    rows (along a curve: of a row), rows of a group and of the last one, slices.
    """
    grid = Grid.of(m, n, config, form)
    steps, clusters = -(-k // config["bk"]), max(1, slots // grid.cluster)
    share = _stream_k if config["stream_k"] else _split
    busy, whole, slices, parts = share(grid.tiles, steps, k, config, clusters)
    flags = -(-4 * parts * grid.cluster * int(sharers(_columns(config))[0]) // FLAG_ALIGNMENT) * FLAG_ALIGNMENT
    # more rows than there are change nothing, and group_m * columns would leave 32 bits
    group_m = max(1, min(config["group_m"], grid.rows))
    smem = int(dynamic_smem_bytes(_columns(config), form)[0])
    return Plan(
        (busy * grid.cluster, 1, 1), int(threads(config["consumers"])), smem,
        (grid.tiles, whole, slices, group_m, tuple(grid.divisors(group_m, slices, config["hilbert"]))),
        workspace_bytes=max(flags + 4 * parts * grid.cluster * config["bm"] * config["bn"], FLAG_ALIGNMENT),
        zeroed_bytes=flags, maps=maps(m, n, k, config, form),
        order=curve(grid.rows, grid.columns).astype(np.int32) if config["hilbert"] else None, cluster=grid.cluster,
    )  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Cluster tiles: rows and columns of one problem, and all of the batch."""

    rows: int
    columns: int
    tiles: int
    cluster: int  # blocks

    @staticmethod
    def of(m: int, n: int, config: Mapping[str, int], form: Form) -> Grid:
        """The tiles of a launch; those at the edge may have blocks that lie outside of C."""
        rows, columns = (
            -(-size // (config[side] * config[across]))
            for size, side, across in ((m, "bm", "cluster_m"), (n, "bn", "cluster_n"))
        )
        return Grid(rows, columns, rows * columns * form.batch, config["cluster_m"] * config["cluster_n"])

    def divisors(self, group_m: int, slices: int, hilbert: int) -> Iterator[int]:
        """`divisor` of what the kernel divides tiles and k-steps by."""
        group = self.columns * (1 if hilbert else group_m)
        for number in (self.rows * self.columns, group, group_m, self.rows % group_m or group_m, slices):
            yield from divisor(number)


def divisor(number: int) -> tuple[int, int]:
    """What 0 <= a < 2^31 is multiplied with, and by how much of the upper half is shifted, for a // number.

    ceil(2^(31 + l) / number), and l - 1, where 2^l is the least power of two from number on; 0 and 0 of 1 (Granlund and
    Montgomery 1994).
    """
    if number == 1:
        return 0, 0
    bits = (number - 1).bit_length()
    return -(-(2 ** (31 + bits)) // number), bits - 1


def _split(tiles: int, steps: int, k: int, config: Mapping[str, int], clusters: int) -> tuple[int, int, int, int]:
    """Clusters at work, whole tiles, slices, parts left for others. Slices of a tile follow one another."""
    slices = min(config["split_k"], steps)
    whole = tiles if slices == 1 else tiles // clusters * clusters if config["split_tail"] else 0
    units = whole + (tiles - whole) * slices
    return min(clusters, units), whole, slices if whole < tiles else 1, (tiles - whole) * (slices - 1)


def _stream_k(tiles: int, steps: int, k: int, config: Mapping[str, int], clusters: int) -> tuple[int, int, int, int]:
    """The same: whole tiles for all but the last one to two waves, whose k-steps are shared out evenly.

    Fewer tiles than clusters: no more of them a tile than sqrt(k / PART_DEPTH), so that reading the parts of p clusters
    (p times PART_DEPTH columns) takes no longer than a cluster's share (k / p columns). Shares begin where those of
    simt do (simt_launch.share).
    """
    whole = max(0, tiles // clusters - (tiles % clusters > 0)) * clusters
    busy = clusters if whole else min(clusters, (tiles - whole) * max(1, isqrt(k // PART_DEPTH)))
    return busy, whole, LEAST_STEPS, busy


def maps(m: int, n: int, k: int, config: Mapping[str, int], form: Form) -> tuple[TensorMap, ...]:
    """Tensor maps of A, B and C. Where C is not stored by the copy engine the third is never used: A's again."""
    a = _operand("a", m, k, config, form)
    b = _operand("b", n, k, config, form)
    return a, b, _result(m, n, config, form) if stored_in_boxes(n, form) else a


def stored_in_boxes(n: int, form: Form) -> bool:
    """Whether the copy engine stores C: 16-bit elements, rows a multiple of 16 bytes apart."""
    width = DTYPE_BYTES[str(form_of(form).dtype_c)]
    return width == STORED_BYTES and n * width % TMA_BYTES == 0


def _columns(config: Mapping[str, int]) -> dict[str, IntArray]:
    """The configuration as the arrays that wgmma_resources computes with."""
    return {name: np.full(1, value, np.int64) for name, value in config.items()}


def _operand(operand: str, side: int, k: int, config: Mapping[str, int], form: Form) -> TensorMap:
    """A or B in boxes of one swizzled row by as many rows as a block of the cluster loads."""
    tile, sharers = (config["bm"], config["cluster_n"]) if operand == "a" else (config["bn"], config["cluster_m"])
    width = DTYPE_BYTES[form.dtype]
    if along_k(form, operand):
        row, rows, sizes = min(ROW_BYTES // width, config["bk"]), tile, (k, side)
    else:
        row, rows, sizes = int(chunk(np.asarray(tile))), config["bk"], (side, k)
    strides = (sizes[0] * width, sizes[0] * sizes[1] * width)
    box = (row, rows // sharers, 1)
    return TensorMap(operand, form.dtype, (*sizes, form.batch), strides, box, row * width)


def _result(m: int, n: int, config: Mapping[str, int], form: Form) -> TensorMap:
    """C in boxes of a warpgroup's 64 rows of wgmma's M side by a part of its N side."""
    part = int(stored_columns(_columns(config))[0])
    box = (ROWS, part, 1) if config["swap"] else (part, ROWS, 1)
    row = box[0] * STORED_BYTES
    strides = (n * STORED_BYTES, m * n * STORED_BYTES)
    return TensorMap("c", str(form_of(form).dtype_c), (n, m, form.batch), strides, box, row if row > TMA_BYTES else 0)
