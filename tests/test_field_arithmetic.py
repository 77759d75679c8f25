"""Figures that the field agrees on, as the public functions give them."""

from __future__ import annotations

import pytest

from gemmsim import gemm, load_gpu, predict
from gemmsim.model import geometry
from gemmsim.model.traffic import textbook_bytes


def intensity(bm: int, bn: int, element_bytes: int) -> float:
    """FLOP a byte that tiles ask for, whatever the size of the problem."""
    return float(2 * 4096.0**3 / textbook_bytes(4096, 4096, 4096, bm, bn, element_bytes))


def test_a_square_product_and_the_time_at_peak() -> None:
    flops = gemm(4096, 4096, 4096).flops[0]
    assert flops == pytest.approx(137.4e9, rel=5e-4)
    assert flops / (load_gpu("h100_sxm").peak_flops("bf16") or 0) == pytest.approx(0.139e-3, rel=2e-3)


def test_intensity_against_the_ridge() -> None:
    problem, h100 = gemm(4096, 4096, 4096, "bf16"), load_gpu("h100_sxm")
    assert problem.flops[0] / problem.compulsory_bytes[0] == pytest.approx(1365, abs=0.5)
    assert (h100.peak_flops("bf16") or 0) / h100.dram_bytes_per_s == pytest.approx(295, abs=0.5)


def test_intensity_of_a_tile_and_of_none() -> None:
    assert intensity(128, 128, 4) == 32
    assert intensity(1, 1, 4) == 0.25


def test_one_tile_over_a_wave_is_a_second_wave() -> None:
    assert geometry.waves([132, 133], 132, 1).tolist() == [1, 2]
    tile = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 8, "num_stages": 5, "group_m": 1}
    found = predict(128, [128 * 132, 128 * 133], 1024, gpu="h100_sxm", config=tile)
    assert found.blocks_per_sm.tolist() == [1, 1]
    assert found.waves.tolist() == [1, 2]
    assert found.time_s[1] > 1.2 * found.time_s[0]


def test_flops_are_of_the_problem_not_of_its_tiles() -> None:
    whole, edge = predict([4096, 4097], 4096, 4096, gpu="h100_sxm").tflops
    assert gemm(4097, 4096, 4096).flops[0] == 2 * 4097 * 4096 * 4096
    assert edge < whole
