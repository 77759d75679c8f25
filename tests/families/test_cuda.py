"""Macros and launches of the CUDA families: every tile and every k-step once, workspaces that fit, headers that say."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.families import naive, register_tile, simt, simt_launch, smem_tile
from gemmsim.families.cuda import Plan, common_macros
from gemmsim.paths import data_folder
from gemmsim.problem import Form, form_of

KERNELS = data_folder("kernels")
FP32 = form_of("fp32")
SIMT = {p.name: p.default for p in simt.PARAMETERS}
CLASSIC: dict[ModuleType, dict[str, int]] = {
    naive: {"bm": 8, "bn": 32, "bk": 4, "coalesced": 1},
    smem_tile: {"bm": 16, "bn": 16, "bk": 16, "pad": 1},
    register_tile: {"bm": 64, "bn": 32, "bk": 16, "tm": 4, "tn": 2},
}
SHAPES = [(1, 1, 1), (64, 256, 8), (1000, 999, 77), (4096, 4096, 4096), (128, 11008, 4096), (512, 512, 32768)]


def plan_of(shape: tuple[int, int, int], slots: int = 132, form: Form = FP32, **change: int) -> Plan:
    return simt_launch.plan(*shape, SIMT | change, form, slots)


def test_macros_hold_types_layout_and_epilogue() -> None:
    form = form_of(Form("fp64", dtype_c="bf16", layout="TN", beta=True, epilogue=("bias", "gelu")))
    found = simt_launch.macros(form, SIMT)
    assert found["TYPE"] == "double"
    assert found["OUT"] == "bfloat_t"
    assert (found["A_TRANSPOSED"], found["B_TRANSPOSED"], found["BETA"]) == ("1", "0", "1")
    assert found["STEPS"] == "Bias,Gelu"


@pytest.mark.parametrize(
    ("dtype", "read", "stored"),
    [("bf16", "bfloat_t", "bfloat_t"), ("tf32", "tf32_t", "float"), ("fp8", "e4m3_t", "bfloat_t"),
     ("int8", "signed char", "half_t")],
)  # fmt: skip
def test_tensor_cores_read_narrow_types_and_add_in_fp32(dtype: str, read: str, stored: str) -> None:
    found = common_macros(form_of(dtype))
    assert (found["IN"], found["TYPE"], found["OUT"]) == (read, "float", stored)
    assert "IN" not in common_macros(FP32)
    with pytest.raises(GemmsimError, match="tensor-core kernels have no A and B in fp8: they have bf16, fp16"):
        common_macros(form_of("fp8"), ("bf16", "fp16"))


def test_a_cap_on_registers_stands_in_for_blocks() -> None:
    assert simt_launch.macros(FP32, SIMT | {"regs": 232})["REGS"] == "232"
    assert "BLOCKS" not in simt_launch.macros(FP32, SIMT | {"regs": 232})
    free = simt_launch.macros(FP32, SIMT | {"regs": 0, "blocks": 2})
    assert "REGS" not in free
    assert free["BLOCKS"] == "2"


def test_what_is_only_an_argument_is_no_macro() -> None:
    assert simt_launch.macros(FP32, SIMT) == simt_launch.macros(FP32, SIMT | {"group_m": 1, "split_k": 4})


def test_a_type_without_a_kernel_is_refused() -> None:
    with pytest.raises(GemmsimError, match="bf16"):
        simt_launch.macros(form_of("bf16"), SIMT)


@pytest.mark.parametrize("family", CLASSIC, ids=lambda f: f.NAME)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_grid_covers_c(family: ModuleType, shape: tuple[int, int, int]) -> None:
    config = CLASSIC[family]
    found = family.plan(*shape, config, FP32, 132)
    assert 0 <= found.grid[0] * config["bn"] - shape[1] < config["bn"]
    assert 0 <= found.grid[1] * config["bm"] - shape[0] < config["bm"]
    assert found.workspace_bytes == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tail", [0, 1])
@pytest.mark.parametrize("split_k", [1, 2, 9])
def test_split_k_covers_every_tile(shape: tuple[int, int, int], tail: int, split_k: int) -> None:
    found = plan_of(shape, split_k=split_k, split_tail=tail)
    count = simt_launch.tiles(shape[0], shape[1], SIMT)
    _, whole, slices = found.scalars
    assert found.grid == (whole + (count - whole) * slices, 1, 1)
    assert 1 <= slices <= min(split_k, -(-shape[2] // SIMT["bk"]))
    if whole < count:
        assert found.second is not None
        assert found.second.grid[0] == (count - whole) * 64 * 256 // 1024
        assert found.workspace_bytes == (count - whole) * slices * 64 * 256 * 4
        assert whole == (count // 132 * 132 if tail else 0)
    else:
        assert found.second is None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("slots", [1, 3, 132, 264])
def test_stream_k_shares_out_every_k_step_once(shape: tuple[int, int, int], slots: int) -> None:
    found = plan_of(shape, slots, stream_k=1)
    blocks, (_, whole, least) = found.grid[0], found.scalars
    count, steps = simt_launch.tiles(shape[0], shape[1], SIMT), -(-shape[2] // SIMT["bk"])
    shared = count - whole
    cuts = [simt_launch.share(b, blocks, shared, steps, least) for b in range(blocks + 1)]
    assert blocks <= slots
    assert whole % blocks == 0
    assert shared < 2 * slots
    assert (cuts[0], cuts[-1]) == (0, shared * steps)
    assert cuts == sorted(cuts)
    within = [cut % steps for cut in cuts]
    assert all(w == 0 or least <= w <= steps - least for w in within)
    assert found.zeroed_bytes >= 4 * blocks
    assert found.workspace_bytes == found.zeroed_bytes + blocks * 64 * 256 * 4


def test_few_tiles_are_not_cut_into_more_parts_than_pay() -> None:
    assert plan_of((64, 256, 8), stream_k=1).grid[0] == 1
    assert plan_of((64, 256, 32768), stream_k=1).grid[0] == 64
    assert plan_of((512, 512, 32768), stream_k=1).grid[0] == 132


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Form("fp32"), 3 * 8 * (64 + 4 + 256) * 4),
        (Form("fp32", layout="NT"), 3 * 8 * (64 + 4 + 256 + 4) * 4),
        (Form("fp32", layout="TN"), 3 * 8 * (64 + 256) * 4),
        (Form("fp64"), 3 * 8 * (64 + 2 + 256) * 8),
    ],
)
def test_shared_memory_follows_from_the_layout(form: Form, expected: int) -> None:
    assert simt_launch.dynamic_smem_bytes(SIMT, form_of(form)) == expected


@pytest.mark.parametrize("family", [*CLASSIC, simt_launch], ids=lambda f: f.SOURCE)
def test_a_kernel_opens_with_what_it_does_and_names_its_macros(family: ModuleType) -> None:
    path = KERNELS / family.SOURCE
    header = path.read_text().split("#include")[0]
    assert header.startswith(f"// {path.stem}: ")
    for macro in (*family.MACROS.values(), "TYPE", "OUT", "STEPS", "BETA"):
        assert re.search(rf"\b{macro}\b", header), f"{macro} is not in the header of {path.name}"


@pytest.mark.parametrize(
    ("size", "layout", "asynchronous", "expected"),
    [
        ((64, 64, 64), "NN", 1, 4),
        ((63, 64, 63), "NN", 1, 4),  # A goes element by element anyway
        ((63, 64, 63), "NN", 0, 1),
        ((64, 66, 64), "NN", 1, 2),
        ((64, 65, 64), "NN", 1, 1),
        ((63, 64, 64), "TN", 1, 1),  # A runs on along M
        ((64, 64, 63), "NT", 1, 4),
        ((64, 62, 64), "NT", 1, 2),  # B's copies do not mind, C's stores do
    ],
)
def test_the_vector_width_is_what_the_strides_allow(
    size: tuple[int, int, int], layout: str, asynchronous: int, expected: int
) -> None:
    config = SIMT | {"async_copy": asynchronous, "stages": 2}
    assert simt_launch.fitted(*size, config, form_of(Form("fp32", layout=layout)))["vec"] == expected
    assert simt_launch.fitted(*size, config, form_of(Form("fp64", layout=layout)))["vec"] == min(expected, 2)
