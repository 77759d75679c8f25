"""Comparisons as a function."""

from __future__ import annotations

from math import isclose, prod

import pytest

import gemmsim
from gemmsim.comparison.cost import SHORTLIST, Asked, card, trial
from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.problem import Form
from gemmsim.ranking import rank
from gemmsim.workload import Product

GPUS = ("a100_sxm_80gb", "h100_sxm", "h200_sxm")
QKV = Product("decode", "qkv", 16, 12288, 4096, 32, Form("bf16", layout="NT"))
ATTENTION = Product("decode", "qk", 16, 2048, 128, 32, Form("bf16", layout="NT", batch=32), weight=False)


def test_the_best_of_each_gpu_is_ranks_best() -> None:
    found = gemmsim.compare((1024, 4096, 4096), gpus=GPUS)
    assert [c.label for c in found.cards] == list(GPUS)
    for one in found.cards:
        best = rank(1024, 4096, 4096, gpu=one.label, family="triton", calibrated="none", top=1).entries[0]
        assert (one.picks[0].entry.key, one.time_s) == (best.key, best.time_s)
        assert one.energy_j == load_gpu(one.label).tdp_w * best.time_s
        assert one.bound_by == best.bound_by
        assert one.flops_per_s == pytest.approx(best.tflops * 1e12)


def test_a_workload_adds_up() -> None:
    found = gemmsim.compare([QKV, ATTENTION], gpus=GPUS[1:])
    for one in found.cards:
        assert one.time_s == pytest.approx(sum(32 * p.entry.time_s for p in one.picks))
        assert sum(one.bounds.values()) == pytest.approx(1)
        assert one.interval_s[0] < one.time_s < one.interval_s[1]
        flops = 32 * 2 * (16 * 12288 * 4096 + 32 * 16 * 2048 * 128)
        assert one.flops_per_s == pytest.approx(flops / one.time_s)


@pytest.mark.parametrize("baseline", [None, "h200_sxm"])
def test_factors_multiply_to_the_speedup(baseline: str | None) -> None:
    found = gemmsim.compare([QKV, ATTENTION], gpus=GPUS, baseline=baseline)
    times = {c.label: c.time_s for c in found.cards}
    assert found.baseline == (baseline or GPUS[0])
    assert {s.label for s in found.speedups} == {*GPUS} - {found.baseline}
    for s in found.speedups:
        assert isclose(s.ratio, times[found.baseline] / times[s.label])
        assert isclose(prod(r.factor for r in s.reasons), s.ratio, rel_tol=1e-9)
        assert isclose(sum(r.share or 0 for r in s.reasons), 1, rel_tol=1e-9)


def test_fitted_coefficients_only_where_every_gpu_has_them() -> None:
    both = gemmsim.compare((64, 64, 64), gpus=["h100_sxm", "h200_sxm"])
    assert not both.calibrated
    assert any("triton on h200_sxm" in note for note in both.notes)
    assert {name for c in both.cards for name in c.calibrations} == {"uncalibrated"}
    alone = gemmsim.compare((64, 64, 64), gpus=["h200_sxm"], what_if={"h200_sxm": {"dram_bytes_per_s": 7.2e12}})
    assert alone.calibrated
    assert {name for c in alone.cards for name in c.calibrations} == {"h200_sxm.triton.yaml"}
    assert alone.cards[0].time_s == rank(64, 64, 64, gpu="h200_sxm", family="triton", top=1).entries[0].time_s
    assert not gemmsim.compare((64, 64, 64), gpus=["h200_sxm"], calibrated="none").notes


def test_what_if_is_a_further_gpu() -> None:
    found = gemmsim.compare(
        (16, 12288, 4096), gpus=GPUS[1:], what_if={"h200_sxm": {"dram_bytes_per_s": 7.2e12, "tdp_w": 1400}}
    )
    assert [c.label for c in found.cards] == ["h100_sxm", "h200_sxm", "h200_sxm*"]
    assert found.changes == {"h200_sxm*": "dram_bytes_per_s = 7.2e+12, tdp_w = 1400"}
    now, then = found.cards[1:]
    assert then.time_s < now.time_s
    assert then.energy_j == 1400 * then.time_s
    reason = found.speedups[1].reasons[0]
    assert reason.group == "memory bandwidth"


def test_elasticities_are_slopes_of_the_time() -> None:
    found = gemmsim.compare((16, 12288, 4096), gpus=["h200_sxm"], sensitivity=True)
    slopes = {e.figure: e.elasticity for e in found.elasticities}
    assert found.elasticities[0].figure.startswith("dram_")
    assert -1 < slopes["dram_bytes_per_s"] < -0.5
    assert 0 < slopes["launch_s"] < 0.2
    assert slopes["tdp_w"] == slopes["fma_per_clk_per_sm.fp64"] == 0
    assert not {"l2_partitions", "arch.sub_partitions"} & set(slopes)
    ends = [
        gemmsim.compare((16, 12288, 4096), gpus=["h200_sxm"], what_if={"h200_sxm": {"launch_s": f * 2.8e-6}}).cards[1]
        for f in (0.95, 1.05)
    ]
    assert (ends[1].time_s / ends[0].time_s - 1) / 0.1 == pytest.approx(slopes["launch_s"], rel=0.05)


def test_the_shortlist_holds_the_best_of_a_changed_gpu() -> None:
    """Times on a changed GPU from shortlists are within a per cent of a full search."""
    asked = Asked("triton", "cold_clean", "none")
    cards = [card(g, load_gpu(g), [QKV], asked) for g in ("a100_sxm_80gb", "h200_sxm")]
    tried = trial(cards, asked)
    assert sum(len(r.which) for r in tried.rows) <= 2 * SHORTLIST
    for one in cards:
        assert tried.time_s(one.gpu) == pytest.approx(one.time_s, rel=1e-12)
    for fraction in (0.5, 2.0):
        gpu = gemmsim.load_gpu("h200_sxm")
        from gemmsim.whatif import moved_gpu

        moved = moved_gpu(gpu, "dram_bytes_per_s", gpu.dram_bytes_per_s * fraction)
        full = card("", moved, [QKV], asked).time_s
        assert full <= tried.time_s(moved) * (1 + 1e-12)
        assert tried.time_s(moved) <= 1.01 * full


def test_progress_counts_to_its_end() -> None:
    from gemmsim.comparison.compare import steps

    told: list[int] = []
    gemmsim.compare([QKV, ATTENTION], gpus=GPUS[1:], what_if={"h200_sxm": {"tdp_w": 500}}, sensitivity=True,
                    progress=told.append)  # fmt: skip
    assert sum(told) == steps(2, 3, True)


def test_weights_that_do_not_fit_are_told() -> None:
    large = Product("", "w", 16, 65536, 65536, 20, Form("bf16"))
    found = gemmsim.compare([large], gpus=["h100_sxm", "h200_sxm"])
    assert [n for n in found.notes if "do not fit" in n] == [
        "the weights, 160.0 GiB, do not fit h100_sxm, which has 79.2 GiB",
        f"the weights, 160.0 GiB, do not fit h200_sxm, which has {load_gpu('h200_sxm').dram_bytes / 2**30:.1f} GiB",
    ]


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ((64, 64, 64), {"gpus": []}, ("no GPU",)),
        ([], {"gpus": ["h200_sxm"]}, ("no GEMM",)),
        ((64, 64), {"gpus": ["h200_sxm"]}, ("M, N and K",)),
        ((64, 64, 0), {"gpus": ["h200_sxm"]}, ("K = 0",)),
        ((64, 64, 64), {"gpus": ["h200_sxm", "NVIDIA H200"]}, ("h200_sxm", "twice")),
        ((64, 64, 64), {"gpus": ["h200_sxm"], "baseline": "h100_sxm"}, ("'h100_sxm'", "h200_sxm")),
        ((64, 64, 64), {"gpus": ["h200_sxm"], "what_if": {"h100_sxm": {"tdp_w": 500}}}, ("'h100_sxm'",)),
        ((64, 64, 64), {"gpus": ["h200_sxm"], "family": "cutlas"}, ("'cutlas'",)),
        ((64, 64, 64), {"gpus": ["h200_sxm"], "l2": "hot"}, ("'hot'",)),
        ((64, 64, 64), {"gpus": ["h200_sxm", "a100_sxm_80gb"], "dtype": "fp8"}, ("a100_sxm_80gb has no fp8",)),
        ([QKV], {"gpus": ["a100_sxm_80gb"], "family": "wgmma"}, ("GEMM qkv", "no configuration of wgmma")),
    ],
)
def test_wrong_input(what: object, options: dict[str, object], words: tuple[str, ...]) -> None:
    with pytest.raises(GemmsimError) as caught:
        gemmsim.compare(what, **options)  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in words), caught.value
