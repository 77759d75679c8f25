"""DRAM and L2 bytes against hardware counters of 39 launches on an H200, and what the closed forms must satisfy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gemmsim import families, predict
from gemmsim.families import triton
from gemmsim.model.predict import Prediction
from gemmsim.model.traffic import Grid, dram_traffic, drifted, merged_share, reach, requested, textbook_bytes, unmerged
from gemmsim.rows import read_csv

ROWS = Path(__file__).parents[2] / "studies" / "h200"
Floats = npt.NDArray[np.float64]
CASES = {"triton": "triton_bf16_counters.csv.gz", "register_tile": "register_tile_fp32_counters.csv.gz"}


def counted(family: str) -> tuple[Prediction, Floats, Floats, Floats]:
    """Predictions of the counted launches, DRAM bytes read and written, L2->SM bytes."""
    table = read_csv(str(ROWS / CASES[family]))
    config = {p.name: table.whole(p.name) for p in families.family(family).PARAMETERS}
    dtype = families.family(family).DTYPES[0]
    p = predict(*(table.whole(d) for d in "mnk"), gpu="h200_sxm", dtype=dtype, family=family, config=config)
    read, written = (table.number(f"dram__bytes_{way}_sum") for way in ("read", "write"))
    return p, read, written, 32 * table.number("lts__t_sectors_srcunit_tex_sum")


def operands(p: Prediction) -> Floats:
    q = p.problem
    return np.asarray(q.compulsory_bytes - float(q.a_bytes) * q.m * q.n)


@pytest.mark.parametrize(("family", "mean", "most"), [("triton", 0.09, 0.24), ("register_tile", 0.02, 0.06)])
def test_dram_reads_against_counters(family: str, mean: float, most: float) -> None:
    """Operands read more than 1.1 times: found 7.1 % off on average and 23 % at most (triton), 1.5 and 5.1 %."""
    p, read, _, _ = counted(family)
    chosen = read > 1.1 * operands(p)
    off = np.abs(p.dram_read_bytes / read - 1)[chosen]
    assert chosen.sum() == 11
    assert off.mean() <= mean
    assert off.max() <= most


@pytest.mark.parametrize("family", CASES)
def test_what_is_read_once_is_predicted_once(family: str) -> None:
    p, read, _, _ = counted(family)
    once = read <= 1.1 * operands(p)
    assert once.sum() >= 7
    np.testing.assert_allclose(p.dram_read_bytes[once], read[once], rtol=0.05)


@pytest.mark.parametrize("family", CASES)
def test_dram_writes_against_counters(family: str) -> None:
    """C of over 24 MB: found 3.3 % off on average and 7 % at most (triton), 5.0 and 23 %; smaller ones: 2.5 MB."""
    p, _, written, _ = counted(family)
    result = float(p.problem.a_bytes) * p.problem.m * p.problem.n
    large = result > 24e6
    off = np.abs(p.dram_write_bytes[large] / written[large] - 1)
    assert large.sum() == 12
    assert off.mean() <= 0.06
    assert off.max() <= 0.25
    assert (np.abs(p.dram_write_bytes - written)[~large] <= 3e6).all()


def test_l2_bytes_against_counters() -> None:
    """Triton's 16 B copies, with C stored once: found 0.80 to 1.21 of what was counted, 7 % off on average."""
    p, _, _, sectors = counted("triton")
    ratio = (p.l2_read_bytes + 2.0 * p.problem.m * p.problem.n) / sectors
    assert np.abs(ratio - 1).mean() <= 0.09
    assert ratio.min() > 0.75
    assert ratio.max() < 1.3


@pytest.mark.parametrize("family", CASES)
def test_the_textbook_form_is_what_leaves_l2_and_not_dram(family: str) -> None:
    p, read, _, sectors = counted(family)
    q, c = p.problem, p.config
    textbook = textbook_bytes(q.m, q.n, q.k, c["bm"], c["bn"], q.a_bytes)
    assert 0.3 < np.median(sectors / textbook) < 1.2
    assert np.median(textbook / read) > 5


def grid(
    side_mib: float = 30.0, partitions: int = 2, m: int = 4096, n: int = 4096, group: int = 1, batch: int = 1,
    resident: int = 1,
) -> Grid:  # fmt: skip
    tiles_m, tiles_n = -(-m // 128), -(-n // 128)
    numbers = (m, n, 4096, batch, tiles_m, tiles_n, min(group, tiles_m), 132 * resident, 2 * m * n * batch)
    sizes = [np.asarray([float(x)]) for x in numbers]
    side = side_mib * 2**20
    return Grid(*sizes, sms=132, a_bytes=2.0, b_bytes=2.0, c_bytes=2.0, side_bytes=side, partitions=partitions)


def compulsory(g: Grid) -> Floats:
    return np.asarray(2.0 * g.k * (g.m + g.n))


def test_an_endless_cache_reads_and_writes_the_least_and_a_tiny_one_the_most() -> None:
    endless, tiny = dram_traffic(grid(1e6)), dram_traffic(grid(1e-3))
    np.testing.assert_allclose(endless.read_bytes, compulsory(grid()), rtol=1e-5)
    np.testing.assert_allclose(endless.write_bytes, 0, atol=1)
    np.testing.assert_allclose(endless.stays, 1, rtol=1e-4)
    np.testing.assert_allclose(tiny.write_bytes, 2 * 4096 * 4096, rtol=1e-6)
    np.testing.assert_allclose(tiny.stays, 0, atol=1e-6)
    assert tiny.read_bytes[0] > 4 * compulsory(grid())[0]


def test_a_larger_cache_never_reads_more() -> None:
    sides = (1, 4, 10, 20, 30, 40, 60, 120)
    for group in (1, 8, 32):
        reads = [dram_traffic(grid(side, group=group)).read_bytes[0] for side in sides]
        assert reads == sorted(reads, reverse=True)


def test_one_wave_reads_everything_once() -> None:
    one = dram_traffic(grid(0.1, m=1408, n=1536))  # 11 x 12 tiles on 132 slots
    np.testing.assert_allclose(one.read_bytes, 2 * 4096 * (1408 + 1536))
    assert (one.cold_a, one.cold_b) == (1, 1)


def test_a_copy_on_each_side_halves_the_cache() -> None:
    """60 MiB that every SM reaches hold more of a wave than two sides of 30 with a copy each."""
    whole, sides = dram_traffic(grid(60.0, partitions=1)), dram_traffic(grid(30.0, partitions=2))
    assert whole.read_bytes[0] < sides.read_bytes[0]


def test_waves_span_rows_and_columns_of_tiles() -> None:
    row_major, grouped = dram_traffic(grid(m=8192, n=8192)), dram_traffic(grid(m=8192, n=8192, group=8))
    assert (row_major.wave_rows[0], row_major.wave_columns[0]) == (3, 64)  # 132 of rows of 64
    assert (grouped.wave_rows[0], grouped.wave_columns[0]) == (8, 17)  # 132 in columns of 8
    assert grouped.read_bytes[0] < row_major.read_bytes[0]


def test_merging_leaves_all_of_one_request_and_a_share_of_many() -> None:
    assert merged_share(0.6, np.asarray([1.0]))[0] == 1
    assert merged_share(0.6, np.asarray([1e9]))[0] == pytest.approx(0.6)
    assert merged_share(1.0, np.asarray([7.0]))[0] == pytest.approx(1)
    assert triton.PRIORS["shared_near"].low >= 0.4


def test_what_later_problems_of_a_batch_push_out_is_written() -> None:
    """32 MiB of C each: one keeps some of it in L2, four keep as much and no more."""
    one, four = dram_traffic(grid()).write_bytes[0], dram_traffic(grid(batch=4)).write_bytes[0]
    assert four - one == pytest.approx(3 * 2 * 4096**2, rel=0.03)


def test_residents_that_drift_apart_read_by_themselves_once_they_are_far_enough() -> None:
    g = grid(m=8192, n=8192, resident=3)
    in_step, alone = dram_traffic(g), dram_traffic(grid(m=8192, n=8192))
    one = np.ones(1)
    reads = [drifted(g, in_step, one, np.asarray([lag])).read_bytes[0] for lag in (0.0, 1e-3, 0.01, 0.1, 30.0)]
    assert reads[0] == pytest.approx(in_step.read_bytes[0])
    assert reads == sorted(reads)
    assert reads[-1] == pytest.approx(alone.read_bytes[0], rel=0.01)
    assert reads[-1] > 2 * reads[0]


def test_blocks_part_sooner_on_crowded_sms_and_in_long_launches() -> None:
    assert (np.diff(reach(np.asarray([0.1, 0.5, 1.0, 3.0]), 4.0)) < 0).all()
    assert (np.diff(reach(1.0, np.asarray([1.0, 2.0, 10.0, 100.0]))) < 0).all()
    assert reach(1.0, 0.1) == reach(1.0, 1.0)
    assert np.isfinite(reach(0.0, 1.0))


def test_half_of_the_requests_are_merged_at_the_reach() -> None:
    assert unmerged(3.0, 3.0) == 0.5
    assert (np.diff(unmerged([1, 2, 8, 32], 2.0)) > 0).all()


def test_what_l2_sees_lies_between_one_request_a_wave_and_all() -> None:
    g = grid(m=8192, n=8192, group=8)
    t, one = dram_traffic(g), np.ones(1)
    for reached in (1e-9, 1.0, 1e9):
        seen_a, seen_b = requested(g, t, reached * one, 2.4 * reached * one)
        assert 1 / t.readers_a[0] * (1 - 1e-6) <= seen_a[0] <= 1
        assert 1 / t.readers_b[0] * (1 - 1e-6) <= seen_b[0] <= 1
    everything = requested(g, t, 1e-9 * one, 1e-9 * one)
    assert everything[0][0] == pytest.approx(1)
    assert everything[1][0] == pytest.approx(1)


def test_neighbours_in_the_raster_share_more_requests() -> None:
    """Grouped by 8, readers of a panel of B are neighbours and those of A are 8 apart."""
    g = grid(m=8192, n=8192, group=8)
    seen_a, seen_b = requested(g, dram_traffic(g), np.ones(1), 2.4 * np.ones(1))
    assert seen_b[0] < 0.7 * seen_a[0]
