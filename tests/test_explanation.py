"""What an explanation adds up to, and what it says of the step after the next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmsim
from gemmsim.model.parts import MOST_PARTS


@settings(max_examples=15, deadline=None)
@given(size=st.tuples(*[st.integers(1, 5000)] * 3), gpu=st.sampled_from(("h200_sxm", "a100_sxm_80gb")))
def test_the_parts_of_the_terms_add_up_to_the_time(size: tuple[int, int, int], gpu: str) -> None:
    found = gemmsim.explain(*size, gpu=gpu)
    time_s = float(found.prediction.time_s[0])
    assert sum(t.part_s for t in found.terms) + found.rest_s == pytest.approx(time_s, rel=1e-9)
    assert found.rest_s >= 0
    assert sum(t.part_s != 0 for t in found.terms) <= MOST_PARTS
    assert found.outlook


def test_effects_left_out_have_no_part() -> None:
    found = gemmsim.explain(4096, 4096, 4096, gpu="h200_sxm", without=["l2"])
    parts = {t.name: t.part_s for t in found.terms}
    assert parts["l2"] == 0
    assert max(parts.values()) > 0
    time_s = float(found.prediction.time_s[0])
    assert sum(parts.values()) + found.rest_s == pytest.approx(time_s, rel=1e-9)


def test_after_the_best_change_comes_the_next() -> None:
    first = gemmsim.explain(8192, 8192, 588, gpu="h200_sxm")
    assert first.best is not None
    assert first.best.what == "K padded from 588 to 592"
    second = gemmsim.explain(8192, 8192, 592, gpu="h200_sxm")
    assert second.prediction.time_s[0] == first.best.time_s
    assert second.best is not None
    assert first.outlook[0].startswith(f"after that it is bound by {second.prediction.bound_by[0]} (")
    assert first.outlook[1] == f"then: {second.advice}"


def test_where_no_change_helps_the_term_that_would_have_to_shrink_is_named() -> None:
    tile = {"bm": 16, "bn": 128, "bk": 128, "num_warps": 4, "num_stages": 6, "group_m": 1}
    found = gemmsim.explain(16, 12288, 4096, gpu="h200_sxm", config=tile)
    assert found.best is None
    worst = max(found.terms, key=lambda t: t.saved_s)
    assert len(found.outlook) == 1
    assert found.outlook[0].startswith(f"for more, {worst.name} would have to cost less")


def test_the_nearest_that_fit_are_of_the_same_form() -> None:
    with pytest.raises(gemmsim.GemmsimError, match=r"cannot launch on h200_sxm: .*; nearest that fit: "):
        gemmsim.explain(64, 64, 64, gpu="h200_sxm", dtype=gemmsim.Form("int8", layout="NT"), family="mma",
                        config={"bm": 512, "bn": 512})  # fmt: skip
