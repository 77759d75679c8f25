"""Searches replayed over recorded rows: what is held out, and how good they are."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from gemmsim.calibrate import fit, predicted_s
from gemmsim.errors import GemmsimError
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.search.loop import search
from gemmsim.search.replay import Replay, replays
from gemmsim.search.space import Candidate

ROWS = Path(__file__).parents[2] / "studies" / "h200"


@lru_cache
def rows() -> Measured:
    return joined([read_measured(str(ROWS / f"{name}.csv.gz")) for name in ("triton_bf16", "triton_bf16_uniform")])


@lru_cache
def found() -> list[Replay]:
    return list(replays(rows(), folds=2))


def test_a_replay_a_shape_that_answers_with_the_recorded_time() -> None:
    measured = rows()
    assert len(found()) == measured.shapes.max() + 1
    assert [r.shape for r in found()] == list(
        dict.fromkeys(zip(*(getattr(measured.problem, d).tolist() for d in "mnk"), strict=True))
    )
    for i in range(0, len(measured), 97):
        shape = tuple(int(getattr(measured.problem, d)[i]) for d in "mnk")
        (one,) = [r for r in found() if r.shape == shape]
        answer = one(Candidate("triton", measured.config.row(i)))
        assert isinstance(answer, float)
        assert answer <= measured.time_s[i]
    assert found()[0](Candidate("triton", {"bm": 7})) == "refused"


def test_predictions_are_of_coefficients_that_have_not_seen_the_shape() -> None:
    measured = rows()
    fold = np.random.default_rng(0).permutation(measured.shapes.max() + 1)[measured.shapes] % 2
    seen = fit(measured.take(fold == 1), of=measured).values
    expected = predicted_s(measured.without_facts(), seen)
    held = np.flatnonzero(fold == 0)
    first = held[0]
    (one,) = [r for r in found() if r.shape == tuple(int(getattr(measured.problem, d)[first]) for d in "mnk")]
    place = one.space.place(measured.config.row(int(first)))
    assert place is not None
    assert one.space.predicted_s[place] == pytest.approx(expected[first])


def test_regret_is_of_the_best_so_far() -> None:
    one = found()[0]
    best = one.time_s.min()
    assert one.regret(np.asarray([2 * best, np.inf, 1.5 * best, 3 * best])).tolist() == pytest.approx([1, 1, 0.5, 0.5])


def test_folds_that_are_none() -> None:
    for folds in (1, 99):
        with pytest.raises(GemmsimError, match=f"{folds} folds of 21 shapes: expected"):
            next(replays(rows(), folds=folds))


def test_ten_trials_come_near_the_best_of_the_campaign() -> None:
    curves = []
    for one in found():
        study = search(one.space, one, trials=10, seed=0)
        curves.append(one.regret(np.asarray([t.value for t in study.trials])))
    regret = np.stack(curves)
    assert regret[:, 0].mean() < 0.04
    assert regret[:, 9].mean() < 0.005
