"""Clusters, blocks that stay for tile after tile, and slices that one of them sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemmsim import families, load_gpu, predict
from gemmsim.model import effects, geometry, solver, split
from gemmsim.model.case import make_case
from gemmsim.model.demand import Case, Demand
from gemmsim.model.residency import reached_sms, usable_sms

H200 = load_gpu("h200_sxm")
ONE = np.ones(1)


def solved(*size: int, **change: int) -> tuple[Case, Demand]:
    p = predict(*size, gpu=H200, dtype="bf16", family="wgmma", config=change, calibrated="none")
    assert p.feasible[0], p.reasons[0]
    x = make_case(p.problem, p.config, p.launch, p.blocks_per_sm, H200, p.calibration.values, "cold_clean")
    return x, effects.fill(x)


def with_traits(x: Case, **change: Any) -> Case:
    return replace(x, traits=replace(x.traits, **change))


@pytest.mark.parametrize(
    ("tiles", "cluster", "launched"),
    [((9, 4), (2, 1), 40), ((9, 4), (1, 1), 36), ((1, 1), (2, 2), 4), ((3, 5), (1, 2), 18)],
)
def test_whole_clusters_are_launched(tiles: tuple[int, int], cluster: tuple[int, int], launched: int) -> None:
    sides = [np.full(1, float(v)) for v in (*tiles, *cluster)]
    assert geometry.launched_tiles(*sides)[0] == launched


def test_sms_that_clusters_reach() -> None:
    sizes = np.asarray([1.0, 2.0, 4.0, 8.0])
    assert reached_sms(H200, sizes).tolist() == [usable_sms(H200, int(size)) for size in sizes] == [132, 132, 120, 120]
    assert reached_sms(load_gpu("h100_pcie"), np.full(1, 4.0))[0] <= 114
    odd = replace(H200, sm_count=131)
    assert reached_sms(odd, np.asarray([1.0, 2.0])).tolist() == [131, 130]


def test_a_cluster_asks_once_for_what_its_blocks_share() -> None:
    """2 x 1 blocks of 128 x 256: A as before, B half as often: of 768 rows and columns a pair 512 are asked for."""
    x, d = solved(4096, 4096, 4096, cluster_m=2)
    alone = with_traits(x, cluster_m=ONE)
    asked, before = (effects._asked(case, d.tiles_m, d.tiles_n) for case in (x, alone))
    assert asked[0][0] == before[0][0]
    assert asked[1][0] == before[1][0] / 2
    assert sum(a[0] for a in asked) / sum(a[0] for a in before) == pytest.approx(2 / 3)
    for name in ("dram_read_bytes", "dram_write_bytes"):
        assert getattr(effects.fill(alone), name)[0] == getattr(d, name)[0]


def test_blocks_that_stay_fill_once() -> None:
    """Four waves: up to three fills and starts less; some of that L2 takes up."""
    x, d = solved(4096, 4096, 4096)
    leaves = with_traits(x, persistent=np.zeros(1, bool))
    fill = solver._once(x, d, frozenset())[0] / H200.clock_hz
    gained = solver.time_s(leaves, d)[0] - solver.time_s(x, d)[0]
    assert 1.2 * fill < gained < 4.5 * fill


def test_an_epilogue_hides_behind_loads_but_not_behind_math() -> None:
    x, d = solved(4096, 4096, 4096)
    steps, ends = d.k_steps, np.full(1, 2000.0)
    math_bound = solver._stream(x, d, steps, (np.full(1, 10.0), np.full(1, 1000.0)), ends, frozenset())
    exposed = d.exposed_clk
    assert math_bound[0] == pytest.approx((steps * (1000 + exposed) + ends)[0], rel=1e-3)
    load_bound = solver._stream(x, d, steps, (np.full(1, 1000.0), np.full(1, 10.0)), ends, frozenset())
    assert load_bound[0] == pytest.approx((steps * 1000)[0], rel=1e-3)
    turns = with_traits(x, tiles_under_way=np.full(1, 2.0))
    both = solver._stream(turns, d, steps, (np.full(1, 10.0), np.full(1, 1000.0)), ends, frozenset())
    assert both[0] == pytest.approx((steps * (1000 + exposed))[0], rel=1e-3)


def test_a_loader_has_a_pace_of_its_own() -> None:
    """Few columns of C and a shallow k-step: what takes long is to ask for three boxes, two of them for both blocks."""
    x, d = solved(256, 256, 16384, bm=48, bn=128, bk=32, stages=8, cluster_m=2, swap=1)
    c = x.c
    each = c["loader_clk"] + c["loader_cluster_clk"] + 3 * c["box_clk"] + 2 * c["shared_box_clk"]
    assert d.loader_clk[0] == pytest.approx(each)
    assert d.math_clk[0] < each / 3
    assert solver.time_s(x, d)[0] > 512 * each / H200.clock_hz
    alone = with_traits(x, boxes=np.zeros(1), shared_boxes=np.zeros(1))
    assert solver.time_s(alone, effects.fill(alone))[0] < 0.7 * solver.time_s(x, d)[0]


def test_bytes_past_the_edge_cost_more_than_those_in_it() -> None:
    """Of 128 x 32 tiles at 1 row all but one row are zeros; at 128 none, nor of a second block that lies outside."""
    tall = {"bm": 128, "bn": 32, "bk": 64, "stages": 4, "cluster_m": 1}
    (x, d), (whole, e) = solved(1, 4096, 4096, **tall), solved(128, 4096, 4096, **tall)
    assert effects._filled_bytes(x, d.tiles_m, d.tiles_n)[0] == 127 * 128 * 4096 * 2
    assert effects._filled_bytes(whole, e.tiles_m, e.tiles_n)[0] == 0
    assert d.l2_weighted_bytes[0] > e.l2_weighted_bytes[0]
    pair, f = solved(128, 4096, 4096, **tall | {"cluster_m": 2})
    assert effects._filled_bytes(pair, f.tiles_m, f.tiles_n)[0] == 128 * 128 * 4096 * 2


def test_requests_merge_with_the_number_that_ask() -> None:
    x, _ = solved(4096, 4096, 4096, cluster_m=1)
    cost = [effects.fill(replace(x, c={**x.c, "merging": e})).l2_weighted_bytes[0] for e in (0.0, 0.1, 0.2)]
    assert cost == sorted(cost, reverse=True)
    one, _ = solved(128, 256, 65536, cluster_m=1)
    lone = [effects.fill(replace(one, c={**one.c, "merging": e})).l2_weighted_bytes[0] for e in (0.0, 0.2)]
    assert lone[0] == lone[1]


def test_results_of_tiles_that_take_turns_are_waited_for_at_the_end() -> None:
    x, d = solved(4096, 4096, 4096, bm=128, bn=128, pingpong=1)
    apart = with_traits(x, tiles_under_way=ONE)
    last = solver._once(x, d, frozenset())[0] - solver._once(apart, d, frozenset())[0]
    assert last == pytest.approx(d.epilogue_clk[0])


def test_parts_are_passed_on_at_the_pace_of_their_warps() -> None:
    """65,536 bytes by 4 warps at 6 a clock each, by 8 and 12 at 35 in all; half of that where two tiles take turns."""
    size = (2048, 2048, 4096)

    def passing(**change: int) -> float:
        x, d = solved(*size, bm=192, bn=128, cluster_m=1, stages=3, **change)
        return float(d.fixup_clk[0] / (x.c["handover"] + x.c["fixup"]) - split.PART_HOPS * 285)

    part = 192 * 128 * 4
    assert passing(split_k=2, consumers=1) == pytest.approx(part / 24)
    assert passing(split_k=2, consumers=3) == pytest.approx(part / 35)
    assert passing(stream_k=1, consumers=1) == pytest.approx(part / 24)
    x, d = solved(*size, bm=128, bn=128, pingpong=1, split_k=2, cluster_m=1)
    both = (128 * 128 * 4 / 24 + split.PART_HOPS * 285) / 2
    assert d.fixup_clk[0] == pytest.approx((x.c["handover"] + x.c["fixup"]) * max(both, 128 * 128 * 4 / 35))


def test_slices_are_summed_in_the_launch() -> None:
    x, d = solved(256, 4096, 16384, split_k=4, bn=128)
    tiles = 2 * 32
    assert (d.units.whole[0], d.units.parts[0], d.units.summed[0]) == (0, 4 * tiles, 0)
    assert d.second_s.max() == d.second_asked_bytes.max() == 0
    assert d.workspace_bytes[0] == 3 * tiles * 128 * 128 * 4  # the last slice stays in registers
    passing = 128 * 128 * 4 / split.PARTS_BYTES_PER_CLK + split.PART_HOPS * 285  # two consumers are as fast as an SM is
    assert d.fixup_clk[0] == pytest.approx((x.c["handover"] + 3 * x.c["fixup"]) * passing)
    before = effects.fill(with_traits(x, sums_slices=np.zeros(1, bool)))
    assert before.second_s[0] > 2e-6
    assert before.workspace_bytes[0] == 4 * tiles * 128 * 128 * 4


def test_slices_of_a_tile_run_side_by_side() -> None:
    """132 blocks of 4 slices read the panels of 33 tiles, each piece once, in place of 132 tiles' along a quarter."""
    x, d = solved(4096, 4096, 16384, split_k=4)
    other = with_traits(x, sums_slices=np.zeros(1, bool))
    assert split.abreast(x)[0] == 4
    assert split.slices(x)[0] == 1
    assert (split.abreast(other)[0], split.slices(other)[0]) == (1, 4)
    assert d.dram_read_bytes[0] >= 2 * 2 * 4096 * 16384


def test_pipes_join_as_sharply_as_their_coefficient_says() -> None:
    x, d = solved(4096, 4096, 4096)
    times = [solver.time_s(replace(x, c={**x.c, "pipe_sharpness": p}), d)[0] for p in (2.0, 4.0, 8.0, 16.0)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_other_families_have_neither(family: str) -> None:
    if family == "wgmma":
        return
    module = families.family(family)
    p = predict(1024, 1024, 1024, gpu=H200, dtype=module.DTYPES[0], family=family, calibrated="none")
    t = module.traits(p.problem, p.config, p.launch, H200.arch)
    assert (t.cluster_m[0], t.cluster_n[0], t.tiles_under_way[0]) == (1, 1, 1)
    assert not t.persistent[0]
    assert not t.sums_slices[0]
    assert t.boxes[0] == t.box_rows[0] == t.store_rounds[0] == t.a_extra[0] == 0
    assert not t.fills_edges[0]
