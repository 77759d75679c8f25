"""The simulator of traffic: against hardware counters of an H200, and what every launch must satisfy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim import families, predict
from gemmsim.cli.batch import Options
from gemmsim.cli.counted import read
from gemmsim.errors import GemmsimError
from gemmsim.model.traffic import textbook_bytes
from gemmsim.problem import Form
from gemmsim.simulate import blocks
from gemmsim.simulate.cache import Traffic, traffic
from gemmsim.simulate.launched import Launched, TooLarge, launched
from gemmsim.simulate.progress import walk
from gemmsim.simulate.raster import COLUMN, GROUPED, HILBERT, RASTERS, ROW
from gemmsim.simulate.score import scores

ROWS = Path(__file__).parents[2] / "studies" / "h200"
TILE = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": 8}
SIMT = {"bm": 64, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "blocks": 2, "regs": 0}


@cache
def found(*names: str) -> dict[str, dict[str, float]]:
    """The error table of these files of counters, by term."""
    table = scores(read([str(ROWS / f"{name}_counters.csv.gz") for name in names], Options()))
    return {str(row["term"]).strip(): row for row in table}  # type: ignore[misc]


def launch(m: int = 4096, n: int = 4096, k: int = 4096, raster: str = GROUPED, **changed: int) -> Launched:
    return launched(predict(m, n, k, gpu="h200_sxm", config=TILE | changed), raster=raster)


def simt(m: int, n: int, k: int, **changed: int) -> Launched:
    return launched(predict(m, n, k, gpu="h200_sxm", dtype="fp32", family="simt", config=SIMT | changed))


def wgmma(m: int, n: int, k: int, **changed: int) -> Launched:
    tile = {"bm": 128, "bn": 256, "bk": 64, "cluster_m": 1}
    return launched(predict(m, n, k, gpu="h200_sxm", dtype="bf16", family="wgmma", config=tile | changed))


def operands(x: Launched) -> float:
    return x.batch * (x.m * x.a_bytes + x.n * x.b_bytes) * x.k


def read_of_operands(t: Traffic) -> float:
    return t.a.dram_read_bytes + t.b.dram_read_bytes


def test_dram_reads_against_counters() -> None:
    """Of operands read more than 1.1 times: found 3.4 % on average, 8.8 % at the 90th percentile, 15.7 % at worst."""
    row = found("triton_bf16", "register_tile_fp32")["DRAM read, over 1.1 x A and B"]
    assert row["rows"] == 22
    assert row["simulator_mean_pct"] <= 6
    assert row["simulator_p90_pct"] <= 15
    assert row["simulator_worst_pct"] <= 35
    assert row["closed_mean_pct"] <= 8


def test_dram_reads_against_counters_of_another_kernel() -> None:
    """simt: found 2.3 % on average; without a second kernel, whose reads are known, 5.1 %."""
    table = found("simt")
    assert table["no second kernel"]["rows"] >= 10
    assert table["no second kernel"]["simulator_mean_pct"] <= 10
    row = table["DRAM read, over 1.1 x A and B"]
    assert row["rows"] == 44
    assert row["simulator_mean_pct"] <= 4
    assert row["closed_mean_pct"] <= 7


def test_what_is_written_and_what_leaves_l2_against_counters() -> None:
    """Found 4.4 and 5.6 % of DRAM writes, 7.7 and 9.1 % of what goes between L2 and SMs, 4 and 8 points of hit rate."""
    for names, writes, l2, hits in ((("triton_bf16", "register_tile_fp32"), 7, 8, 5), (("simt",), 7, 10, 8)):
        table = found(*names)
        assert table["DRAM written, over 10 MB"]["simulator_mean_pct"] <= writes
        assert table["L2 <-> SM, stores too"]["simulator_mean_pct"] <= l2
        assert table["L2 hit rate (points)"]["simulator_mean_pct"] <= hits


def test_persistent_clusters_fed_by_a_copy_engine_against_counters() -> None:
    """wgmma, split-K and stream-K among them: found 11 and 1.1 % of what DRAM reads, 4.8 % of what L2 sends."""
    rows = found("wgmma")
    assert rows["DRAM read, over 1.1 x A and B"]["rows"] == 9
    assert rows["the rest"]["rows"] == 21
    assert rows["the rest"]["simulator_mean_pct"] <= 2
    assert rows["L2 -> SM"]["simulator_mean_pct"] <= 7
    assert rows["L2 -> SM"]["closed_mean_pct"] <= 8
    assert rows["DRAM written, over 10 MB"]["simulator_mean_pct"] <= 9


def test_sides_whose_copies_only_their_own_readers_touch() -> None:
    """Counted: 874,658,048 B. With one reader a row of tiles a copy may lie untouched for several rows, and age."""
    tile = {"bm": 32, "bn": 32, "bk": 32, "tm": 1, "tn": 1}
    p = predict(8192, 8192, 1024, gpu="h200_sxm", dtype="fp32", family="register_tile", config=tile)
    x = launched(p)
    assert traffic(x).dram_read_bytes == pytest.approx(874_658_048, rel=0.05)
    undivided = replace(x, partitions=1, side_bytes=2 * x.side_bytes)
    assert traffic(undivided).dram_read_bytes < 0.1 * 874_658_048


CASES = st.builds(
    Launched,
    m=st.integers(1, 3000), n=st.integers(1, 3000), k=st.integers(1, 3000), batch=st.integers(1, 3),
    bm=st.sampled_from((16, 64, 128)), bn=st.sampled_from((32, 64, 256)), k_steps=st.integers(1, 200),
    a_bytes=st.sampled_from((1, 2, 4)), b_bytes=st.sampled_from((1, 2, 4)), c_bytes=st.sampled_from((2, 4)),
    partial_bytes=st.just(4.0), result_reads=st.just(0), reads_c=st.just(False), bias=st.just(False),
    raster=st.sampled_from(RASTERS), group_m=st.integers(1, 9), whole=st.just(0), slices=st.integers(1, 5),
    streams=st.just(0), sms=st.sampled_from((1, 16, 132)), blocks_per_sm=st.integers(1, 6),
    busy_share=st.floats(0.05, 1), by_age=st.floats(0, 1), depth=st.integers(1, 5).map(float),
    repeats_rows=st.booleans(), side_bytes=st.floats(1e4, 1e8), partitions=st.sampled_from((1, 2)),
)  # fmt: skip


def cut(x: Launched, way: int) -> Launched:
    """The same launch with all tiles whole, all sliced, or some whole and the k-steps of the others shared out."""
    if way == 0 or x.tiles == 0:
        return replace(x, whole=x.tiles, slices=1)
    if way == 1:
        return replace(x, whole=0 if x.slices > 1 else x.tiles, slices=min(x.slices, x.k_steps))
    streams = min(x.slots, x.tiles * x.k_steps)
    whole = max(0, x.tiles // streams - 1) * streams
    return replace(x, group_m=min(x.group_m, x.tiles_m), whole=whole, slices=1, streams=streams)


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(0, 2))
def test_traffic_lies_between_compulsory_and_textbook(x: Launched, way: int) -> None:
    x = cut(x, way)
    t = traffic(x)
    panels = x.batch * float(x.k) * (x.tiles_n * x.m * x.a_bytes + x.tiles_m * x.n * x.b_bytes)
    whole_tiles = x.tiles_n * x.tiles_m * x.batch * x.k * (x.bm * x.a_bytes + x.bn * x.b_bytes)
    assert panels <= whole_tiles
    assert operands(x) * (1 - 1e-9) <= read_of_operands(t) <= panels * (1 + 1e-9)
    assert -1e-6 <= t.dram_write_bytes <= t.l2_write_bytes * (1 + 1e-9)
    assert t.c.dram_read_bytes <= t.c.l2_read_bytes * (1 + 1e-9)
    assert 0 <= t.l2_hit_rate <= 1


@settings(max_examples=25, deadline=None)
@given(CASES, st.integers(0, 2))
def test_a_larger_cache_is_never_more_traffic(x: Launched, way: int) -> None:
    """Up to 3 in a thousand: bins of time follow the capacity."""
    sides = [1e5, 1e6, 1e7, 3e7, 1e9]
    each = [traffic(replace(cut(x, way), side_bytes=side)) for side in sides]
    reads, writes = (np.asarray([getattr(t, f"dram_{kind}_bytes") for t in each]) for kind in ("read", "write"))
    assert (np.diff(reads) <= 3e-3 * reads[0]).all()
    assert (np.diff(writes) <= 3e-3 * max(writes[0], 1)).all()


def test_textbook_is_what_tiles_ask_for() -> None:
    x = replace(launch(), repeats_rows=False, busy_share=1.0, blocks_per_sm=8)
    t = traffic(x)
    textbook = float(textbook_bytes(4096, 4096, 4096, 128, 128, 2))
    assert 0.9 * textbook < t.l2_read_bytes < textbook


def test_neighbours_in_the_raster_share_requests() -> None:
    """4096^3, 128 x 256 tiles: 0.78 of what tiles ask for is counted row by row, 0.53 in groups of 4."""
    asked = float(textbook_bytes(4096, 4096, 4096, 128, 256, 2))
    rows, groups = (traffic(launch(group_m=g, bn=256, num_warps=8)).l2_read_bytes / asked for g in (1, 4))
    assert rows == pytest.approx(0.78, rel=0.1)
    assert groups < 0.85 * rows


def test_requests_that_wait_for_dram_share_more() -> None:
    cold, held = replace(launch(), dram_wait=10.0), replace(launch(), dram_wait=1.0)
    assert traffic(cold).l2_read_bytes < traffic(held).l2_read_bytes


@pytest.mark.parametrize("group_m", [1, 2, 8, 32])
def test_the_closed_form_asks_what_the_simulator_asks(group_m: int) -> None:
    p = predict(4096, 4096, 4096, gpu="h200_sxm", config=TILE | {"group_m": group_m})
    assert p.l2_read_bytes[0] == pytest.approx(traffic(launched(p)).l2_read_bytes, rel=0.1)


def test_the_same_launch_gives_the_same_bytes() -> None:
    assert traffic(launch(m=2000, group_m=3)) == traffic(launch(m=2000, group_m=3))


def test_an_endless_cache_reads_once_and_writes_nothing() -> None:
    t = traffic(replace(launch(), side_bytes=1e15))
    assert read_of_operands(t) == pytest.approx(operands(launch()), rel=1e-5)
    assert t.dram_write_bytes == pytest.approx(0, abs=1e-5 * t.l2_write_bytes)


def test_the_raster_decides_what_is_read() -> None:
    """8192^3 in bf16: one wave of 132 needs all columns row by row, half as many rows and columns in groups of 8."""
    reads = {r: traffic(launch(8192, 8192, 8192, r)).dram_read_bytes for r in RASTERS}
    assert reads[ROW] == pytest.approx(reads[COLUMN], rel=0.02)
    assert reads[GROUPED] < 0.5 * reads[ROW]
    assert reads[HILBERT] < 0.7 * reads[ROW]


def test_a_batch_is_one_problem_after_another() -> None:
    one = launched(predict(1024, 1024, 4096, gpu="h200_sxm", config=TILE))
    three = launched(predict(1024, 1024, 4096, gpu="h200_sxm", dtype=Form("bf16", batch=3), config=TILE))
    assert three.tiles == 3 * one.tiles
    compulsory = 3 * read_of_operands(traffic(one))
    assert compulsory == pytest.approx(operands(three))
    assert compulsory <= read_of_operands(traffic(three)) < 1.1 * compulsory  # the third is begun in the first wave


def test_beta_reads_c() -> None:
    config = {"bm": 128, "bn": 128, "bk": 64}
    plain, beta = (
        traffic(launched(predict(2048, 2048, 512, gpu="h200_sxm", dtype=Form("bf16", beta=b), config=config)))
        for b in (False, True)
    )
    assert beta.c.dram_read_bytes == 2 * 2048 * 2048
    assert plain.c.dram_read_bytes == 0
    assert read_of_operands(beta) == read_of_operands(plain)


def test_a_second_kernel_reads_every_slice_cold_or_warm() -> None:
    x = simt(1024, 1024, 1024, split_k=4)
    assert (x.slices, x.whole) == (4, 0)
    cold, warm = traffic(x, cold_second=True), traffic(x)
    parts = 4 * 4 * 1024 * 1024
    assert cold.c.dram_read_bytes == parts
    assert warm.c.dram_read_bytes < 0.1 * parts  # 16 MB of slices lie in L2 when the second kernel comes
    assert cold.c.l2_read_bytes == warm.c.l2_read_bytes == parts
    assert cold.c.l2_write_bytes == parts + parts / 4


def test_tiles_past_the_last_wave_alone_are_sliced() -> None:
    x = simt(4096, 4096, 1024, split_k=3, split_tail=1)
    assert x.slices == 3
    assert 0 < x.whole < x.tiles
    assert x.whole % x.slots == 0


def test_slices_that_the_last_block_sums_have_no_second_kernel() -> None:
    """All but the last of 4 slices are written and read again soon: DRAM sees A and B, and C is stored once."""
    x = wgmma(1024, 1024, 8192, split_k=4)
    t, tile = traffic(x, cold_second=True), 128 * 256 * 4
    assert (x.tiles, x.slices, x.second) == (32, 4, False)
    assert t.dram_read_bytes == pytest.approx(operands(x), rel=0.02)
    assert t.c.l2_read_bytes == 32 * 3 * tile
    assert t.c.l2_write_bytes == 32 * 3 * tile + 1024 * 1024 * 2
    assert traffic(replace(x, abreast=False), cold_second=True).dram_read_bytes > operands(x) + 32 * 4 * tile * 0.99


def test_a_cluster_asks_once_and_its_blocks_walk_together() -> None:
    """2 x 1 blocks of 128 x 256 are one of 256 x 256, on half the SMs, whose rows of the raster are half as many."""
    x = wgmma(4096, 4096, 2048, cluster_m=2, stream_k=1)
    assert (x.bm, x.bn, x.sms, x.cluster, x.group_m) == (256, 256, 66, 2, 8)
    assert (x.tiles, x.whole, x.streams) == (256, 132, 66)
    no_merging = traffic(replace(wgmma(4096, 4096, 2048, cluster_m=2), busy_share=1e9))
    assert no_merging.a.l2_read_bytes == pytest.approx(16 * 4096 * 2048 * 2, rel=0.01)
    assert no_merging.b.l2_read_bytes == pytest.approx(16 * 4096 * 2048 * 2, rel=0.01)
    half_outside = wgmma(1, 4096, 4096, cluster_m=2, split_k=2)  # its parts are summed up all the same
    assert traffic(half_outside).c.l2_read_bytes == 16 * 2 * 128 * 256 * 4


def test_blocks_with_last_slices_fall_behind_where_slices_divide_the_blocks() -> None:
    """132 clusters, 4 slices: the same ones sum up all along. With 5 slices each of them does in turn."""
    x = wgmma(4096, 4096, 4096, split_k=4)
    assert 0 < x.handing < 0.2 > x.taking > 0
    behind = {slices: lag(replace(x, slices=slices, taking=0.1, handing=0)) for slices in (4, 5)}
    assert behind[4] == pytest.approx(0.3 * 7)  # 8 turns of slices, of which the last ends at another time
    assert behind[5] < 0.4 * 3
    t = traffic(replace(x, taking=1.0))
    assert t.c.dram_read_bytes > 0.2 * t.c.l2_read_bytes > 10 * traffic(replace(x, taking=0.0)).c.dram_read_bytes


def lag(x: Launched) -> float:
    """The most by which blocks begin their eighth part at different times, in tiles."""
    p = blocks.parts(x)
    eighth = p.begin[7 * x.slots : 8 * x.slots]
    return float(np.max(eighth) - np.min(eighth))


def test_rows_past_the_edge_are_asked_for_a_sector_each_and_a_line_by_a_cluster() -> None:
    """1 x 4096 x 4096 in tiles of 128 x 256: 127 rows of 64 k-steps, 128 B each, for each of 16 columns of tiles."""
    rows = 127 * 64 * 16
    for cluster, filled in ((1, 32 * rows), (2, 128 * rows // 2)):  # 8 clusters along N ask once each
        x = replace(wgmma(1, 4096, 4096, cluster_n=cluster), busy_share=1e9)  # nothing is merged
        assert x.copied
        assert traffic(x).a.l2_read_bytes == pytest.approx(filled + 16 / cluster * 4096 * 2, rel=1e-3)
        assert traffic(x).a.dram_read_bytes == 4096 * 2
    assert launch(1, 4096, 4096).filled_a == 0


def test_what_boxes_cover_beside_a_tile_leaves_l2_for_nothing() -> None:
    """Tiles of 176 columns come in three boxes of 64."""
    x = replace(wgmma(4096, 176 * 24, 1024, bn=176), busy_share=1e9)
    t = traffic(x)
    assert t.b.l2_read_bytes == pytest.approx(32 * 192 * 24 * 1024 * 2, rel=0.01)
    assert t.b.dram_read_bytes == pytest.approx(176 * 24 * 1024 * 2, rel=0.03)


def test_shares_of_stream_k_take_up_partial_results() -> None:
    x = simt(1536, 1536, 2048, stream_k=1)
    assert x.streams > 0
    t = traffic(x)
    tile = 4 * x.bm * x.bn
    assert 0 < t.c.l2_read_bytes <= x.streams * tile
    assert t.c.l2_write_bytes == pytest.approx(4 * 1536 * 1536 + t.c.l2_read_bytes)


def test_the_closed_form_of_stream_k_is_near_the_walk() -> None:
    """Found 0, 28 and 6 % off; taken for tiles in waves the first reads 109 MB, a quarter of what it does."""
    for sizes, off in (((512, 6144, 4096), 0.1), ((4096, 4096, 2048), 0.35), ((3000, 9000, 1000), 0.15)):
        config = SIMT | {"bm": 128, "bn": 256, "wm": 64, "wn": 64, "tm": 8, "tn": 16, "blocks": 1, "stages": 3}
        p = predict(*sizes, gpu="h200_sxm", dtype="fp32", family="simt", config=config | {"stream_k": 1})
        assert launched(p).streams > 0
        assert p.dram_read_bytes[0] == pytest.approx(traffic(launched(p)).dram_read_bytes, rel=off)
        assert p.dram_read_bytes[0] >= operands(launched(p)) * (1 - 1e-9)


@pytest.mark.parametrize("way", [{"stream_k": 1}, {"split_k": 3}, {}])
def test_a_large_launch_is_cut_into_fewer_pieces(way: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = simt(4096, 4096, 4096, **way)
    parts = blocks.parts(x)
    when = walk(x, blocks.work_of_gangs(parts))
    fine, bytes_ = len(blocks.visits(x, parts, when).piece), traffic(x)
    monkeypatch.setattr(blocks, "MAX_VISITS", fine // 3)
    assert len(blocks.visits(x, parts, when).piece) < fine // 2
    assert traffic(x).dram_read_bytes == pytest.approx(bytes_.dram_read_bytes, rel=0.05)
    monkeypatch.setattr(blocks, "MAX_VISITS", 100)
    with pytest.raises(TooLarge, match="walks along a panel"):
        traffic(x)


@pytest.mark.parametrize(
    ("size", "slices"), [((512, 512, 32768), 16), ((2048, 4096, 8192), 6), ((4096, 4096, 4096), 3)]
)
def test_slices_are_walked_as_finely_as_whole_panels(
    size: tuple[int, int, int], slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 16 pieces of a panel for all slices together these are 5.5 % high, 4.1 and 1.7 % low."""
    x = simt(*size, split_k=slices)
    usual = traffic(x).dram_read_bytes
    monkeypatch.setattr(blocks, "PIECES", 4 * blocks.PIECES)
    assert usual == pytest.approx(traffic(x).dram_read_bytes, rel=0.01)


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(GemmsimError, match="capacity above 0"):
        traffic(replace(launch(), side_bytes=0.0))
    tiny = TILE | {"bm": 16, "bn": 16}
    with pytest.raises(GemmsimError, match="that are walked"):
        launched(predict(65536, 65536, 64, gpu="h200_sxm", config=tiny))
    with pytest.raises(TooLarge, match="4194304 blocks, more than the 2097152 that are walked"):
        simt(32768, 32768, 2048, split_k=32)
    with pytest.raises(GemmsimError, match="refused"):
        launched(predict(64, 64, 64, gpu="h200_sxm", config={"bm": 256, "bn": 256, "bk": 256, "num_stages": 6}))


@pytest.mark.parametrize("family", families.FAMILIES)
def test_every_family_can_be_simulated(family: str) -> None:
    module = families.family(family)
    gpu = "h200_sxm" if family == "wgmma" else "a100_sxm_80gb"
    p = predict(300, 504, 264, gpu=gpu, dtype=module.DTYPES[0], family=family, config={})
    assert traffic(launched(p)).dram_read_bytes >= operands(launched(p)) * (1 - 1e-9)
