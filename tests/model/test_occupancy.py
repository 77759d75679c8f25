"""Blocks per SM against NVIDIA's calculator: a grid and named cases printed by cuda_occupancy.h of CUDA 13.0."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.hardware import Arch, load_gpu
from gemmsim.model.occupancy import LIMITERS, NO_LIMIT, Occupancy, blocks_per_sm

DATA = Path(__file__).parents[1] / "data"
#: device of the recorded cases -> a product of that architecture
DEVICES = {
    "v100": "v100_sxm2_32gb", "t4": "t4", "a100": "a100_sxm_80gb", "sm86": "rtx_a6000", "sm89": "l40s",
    "sm90": "h100_sxm", "sm100": "b200_sxm", "sm120": "rtx_5090",
}  # fmt: skip
VECTOR_DEVICES = {
    "A100(cc8.0)": "a100_sxm_80gb", "RTX3090/A6000(cc8.6)": "rtx_3090", "RTX4090/L40S(cc8.9)": "rtx_4090",
    "H100/H200(cc9.0)": "h100_sxm", "B200(cc10.0)": "b200_sxm",
}  # fmt: skip


def arch_of(gpu: str) -> Arch:
    return load_gpu(gpu).arch


@cache
def grid() -> list[dict[str, str]]:
    with gzip.open(DATA / "occupancy_grid.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def vectors() -> list[dict[str, str]]:
    with open(DATA / "occupancy_vectors.csv") as file:
        return list(csv.DictReader(file))


def one(found: Occupancy) -> list[int]:
    return [int(x[0]) for x in (found.blocks_per_sm, *found.limits, found.limiting_mask)]


@pytest.mark.parametrize("device", DEVICES)
def test_every_row_of_the_grid(device: str) -> None:
    rows = [row for row in grid() if row["device"] == device]
    assert len(rows) == 7500
    column = {key: np.array([int(row[key]) for row in rows]) for key in rows[0] if key not in ("device", "cc")}
    found = blocks_per_sm(arch_of(DEVICES[device]), column["threads"], column["regs"], column["smem_dyn_B"])
    names = ("blocks_per_sm", "lim_warps", "lim_regs", "lim_smem", "lim_blocks")
    for name, array in zip(names, (found.blocks_per_sm, *found.limits), strict=True):
        np.testing.assert_array_equal(array, column[name], err_msg=name)


@pytest.mark.parametrize("case", vectors(), ids=lambda case: f"{case['tag']}-{case['cc']}")
def test_named_case(case: dict[str, str]) -> None:
    smem = int(case["static_smem_B"]) + int(case["dyn_smem_B"])
    found = blocks_per_sm(arch_of(VECTOR_DEVICES[case["device"]]), int(case["threads"]), int(case["regs"]), smem)
    names = ("blocks_per_sm", "lim_warps", "lim_regs", "lim_smem", "lim_blocks", "limiting_mask")
    assert one(found) == [int(case[name]) for name in names]


def test_the_grid_is_whole() -> None:
    assert len(grid()) == 60_000
    assert {row["device"] for row in grid()} == set(DEVICES)


def test_before_cc_8_nothing_is_reserved_and_no_shared_memory_sets_no_limit() -> None:
    found = blocks_per_sm(arch_of("v100_sxm2_32gb"), 128, 32, [0, 1, 4224, 98304, 98305])
    assert found.limit_shared_memory.tolist() == [NO_LIMIT, 384, 22, 1, 0]


@pytest.mark.parametrize(
    ("threads", "regs", "smem", "blocks"),
    [
        (96, 168, 0, 4),  # two sub-partitions of 6 warps of 168 registers: 12 warps, 4 blocks of 3
        (96, 128, 0, 5),  # 8 warps each, 16 in all
        (1024, 64, 0, 1),
        (1024, 65, 0, 0),
        (128, 32, 49152, 1),
        (128, 32, 49153, 0),  # no opt-in before cc 7.0
        (128, 32, 257, 16),
        (64, 32, 2048, 32),
    ],
)
def test_p100_by_the_rules_of_cc_6(threads: int, regs: int, smem: int, blocks: int) -> None:
    # no rows of the calculator for cc 6.0: worked out by hand from the rules of its header
    assert blocks_per_sm(arch_of("p100"), threads, regs, smem).blocks_per_sm.tolist() == [blocks]


def test_registers_are_given_out_a_sub_partition_at_a_time() -> None:
    # blocks of 3 warps: 64 warps fit at 32 registers, 21 blocks; at 168 a sub-partition takes 3 warps: 12 in all
    found = blocks_per_sm(arch_of("h200_sxm"), 96, [32, 168], 0)
    assert found.limit_registers.tolist() == [21, 4]


@pytest.mark.parametrize(
    ("threads", "regs", "smem", "limiter"),
    [
        (1024, 32, 0, "warps"),
        (256, 255, 0, "registers"),
        (128, 32, 116_000, "shared_memory"),
        (32, 16, 0, "blocks"),
        (2048, 32, 0, "warps"),
        (0, 32, 0, "warps"),
        (128, 256, 0, "registers"),
        (128, 32, 232_449, "shared_memory"),
    ],
)
def test_the_limiter_is_named(threads: int, regs: int, smem: int, limiter: str) -> None:
    found = blocks_per_sm(arch_of("h200_sxm"), threads, regs, smem)
    assert LIMITERS[int(found.limited_by[0])] == limiter
    cannot = not 0 < threads <= 1024 or regs > 255 or smem > 232_448
    assert (found.blocks_per_sm[0] == 0) == cannot


def test_arrays_broadcast() -> None:
    found = blocks_per_sm(arch_of("h200_sxm"), np.array([[128], [256]]), 64, np.array([0, 65536, 131072]))
    assert found.blocks_per_sm.shape == found.limited_by.shape == (2, 3)
    assert found.blocks_per_sm.tolist() == [[8, 3, 1], [4, 3, 1]]


@given(st.integers(1, 1024), st.integers(1, 254), st.integers(0, 232_447))
def test_more_of_a_resource_never_allows_more_blocks(threads: int, regs: int, smem: int) -> None:
    arch = arch_of("h200_sxm")
    least = blocks_per_sm(arch, threads, regs, smem).blocks_per_sm[0]
    assert 0 <= least <= arch.max_blocks_per_sm
    assert least * threads <= arch.max_threads_per_sm
    for more in ((min(threads + 32, 1024), regs, smem), (threads, regs + 1, smem), (threads, regs, smem + 1)):
        assert blocks_per_sm(arch, *more).blocks_per_sm[0] <= least


@pytest.mark.benchmark(group="occupancy")
def test_a_million_rows(benchmark) -> None:  # type: ignore[no-untyped-def]
    random = np.random.default_rng(0)
    asked = (random.integers(1, 1025, 10**6), random.integers(16, 256, 10**6), random.integers(0, 200_000, 10**6))
    benchmark(blocks_per_sm, arch_of("h200_sxm"), *asked)
