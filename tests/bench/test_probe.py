"""The probe's arithmetic, on a GPU whose rates are set: every figure comes out as what was put in."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
fake = importlib.import_module("fake_lab")

from gemmsim.bench import probe  # noqa: E402
from gemmsim.bench.lab import smi_values  # noqa: E402
from gemmsim.bench.probe import QUICK, Plan, Reading  # noqa: E402
from gemmsim.hardware import load_gpu  # noqa: E402

RATES = load_gpu("h200_sxm").arch.fma_per_clk_per_sm


def read(lab: object, plan: Plan = QUICK) -> dict[str, Reading]:
    return {r.key: r for _, some in probe.readings(lab, plan, RATES) for r in some}  # type: ignore[arg-type]


@pytest.mark.parametrize("plan", [QUICK, Plan()], ids=["quick", "full"])
def test_each_figure_is_what_was_put_in(plan: Plan) -> None:
    found = read(fake.FakeLab(), plan)
    expected = {
        "flops.fp32": 64e12,
        "flops.fp64": 32e12,
        "clock_load_hz": 1.98e9,
        "dram_measured_bytes_per_s": 4.5e12,
        "dram_copy_bytes_per_s": 4.2e12,
        "l2_measured_bytes_per_s": 7.9e12,
        "smem_bytes_per_clk_per_sm": 126.0,
        "smem_latency_clk": 29.0,
        "l1_latency_clk": 33.0,
        "l2_latency_clk": 285.0,
        "l2_wide_latency_clk": 324.0,
        "dram_latency_clk": 690.0,
        "launch_s": 2.8e-6,
    }
    assert {key: r.value for key, r in found.items()} == pytest.approx(expected, rel=2e-3)


def test_the_plateau_is_of_footprints_inside_the_l2_and_the_curve_holds_the_others() -> None:
    found = read(fake.FakeLab(), Plan())["l2_measured_bytes_per_s"]
    assert max(rate for _, rate in found.curve) == pytest.approx(7.9e12)
    assert min(rate for _, rate in found.curve) == pytest.approx(4.5e12)
    assert len({size for size, _ in found.curve}) == len(found.curve) >= 8


@pytest.mark.parametrize(("sms", "l2"), [(132, 60 * 2**20), (108, 40 * 2**20), (40, 4 * 2**20), (68, 5767168)])
def test_every_block_of_an_l2_read_has_as_much_to_do_as_the_others(sms: int, l2: int) -> None:
    lab = fake.FakeLab(facts=replace(fake.H200, sm_count=sms, l2_bytes=l2))
    per_sm, threads = probe.l2_form(sms, l2)
    stride = per_sm * threads * sms * 64
    (found,) = probe.l2(lab, Plan(), RATES)
    assert all(size % stride == 0 for size, _ in found.curve)
    assert stride <= l2 / 3
    assert {launch[1:] for launch in lab.launches} == {(per_sm * sms, threads)}


def test_dram_is_read_over_two_gib_or_what_the_memory_holds() -> None:
    lab = fake.FakeLab()
    assert "over 2 GiB" in read(lab)["dram_measured_bytes_per_s"].how
    lab.free_bytes = lambda: 2 * 10**9
    assert "over 1 GiB" in read(lab)["dram_measured_bytes_per_s"].how


def test_the_occupancy_grid_is_large_and_ends_at_what_a_block_may_have() -> None:
    threads, regs, smem = probe.occupancy_grid(232448)
    assert len(threads) * len(regs) * len(smem) >= 500
    assert (smem[0], smem[-1]) == (0, 232448)
    assert probe.occupancy_grid(49152)[2][-1] == 49152


def test_nvidia_smi_says_numbers_texts_and_nothing() -> None:
    asked = ("power.default_limit", "clocks.max.sm", "driver_version", "uuid")
    found = smi_values(asked, "700.00, [N/A], 580.95.05, GPU-1f\n")
    assert found == {"power.default_limit": 700.0, "driver_version": "580.95.05", "uuid": "GPU-1f"}
    assert smi_values(asked, "") == {}


def test_the_kernels_compile_and_take_what_the_probe_counts_on() -> None:
    pytest.importorskip("cuda.core")
    from gemmsim.bench.compile import Source, compile_one
    from gemmsim.bench.cubin import resources
    from gemmsim.paths import data_folder

    path = data_folder("kernels") / "probe.cu"
    plain = compile_one(Source(path, (), "sm_90", kernel="read_bytes"))
    held = compile_one(Source(path, (("HOLD", "1"),), "sm_90", kernel="hold_24"))
    assert (plain.status, held.status) == ("ok", "ok"), plain.reason + held.reason
    assert plain.cubin is not None
    assert held.cubin is not None
    kernels = resources(plain.cubin.read_bytes())
    assert all(taken.stack_bytes == 0 for taken in kernels.values())
    assert kernels["read_bytes"].regs_per_thread <= 32, "two blocks of 1024 threads an SM"
    taken = {name: r.regs_per_thread for name, r in resources(held.cubin.read_bytes()).items()}
    assert taken == {f"hold_{count}": count for count in probe.HELD_REGS}
