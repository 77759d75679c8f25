"""GPUs with figures of their files changed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.hardware import gpu_names, load_gpu
from gemmsim.model.predict import predict
from gemmsim.whatif import changed_gpu, figure_names, figure_value, moved_gpu, quantity


@pytest.mark.parametrize("name", gpu_names())
def test_no_change_and_a_figure_set_to_itself_change_nothing(name: str) -> None:
    gpu = load_gpu(name)
    assert changed_gpu(name, {}) == gpu
    for key in figure_names(gpu):
        value = figure_value(gpu, key)
        if value is not None and key != "sm_count":  # SMs of clusters are rounded, and slices are gone
            assert changed_gpu(name, {key: value}) == gpu


def test_what_hangs_on_a_figure_follows() -> None:
    gpu, found = load_gpu("h200_sxm"), changed_gpu("h200_sxm", {"dram_bytes_per_s": 7.2e12})
    assert gpu.dram_measured_bytes_per_s is not None
    assert found.dram_measured_bytes_per_s == pytest.approx(1.5 * gpu.dram_measured_bytes_per_s)
    half = changed_gpu("h200_sxm", {"sm_count": 66})
    assert half.datasheet_flops["bf16"] == pytest.approx(gpu.datasheet_flops["bf16"] / 2)
    assert half.cluster_sms == (66, 66, 60, 56, 48)
    assert changed_gpu("a100_sxm_80gb", {"sm_count": 54}).mig_profiles == ()
    said = changed_gpu("h200_sxm", {"dram_bytes_per_s": 7.2e12, "dram_measured_bytes_per_s": 5e12})
    assert said.dram_measured_bytes_per_s == 5e12


def test_figures_of_the_architecture_and_of_a_slice() -> None:
    for name in ("smem_bytes_per_clk_per_sm", "arch.smem_bytes_per_clk_per_sm"):
        assert changed_gpu("h200_sxm", {name: 256}).arch.smem_bytes_per_clk_per_sm == 256
    assert changed_gpu("h200_sxm", {"fma_per_clk_per_sm.bf16": 4096}).arch.fma_per_clk_per_sm["bf16"] == 4096
    assert changed_gpu("h200_sxm:3g.71gb", {"dram_bytes_per_s": 4e12}).sm_count == 60
    assert changed_gpu("h100_sxm", {"dram_measured_bytes_per_s": 3e12}).dram_measured_bytes_per_s == 3e12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dram_byte_per_s": 4e12}, ("'dram_byte_per_s'", "did you mean dram_bytes_per_s")),
        ({"dram_bytes_per_s": 4800}, ("dram_bytes_per_s is 4800", "is it in GB/s? then write 4.8e+12")),
        ({"sm_count": 1.5}, ("sm_count is 1.5", "a whole number from 1 to 1000")),
        ({"sm_count": math.nan}, ("sm_count is nan",)),
        ({"sm_count": math.inf}, ("sm_count is inf",)),
        ({"dram_measured_bytes_per_s": 6e12}, ("expected 30 to 102 % of dram_bytes_per_s",)),
        ({"dram_bytes_per_s": 9.6e12}, ("l2_measured_bytes_per_s is 7.9e+12: expected more than DRAM's",)),
        ({"clock_base_hz": 3e9}, ("expected at most clock_hz",)),
        ({"dram_bus_bits": 12288}, ("dram_bus_bits / 8 x 2 x dram_clock_hz",)),
        ({"max_warps_per_sm": 128}, ("32 x max_warps_per_sm",)),
        ({"datasheet_flops.bf16": 1e15}, ("'datasheet_flops.bf16'",)),
        ({"cluster_sms": 3}, ("'cluster_sms'",)),
        ({"name": 3}, ("'name'",)),
    ],
)
def test_what_the_loader_would_refuse_is_refused(change: dict[str, float], words: tuple[str, ...]) -> None:
    with pytest.raises(GemmsimError) as caught:
        changed_gpu("h200_sxm", change)
    assert all(word in str(caught.value) for word in words), caught.value


BETTER = ("dram_bytes_per_s", "l2_measured_bytes_per_s", "fma_per_clk_per_sm.bf16", "arch.smem_bytes_per_clk_per_sm")


@settings(max_examples=40, deadline=None)
@given(
    gpu=st.sampled_from(("a100_sxm_80gb", "h100_sxm", "h200_sxm")),
    key=st.sampled_from(BETTER),
    factor=st.floats(1.01, 3),
    size=st.tuples(*[st.integers(1, 8192)] * 3),
)
def test_more_of_a_rate_is_never_slower(gpu: str, key: str, factor: float, size: tuple[int, int, int]) -> None:
    chip = load_gpu(gpu)
    value = figure_value(chip, key)
    assert value is not None
    more = moved_gpu(chip, key, min(value * factor, quantity(key).high))
    before, after = (float(predict(*size, gpu=g, calibrated="none").time_s[0]) for g in (chip, more))
    assert after <= before * (1 + 1e-9)
