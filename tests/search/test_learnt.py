"""What is learnt of other shapes: carried over where shapes are alike, ignored where they say nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from gemmsim.errors import GemmsimError
from gemmsim.measured import read_measured
from gemmsim.model.predict import predict
from gemmsim.paths import data_folder
from gemmsim.problem import FloatArray
from gemmsim.search.learnt import NOTHING, Learnt, learnt, recorded
from gemmsim.search.loop import search
from gemmsim.search.replay import Replay
from gemmsim.search.sampler import ModelGuidedSampler
from gemmsim.search.space import Space, space_of

SHAPES = ((512, 1024, 2048), (1024, 1024, 2048), (512, 2048, 2048))


@lru_cache
def space(m: int, n: int, k: int) -> Space:
    return space_of(m, n, k, gpu="h200_sxm", family="triton", dtype="bf16")


def said(shapes: tuple[tuple[int, int, int], ...], error: dict[int, FloatArray]) -> Learnt:
    """Thirty trials a shape, each configuration as far off as `error` says, by its tile and the shape's number."""
    spaces = [space(*shape) for shape in shapes]
    searches = []
    for i, one in enumerate(spaces):
        truth = Replay(one.shape, one, one.predicted_s * np.exp(error[i][one.tiles]))
        searches.append((one, search(one, truth, trials=30, seed=i).trials))
    return learnt(searches)


def errors(seed: int) -> FloatArray:
    return 0.1 * np.random.default_rng(seed).normal(size=10_000)


def test_what_shapes_have_in_common_is_carried_over_to_the_next() -> None:
    own = errors(0)
    known = said(SHAPES[:2], {0: own, 1: own + 0.3})  # 0.3: a shape's level says nothing of its order
    new = space(*SHAPES[2])
    correction = known.correction(new)
    measured = np.asarray([new.place_of(candidate) for candidate in known.said[1].candidates])
    found = np.corrcoef(correction[measured], own[new.tiles[measured]])[0, 1]
    assert found > 0.8
    assert abs(np.median(correction)) < 0.05


def test_shapes_that_contradict_one_another_are_ignored() -> None:
    known = said(SHAPES[:2], {0: errors(0), 1: -errors(0)})
    assert not known.correction(space(*SHAPES[2])).any()


def test_a_shape_of_another_alignment_says_nothing() -> None:
    known = said(SHAPES[:2], {0: errors(0), 1: errors(0)})
    assert known.correction(space(*SHAPES[2])).any()
    assert not known.correction(space(512, 1023, 2048)).any()


def test_a_search_that_is_told_of_other_shapes_starts_with_what_is_good_there() -> None:
    new = space(*SHAPES[2])
    own = np.zeros(10_000)
    own[new.tiles[np.argmin(new.predicted_s)]] = 0.5
    known = said(SHAPES[:2], {0: own, 1: own})
    truth = Replay(new.shape, new, new.predicted_s * np.exp(own[new.tiles]))
    told = search(new, truth, trials=1, sampler=ModelGuidedSampler(new, seed=0, learnt=known))
    alone = search(new, truth, trials=1, seed=0)
    assert told.best_value < alone.best_value


def test_nothing_learnt_is_no_correction_and_what_is_learnt_adds_up() -> None:
    new = space(*SHAPES[2])
    assert not NOTHING.correction(new).any()
    assert not learnt([(new, [])]).correction(new).any()
    known = said(SHAPES[:1], {0: errors(0)})
    assert [s.shape for s in (known + known).said] == [SHAPES[0]] * 2


def test_recorded_rows_say_what_their_configurations_are_off_by() -> None:
    rows = read_measured(str(data_folder("studies") / "h200" / "triton_bf16.csv.gz"))
    p = rows.problem
    predicted_s = predict(p.m, p.n, p.k, gpu=rows.gpu, dtype="bf16", family="triton", config=rows.config,
                          l2=rows.l2).time_s  # fmt: skip
    known = recorded(rows, predicted_s)
    assert len(known.said) == len(np.unique(rows.shapes[np.isfinite(predicted_s)]))
    one = known.said[3]
    of_shape = [tuple(int(getattr(p, d)[i]) for d in "mnk") == one.shape for i in range(len(rows))]
    here = np.flatnonzero(np.asarray(of_shape) & np.isfinite(predicted_s))
    first = here[np.argmin(predicted_s[here])]
    assert one.candidates[0].config == rows.config.row(int(first))
    assert one.residual[0] == pytest.approx(np.log(rows.time_s[first] / predicted_s[first]))
    assert max(len(s.residual) for s in known.said) <= 32


def test_a_space_that_does_not_say_its_problem_cannot_be_corrected() -> None:
    known = said(SHAPES[:1], {0: errors(0)})
    with pytest.raises(GemmsimError, match="problem of a space is None: expected m x n x k"):
        known.correction(replace(space(*SHAPES[2]), identity={}))
