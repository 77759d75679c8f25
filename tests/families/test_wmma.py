"""Family wmma: what it takes that mma does not, rules, launch, the space that is searched."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsim import Form, families, load_gpu, predict
from gemmsim.families import wmma
from gemmsim.hardware import Gpu
from gemmsim.problem import LAYOUTS, gemm

H200 = load_gpu("h200_sxm")


def config(**values: int) -> dict[str, int]:
    return {p.name: p.default for p in wmma.PARAMETERS} | values


def reason(values: dict[str, int], form: str | Form = "bf16", gpu: Gpu = H200) -> str:
    found = predict(4096, 4096, 4096, gpu=gpu, dtype=form, family="wmma", config=values, calibrated="none")
    return str(found.reasons[0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ""),
        ({"bm": 96, "wm": 48, "bk": 48}, ""),
        ({"wm": 24}, "wm_fragments: wm is not a multiple of 16"),
        ({"bk": 24}, "bk_fragments: bk is not a multiple of 16"),
        ({"wm": 48}, "wm_divides_bm: bm is not a multiple of wm"),
        ({"stages": 3}, "stages: 3, limit 2"),
        ({"bk": 256, "bm": 256}, "shared_memory: 425984 B of shared memory a block, limit 232448"),
    ],
)
def test_rules(values: dict[str, int], expected: str) -> None:
    assert reason(values) == expected


def test_refused_by_what_the_chip_has() -> None:
    assert reason({}, "fp16", load_gpu("v100_sxm2_32gb")).startswith("mma_sync: sm70 lacks cp.async")


@pytest.mark.parametrize("dtype", wmma.DTYPES)
def test_takes_every_layout(dtype: str) -> None:
    for layout in LAYOUTS:
        form = Form(dtype, layout=layout, batch=2, epilogue=("bias", "gelu"))
        families.check("wmma", gemm(64, 64, 64, form))
        assert reason({}, form) == ""


def test_a_launch_is_a_block_a_tile_of_each_problem() -> None:
    """128 rows of A of 32 elements and 32 of B of 128, each row 32 bytes longer, twice."""
    plan = wmma.plan(129, 256, 64, config(), Form("bf16", batch=3), 132)
    assert (plan.grid, plan.threads, plan.scalars, plan.second) == ((4, 1, 3), 256, (2,), None)
    assert plan.dynamic_smem_bytes == 2 * (128 * (64 + 32) + 32 * (256 + 32))
    small = config(bm=32, bn=32, wm=16, wn=16, bk=16, stages=1)
    assert wmma.plan(32, 32, 64, small, Form("int8"), 132).dynamic_smem_bytes == 4 * 1536  # what the sums pass through


def test_shared_memory_is_what_the_launch_asks_for() -> None:
    for layout in LAYOUTS:
        form = Form("tf32", layout=layout)
        space = families.space("wmma")
        found = wmma.launch(gemm(512, 512, 512, form), space, H200.arch)
        for i in range(0, len(space), 17):
            plan = wmma.plan(512, 512, 512, space.row(i), form, 132)
            assert (plan.dynamic_smem_bytes, plan.threads) == (found.smem_bytes[i], found.threads[i])


def test_the_space_is_valid_and_says_nothing_twice() -> None:
    space = families.space("wmma")
    assert 100 <= len(space) <= 400
    rows = np.stack(list(space.values.values()), axis=1)
    assert len(np.unique(rows, axis=0)) == len(space)
    assert predict(4096, 4096, 4096, gpu=H200, dtype="bf16", family="wmma", config=space).feasible.all()


def test_slower_than_mma_by_the_same_tile() -> None:
    """Fragments are read and multiplied in turn, and one k-step at most is on its way."""
    tile = {"bm": 128, "bn": 128, "bk": 32, "wm": 64, "wn": 32}
    times = [
        predict(4096, 4096, 4096, gpu=H200, dtype="bf16", family=family, config=tile, calibrated="none").time_s[0]
        for family in ("wmma", "mma")
    ]
    assert times[0] > times[1]
