"""How the blocks of an SM come on: in step, by age, one ahead of the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmsim.model.drift import LEAD
from gemmsim.simulate.launched import Launched
from gemmsim.simulate.progress import walk

PLAIN = Launched(
    m=4096, n=4096, k=4096, batch=1, bm=128, bn=128, k_steps=64, a_bytes=2, b_bytes=2, c_bytes=2, partial_bytes=4,
    result_reads=0, reads_c=False, bias=False, raster="grouped", group_m=8, whole=1024, slices=1, streams=0, sms=132,
    blocks_per_sm=3, busy_share=1.0, by_age=0.0, depth=1.0, repeats_rows=True, side_bytes=30 * 2.0**20, partitions=2,
)  # fmt: skip


def ends(x: Launched, work: list[float]) -> list[float]:
    p = walk(x, work)
    return [float(p.at(np.asarray([g]), np.asarray([w]))[0]) for g, w in enumerate(work)]


def test_waves_end_together_and_a_partial_one_is_shorter() -> None:
    assert ends(PLAIN, [1.0] * 7) == pytest.approx([3, 3, 3, 6, 6, 6, 7])


def test_a_lone_block_takes_as_long_as_it_takes() -> None:
    """Keeping the SM's unit at work a quarter of the time, one block takes four times its work, and so do three."""
    assert ends(replace(PLAIN, busy_share=0.25), [1.0] * 3) == pytest.approx([4, 4, 4])


def test_by_age_the_eldest_runs_as_if_alone() -> None:
    """Strictly by age and each able to fill the SM, blocks run one after another."""
    assert ends(replace(PLAIN, by_age=1.0), [1.0] * 5) == pytest.approx([1, 2, 3, 4, 5])


def test_half_by_age_lies_between() -> None:
    """Shares 1/2 + 1/6, 1/6, 1/6 of the time until the eldest is done at 1.5."""
    assert ends(replace(PLAIN, by_age=0.5), [1.0] * 3)[0] == pytest.approx(1.5)


def test_k_steps_in_flight_put_one_ahead_of_the_next() -> None:
    p = walk(replace(PLAIN, depth=3.0), [1.0] * 3)
    halfway = [float(p.at(np.asarray([g]), np.asarray([0.5]))[0]) for g in range(3)]
    assert halfway == sorted(halfway)
    assert halfway[2] / halfway[0] == pytest.approx((1 + 2 * LEAD) / (1 - 2 * LEAD))


def test_all_work_is_done_whatever_the_order() -> None:
    """An SM that is never idle takes as long as its blocks' work."""
    for x in (PLAIN, replace(PLAIN, by_age=0.75), replace(PLAIN, by_age=0.3, busy_share=0.6)):
        assert walk(x, [1.0, 0.5, 2.0, 1.0]).end >= 4.5 - 1e-9
    assert walk(replace(PLAIN, by_age=0.75), [1.0, 0.5, 2.0, 1.0]).end == pytest.approx(4.5)
