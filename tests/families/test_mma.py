"""Family mma: lane maps against the PTX manual's, bank conflicts, rules, launch, the space that is searched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmsim import Form, families, load_gpu, predict
from gemmsim.errors import GemmsimError
from gemmsim.families import copies, mma, mma_accesses, mma_traits
from gemmsim.families.mma_accesses import along_k, by_words, fragments, place, row_bytes
from gemmsim.families.wavefronts import BANKS, LANES
from gemmsim.hardware import Gpu
from gemmsim.model.shared_memory import counted
from gemmsim.problem import DTYPE_BYTES, gemm

H200 = load_gpu("h200_sxm")
LANE = np.arange(LANES)
#: dtype, layout, tile
CASES = [
    (dtype, layout, tile)
    for dtype, layouts in (("bf16", mma.LAYOUTS), ("tf32", mma.LAYOUTS), ("int8", ("NT",)))
    for layout in layouts
    for tile in ((64, 64, 64), (128, 256, 32), (96, 192, 32), (32, 128, 128))
]


def config(**values: int) -> dict[str, int]:
    return {p.name: p.default for p in mma.PARAMETERS} | values


def columns(**values: int) -> Any:
    return families.config("mma", config(**values))


def tile_in_shared_memory(layout: str, side: str, width: int, size: int, bk: int) -> np.ndarray:
    """The bytes of a tile as the kernel's copies leave them: element (i, k) has the number i * bk + k in its bytes."""
    i, k = np.meshgrid(np.arange(size), np.arange(bk), indexing="ij")
    row, number = (i, k) if along_k(layout, side) else (k, i)
    row_size = np.asarray((bk if along_k(layout, side) else size) * width)
    memory = np.full(size * bk * width, -1)
    for byte in range(width):
        at = place(row, number * width + byte, row_size, by_words(layout, side, width))
        assert (memory[at] == -1).all()
        memory[at] = (i * bk + k) * width + byte
    assert (memory >= 0).all()
    return memory


def registers(memory: np.ndarray, layout: str, side: str, width: int, row_size: int, block: int, step: int) -> Any:
    """What ldmatrix.x4 (or four word reads) leaves in each lane's four registers: (4, 32, 4) bytes."""
    words = by_words(layout, side, width)
    row, byte = fragments(layout, side, width, np.asarray(block), np.asarray(step))
    found = np.zeros((4, LANES, 4), np.int64)
    for r in range(4):
        if words:  # halves along M or N, and along K: a0 a1 a2 a3 go along M first, b0 b1 of two blocks along K first
            along, deep = (r % 2, r // 2) if side == "bm" else (r // 2, r % 2)
            at = place(row + 4 * deep, byte + along * 8 * width, np.asarray(row_size), True)
            found[r] = memory[at[:, None] + np.arange(4)]
            continue
        first = place(row, byte, np.asarray(row_size), False)[r * 8 : r * 8 + 8]  # of the eight rows of matrix r
        matrix = memory[first[:, None] + np.arange(16)].reshape(8, 8, 2)  # of 16-bit elements
        if not along_k(layout, side):
            matrix = matrix.transpose(1, 0, 2)
        found[r] = matrix[LANE // 4].reshape(LANES, 4, 4)[LANE, LANE % 4]
    return found


def wanted(side: str, width: int, bk: int, block: int, step: int) -> np.ndarray:
    """The same from the PTX manual (mma.m16n8k8 tf32, m16n8k16, m16n8k32): a0 to a3, or b0 and b1 of two blocks."""
    each = 4 // width  # elements a register
    found = np.zeros((4, LANES, 4), np.int64)
    for r in range(4):
        i = block * 16 + LANE // 4 + 8 * (r % 2 if side == "bm" else r // 2)
        half = r // 2 if side == "bm" else r % 2
        k = step * 8 * each + LANE % 4 * each + half * 4 * each
        found[r] = ((i * bk + k) * width)[:, None] + np.arange(4)
    return found


@pytest.mark.parametrize(("dtype", "layout", "tile"), CASES)
def test_lanes_hold_what_the_instruction_wants(dtype: str, layout: str, tile: tuple[int, int, int]) -> None:
    width, bk = DTYPE_BYTES[dtype], tile[2]
    for side, size in (("bm", tile[0]), ("bn", tile[1])):
        memory = tile_in_shared_memory(layout, side, width, size, bk)
        row_size = (bk if along_k(layout, side) else size) * width
        for block in range(size // 16):
            for step in range(bk * width // 32):
                found = registers(memory, layout, side, width, row_size, block, step)
                assert (found == wanted(side, width, bk, block, step)).all(), (side, block, step)


@pytest.mark.parametrize(("dtype", "layout", "tile"), CASES)
def test_fragments_and_copies_meet_no_bank_conflict(dtype: str, layout: str, tile: tuple[int, int, int]) -> None:
    """A fragment read takes as many passes as its bytes, and eight lanes' 16 bytes of a copy reach every bank once."""
    asked = columns(bm=tile[0], bn=tile[1], bk=tile[2], wm=16, wn=16, stages=2)
    problem = gemm(4096, 4096, 4096, Form(dtype, layout=layout))
    width = problem.a_bytes
    accesses = {a.name: a for a in mma.access_patterns(problem, asked)}
    for name, side in (("A", "bm"), ("B", "bn")):
        words = by_words(layout, side, width)
        if not words or row_bytes(asked, layout, side, width)[0] % 128 == 0:
            found = counted(accesses[f"{name}: fragments"])
            assert found.wavefronts == (1 if words else 4)
            assert found.conflicts == 0
        copied = accesses[f"{name}: cp.async"].shared
        assert copied is not None
        banks = copied.reshape(-1, 8)[:, :, None] // 4 % BANKS + np.arange(4)
        assert (np.sort(banks.reshape(len(banks), -1)) == np.arange(BANKS)).all()


def test_swizzle_of_narrow_rows() -> None:
    """32-byte rows: four neighbours share 128 bytes, so pieces change places every fourth row."""
    row = np.arange(8)
    assert mma_accesses.turn(row, np.asarray(32), False).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert mma_accesses.turn(row, np.asarray(64), False).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert mma_accesses.turn(row, np.asarray(512), True).tolist() == [0, 2, 4, 6, 0, 2, 4, 6]


def reason(values: dict[str, int], m: int = 4096, n: int = 4096, k: int = 4096, form: str | Form = "bf16",
           gpu: Gpu = H200) -> str:  # fmt: skip
    return str(predict(m, n, k, gpu=gpu, dtype=form, family="mma", config=values, calibrated="none").reasons[0])


@pytest.mark.parametrize(
    "values", [{}, {"bm": 96, "wm": 32}, {"split_k": 64}, {"bm": 16, "bn": 16, "wm": 16, "wn": 16}, {"bk": 16}]
)
def test_can_run(values: dict[str, int]) -> None:
    assert reason(values) == ""


@pytest.mark.parametrize(
    ("values", "form", "expected"),
    [
        ({"bm": 96}, "bf16", "wm_divides_bm: bm is not a multiple of wm"),
        ({"bn": 96}, "bf16", "wn_divides_bn: bn is not a multiple of wn"),
        ({"bn": 96, "wn": 48}, "bf16", "wn: 48 is not a power of two"),
        ({"bk": 48}, "bf16", "bk: 48 is not a power of two"),
        ({"bk": 8}, "bf16", "step_bytes: bk x 2 B is less than the 32 B of one mma.sync"),
        ({"bk": 16}, Form("int8", layout="NT"), "step_bytes: bk x 1 B is less than the 32 B of one mma.sync"),
        ({"stages": 1}, "bf16", "stages: 1, at least 2"),
        ({"bm": 512, "bn": 512, "wm": 16}, "bf16", "threads_per_block: 8192 threads a block, limit 1024"),
        ({"blocks": 16}, "bf16", "threads_per_sm: 4096 threads of `blocks` blocks an SM, limit 2048"),
        ({"blocks": 2}, "bf16", "registers: 24 registers a thread too few for its results, limit 0"),
        ({"bk": 128}, "bf16", "shared_memory: 393216 B of shared memory a block, limit 232448"),
        ({"split_k": 65}, "bf16", "slice_columns: 63, at least 64"),
        ({"bk": 128, "stages": 2, "split_k": 33}, "bf16", "slices: a slice would have no k-step"),
        ({}, Form("bf16", batch=65536), "grid_z: 65536 problems of a batch, limit 65535"),
    ],
)
def test_refused_with_rule_number_and_limit(values: dict[str, int], form: str | Form, expected: str) -> None:
    assert reason(values, form=form) == expected


def test_refused_by_what_the_chip_has() -> None:
    lacking = "mma_sync: sm75 lacks cp.async and mma.sync of bf16, sm80 and later have them"
    expected = f"{lacking}: family triton would do"
    assert reason({}, form="fp16", gpu=load_gpu("t4")) == expected
    assert reason({}, gpu=load_gpu("rtx_3090"), form="bf16") == ""


def test_offsets_inside_a_tile_are_32_bits() -> None:
    assert reason({}, m=128, n=256, k=2**24 - 8) == ""
    assert reason({}, m=128, n=256, k=2**25).startswith("offset_a: 4294967296 elements")


def test_int8_runs_along_k_in_both_operands() -> None:
    families.check("mma", gemm(64, 64, 64, Form("int8", layout="NT")))
    expected = "family mma has no kernel for layout NN: it has NT, since ldmatrix turns 16-bit elements alone"
    with pytest.raises(GemmsimError, match=expected):
        families.check("mma", gemm(64, 64, 64, Form("int8")))
    with pytest.raises(GemmsimError, match=expected):
        mma.macros(Form("int8", dtype_c="fp16"), config())
    families.check("wmma", gemm(64, 64, 64, Form("int8")))


@pytest.mark.parametrize(
    ("size", "form", "expected"),
    [
        ((64, 64, 64), Form("bf16", dtype_c="bf16"), (16, 16, 16)),
        ((65, 64, 64), Form("bf16", dtype_c="bf16"), (16, 16, 16)),
        ((64, 65, 64), Form("bf16", dtype_c="bf16"), (16, 2, 2)),
        ((64, 64, 66), Form("bf16", dtype_c="bf16"), (4, 16, 16)),
        ((68, 64, 66), Form("bf16", dtype_c="bf16", layout="TT"), (8, 4, 16)),
        ((64, 64, 65), Form("tf32", dtype_c="fp32"), (4, 16, 16)),
        ((64, 66, 100), Form("int8", dtype_c="fp16", layout="NT"), (4, 4, 4)),
    ],
)
def test_copies_are_as_wide_as_strides_allow(
    size: tuple[int, int, int], form: Form, expected: tuple[int, int, int]
) -> None:
    found = mma.fitted(*size, config(), form)
    assert tuple(found[name] for name in ("copy_a", "copy_b", "copy_c")) == expected
    assert {**found, **config()} == config()
    many = copies.fitted_columns(gemm(*size, form), columns())
    assert tuple(int(many[name][0]) for name in ("copy_a", "copy_b", "copy_c")) == expected


def test_a_launch_is_a_block_a_tile_of_each_problem() -> None:
    plan = mma.plan(4097, 4096, 4096, config(), Form("bf16", batch=3), 132)
    assert (plan.grid, plan.threads, plan.dynamic_smem_bytes) == ((33 * 16, 1, 3), 256, 98304)
    assert (plan.scalars, plan.workspace_bytes, plan.second) == ((8,), 0, None)
    assert mma.macros(Form("bf16", dtype_c="bf16"), config())["SPLIT"] == "0"


def test_slices_have_a_workspace_and_a_second_kernel() -> None:
    plan = mma.plan(100, 500, 4096, config(split_k=4), Form("bf16", batch=2), 132)
    assert (plan.grid, plan.scalars) == ((2 * 4, 1, 2), (1, 4))
    assert plan.workspace_bytes == 2 * 2 * 4 * 128 * 256 * 4
    assert plan.second is not None
    assert (plan.second.name, plan.second.grid, plan.second.threads) == ("reduce", (2 * 32, 1, 2), 256)
    assert plan.second.scalars == plan.scalars
    assert mma.plan(100, 500, 33, config(split_k=4), Form("bf16"), 132).scalars == (1, 2)


def test_the_space_is_valid_and_says_nothing_twice() -> None:
    space = families.space("mma")
    assert 5_000 <= len(space) <= 20_000
    rows = np.stack(list(space.values.values()), axis=1)
    assert len(np.unique(rows, axis=0)) == len(space)
    for p in mma.PARAMETERS:
        assert set(np.unique(space[p.name]).tolist()) <= set(p.choices)
    found = predict(4096, 4096, 4096, gpu=H200, dtype="bf16", family="mma", config=space, calibrated="none")
    codes = {found.refusals.rules[i].code for i in np.unique(found.refusals.rule[~found.feasible]).tolist()}
    assert codes <= {"registers"}
    assert found.feasible.mean() > 0.97


def test_counts_of_a_block() -> None:
    """The default tile: 64 mma.sync and 16 ldmatrix a warp and k-step, six copies a thread, as its SASS has them."""
    problem, asked = gemm(4096, 4096, 4096, "bf16"), columns()
    t = mma.traits(problem, asked, mma.launch(problem, asked, H200.arch), H200.arch)
    assert [float(x[0]) for x in (t.warps, t.loads, t.accumulators, t.depth)] == [8, 6, 128, 3]
    assert t.instructions == pytest.approx(8 * 121, rel=0.08)
    assert [float(x[0]) for x in (t.smem_reads, t.smem_writes)] == [8 * 16 * 4, 192]
    assert t.store_sectors == 128 * 256 * 2 / 32
    stored = next(a for a in mma.access_patterns(problem, asked) if a.name == "C: store")
    assert counted(stored).sectors * stored.ends == t.store_sectors


def test_an_unaligned_operand_is_copied_element_by_element() -> None:
    problem, asked = gemm(4096, 4095, 4096, "bf16"), columns()
    t = mma.traits(problem, asked, mma.launch(problem, asked, H200.arch), H200.arch)
    assert [float(x[0]) for x in (t.scalar_loads, t.b_copy_bytes, t.a_copy_bytes)] == [32, 2, 16]
    assert not t.asynchronous.any()
    found = {a.name: a for a in mma.access_patterns(problem, asked)}
    assert not found["B: cp.async"].steps.any()
    assert counted(found["B: cp.async"]).wavefronts.all()  # of none, but they have a width
    times = [
        predict(4096, n, 4096, gpu=H200, dtype="bf16", family="mma", calibrated="none").time_s[0] for n in (4096, 4095)
    ]
    assert times[1] > 1.2 * times[0]


def test_int8_two_bytes_apart_goes_element_by_element() -> None:
    """cp.async has no copy of 2 bytes."""
    problem, asked = gemm(4096, 4096, 4098, Form("int8", layout="NT")), columns(bk=64)
    t = mma.traits(problem, asked, mma.launch(problem, asked, H200.arch), H200.arch)
    assert float(t.loads[0]) == (128 + 256) * 64 / 256
    assert not t.asynchronous.any()


@pytest.mark.parametrize(("row_bytes", "stride", "copy", "expected"), [
    (128, 2000, 16, 7 / 8), (64, 2000, 16, 3 / 8), (32, 2000, 16, 1 / 8), (256, 2000, 16, 7 / 8), (128, 2048, 16, 0),
    (64, 1002, 2, 62 / 128),
])  # fmt: skip
def test_requests_that_cross_a_line(row_bytes: int, stride: int, copy: int, expected: float) -> None:
    """By counting: rows begin at all multiples of what divides the stride, and 32 lanes ask for 128 bytes at most."""
    begins = np.arange(0, 128, min(stride & -stride, 128))
    asked = min(row_bytes, 32 * copy, 128)
    assert np.mean((begins + asked - 1) // 128) == expected
    assert mma_traits.crossings(np.full(1, float(row_bytes)), np.full(1, stride), np.full(1, copy)) == expected


def test_rows_past_m_are_the_last_again_only_where_k_runs_on() -> None:
    for layout, expected in (("NN", True), ("NT", True), ("TN", False)):
        problem = gemm(16, 4096, 4096, Form("bf16", layout=layout))
        t = mma.traits(problem, columns(), mma.launch(problem, columns(), H200.arch), H200.arch)
        assert t.repeats_last.all() == expected


def test_elements_are_waited_for_eight_at_a_time_and_not_past_the_edge() -> None:
    """128 x 256 x 32 by 256 threads: 16 and 32 elements each, half of A's rows past M."""
    problem, asked = gemm(64, 4095, 4095, "bf16"), columns()
    t = mma.traits(problem, asked, mma.launch(problem, asked, H200.arch), H200.arch)
    assert float(t.rounds_a[0]) == 2 * 64 / 128
    assert float(t.rounds_b[0]) == pytest.approx(4 * 4095 / 4096)
    assert float(t.smem_writes[0]) == (16 + 32) * 8  # a request of 32 elements each


def test_few_rows_in_a_tall_tile_take_longer_than_many() -> None:
    """Measured: 170 us with 16 rows of A, 120 with 128, both in tiles of 256 x 128 x 32 (studies/h200/mma_bf16)."""
    tile = {"bm": 256, "bn": 128, "bk": 32, "stages": 6}
    few, many = (predict(m, 11008, 4096, gpu=H200, family="mma", config=tile).time_s[0] for m in (16, 128))
    assert few == pytest.approx(170e-6, rel=0.2)
    assert many == pytest.approx(120e-6, rel=0.2)
    assert few > 1.15 * many
