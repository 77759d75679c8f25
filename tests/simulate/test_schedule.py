"""The makespan of a launch against the closed form, and what only the schedule has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim import GemmsimError, families, load_gpu, predict
from gemmsim.families.simt_launch import share
from gemmsim.model.predict import Prediction
from gemmsim.problem import Form
from gemmsim.simulate import schedule as module
from gemmsim.simulate.schedule import How, schedule

few = settings(max_examples=60, deadline=None, derandomize=True)
sizes = st.tuples(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 6000))


def asked(m: int, n: int, k: int, family: str = "simt", gpu: str = "h200_sxm", **config: Any) -> Prediction:
    dtype = families.family(family).DTYPES[0]
    return predict(m, n, k, gpu=gpu, dtype=dtype, family=family, config=config)


@few
@given(sizes, st.sampled_from(families.FAMILIES), st.sampled_from(["h200_sxm", "a100_sxm_80gb"]))
def test_whole_tiles_in_step_are_the_closed_form(size: tuple[int, int, int], family: str, gpu: str) -> None:
    p = asked(*size, family=family, gpu=gpu)
    if not p.feasible[0]:
        return
    s = schedule(p)
    if p.calibration.values["in_step"]:  # decided one way or the other, in place of the mean of both
        assert s.makespan_s == pytest.approx(p.time_s[0], rel=0.6)
    else:
        assert s.makespan_s == pytest.approx(p.time_s[0], rel=1e-9)
        assert s.waves == p.waves[0]
    assert s.closed_form_s == p.time_s[0]


@few
@given(sizes, st.sampled_from([{"split_k": 3}, {"split_k": 5, "split_tail": 1}, {"stream_k": 1}, {}]))
def test_every_k_step_of_every_tile_once(size: tuple[int, int, int], more: dict[str, int]) -> None:
    p = asked(*size, **more)
    if not p.feasible[0]:
        return
    s = schedule(p)
    config = p.config.row(0)
    down, across, steps = -(-size[0] // config["bm"]), -(-size[1] // config["bn"]), -(-size[2] // config["bk"])
    done = np.zeros((down, across, steps), int)
    order = {(r, c): i for i, (r, c) in enumerate(zip(*module.order("grouped", down, across, 8), strict=True))}
    places = {i: place for place, i in order.items()}
    for i in range(len(s)):
        at, left = order[int(s.row[i]), int(s.column[i])], int(s.steps[i])
        first = int(s.first_step[i])
        while left:
            now = min(left, steps - first)
            done[places[at]][first : first + now] += 1
            at, first, left = at + 1, 0, left - now
    assert (done == 1).all()
    assert (s.steps > 0).all()


@few
@given(sizes, st.sampled_from([{"split_k": 3}, {"split_k": 5, "split_tail": 1}, {"stream_k": 1}, {}]))
def test_busy_sms_and_makespan_bound_each_other(size: tuple[int, int, int], more: dict[str, int]) -> None:
    p = asked(*size, **more)
    if not p.feasible[0]:
        return
    s = schedule(p)
    blocks_s = s.makespan_s - s.launch_s - s.second_s
    assert s.busy_s.max() <= blocks_s * (1 + 1e-9)
    assert s.end_s.max() <= (s.makespan_s - s.second_s) * (1 + 1e-9)
    assert s.start_s.min() == s.launch_s
    assert 0 <= s.idle_share < 1
    assert s.idle_share == pytest.approx(1 - s.busy_s.mean() / blocks_s)
    assert 0 <= s.tail_s <= blocks_s * (1 + 1e-9)
    assert schedule(p).end_s.tolist() == s.end_s.tolist()


def test_shares_are_those_of_the_kernel() -> None:
    s = schedule(asked(1000, 2000, 3000, stream_k=1))
    steps, tiles, blocks = 375, 16 * 8, 264
    bounds = [share(b, blocks, tiles, steps) for b in range(blocks + 1)]
    kept = [(a, b) for a, b in pairwise(bounds) if b > a]
    assert s.steps.tolist() == [b - a for a, b in kept]
    assert s.first_step.tolist() == [a % steps for a, _ in kept]


def test_slices_of_a_tile_differ_by_one_step_at_most() -> None:
    s = schedule(asked(512, 512, 4096, split_k=6))
    assert len(s) == 16 * 6
    assert set(s.steps.tolist()) == {85, 86}
    assert s.second_s > 0
    assert (s.first_step[:16] == 0).all()  # slice after slice of all tiles


def test_sums_that_are_passed_on_cost_who_takes_them_up() -> None:
    """Of 16 tiles and 264 blocks: an owner takes up the sums of 16 or so, another block passes its own on."""
    s = schedule(asked(512, 512, 32768, stream_k=1))
    owners = (s.first_step == 0) | (s.first_step + s.steps > 4096)
    assert owners.sum() == 16
    assert s.fixing[s.kind[owners]].min() > s.fixing[s.kind[~owners]].max() > 0
    assert schedule(asked(512, 512, 32768)).fixing.tolist() == [0]


def test_the_block_with_a_tiles_last_slice_sums_it_up() -> None:
    """Slices of a tile follow one another; found 3 % under the closed form, where all hand over and sum."""
    p = asked(4096, 4096, 8192, family="wgmma", split_k=4, cluster_m=1)
    s = schedule(p)
    assert s.simulated
    assert s.row[:8].tolist() == [0] * 4 + [1] * 4
    last = s.kind[3]
    assert set(s.kind[:3].tolist()) == {s.kind[0]} != {last}
    assert s.fixing[last] > s.fixing[s.kind[0]] > 0
    assert 0.9 * p.time_s[0] < s.makespan_s < p.time_s[0]


def test_slices_a_step_apart_are_in_step() -> None:
    """43 tiles in 12 slices of 114 or 115 steps: 516 blocks on 396 places, the last 120 on an SM each."""
    p = asked(4, 4096, 11008, bm=96, bn=96, wm=32, wn=48, tm=4, tn=12, regs=0, blocks=3, split_k=12)
    assert p.blocks_per_sm[0] == 3
    s = schedule(p)
    assert set(s.steps.tolist()) == {114, 115}
    assert np.bincount(s.sm[396:]).max() == 1


def test_two_blocks_of_an_sm_that_end_together_take_the_next_two() -> None:
    """2176 x 2048 x 1024 in 64 x 256: 272 tiles, 8 more than two for each SM; the fit of simt says 0.6 of the time."""
    p = asked(2176, 2048, 1024)
    assert p.blocks_per_sm[0] == 2
    s = schedule(p)
    last = s.sm[264:]
    assert len(np.unique(last)) == 4
    assert s.makespan_s > p.time_s[0]


def test_clusters_reach_fewer_sms() -> None:
    p = asked(4096, 4096, 4096, family="triton")
    plain, pairs, eight = (schedule(p, how=How(cluster_m=c)) for c in (1, 2, 8))
    assert plain.makespan_s == pairs.makespan_s
    assert eight.makespan_s > plain.makespan_s
    assert (eight.busy_s > 0).sum() == 120
    rows = eight.row.reshape(-1, 8)
    assert (rows == rows[:, :1] + np.arange(8)).all()
    assert (eight.column.reshape(-1, 8) == eight.column.reshape(-1, 8)[:, :1]).all()


def test_a_persistent_launch_of_equal_tiles_takes_as_long() -> None:
    p = asked(4096, 4096, 4096)
    usual, persistent = schedule(p), schedule(p, how=How(persistent=True))
    assert persistent.makespan_s == usual.makespan_s
    assert (usual.blocks, persistent.blocks, len(persistent)) == (1024, 264, 1024)
    assert (persistent.sm[264:] == persistent.sm[:-264]).all()


@pytest.mark.parametrize("raster", ["row", "column", "hilbert"])
def test_a_raster_names_the_tiles(raster: str) -> None:
    s = schedule(asked(1024, 1024, 64), how=How(raster=raster))
    np.testing.assert_array_equal((s.row, s.column), module.order(raster, 16, 4))


def test_a_batch_is_one_launch() -> None:
    p = predict(256, 256, 256, gpu="h200_sxm", dtype=Form("bf16", batch=100))
    s = schedule(p)
    assert len(s) == 400
    assert s.problem.tolist() == sorted(s.problem.tolist())
    assert s.makespan_s == pytest.approx(p.time_s[0], rel=1e-9)


def test_bytes_from_elsewhere() -> None:
    p = asked(4096, 4096, 256, family="triton")
    usual, more = schedule(p), schedule(p, traffic={"dram_read_bytes": 1e9})
    assert usual.makespan_s < 1e9 / 4.53e12 < more.makespan_s
    assert len(usual) == len(more)


def test_rows_of_a_batch_of_predictions() -> None:
    p = predict([512, 4096], 4096, 4096, gpu="h200_sxm", config={"bm": [64, 128]})
    for row in range(2):
        one = asked(int(p.problem.m[row]), 4096, 4096, family="triton", bm=int(p.config["bm"][row]))
        assert schedule(p, row).makespan_s == schedule(one).makespan_s


@pytest.mark.parametrize(
    ("how", "config", "said"),
    [
        (How(cluster_m=3), {}, "cluster of 3 x 1 blocks: expected its sides to divide the grid of 8 x 2 tiles"),
        (How(cluster_n=0), {}, "cluster of 1 x 0 blocks: expected its sides"),
        (How(cluster_m=-1, cluster_n=-1), {}, "cluster of -1 x -1 blocks: expected its sides"),
        (How(cluster_m=2), {"split_k": 4}, "cluster of 2 x 1 blocks: expected whole tiles"),
        (How(raster="spiral"), {}, "unknown raster 'spiral'"),
    ],
)
def test_what_the_grid_cannot_take(how: How, config: dict[str, int], said: str) -> None:
    with pytest.raises(GemmsimError, match=said):
        schedule(asked(512, 512, 4096, **config), how=how)


def test_a_cluster_the_gpu_cannot_take() -> None:
    p = predict(512, 512, 512, gpu="h200_sxm", dtype="bf16", config={"bm": 64, "bn": 64}, num_sms=4)
    with pytest.raises(GemmsimError, match="no more blocks than the 4 SMs in use"):
        schedule(p, how=How(cluster_m=8))
    with pytest.raises(GemmsimError, match="sm80 has no clusters"):
        schedule(asked(512, 512, 4096, family="triton", gpu="a100_sxm_80gb"), how=How(cluster_m=2))


def test_what_cannot_launch_has_no_schedule() -> None:
    with pytest.raises(GemmsimError, match="cannot launch on h200_sxm: smem_capacity"):
        schedule(asked(512, 512, 512, family="triton", bm=256, bn=256, bk=256, num_stages=4))
    gpu = load_gpu("h200_sxm")
    none = replace(gpu, arch=replace(gpu.arch, smem_per_sm_bytes=0))
    with pytest.raises(GemmsimError, match="no block fits an SM"):
        schedule(predict(512, 512, 512, gpu=none))


def test_too_many_blocks_are_the_closed_form_and_marked() -> None:
    p = predict(65536, 65536, 64, gpu="h200_sxm", config={"bm": 16, "bn": 16, "bk": 16, "num_warps": 1})
    s = schedule(p)
    assert not s.simulated
    assert s.makespan_s == p.time_s[0]
    assert s.note == "16777216 blocks, more than the 1048576 that are simulated: makespan_s is the closed form's"
    assert len(s) == 0
    cut = schedule(asked(8192, 16384, 4096, split_k=20))
    assert not cut.simulated
    assert cut.note.startswith("163840 unequal blocks, more than the 131072 that are simulated: ")
    assert schedule(asked(65536, 65536, 8)).simulated
