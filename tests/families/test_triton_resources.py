"""Compiler facts from tile parameters against what Triton 3.6.0 gave for sm_90a and sm_80."""

from __future__ import annotations

import csv
import gzip
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from gemmsim.families.triton_resources import Resources, resources

DATA = Path(__file__).parents[1] / "data"
FACTS = DATA / "triton_facts_h200.csv.gz"
#: compiled without a GPU; `set`: fitted on (over_256_accumulators, epilogue), or drawn uniformly and only scored
MORE_FACTS = DATA / "triton_facts_compiled.csv.gz"
SMEM_PER_SM = {90: 233472, 80: 167936}
PARAMETERS = ("bm", "bn", "bk", "num_warps", "num_stages")
#: how the kernel of each set differs from the aligned bf16 one
KINDS = {
    "bf16": {},
    "fp16": {},
    "fp8e4nv": {"element_bytes": 1},
    "tf32": {"element_bytes": 4},
    "bf16_K_not_mult_16": {"a_aligned": False},
    "bf16_N_not_mult_16": {"b_aligned": False},
}


def load(kind, status="ok"):
    with gzip.open(FACTS, "rt") as file:
        rows = [r for r in csv.DictReader(file) if r["dtype"] == kind and r["status"] == status]
    return columns(rows)


def load_compiled(arch, *sets, dtype="bf16"):
    with gzip.open(MORE_FACTS, "rt") as file:
        rows = [r for r in csv.DictReader(file) if (r["arch"], r["dtype"], r["status"]) == (str(arch), dtype, "ok")]
    return columns([r for r in rows if r["set"] in sets])


def columns(rows):
    numbers = [n for n in rows[0] if n not in ("status", "dtype", "set") and rows[0][n]]
    return {n: np.array([float(r[n]) for r in rows]).astype(np.int64) for n in numbers}


def predict(facts, **options) -> Resources:
    return resources(*(facts[p] for p in PARAMETERS), **options)


def blocks_per_sm(regs, smem, warps, arch=90):
    per_warp = np.ceil(np.maximum(regs, 1) * 32 / 256) * 256
    by_registers = 4 * (16384 // per_warp) // warps
    return np.minimum.reduce([by_registers, SMEM_PER_SM[arch] // (smem + 1024), 64 // warps, np.full_like(warps, 32)])


def blocks_right(facts, got, arch=90):
    true = blocks_per_sm(facts["registers"], facts["smem_bytes"], facts["num_warps"], arch)
    return np.mean(true == blocks_per_sm(got.regs_per_thread, got.smem_bytes, facts["num_warps"], arch))


def spill_factor(facts, got):
    both = (got.spill_bytes > 0) & (facts["stack_bytes"] > 0)
    return np.exp(np.median(np.abs(np.log(got.spill_bytes[both] / facts["stack_bytes"][both]))))


def equal(a: Resources, b: Resources) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Resources))


@pytest.mark.parametrize("kind", KINDS)
def test_shared_memory_and_instruction_are_exact(kind):
    facts = load(kind)
    got = predict(facts, **KINDS[kind])
    np.testing.assert_array_equal(got.smem_bytes, facts["smem_bytes"])
    np.testing.assert_array_equal(got.wgmma, facts["uses_wgmma"] == 1)


@pytest.mark.parametrize(
    ("kind", "floor"), [("bf16", 0.90), ("fp16", 0.88), ("bf16_N_not_mult_16", 0.75), ("bf16_K_not_mult_16", 0.75)]
)
def test_blocks_per_sm(kind, floor):
    facts = load(kind)
    assert blocks_right(facts, predict(facts, **KINDS[kind])) >= floor


def test_registers():
    facts = load("bf16")
    error = np.abs(predict(facts).regs_per_thread - facts["registers"])
    assert np.median(error) <= 3
    assert np.quantile(error, 0.9) <= 14


def test_spills():
    facts = load("bf16")
    said, true = predict(facts).spill_bytes, facts["stack_bytes"]
    both = (said > 0) & (true > 0)
    assert both.sum() / (true > 0).sum() >= 0.90
    assert both.sum() / (said > 0).sum() >= 0.92
    assert (said[true > 32] > 0).all()
    assert spill_factor(facts, predict(facts)) <= 1.3


def test_far_more_accumulators_than_registers():
    facts = load_compiled(90, "over_256_accumulators")
    got = predict(facts)
    assert (facts["bm"] * facts["bn"] > 256 * 32 * facts["num_warps"]).all()
    assert spill_factor(facts, got) <= 1.3
    ratio = got.spill_bytes / facts["stack_bytes"]
    assert ratio.min() > 0.5
    assert ratio.max() < 3
    np.testing.assert_array_equal(got.smem_bytes, facts["smem_bytes"])


@pytest.mark.parametrize(("arch", "dtype", "floor"), [(90, "bf16", 0.87), (90, "fp16", 0.9), (80, "bf16", 0.85)])
def test_configurations_nothing_was_fitted_on(arch, dtype, floor):
    facts = load_compiled(arch, "uniform", dtype=dtype)
    got = predict(facts, wgmma_allowed=arch == 90)
    error, spills = np.abs(got.regs_per_thread - facts["registers"]), facts["stack_bytes"] > 0
    np.testing.assert_array_equal(got.smem_bytes, facts["smem_bytes"])
    np.testing.assert_array_equal(got.wgmma, facts["uses_wgmma"] == 1)
    assert np.median(error) <= 3
    assert np.quantile(error, 0.9) <= 15
    assert blocks_right(facts, got, arch) >= floor
    assert (got.spill_bytes[spills] > 0).mean() >= 0.95
    assert spills[got.spill_bytes > 0].mean() >= 0.85
    assert spill_factor(facts, got) <= 1.4


def test_shared_memory_of_sm_80_is_exact():
    facts = load_compiled(80, "uniform", "epilogue", "few_stages")
    got = predict(facts, wgmma_allowed=False)
    assert len(facts["bm"]) > 200
    np.testing.assert_array_equal(got.smem_bytes, facts["smem_bytes"])


def test_unaligned_rows_of_b_never_hide_a_spill():
    facts = load("bf16_N_not_mult_16")
    assert (predict(facts, b_aligned=False).spill_bytes[facts["stack_bytes"] > 0] > 0).all()


def test_collapse_is_foreseen():
    facts = load("bf16")
    true = (facts["registers"] <= 64) & (facts["stack_bytes"] > 2000)
    got = predict(facts)
    assert true.sum() >= 4
    np.testing.assert_array_equal((got.regs_per_thread <= 64) & (got.spill_bytes > 2000), true)


def test_what_ptxas_refuses():
    assert not predict(load("bf16", "ptxas_error")).compiles.any()
    assert predict(load("bf16")).compiles.all()


def test_deterministic_and_elementwise():
    facts = load("bf16")
    got = predict(facts)
    assert equal(got, predict(facts))
    one = resources(*(int(facts[p][7]) for p in PARAMETERS))
    assert one.smem_bytes.shape == ()
    assert int(one.regs_per_thread) == got.regs_per_thread[7]
    assert float(one.spill_bytes) == got.spill_bytes[7]


def test_arguments_broadcast():
    grid = resources(
        np.array([[64], [128]]), np.array([32, 64, 128]), 64, 4, 3, a_aligned=np.array([True, False, True])
    )
    assert {getattr(grid, f.name).shape for f in fields(Resources)} == {(2, 3)}
    assert grid.smem_bytes[1, 2] == resources(128, 128, 64, 4, 3).smem_bytes
    assert grid.smem_bytes[0, 1] == resources(64, 64, 64, 4, 3, a_aligned=False).smem_bytes


def test_without_wgmma():
    ampere = resources(128, 128, 32, 4, 3, wgmma_allowed=False)
    assert not ampere.wgmma
    assert (int(ampere.warps_m), int(ampere.warps_n)) == (2, 2)
    assert ampere.smem_bytes < resources(128, 128, 32, 4, 3).smem_bytes  # one buffer less
