"""Which row of a problem wins, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
from rows_for_picks import config, row

from gemmsim.picks.standing import Standing, standing


def stands(*rows: dict[str, Any]) -> Standing:
    found = standing(rows, "bf16")
    assert found is not None
    return found


def tiles(found: Standing) -> list[dict[str, int]]:
    return [dict(t.config) for t in found.order]


def test_the_fastest_that_ran_is_first() -> None:
    found = stands(row("a", 3e-4), row("b", 2e-4), row("c", None, status="refused", kernel_hash=""))
    assert tiles(found) == [config("b"), config("a")]
    assert found.statuses == {"ok": 2, "refused": 1}
    assert (found.notes(), found.tied, found.old) == ([], 0, False)


def test_nothing_ran() -> None:
    assert standing([row("a", None, status="compile"), row("b", None, status="timeout")], "bf16") is None
    assert standing([], "bf16") is None


def test_unstable_rows_do_not_win_over_stable_ones() -> None:
    found = stands(row("a", 1e-4, unstable="spread"), row("b", 2e-4))
    assert tiles(found) == [config("b"), config("a")]
    (note,) = found.notes()
    assert note == "an unstable row is faster and does not count: 128x256x64_w8s3g8, 50.0% less time, spread"


def test_an_unstable_row_wins_where_there_is_no_other_and_says_so() -> None:
    (note,) = stands(row("a", 1e-4, unstable="drift")).notes()
    assert note == "unstable (drift): no stable row of this problem"


def test_a_stable_row_of_the_same_configuration_stands_for_it() -> None:
    found = stands(row("a", 2e-4, day=1), row("a", 1e-4, day=2, unstable="spread"))
    assert [t.time_s for t in found.order] == [2e-4]


def test_the_last_row_of_a_configuration_counts() -> None:
    assert [t.time_s for t in stands(row("a", 1e-4, day=2), row("a", 3e-4, day=1)).order] == [1e-4]
    undated = [row("a", time_s, measured_at=None) for time_s in (1e-4, 3e-4)]
    assert [t.time_s for t in stands(*undated).order] == [3e-4]


def test_rows_of_an_older_kernel_are_stale() -> None:
    found = stands(row("a", 1e-4, day=1, kernel_hash="old"), row("a", 3e-4, day=2, kernel_hash="new"))
    assert [(t.time_s, t.row["kernel_hash"]) for t in found.order] == [(3e-4, "new")]
    assert found.notes() == ["an older kernel was faster: 128x256x64_w8s3g8, 66.7% less time, 2026-11-01"]


def test_a_changed_source_makes_the_whole_family_stale_up_to_then() -> None:
    old = [row("a", 2e-4, day=3, kernel_hash="old"), row("b", 1e-4, day=2), row("c", 1.5e-4, day=4)]
    found = stands(*old, row("a", 3e-4, day=5, kernel_hash="new"))
    assert tiles(found) == [config("c"), config("a")]  # c was measured after the last row of the old kernel
    assert found.statuses == {"ok": 2, "older kernel": 1}
    assert "an older kernel was faster: 128x128x64_w4s4g8, 33.3% less time, 2026-11-02" in found.notes()


def test_another_compiler_makes_its_own_configuration_stale_alone() -> None:
    old = row("a", 2e-4, day=3, kernel_hash="old", compiler="triton 3.5.0")
    found = stands(old, row("b", 1e-4, day=2), row("a", 3e-4, day=5, kernel_hash="new"))
    assert tiles(found) == [config("b"), config("a")]


def test_undated_rows_of_an_older_kernel_are_stale_too() -> None:
    found = stands(row("a", 1e-4, measured_at=None, kernel_hash="old"), row("a", 3e-4, measured_at=None))
    assert [t.time_s for t in found.order] == [3e-4]


def test_an_older_kernel_counts_where_the_newest_never_ran() -> None:
    found = stands(row("a", 1e-4, day=1), row("a", None, day=2, status="compile", kernel_hash="new"))
    assert (found.old, tiles(found)) == (True, [config("a")])
    assert found.notes() == ["measured with an older kernel: with the newest, nothing ran"]


def test_one_wrong_result_is_wrong_for_good() -> None:
    found = stands(row("a", 1e-4, day=2), row("a", None, day=1, status="wrong"), row("b", 2e-4))
    assert tiles(found) == [config("b")]
    assert found.statuses == {"wrong": 1, "ok": 1}


def test_a_crash_does_not_take_away_what_ran() -> None:
    assert tiles(stands(row("a", 1e-4, day=1), row("a", None, day=2, status="crash"))) == [config("a")]


@pytest.mark.parametrize(("time_s", "first"), [(1.99e-4, "b"), (1.9e-4, "a")])
def test_a_row_timed_in_turn_wins_within_noise(time_s: float, first: str) -> None:
    found = stands(row("a", time_s), row("b", 2e-4, against="turns"))
    assert tiles(found)[0] == config(first)
    alone = ["timed by itself, 5.0% less time than the best of 1 timed in turn"]
    assert found.notes() == ([] if first == "b" else alone)


def test_a_row_timed_in_turn_stands_for_its_configuration() -> None:
    found = stands(row("a", 2e-4, day=1, against="turns"), row("a", 1e-4, day=2))
    assert [t.time_s for t in found.order] == [2e-4]


def test_ties_are_counted_within_noise() -> None:
    found = stands(row("a", 2e-4), row("b", 2.04e-4), row("c", 2.1e-4))
    assert (found.noise, found.tied) == (0.025, 1)


def test_other_clocks_are_said() -> None:
    slow = {"sm_clock_hz_before": 1.98e9, "sm_clock_hz_after": 1.2e9}
    assert stands(row("a", 1e-4), row("b", 2e-4, **slow)).notes() == [
        "1 of 2 configurations were timed at an SM clock more than 5% away from the pick's"
    ]
    unknown = {"sm_clock_hz_before": None, "sm_clock_hz_after": None}
    assert stands(row("a", 1e-4, **unknown), row("b", 2e-4, **slow)).notes() == []


def test_parameters_that_a_row_does_not_say_have_their_defaults() -> None:
    short = {name: value for name, value in config("a").items() if name != "group_m"}
    found = stands(row("a", 1e-4, day=1, config=short), row("a", 2e-4, day=2))
    assert [t.time_s for t in found.order] == [2e-4]
