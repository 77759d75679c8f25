"""The naive family: registers against nvcc, L1 passes from lanes' addresses, what uncoalesced access costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmsim import families, gemm, load_gpu, predict
from gemmsim.config import Config
from gemmsim.families import naive
from gemmsim.families.traits import Traits
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.predict import Prediction

ARCH = load_gpu("h200_sxm").arch
TILE = {"bm": 8, "bn": 32, "bk": 4, "coalesced": 1}
#: registers by nvcc 13.0 for sm_90: bm, bn, bk, coalesced -> registers
COMPILED = {
    (1, 32, 1, 1): 16, (8, 32, 1, 1): 20, (13, 17, 1, 0): 20, (32, 32, 1, 0): 20, (8, 32, 2, 1): 23, (16, 16, 2, 0): 23,
    (1, 32, 4, 1): 29, (1, 256, 4, 0): 27, (8, 8, 4, 1): 27, (8, 32, 4, 1): 27, (16, 16, 4, 0): 27, (32, 4, 4, 0): 27,
    (32, 32, 4, 1): 27, (8, 128, 4, 0): 27, (8, 32, 8, 1): 32, (32, 32, 8, 0): 32, (16, 16, 8, 1): 32,
    (8, 32, 16, 1): 32, (32, 32, 16, 0): 32,
}  # fmt: skip


def config(**change: int) -> Config:
    return Config("naive", {p: np.asarray([v]) for p, v in (TILE | change).items()})


def traits(m: int = 4096, n: int = 4096, k: int = 4096, **change: int) -> Traits:
    problem, chosen = gemm(m, n, k, "fp32"), config(**change)
    return naive.traits(problem, chosen, naive.launch(problem, chosen, ARCH), ARCH)


def one(x: Any) -> float:
    (value,) = np.asarray(x, np.float64).ravel()
    return float(value)


def ask(m: int, n: int, k: int, *, l2: str = "cold_clean", **change: int) -> Prediction:
    return predict(
        m, n, k, gpu="h200_sxm", dtype="fp32", family="naive", config=config(**change), l2=l2, calibrated="none"
    )


def test_registers_and_blocks_against_nvcc() -> None:
    columns = dict(zip(TILE, np.asarray(list(COMPILED)).T, strict=True))
    found = naive.launch(gemm(512, 512, 512, "fp32"), Config("naive", columns), ARCH)
    true = np.asarray(list(COMPILED.values()))
    assert np.abs(found.regs_per_thread - true).max() <= 4
    assert not found.smem_bytes.any()
    said, right = (
        blocks_per_sm(ARCH, found.threads, regs, found.smem_bytes).blocks_per_sm
        for regs in (found.regs_per_thread, true)
    )
    np.testing.assert_array_equal(said, right)


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ({}, 1 + 1),  # a row of A, a line of B
        ({"bn": 256}, 1 + 1),
        ({"bm": 16, "bn": 16}, 2 + 1),  # two rows of A
        ({"bm": 32, "bn": 8}, 4 + 1),
        ({"coalesced": 0}, 8 + 1),  # eight rows of A, four columns of B
        ({"bm": 32, "coalesced": 0}, 32 + 1),
        ({"bm": 64, "bn": 4, "coalesced": 0}, 32 + 1),
        ({"bm": 32, "coalesced": 0, "k": 500}, 8 + 32**0.5 / 2 + 1),  # rows 20 banks apart: four banks of tags
        ({"bm": 32, "coalesced": 0, "k": 4112}, 16 + 1),  # rows 16 banks apart: two data banks
        ({"n": 4097}, 1 + (63 / 32) / 4 + (63 / 32) ** 0.5 / 2),  # a row of B begins anywhere: nearly two lines
        ({"n": 4104}, 1 + (56 / 32) / 4 + (56 / 32) ** 0.5 / 2),
        ({"bm": 32, "coalesced": 0, "m": 1}, 1 + 1),  # one row lies inside C
    ],
)
def test_passes_of_a_warps_loads(change: dict[str, int], passes: int) -> None:
    t = traits(**change)
    assert one(t.smem_reads) == pytest.approx(one(t.warps) * 4 * passes)


@pytest.mark.parametrize(("bk", "instructions"), [(4, 29), (8, 47), (16, 86)])
def test_instructions_of_a_k_step_against_the_disassembly(bk: int, instructions: int) -> None:
    t = traits(bk=bk)
    assert one(t.instructions / t.warps) == pytest.approx(instructions, rel=0.06)


def test_warps_outside_the_result_end_at_once() -> None:
    assert one(traits(m=1).warps) == 1  # of eight, one has a row
    assert one(traits(m=12).warps) == 6  # eight and four
    assert one(traits(m=1, coalesced=0).warps) == 8  # lanes along M: each warp holds the row
    assert one(traits(n=8).warps) == 8


def test_stored_sectors() -> None:
    assert one(traits().store_sectors) == 8 * 4
    assert one(traits(coalesced=0).store_sectors) == 8 * 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bm": 64}, "threads_per_block: 2048 threads a block, limit 1024"),
        ({"bk": 32}, "bk: 32, limit 16"),
        ({"coalesced": 2}, "coalesced: 2, limit 1"),
    ],
)
def test_refusals(change: dict[str, int], reason: str) -> None:
    found = ask(512, 512, 512, **change)
    assert found.reasons == [reason]
    assert np.isnan(found.time_s[0])


def test_more_rows_of_blocks_than_a_grid_takes() -> None:
    assert ask(70_000, 8, 8, bm=1).reasons == ["grid_y: 70000 blocks in grid.y, limit 65535"]


def test_uncoalesced_access_costs_what_its_lines_do() -> None:
    """An RTX A6000 takes 6.4 times as long uncoalesced on 32x32 blocks, of 32 lines instead of one (siboehm's rows)."""
    slow, fast = ask(4096, 4096, 4096, bm=32, coalesced=0), ask(4096, 4096, 4096, bm=32)
    assert 5 <= one(slow.time_s / fast.time_s) <= 14
    narrow = ask(4096, 4096, 4096, bm=8, coalesced=0)
    assert one(narrow.time_s) < 0.4 * one(slow.time_s)


def test_loads_in_flight_hide_latency() -> None:
    times = [one(ask(4096, 4096, 4096, bk=bk).time_s) for bk in (1, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[1]


@pytest.mark.parametrize(("size", "measured"), [(1024, 0.351e-3), (4096, 23.94e-3)])
def test_the_probe_of_an_h200(size: int, measured: float) -> None:
    """Of a naive kernel whose block and unrolling are not known; nothing fitted."""
    assert one(ask(size, size, size, l2="warm").time_s) == pytest.approx(measured, rel=0.35)


@pytest.mark.parametrize(
    ("bm", "bn", "sizes", "measured"),
    [
        (8, 32, (4096, 4096, 4096), 74.10e-3), (16, 16, (4096, 4096, 4096), 141.6e-3),
        (32, 32, (4096, 4096, 4096), 275.2e-3), (32, 8, (512, 512, 8192), 8.911e-3),
        (32, 32, (3000, 1000, 500), 2.215e-3), (16, 16, (3000, 1000, 500), 1.426e-3),
    ],
)  # fmt: skip
def test_uncoalesced_times_of_an_h200(bm: int, bn: int, sizes: tuple[int, int, int], measured: float) -> None:
    """Nothing fitted: the passes through L1 alone."""
    found = ask(*sizes, l2="cold_dirty", bm=bm, bn=bn, coalesced=0)
    assert one(found.time_s) == pytest.approx(measured, rel=0.12)
    assert predict(
        *sizes, gpu="h200_sxm", dtype="fp32", family="naive", config=found.config, calibrated="none", terms=True
    ).bound_by == ["shared"]


def test_the_space_has_one_launch_or_a_reason_for_each_choice() -> None:
    space = families.space("naive")
    found = predict(1000, 1001, 520, gpu="a100_sxm_80gb", dtype="fp32", family="naive", config=space)
    assert (found.feasible == (space["bm"] * space["bn"] <= 1024)).all()
    assert np.isfinite(found.time_s[found.feasible]).all()
