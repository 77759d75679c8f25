"""Pieces on SMs: wave arithmetic where it holds, every piece once, and what no schedule can beat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.model.geometry import waves
from gemmsim.simulate.engine import Sms, run

few = settings(max_examples=150, deadline=None, derandomize=True)


@st.composite
def launches(draw: st.DrawFn, kinds: int = 3, cluster: int = 1) -> tuple[np.ndarray, np.ndarray, Sms]:
    """Kinds of pieces, clocks at each residency as a closed queue has them, SMs.

    n pieces take n times their work at least, and no longer than one after another.
    """
    sms = Sms(draw(st.integers(1, 9)) * cluster, draw(st.integers(1, 4)), cluster)
    work = np.asarray(draw(st.lists(st.floats(10, 1e5), min_size=kinds, max_size=kinds)))
    alone = work * np.asarray(draw(st.lists(st.floats(1, 8), min_size=kinds, max_size=kinds)))
    resident = np.arange(1, sms.slots + 1)
    clk = np.maximum(alone[:, None], work[:, None] * resident)
    kind = np.asarray(draw(st.lists(st.integers(0, kinds - 1), min_size=1, max_size=60)))
    return np.repeat(kind, cluster), clk, sms


def work_of(clk: np.ndarray, sms: Sms) -> np.ndarray:
    """What a piece of each kind keeps its SM busy at the least."""
    return np.asarray((clk / np.arange(1, sms.slots + 1)).min(1))


@few
@given(launches())
def test_every_piece_runs_once_and_no_slot_twice(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    kind, clk, sms = launch
    found = run(kind, clk, sms)
    assert (found.end_clk > found.start_clk).all()
    assert (np.diff(found.start_clk) >= -1e-9 * found.end_clk.max()).all()
    for sm in range(sms.count):
        here = found.sm == sm
        for start in found.start_clk[here]:
            held = (
                here
                & (found.start_clk <= start + 1e-9 * found.end_clk.max())
                & (found.end_clk > start + 1e-9 * found.end_clk.max())
            )
            assert held.sum() <= sms.slots


@few
@given(launches())
def test_between_the_busiest_sm_and_one_after_another(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    kind, clk, sms = launch
    found = run(kind, clk, sms)
    makespan = found.end_clk.max()
    asked = np.bincount(found.sm, work_of(clk, sms)[kind], sms.count)
    assert makespan >= asked.max() * (1 - 1e-9)
    assert (found.busy_clk >= asked * (1 - 1e-9)).all()
    assert (found.busy_clk <= makespan * (1 + 1e-9)).all()
    assert makespan <= clk[kind, 0].sum() * (1 + 1e-9)


@few
@given(launches())
def test_no_sm_is_idle_while_pieces_wait(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    """List scheduling: the last start comes before any SM has run empty."""
    kind, clk, sms = launch
    found = run(kind, clk, sms)
    if len(kind) < sms.count:
        return
    last = np.zeros(sms.count)
    np.maximum.at(last, found.sm, found.end_clk)
    assert last.min() >= found.start_clk.max() * (1 - 1e-9)


@few
@given(launches(), st.booleans())
def test_the_same_each_time_and_whole_waves_at_once_are_the_same(
    launch: tuple[np.ndarray, np.ndarray, Sms], together: bool
) -> None:
    kind, clk, sms = launch
    first, again = (run(kind, clk, sms, together=together) for _ in range(2))
    slow = run(kind, clk, sms, together=together, skip=False)
    for name in ("sm", "start_clk", "end_clk", "busy_clk"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        np.testing.assert_allclose(getattr(first, name), getattr(slow, name), rtol=1e-9)


@few
@given(launches(kinds=1))
def test_equal_pieces_are_wave_arithmetic(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    """Whole waves at full residency, what is left at its own, as the closed form has it."""
    kind, clk, sms = launch
    busiest = -(-len(kind) // sms.count)
    full, rest = divmod(busiest, sms.slots)
    expected = full * clk[0, -1] + (clk[0, rest - 1] if rest else 0)
    found = run(kind, clk, sms)
    assert found.end_clk.max() == pytest.approx(expected, rel=1e-9)
    assert -(-np.bincount(found.sm).max() // sms.slots) == waves(len(kind), sms.count, sms.slots)


@few
@given(launches(cluster=3))
def test_clusters_start_together_on_neighbours(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    kind, clk, sms = launch
    found = run(kind, clk, sms)
    starts, where = found.start_clk.reshape(-1, 3), found.sm.reshape(-1, 3)
    assert (starts == starts[:, :1]).all()
    assert (where[:, 0] % 3 == 0).all()
    assert (where == where[:, :1] + np.arange(3)).all()


def test_sms_beyond_a_whole_cluster_stay_empty() -> None:
    found = run(np.zeros(40, int), np.full((1, 1), 100.0), Sms(10, 1, 4))
    assert found.busy_clk.tolist() == [500.0] * 8 + [0.0, 0.0]


@few
@given(launches(kinds=2), st.integers(1, 40))
def test_a_persistent_slot_keeps_to_its_own_pieces(launch: tuple[np.ndarray, np.ndarray, Sms], stride: int) -> None:
    kind, clk, sms = launch
    stride = min(stride, sms.wave, len(kind))
    found = run(kind, clk, sms, stride=stride, skip=stride == sms.wave)
    np.testing.assert_array_equal(found.sm[stride:], found.sm[: len(kind) - stride])
    np.testing.assert_allclose(found.start_clk[stride:], found.end_clk[: len(kind) - stride])


def test_a_piece_left_alone_speeds_up() -> None:
    """Two share an SM at half speed until the short one is done: 10 at 20, then 20 - 10 of the long one alone."""
    clk = np.asarray([[10.0, 20.0], [20.0, 40.0]])
    found = run(np.asarray([0, 1]), clk, Sms(1, 2))
    assert found.end_clk.tolist() == pytest.approx([20, 30])


def test_one_more_sm_may_be_slower_where_unequal_pieces_share_an_sm() -> None:
    """The fifth piece, a long one, falls to the SM of the other long one when there are four SMs, not when three."""
    kind, clk = np.asarray([0, 1, 1, 1, 0]), np.asarray([[6.0, 12.0], [3.0, 6.0]])
    assert [float(run(kind, clk, Sms(count, 2)).end_clk.max()) for count in (3, 4)] == [9, 12]


@few
@given(launches())
def test_one_more_sm_is_never_slower_with_a_block_each(launch: tuple[np.ndarray, np.ndarray, Sms]) -> None:
    kind, clk, sms = launch
    few_sms, more = (run(kind, clk[:, :1], Sms(count, 1)).end_clk.max() for count in (sms.count, sms.count + 1))
    assert more <= few_sms * (1 + 1e-9)


def test_together_fills_one_sm_before_the_next() -> None:
    kind, clk = np.zeros(6, int), np.asarray([[10.0, 16.0]])
    apart, together = (run(kind, clk, Sms(2, 2), together=t) for t in (False, True))
    assert apart.sm.tolist() == [0, 1, 0, 1, 0, 1]
    assert apart.end_clk.max() == 26
    assert together.sm.tolist() == [0, 1, 0, 1, 0, 0]
    assert together.end_clk.max() == 32


def test_ends_within_the_slack_are_no_sooner_than_each_other() -> None:
    """Two SMs of two slots: the short pair ends first and takes both that wait, unless it is in step with the other."""
    kind, clk = np.asarray([0, 1, 0, 1, 0, 0]), np.asarray([[10.0, 16.0], [10.1, 16.2]])
    exact, slack = (run(kind, clk, Sms(2, 2), slack=share) for share in (0.0, 0.1))
    assert exact.sm.tolist() == [0, 1, 0, 1, 0, 0]
    assert slack.sm.tolist() == [0, 1, 0, 1, 0, 1]
    assert exact.end_clk.max() == pytest.approx(32)
    assert slack.end_clk.max() == pytest.approx(26.2)


@few
@given(launches(), st.floats(0, 0.5))
def test_with_slack_every_piece_still_runs_once(launch: tuple[np.ndarray, np.ndarray, Sms], slack: float) -> None:
    kind, clk, sms = launch
    found = run(kind, clk, sms, slack=slack)
    assert (found.end_clk > found.start_clk).all()
    assert found.end_clk.max() <= clk[kind, 0].sum() * (1 + 1e-9)
    assert (found.busy_clk >= np.bincount(found.sm, work_of(clk, sms)[kind], sms.count) * (1 - 1e-9)).all()


def test_more_sms_never_hurt_equal_pieces() -> None:
    clk = np.asarray([[100.0, 130.0]])
    times = [run(np.zeros(50, int), clk, Sms(count, 2)).end_clk.max() for count in range(1, 60)]
    assert times == sorted(times, reverse=True)
