"""The Triton family: which instruction, what is counted, what is refused, facts in place of estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsim import families, gemm, load_gpu, predict
from gemmsim.families import triton
from gemmsim.families.traits import MMA_SYNC, WGMMA, Traits
from gemmsim.hardware import Arch
from gemmsim.rows import read_csv

ROWS = Path(__file__).parents[2] / "studies" / "h200"
HOPPER, AMPERE = load_gpu("h200_sxm").arch, load_gpu("a100_sxm_80gb").arch
TILE = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 8, "num_stages": 3, "group_m": 8}


def traits(arch: Arch = HOPPER, *, n: int = 4096, k: int = 4096, align: bool = False, **change: int) -> Traits:
    problem, config = gemm(4096, n, k), families.config("triton", TILE | change)
    return triton.traits(problem, config, triton.launch(problem, config, arch), arch, align)


def one(x: Any) -> float:
    (value,) = np.asarray(x, np.float64).ravel()
    return float(value)


def test_wgmma_only_where_the_chip_has_it_and_whole_warp_groups_hold_64_rows() -> None:
    assert one(traits().path) == WGMMA
    assert one(traits(AMPERE).path) == MMA_SYNC
    assert one(traits(bm=32).path) == MMA_SYNC
    assert one(traits(bm=64, num_warps=4).path) == WGMMA
    assert one(traits(num_warps=2).path) == MMA_SYNC
    assert one(traits(AMPERE).wgmma_count) == one(traits(bm=32).wgmma_count) == 0


@pytest.mark.parametrize("arch", [HOPPER, AMPERE], ids=["sm90", "sm80"])
@pytest.mark.parametrize(("warps", "bm", "bn"), [(4, 64, 64), (8, 128, 256), (4, 128, 32), (16, 64, 16), (1, 16, 16)])
def test_multiply_adds_of_a_tile_or_more(arch: Arch, warps: int, bm: int, bn: int) -> None:
    """More where warps without a tile of their own repeat one (16 warps on 64 x 16, where each takes 8 columns)."""
    found = one(traits(arch, bm=bm, bn=bn, num_warps=warps).fmas)
    assert found >= bm * bn * 64
    assert found == bm * bn * 64 or warps == 16


def test_wgmma_instructions_by_hand() -> None:
    """128 x 128 x 64 bf16 on 8 warps: two groups of 64 rows, four steps of 32 B along K, 128 columns each."""
    t = traits()
    assert one(t.wgmma_count) == 2 * 4
    assert one(t.fmas) == 8 * 64 * 128 * 16
    # each reads 64 x 16 of A and 128 x 16 of B from shared memory, in wavefronts of 128 B
    assert one(t.smem_reads) == 8 * (64 + 128) * 32 / 128
    assert one(t.smem_writes) == (128 + 128) * 64 * 2 / 128


def test_tensor_instructions_against_counters() -> None:
    """sm__inst_executed_pipe_tensor counts a wgmma on the four sub-partitions: exactly 4 a wgmma of the model."""
    table = read_csv(str(ROWS / "triton_bf16_counters.csv.gz"))
    config = families.config("triton", {p.name: table.whole(p.name) for p in triton.PARAMETERS})
    problem = gemm(*(table.whole(d) for d in "mnk"))
    t = triton.traits(problem, config, triton.launch(problem, config, HOPPER), HOPPER)
    tiles = np.ceil(problem.m / config["bm"]) * np.ceil(problem.n / config["bn"]) * np.ceil(problem.k / config["bk"])
    np.testing.assert_array_equal(4 * tiles * t.wgmma_count, table.number("sm__inst_executed_pipe_tensor_sum"))


def test_copies_and_stages() -> None:
    t = traits()
    assert one(t.loads) == 2 * 128 * 64 * 2 / (256 * 16)
    assert one(t.depth) == 2
    assert one(t.asynchronous)
    assert not one(t.through_registers)
    single = traits(num_stages=1)
    assert one(single.depth) == 1
    assert not one(single.asynchronous)
    assert one(single.through_registers)
    assert one(single.prologue_loads) == 0


@pytest.mark.parametrize(
    ("sizes", "lines"), [({}, 0), ({"k": 4097}, 0), ({"n": 4097}, 8192), ({"n": 4097, "k": 4097}, 8192)]
)
def test_lanes_run_down_the_rows_of_an_unaligned_b(sizes: dict[str, int], lines: int) -> None:
    """The layouts of Triton 3.6's TTGIR: threadsPerWarp [32, 1] for B with N no multiple of 16, [1, 32] for A."""
    assert one(traits(**sizes).scattered_lines) == lines  # a line for each of 64 x 128 elements


def test_an_unaligned_n_costs_more_than_an_unaligned_k() -> None:
    """Of a square tile, which then loads as many elements alone of A as of B."""
    config = families.config("triton", TILE)
    times = [predict(4096, n, k, gpu="h200_sxm", dtype="bf16", family="triton", config=config).time_s[0]
             for n, k in ((4096, 4096), (4096, 4097), (4097, 4096), (4097, 4097))]  # fmt: skip
    assert times == sorted(times)


def test_unaligned_rows_are_loaded_by_the_element_and_not_pipelined() -> None:
    for sizes, elements in (({"n": 4097}, 64 * 128 / 256), ({"k": 4097}, 128 * 64 / 256)):
        t = traits(**sizes)
        assert one(t.scalar_loads) == elements
        assert one(t.depth) == 1
        assert not one(t.asynchronous)
        aligned = traits(**sizes, align=True)
        assert one(aligned.scalar_loads) == 0
        assert one(aligned.depth) == 2
    assert one(traits(n=4104).scalar_loads) > 0  # a multiple of 8 is not enough for Triton
    assert one(traits(n=4112).scalar_loads) == 0


def test_a_copy_under_4_bytes_is_not_pipelined() -> None:
    t = traits(bm=16, bk=16, num_warps=16, num_stages=4)  # 512 B of A for 512 threads
    assert one(t.a_copy_bytes) == 1
    assert one(t.depth) == 1


@pytest.mark.parametrize(
    ("gpu", "change", "reason"),
    [
        ("h200_sxm", {"bn": 256, "num_stages": 5}, "smem_capacity: 245760 B of shared memory a block, limit 232448"),
        (
            "a100_sxm_80gb",
            {"bn": 256, "num_stages": 6},
            "smem_capacity: 245760 B of shared memory a block, limit 166912",
        ),
        ("h200_sxm", {"num_warps": 32}, "num_warps: 32, limit 16"),
        ("h200_sxm", {"num_warps": 6}, "num_warps: "),
        ("h200_sxm", {"bm": 96}, "bm: "),
        ("h200_sxm", {"bk": 8}, "bk: "),
        ("h200_sxm", {"num_stages": 9, "bk": 16}, "num_stages: 9, limit 8"),
        ("h200_sxm", {"bm": 256, "bn": 256, "bk": 16, "num_warps": 16}, "ptxas: "),
        ("h200_sxm", {"num_warps": 64}, "threads_per_block: 2048 threads a block, limit 1024"),
    ],
)
def test_refusals_name_code_number_limit_and_unit(gpu: str, change: dict[str, int], reason: str) -> None:
    found = predict(4096, 4096, 4096, gpu=gpu, config=TILE | change)
    assert found.reasons[0].startswith(reason)
    assert np.isnan([found.time_s[0], found.tflops[0], found.l2_read_bytes[0]]).all()
    assert found.limited_by_names == found.bound_by == [""]


def test_more_blocks_than_a_grid_takes() -> None:
    tile = TILE | {"bm": 16, "bn": 16, "bk": 16, "num_warps": 1}
    found = predict(2**31 - 1, [4096, 65536], 16, gpu="h200_sxm", config=tile)
    assert found.reasons[0].startswith("grid_x: 34359738368 blocks in grid.x, limit 2147483647")


def test_facts_replace_estimates_where_they_are_known() -> None:
    nan = float("nan")
    facts = {"regs_per_thread": [168, nan, 250], "spill_bytes": [nan, nan, 64], "smem_bytes": [65536, nan, 300_000]}
    found = predict(4096, 4096, 4096, gpu="h200_sxm", config={**TILE, "group_m": [8, 8, 8]}, facts=facts)
    plain = predict(4096, 4096, 4096, gpu="h200_sxm", config=TILE)
    assert found.launch.from_facts.tolist() == [True, False, True]
    assert found.launch.regs_per_thread.tolist() == [168, plain.launch.regs_per_thread[0], 250]
    assert found.launch.spill_bytes.tolist() == [plain.launch.spill_bytes[0]] * 2 + [64]
    assert found.launch.smem_bytes.tolist() == [65536, plain.launch.smem_bytes[0], 300_000]
    assert found.time_s[1] == plain.time_s[0]
    assert found.reasons[2] == "smem_capacity: 300000 B of shared memory a block, limit 232448"
    assert found.feasible.tolist() == [True, True, False]


def test_a_kernel_that_compiled_is_not_refused_for_what_ptxas_usually_does() -> None:
    tile = TILE | {"bm": 256, "bn": 256, "bk": 16, "num_warps": 16}
    facts = {"regs_per_thread": 128, "spill_bytes": 0, "smem_bytes": 65536}
    assert predict(4096, 4096, 4096, gpu="h200_sxm", config=tile, facts=facts).feasible.all()


def test_facts_change_the_prediction() -> None:
    usual, spilled = (
        predict(4096, 4096, 4096, gpu="h200_sxm", config=TILE, facts={"spill_bytes": b}).time_s[0] for b in (0, 2048)
    )
    assert spilled > 1.1 * usual
