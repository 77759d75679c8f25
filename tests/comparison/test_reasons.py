"""What falls to each group of figures."""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from math import exp, isclose, log, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.comparison import compare
from gemmsim.comparison.reasons import GROUPS, reasons, with_group
from gemmsim.hardware import Arch, Gpu, load_gpu
from gemmsim.model.predict import predict

A100, H100, H200 = (load_gpu(name) for name in ("a100_sxm_80gb", "h100_sxm", "h200_sxm"))


def test_all_groups_together_make_the_other_gpu() -> None:
    named = {name for group in GROUPS.values() for name in group}
    assert len(named) == sum(map(len, GROUPS.values()))
    assert {f"arch.{f.name}" for f in fields(Arch)} <= named
    for base, other in ((A100, H200), (H200, A100), (H100, H200)):
        made = reduce(lambda gpu, group: with_group(gpu, other, group), GROUPS, base)
        p, q = (predict(512, 1024, 2048, gpu=gpu, terms=True) for gpu in (made, other))
        assert p.time_s[0] == q.time_s[0]


@given(
    st.floats(0, 3), st.floats(0, 3), st.floats(0, 3), st.floats(-1, 1), st.floats(-1, 1),
)  # fmt: skip
def test_parts_are_shapleys(a: float, b: float, c: float, ab: float, abc: float) -> None:
    """A game whose value is known: three gains, one that two share and one that all three share."""
    base, other = A100, H200

    def time_s(gpu: Gpu) -> float:
        x, y, z = (
            gpu.dram_bytes_per_s == other.dram_bytes_per_s,
            gpu.l2_latency_clk == other.l2_latency_clk,
            gpu.clock_hz == other.clock_hz,
        )
        return exp(-(a * x + b * y + c * z + ab * x * y + abc * x * y * z))

    found = {r.group: r for r in reasons(base, other, time_s, fitted=False)}
    expected = {"memory bandwidth": a + ab / 2 + abc / 3, "L2": b + ab / 2 + abc / 3, "clock": c + abc / 3}
    for group, reason in found.items():
        assert isclose(log(reason.factor), expected.get(group, 0), abs_tol=1e-9)
    assert isclose(log(prod(r.factor for r in found.values())), a + b + c + ab + abc, abs_tol=1e-9)


def test_only_what_differs_is_named_and_fits_only_where_they_count() -> None:
    h = {r.group for r in reasons(H100, H200, lambda gpu: 1.0, fitted=False)}
    assert h == {"memory bandwidth", "L2"}
    assert {r.group for r in reasons(H100, H200, lambda gpu: 1.0, fitted=True)} == h | {"fitted coefficients"}
    assert reasons(H200, H200, lambda gpu: 1.0, fitted=True) == ()
    assert all(r.share is None for r in reasons(H100, H200, lambda gpu: 1.0, fitted=True))


@pytest.mark.parametrize(("m", "group"), [(16, "memory bandwidth"), (8192, "math rate per SM")])
def test_a_skinny_gemm_gains_by_bandwidth_and_a_large_one_by_math(m: int, group: str) -> None:
    found = compare((m, 8192, 8192), gpus=["a100_sxm_80gb", "h200_sxm"])
    assert found.speedups[0].reasons[0].group == group


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_the_same_gpu_changes_nothing(group: str) -> None:
    assert with_group(H200, H200, group) == H200
