"""Launches of wgmma: every k-step of every tile once, in an order that ends, sums of all parts, boxes that cover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.families import wgmma
from gemmsim.families.cuda import Plan, TensorMap
from gemmsim.families.simt_launch import share
from gemmsim.families.wgmma_launch import divisor
from gemmsim.problem import DTYPE_BYTES, Form, form_of
from gemmsim.simulate.raster import order

CONFIG = {p.name: p.default for p in wgmma.PARAMETERS}
few = settings(max_examples=150, deadline=None, derandomize=True)
sizes = st.tuples(st.integers(1, 1500), st.integers(1, 1500), st.integers(1, 4000), st.integers(1, 3))
ways = st.sampled_from(
    [{}, {"split_k": 2}, {"split_k": 7}, {"split_k": 3, "split_tail": 1}, {"split_k": 4, "split_tail": 1},
     {"stream_k": 1}]
)  # fmt: skip
clusters = st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])


def planned(size: tuple[int, int, int, int], slots: int = 132, form: str | Form = "bf16", **change: int) -> Plan:
    shape = form_of(form)
    batched = form_of(Form(shape.dtype, shape.dtype_b, shape.dtype_c, shape.layout, batch=size[3]))
    return wgmma.plan(*size[:3], CONFIG | change, batched, slots)


@dataclass(frozen=True)
class Unit:
    """A run of k-steps of one cluster's tile, as kernels/wgmma.cu has it: `gives` to a slot, or `takes` from slots."""

    tile: int
    first: int
    last: int
    gives: int | None = None
    takes: tuple[int, ...] = ()


def sliced(plan: Plan, depth: int, cluster: int, count: int) -> Iterator[Unit]:
    """The units of a cluster where tiles are whole or cut into slices."""
    tiles, whole, slices = plan.scalars[:3]
    for now in range(cluster, whole + (tiles - whole) * slices, count):
        if now < whole:
            yield Unit(now, 0, depth)
            continue
        tile, s = divmod(now - whole, slices)
        slot, last = tile * (slices - 1), s == slices - 1
        takes = tuple(range(slot, slot + slices - 1)) if last else ()
        yield Unit(whole + tile, depth * s // slices, depth * (s + 1) // slices, None if last else slot + s, takes)


def streamed(plan: Plan, depth: int, cluster: int, count: int) -> Iterator[Unit]:
    """The units of a cluster that computes whole tiles, then its share of the k-steps of the others."""
    tiles, whole, least = plan.scalars[:3]
    yield from (Unit(tile, 0, depth) for tile in range(cluster, whole, count))
    cuts = [share(c, count, tiles - whole, depth, least) for c in range(count + 1)]
    at, end = cuts[cluster], cuts[cluster + 1]
    while at < end:
        tile, first = divmod(at, depth)
        last = min(depth, first + end - at)
        peers = range(cluster + 1, count) if first == 0 and last < depth else ()
        takes = tuple(p for p in peers if cuts[p] < (tile + 1) * depth and cuts[p + 1] > cuts[p])
        yield Unit(whole + tile, first, last, cluster if first else None, takes)
        at += last - first


def units_of(plan: Plan, k: int, config: dict[str, int]) -> list[list[Unit]]:
    """The units of every cluster."""
    depth, count = -(-k // config["bk"]), plan.grid[0] // plan.cluster
    walk = streamed if config["stream_k"] else sliced
    return [list(walk(plan, depth, cluster, count)) for cluster in range(count)]


@few
@given(sizes, ways, clusters, st.sampled_from([4, 7, 20, 132, 264]))
def test_every_k_step_of_every_tile_once(
    size: tuple[int, int, int, int], way: dict[str, int], cluster: tuple[int, int], slots: int
) -> None:
    config = CONFIG | way | {"bm": 64, "bn": 64, "consumers": 1, "cluster_m": cluster[0], "cluster_n": cluster[1]}
    m, n, k, batch = size
    plan = planned(size, slots, **config)
    depth = -(-k // 64)
    rows, columns = -(-m // (64 * cluster[0])), -(-n // (64 * cluster[1]))
    assert plan.scalars[0] == rows * columns * batch
    assert plan.cluster == cluster[0] * cluster[1]
    assert plan.grid[0] % plan.cluster == 0
    assert plan.cluster <= plan.grid[0] <= max(slots, plan.cluster)
    done = np.zeros((plan.scalars[0], depth), int)
    for units in units_of(plan, k, config):
        for unit in units:
            assert unit.first < unit.last  # a unit's first wgmma is unconditional
            done[unit.tile, unit.first : unit.last] += 1
    assert (done == 1).all()


@few
@given(sizes, ways, st.sampled_from([2, 5, 66, 132]))
def test_parts_are_summed_once_and_nobody_waits_for_ever(
    size: tuple[int, int, int, int], way: dict[str, int], slots: int
) -> None:
    """Clusters run side by side, each its units in order; who sums waits for every part of its tile."""
    config = CONFIG | way | {"bm": 64, "bn": 64, "consumers": 1, "cluster_m": 1}
    plan = planned(size, slots, **config)
    pending = [list(units) for units in units_of(plan, size[2], config)]
    given_by: dict[int, Unit] = {}
    depth = -(-size[2] // 64)
    while any(pending):
        moved = False
        for units in pending:
            while units and all(slot in given_by for slot in units[0].takes):
                unit, moved = units.pop(0), True
                parts = [given_by.pop(slot) for slot in unit.takes]  # flags fall back to zero
                assert all(part.tile == unit.tile for part in parts)
                steps = unit.last - unit.first + sum(part.last - part.first for part in parts)
                if unit.gives is None:
                    assert steps == depth
                else:
                    assert unit.gives not in given_by
                    given_by[unit.gives] = unit
        assert moved, "every cluster waits for another"
    assert not given_by


@few
@given(sizes, ways, clusters)
def test_flags_and_parts_fit_the_workspace(
    size: tuple[int, int, int, int], way: dict[str, int], cluster: tuple[int, int]
) -> None:
    config = CONFIG | way | {"cluster_m": cluster[0], "cluster_n": cluster[1]}
    plan = planned(size, **config)
    slots = {unit.gives for units in units_of(plan, size[2], config) for unit in units} - {None}
    most = max(slots, default=-1) + 1
    parts = plan.workspace_bytes - plan.zeroed_bytes
    assert plan.zeroed_bytes % 256 == 0
    assert plan.zeroed_bytes >= 4 * most * plan.cluster * config["consumers"]
    assert parts >= most * plan.cluster * config["bm"] * config["bn"] * 4
    assert plan.workspace_bytes >= 256


def test_a_tail_alone_is_split_and_whole_waves_are_not() -> None:
    plan = planned((4096, 4096, 4096, 1), split_k=2, split_tail=1)
    assert plan.scalars[:4] == (256, 198, 2, 8)
    assert planned((4096, 4096, 4096, 1), stream_k=1).scalars[:4] == (256, 132, 2, 8)


def test_no_more_slices_than_k_steps_and_no_more_rows_in_a_group_than_there_are() -> None:
    assert planned((128, 256, 65, 1), split_k=8).scalars[:4] == (1, 0, 2, 1)
    assert planned((128, 256, 64, 1), split_k=8).scalars[:4] == (1, 1, 1, 1)


def divided(a: int, magic: int, shift: int) -> int:
    """As the kernel divides: the upper half of a product of 32 bits each, shifted."""
    return (a * magic >> 32) >> shift if magic else a


@given(st.integers(0, 2**31 - 1), st.one_of(st.integers(1, 300), st.integers(1, 2**31 - 1)))
@settings(max_examples=2000, deadline=None, derandomize=True)
def test_division_is_exact(a: int, number: int) -> None:
    magic, shift = divisor(number)
    assert 0 <= magic < 2**32
    for dividend in (a, a // number * number, max(0, a // number * number - 1)):
        assert divided(dividend, magic, shift) == dividend // number


@few
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20), st.integers(1, 3))
def test_tiles_are_found_in_groups_of_rows(rows: int, columns: int, group_m: int, batch: int) -> None:
    """As the kernel's Grid::place has it: rows of a group one after another, then the next column."""
    plan = planned((rows * 128, columns * 256, 64, batch), group_m=group_m, cluster_m=1)
    tiles, _, _, group_m, words = plan.scalars
    assert isinstance(words, tuple)
    assert isinstance(tiles, int)
    problem, group, height, last = list(zip(words[::2], words[1::2], strict=True))[:4]
    found = []
    for tile in range(tiles):
        z = divided(tile, *problem)
        within = tile - z * rows * columns
        g = divided(within, *group)
        first, rest = g * group_m, within - g * group_m * columns
        short = rows - first < group_m
        column = divided(rest, *(last if short else height))
        found.append((z, first + rest - column * (rows - first if short else group_m), column))
    down, across = order("grouped", rows, columns, group_m)
    once = list(zip(down.tolist(), across.tolist(), strict=True))
    assert found == [(z, *place) for z in range(batch) for place in once]


@pytest.mark.parametrize("batch", [1, 3])
def test_hilbert_has_a_table_of_one_problem(batch: int) -> None:
    plan = planned((1000, 3000, 64, batch), hilbert=1)
    table = np.asarray(plan.order)
    assert table.dtype == np.int32
    assert sorted(table.tolist()) == list(range(4 * 12))
    assert plan.scalars[0] == 48 * batch
    assert plan.scalars[4][2:4] == divisor(12)  # type: ignore[index]
    step = np.abs(np.diff(table // 12)) + np.abs(np.diff(table % 12))
    assert np.median(step) == 1
    assert planned((1000, 3000, 64, 1)).order is None


def boxes(map_: TensorMap, tile: int, along_k: bool, bk: int, sharers: int) -> Iterator[tuple[int, int, int, int]]:
    """First element along K, elements, first of the side, elements: of each box that a cluster loads of one tile."""
    inner, outer = map_.box[:2]
    across = (bk if along_k else tile + inner - 1) // inner
    for column in range(across):
        for part in range(sharers):
            if along_k:
                yield column * inner, inner, part * outer, outer
            else:
                yield part * outer, outer, column * inner, inner


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("sides", [(128, 256), (64, 64), (128, 24), (128, 16), (64, 200)])
@pytest.mark.parametrize("bk", [32, 64, 128])
def test_boxes_cover_a_tile_once(
    layout: str, swap: int, cluster: tuple[int, int], sides: tuple[int, int], bk: int
) -> None:
    bm, bn = sides[::-1] if swap else sides
    config = {"bm": bm, "bn": bn, "bk": bk, "swap": swap, "cluster_m": cluster[0], "cluster_n": cluster[1]}
    plan = planned((1000, 2000, 512, 2), form=Form("bf16", layout=layout), **config)
    for map_, tile, along_k, sharers in (
        (plan.maps[0], bm, layout[0] == "N", cluster[1]), (plan.maps[1], bn, layout[1] == "T", cluster[0])
    ):  # fmt: skip
        if (tile if along_k else bk) % (8 * sharers):
            continue  # refused
        count = np.zeros((bk, tile + 64), int)
        for k, depth, side, elements in boxes(map_, tile, along_k, bk, sharers):
            count[k : k + depth, side : side + elements] += 1
        assert (count[:, :tile] == 1).all()
        assert (count <= 1).all()
        padding = int(count[0, tile:].sum())
        assert padding == 0 if along_k else padding < 16 or 8 * padding <= tile
        assert map_.box[0] * 2 == map_.swizzle_bytes


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "tf32"])
def test_maps_are_the_operands(dtype: str, layout: str) -> None:
    if layout not in wgmma.LAYOUTS_OF[dtype]:
        return
    m, n, k, batch = 1000, 2000, 512, 3
    bk = {"bf16": 64, "fp8": 128, "tf32": 32}[dtype]
    a, b, c = planned((m, n, k, batch), form=Form(dtype, layout=layout), bk=bk).maps
    width = DTYPE_BYTES[dtype]
    assert a.sizes == ((k, m, batch) if layout[0] == "N" else (m, k, batch))
    assert b.sizes == ((k, n, batch) if layout[1] == "T" else (n, k, batch))
    for map_ in (a, b):
        assert map_.dtype == dtype
        assert map_.strides == (map_.sizes[0] * width, map_.sizes[0] * map_.sizes[1] * width)
    if dtype == "tf32":
        assert c == a  # fp32 results do not leave by a map
    else:
        assert (c.operand, c.dtype, c.sizes) == ("c", "bf16", (n, m, batch))
        assert c.box == (64, 64, 1)
        assert c.strides == (2 * n, 2 * n * m)
    for map_ in (a, b, c):
        assert all(stride % 16 == 0 for stride in map_.strides)
        assert all(1 <= side <= 256 for side in map_.box)


@pytest.mark.parametrize(
    ("y", "swap", "box", "swizzle"),
    [(256, 0, (64, 64, 1), 128), (96, 0, (32, 64, 1), 64), (16, 0, (16, 64, 1), 32), (8, 0, (8, 64, 1), 0),
     (256, 1, (64, 64, 1), 128), (24, 1, (64, 24, 1), 128), (80, 1, (64, 40, 1), 128)],
)  # fmt: skip
def test_c_leaves_in_boxes_of_a_warpgroup(y: int, swap: int, box: tuple[int, ...], swizzle: int) -> None:
    sides = {"bm": y, "bn": 128} if swap else {"bm": 128, "bn": y}
    c = planned((512, 512, 64, 1), swap=swap, **sides).maps[2]
    assert (c.box, c.swizzle_bytes) == (box, swizzle)


def test_c_with_an_odd_row_stride_leaves_another_way() -> None:
    a, _, c = planned((4096, 4097, 4096, 1), form=Form("bf16", layout="NT")).maps
    assert c == a


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Form("fp32"), "tensor-core kernels have no A and B in fp32: they have bf16, fp16, tf32, fp8"),
        (
            Form("fp8"),
            "no kernel for layout NN: it has NT, since wgmma takes operands of other than 16 bits only where",
        ),
        (Form("tf32", layout="TN"), "A row-major and B transposed, which is TN to BLAS"),
    ],
)
def test_macros_of_a_form_without_a_kernel(form: Form, said: str) -> None:
    with pytest.raises(GemmsimError, match=said):
        wgmma.macros(form_of(form), CONFIG)


def test_macros_are_the_parameters_that_are_compiled() -> None:
    found = wgmma.macros(form_of(Form("fp8", layout="NT", epilogue=("bias", "gelu"))), CONFIG)
    assert found["IN"] == "e4m3_t"
    assert (found["BM"], found["BN"], found["BK"], found["STAGES"]) == ("128", "256", "64", "4")
    other: dict[str, Any] = {"group_m": 1, "split_k": 4, "split_tail": 1}
    assert wgmma.macros(form_of("bf16"), CONFIG) == wgmma.macros(form_of("bf16"), CONFIG | other)
