"""What padding is said to gain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmsim
from gemmsim.explanation import WORTH
from gemmsim.padding import FREE, GAIN, NONE, UNCERTAIN, _verdict
from gemmsim.problem import Form
from gemmsim.ranking import rank


def test_k_588_gains_at_592() -> None:
    found = gemmsim.pad(8192, 8192, 588, gpu="h200_sxm")
    best = found.best
    assert best is not None
    assert (best.dimension, best.found, best.padded, best.verdict) == ("K", "588", "592", GAIN)
    assert best.time_hi_s < found.base.time_lo_s
    assert best.cause == "alignment: rows of A lie 1176 B apart (stride K), a multiple of 8 B alone"
    assert found.advice.startswith("pad K from 588 to 592")
    assert best.more_flops_share == pytest.approx(4 / 588)
    assert best.more_bytes == 2 * 4 * (8192 + 8192)
    full = rank(8192, 8192, 592, gpu="h200_sxm", family="triton", top=1).entries[0]
    assert (best.key, best.time_s) == (full.key, full.time_s)


def test_the_vocabulary_of_gpt_2() -> None:
    found = gemmsim.pad(32768, 50257, 768, gpu="h200_sxm")
    tried = {c.padded: c for c in found.candidates if c.kind == "multiple"}
    assert set(tried) == {"50264", "50272", "50304"}
    assert tried["50264"].verdict == NONE
    assert tried["50264"].cause == "still no multiple of 16 elements"
    assert tried["50304"].gain_share > 0.5
    assert tried["50304"].verdict == GAIN
    assert found.best == tried["50272"]  # within 1 % of 50304, and wastes less
    assert found.advice.startswith("pad N from 50257 to 50272: ")


def test_tma_launches_once_rows_are_aligned() -> None:
    found = gemmsim.pad(8192, 8192, 588, gpu="h200_sxm", family="all")
    assert found.base.family != "wgmma"
    assert found.best is not None
    assert found.best.family == "wgmma"
    assert "TMA" in found.best.cause


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_row_strides_follow_the_layout(layout: str) -> None:
    found = gemmsim.pad(1000, 1001, 1002, gpu="h200_sxm", dtype=Form("bf16", layout=layout))
    sizes = {"M": 1000, "N": 1001, "K": 1002}
    names = {"A": "M" if layout[0] == "T" else "K", "B": "K" if layout[1] == "T" else "N", "C": "N"}
    assert {s.operand: s.dimension for s in found.strides} == names
    assert all(s.elements == sizes[names[s.operand]] and s.padded == 1008 for s in found.strides)
    assert all(s.bytes == 2 * s.elements for s in found.strides)
    assert {s.multiple_of for s in found.strides if s.dimension == "N"} == {2}


def test_triton_gains_nothing_by_a_stride_alone() -> None:
    a = gemmsim.pad(8192, 8192, 588, gpu="h200_sxm").strides[0]
    assert (a.verdict, a.time_s) == (NONE, None)
    assert "triton masks" in a.cause
    simt = gemmsim.pad(1000, 999, 1001, gpu="h200_sxm", family="simt", dtype="fp32").strides
    assert {s.operand: s.verdict for s in simt} == {"A": UNCERTAIN, "B": UNCERTAIN, "C": NONE}
    assert simt[1].more_bytes == 4 * 9 * 1001


def test_a_wave_has_room_and_an_edge() -> None:
    room = [c for c in gemmsim.pad(4096, 4096, 4096, gpu="h200_sxm").candidates if c.kind == "room"]
    assert [(c.dimension, c.padded, c.verdict) for c in room] == [("M", "4224", FREE)]
    assert abs(room[0].gain_share) <= WORTH
    found = gemmsim.pad(2048, 11008, 4096, gpu="h200_sxm", dtype=Form("bf16", layout="NT"))
    smaller = {c.dimension: c for c in found.candidates if c.kind == "smaller"}
    assert int(smaller["N"].padded) < 11008
    assert smaller["N"].cause == "wave edge: 5 instead of 6 waves"
    assert found.best is None
    assert found.advice.startswith("no gain predicted")


@settings(max_examples=12, deadline=None)
@given(
    size=st.tuples(*[st.integers(4, 13)] * 3),
    gpu=st.sampled_from(("h200_sxm", "a100_sxm_80gb")),
    layout=st.sampled_from(("NN", "NT", "TN")),
)
def test_no_gain_is_claimed_for_powers_of_two(size: tuple[int, int, int], gpu: str, layout: str) -> None:
    m, n, k = (2**x for x in size)
    found = gemmsim.pad(m, n, k, gpu=gpu, dtype=Form("bf16", layout=layout))
    assert all(c.verdict != GAIN for c in found.candidates)
    assert all(s.verdict == NONE for s in found.strides)


@settings(max_examples=12, deadline=None)
@given(size=st.tuples(*[st.integers(1, 5000)] * 3), gpu=st.sampled_from(("h200_sxm", "a100_sxm_80gb")))
def test_verdicts_say_what_the_times_say(size: tuple[int, int, int], gpu: str) -> None:
    found = gemmsim.pad(*size, gpu=gpu)
    base = found.base
    for c in found.candidates:
        assert c.gain_lo_share <= c.gain_share <= c.gain_hi_share
        assert c.gain_s == pytest.approx(base.time_s - c.time_s)
        assert (c.verdict == GAIN) == (c.kind != "room" and c.gain_share > WORTH and c.time_hi_s < base.time_lo_s)
        if c.kind == "multiple":
            assert (c.m, c.n, c.k) != size
            assert all(new >= old for new, old in zip((c.m, c.n, c.k), size, strict=True))
            assert c.more_flops_share > 0
            assert c.more_bytes > 0
    if found.best:
        assert found.best.gain_share > WORTH
        fastest = min(c.time_s for c in found.candidates if c.kind == "multiple")
        assert found.best.time_s <= (1 + WORTH) * fastest


def test_sizes_at_the_end_of_their_range() -> None:
    found = gemmsim.pad(2**31 - 1, 16, 16, gpu="h200_sxm")
    assert all(max(c.m, c.n, c.k) <= 2**31 - 1 for c in found.candidates)


def test_no_gain_is_certain_between_fitted_and_default_coefficients() -> None:
    base = rank(8192, 8192, 588, gpu="h200_sxm", family="triton", top=1).entries[0]
    padded = rank(8192, 8192, 592, gpu="h200_sxm", family="triton", top=1).entries[0]
    assert _verdict("multiple", base, padded) == GAIN
    assert _verdict("multiple", base, replace(padded, calibration="uncalibrated")) == UNCERTAIN


def test_the_best_of_given_configurations_alone() -> None:
    from gemmsim import families

    mine = {"mma": families.config("mma", {"bm": [64, 128]}), "wgmma": families.config("wgmma", {})}
    found = gemmsim.pad(8192, 8192, 588, gpu="h200_sxm", spaces=mine)
    assert found.base.family == "mma"  # TMA cannot load rows that are 1176 B apart
    entries = rank(8192, 8192, 592, gpu="h200_sxm", spaces=mine, top=None).entries
    assert len(entries) == 3
    assert found.best is not None
    assert (found.best.padded, found.best.family, found.best.time_s) == ("592", "wgmma", entries[0].time_s)
