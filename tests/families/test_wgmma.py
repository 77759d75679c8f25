"""The wgmma family: its rules, what a block takes against the compiler, what it asks, what is searched."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsim import families, load_gpu, predict, rank
from gemmsim.bench.compile import Source, compile_sources
from gemmsim.errors import GemmsimError
from gemmsim.families import wgmma
from gemmsim.families.traits import Traits
from gemmsim.families.wgmma_resources import (
    along_k,
    chunk,
    consumer_regs,
    dynamic_smem_bytes,
    entry_regs,
    lacking,
    loaded_bytes,
    starts,
)
from gemmsim.hardware import Arch
from gemmsim.paths import data_folder
from gemmsim.problem import Form, form_of, gemm

H200 = load_gpu("h200_sxm")
KERNEL = data_folder("kernels") / "wgmma.cu"
DEFAULT = {p.name: p.default for p in wgmma.PARAMETERS}
SPACE = wgmma.space()
#: wgmma m64n(N)k16: clocks of an SM's tensor cores, bytes of shared memory a clock
RATE, PIPE = 2048, 128


def reason(
    m: int = 4096, n: int = 4096, k: int = 4096, form: str | Form = "bf16", arch: Arch = H200.arch, **change: int
) -> str:
    problem, config = gemm(m, n, k, form), families.config("wgmma", DEFAULT | change)
    return wgmma.refusals(problem, config, wgmma.launch(problem, config, arch), arch).reason(0)


def traits(form: str | Form = "bf16", size: int = 4096, **change: int) -> Traits:
    problem, config = gemm(size, size, size, form), families.config("wgmma", DEFAULT | change)
    return wgmma.traits(problem, config, wgmma.launch(problem, config, H200.arch), H200.arch)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, ""),
        ({"m": 4097}, ""),
        ({"m": 1, "n": 8, "k": 8}, ""),
        ({"arch": load_gpu("a100_sxm_80gb").arch},
         "wgmma: only sm90 has this instruction, sm80 does not: family mma would do"),
        ({"arch": load_gpu("b200_sxm").arch},
         "wgmma: only sm90 has this instruction, sm100 does not: family mma would do"),
        ({"arch": load_gpu("t4").arch, "form": "fp16"},
         "wgmma: only sm90 has this instruction, sm75 does not: family triton would do"),
        ({"arch": load_gpu("rtx_4090").arch, "form": Form("fp8", layout="NT"), "bk": 128},
         "wgmma: only sm90 has this instruction, sm89 does not: family triton would do"),
        ({"k": 4104, "form": Form("fp8", layout="NT"), "bk": 128},
         "stride_a: rows of A in memory lie no multiple of 16 B apart, which TMA asks for: family triton would do"),
        ({"k": 4097}, "stride_a: rows of A in memory lie no multiple of 16 B apart, which TMA asks for: family mma"),
        ({"n": 4097}, "stride_b: rows of B in memory lie no multiple of 16 B apart"),
        ({"m": 4097, "form": Form("bf16", layout="TN")}, "stride_a: rows of A"),
        ({"n": 4097, "form": Form("bf16", layout="NT")}, ""),  # C then leaves without TMA
        ({"k": 4100, "form": Form("tf32", layout="NT"), "bk": 32}, ""),
        ({"bm": 64}, "x_side: bm (bn with swap) is no multiple of 64 x consumers"),
        ({"bm": 192}, "x_side: bm"),
        ({"bm": 64, "pingpong": 1}, ""),
        ({"bm": 64, "pingpong": 1, "consumers": 1}, "pingpong: one consumer has none to take turns with"),
        ({"pingpong": 1}, "registers: 56 registers a thread more than setmaxnreg gives a consumer, limit 0"),
        ({"bn": 100}, "y_side: bn (bm with swap) is no multiple of 8"),
        ({"bn": 264}, "y_side: 264 columns of one wgmma (bn, or bm with swap), limit 256"),
        ({"bm": 512, "bn": 64}, "box: 512 elements of one side of a TMA box (bm, or bn with swap), limit 256"),
        ({"bm": 264, "bn": 128, "swap": 1}, "y_side: 264 columns"),
        ({"bm": 24, "bn": 128, "swap": 1, "cluster_m": 1}, ""),
        ({"bk": 48}, "bk: 48 is not a power of two"),
        ({"bk": 256}, "step_bytes: bk x 2 B is not 64 or 128 or 256"),
        ({"bk": 16}, "step_bytes: bk x 2 B is not"),
        ({"cluster_m": 4, "cluster_n": 2}, "cluster: cluster_m x cluster_n is not 1, 2 or 4"),
        ({"cluster_m": 3}, "cluster_m: 3 is not a power of two"),
        ({"bn": 8, "bm": 128, "form": Form("bf16", layout="NT")}, "share_b: a tile of B has no whole eights of rows"),
        ({"bn": 8, "bm": 128}, ""),  # B lies along N: its rows are those of bk
        ({"bm": 256, "bn": 256, "stages": 2}, "registers: 56 registers a thread more than setmaxnreg gives a consumer"),
        ({"bm": 192, "consumers": 3, "bn": 208, "stages": 3}, "registers_at_start: a thread begins with fewer"),
        ({"bm": 192, "consumers": 3, "bn": 192, "stages": 3}, ""),
        ({"blocks": 2, "bn": 128}, "registers_at_start: a thread begins"),
        ({"stages": 5}, "shared_memory: "),
        ({"split_tail": 1}, "split_tail: split_tail without split_k has nothing to split"),
        ({"split_k": 2, "stream_k": 1}, "stream_and_split: stream_k shares out K itself: expected split_k 1"),
        ({"split_k": 128}, "slice_columns: 32, at least 64"),
        ({"split_k": 3, "k": 200, "bk": 128, "stages": 2}, "slices: a slice would have no k-step"),
    ],
)  # fmt: skip
def test_refusals(asked: dict[str, Any], said: str) -> None:
    found = reason(**asked)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_layouts_of_narrow_and_wide_operands() -> None:
    assert families.layouts("wgmma", "bf16") == ("NN", "NT", "TN", "TT")
    assert families.layouts("wgmma", "fp8") == families.layouts("wgmma", "tf32") == ("NT",)
    said = "layout NN: it has NT, since wgmma takes operands of other than 16 bits only where they run along K, A row-"
    with pytest.raises(GemmsimError, match=said):
        predict(256, 256, 256, gpu=H200, dtype="fp8", family="wgmma")
    assert predict(256, 256, 256, gpu=H200, dtype=Form("fp8", layout="NT"), family="wgmma").feasible[0]


def test_registers_are_dealt_out_whole() -> None:
    """What consumers and the producer hold together is what the block began with, less than eight a thread left."""
    for consumers in (1, 2, 3):
        for blocks in (1, 2):
            u = (np.full(1, consumers), np.full(1, blocks))
            entry, held = int(entry_regs(*u)[0]), int(consumer_regs(*u)[0])
            assert entry * 128 * (consumers + 1) * blocks <= 65536
            producer = entry * (consumers + 1) - held * consumers
            assert producer >= 24
            assert held == 240 or producer < 40 + 8 * consumers


def drawn(count: int, seed: str) -> list[dict[str, int]]:
    rows = random.Random(seed).sample(range(len(SPACE)), count)
    return [SPACE.row(i) for i in rows]


FORMS = (
    Form("bf16"), Form("bf16", layout="TN"), Form("fp16", layout="TT"), Form("fp8", layout="NT"),
    Form("bf16", layout="NT", beta=True, epilogue=("bias", "gelu", "residual")), Form("tf32", layout="NT"),
)  # fmt: skip


def compilable() -> list[tuple[Form, dict[str, int]]]:
    """A few configurations of each form that nothing refuses."""
    found = []
    for form in FORMS:
        able = [c for c in drawn(300, str(form)) if not reason(form=form, **c)]
        found += [(form_of(form), c) for c in able[:2]]
    return found


def compiled(cases: list[tuple[Form, dict[str, int]]], tmp_path: Path, source: Path) -> list[Any]:
    pytest.importorskip("cuda.core")
    asked = [Source(source, tuple(sorted(wgmma.macros(*case).items())), "sm_90a") for case in cases]
    return [found for _, found in sorted(compile_sources(asked, jobs=1, cache=tmp_path / "cache"))]


@pytest.mark.skipif(not KERNEL.exists(), reason="no kernel")
def test_registers_spills_and_warnings_are_the_compilers(tmp_path: Path) -> None:
    cases = compilable()
    for (form, config), found in zip(cases, compiled(cases, tmp_path, KERNEL), strict=True):
        problem, one = gemm(4096, 4096, 4096, form), families.config("wgmma", config)
        launch = wgmma.launch(problem, one, H200.arch)
        assert found.status == "ok", found.reason
        assert (found.regs_per_thread, found.smem_bytes) == (launch.regs_per_thread[0], 0), config
        if not form.epilogue:  # what an epilogue reads may spill, once a tile
            assert (found.spill_bytes, found.warnings) == (0, ()), config


@pytest.mark.skipif(not KERNEL.exists(), reason="no kernel")
def test_what_spills_and_what_does_not_compile_is_foreseen(tmp_path: Path) -> None:
    base = {"stages": 2, "cluster_m": 1}
    sides = [(2, 256, 200, 0), (2, 256, 208, 8), (3, 192, 200, 0), (3, 192, 208, 0)]
    cases = [DEFAULT | base | {"consumers": c, "bm": bm, "bn": bn} for c, bm, bn, _ in sides]
    found = compiled([(form_of("bf16"), c) for c in cases], tmp_path, KERNEL)
    columns = [families.config("wgmma", c) for c in cases]
    assert [int(lacking(u)[0]) for u in columns] == [short for *_, short in sides]
    assert [bool(starts(u)[0]) for u in columns] == [True, True, True, False]
    assert [f.status for f in found] == ["ok", "compile", "ok", "compile"]
    assert "C7512" in found[1].log
    assert "C7602" in found[3].log


@pytest.mark.skipif(not KERNEL.exists(), reason="no kernel")
def test_constants_are_the_kernels(tmp_path: Path) -> None:
    """static_asserts behind the kernel's own text: bytes of a stage and of a block, registers, rows, boxes."""
    cases = compilable()
    (tmp_path / "common").symlink_to(KERNEL.parent / "common")
    for i, (form, config) in enumerate(cases):
        u = families.config("wgmma", config)
        a_row, b_row = (
            int(chunk(u[side])[0]) if not along_k(form, name) else None for side, name in (("bm", "a"), ("bn", "b"))
        )
        x_row, y_row = (b_row, a_row) if config["swap"] else (a_row, b_row)
        plan = wgmma.plan(4096, 4096, 4096, config, form, 132)
        expected = {
            "TileX::BYTES + TileY::BYTES": int(loaded_bytes(u, form)[0]),
            "1024 + BARRIERS_AT + 16 * STAGES": int(dynamic_smem_bytes(u, form)[0]),
            "least(ENTRY, 240)": min(int(entry_regs(u["consumers"], u["blocks"])[0]), 240),
            "CONSUMER_REGS": int(consumer_regs(u["consumers"], u["blocks"])[0]),
            "THREADS": plan.threads,
            "CLUSTER": plan.cluster,
        }
        expected |= {f"Tile{side}::ROW": row for side, row in (("X", x_row), ("Y", y_row)) if row}
        if plan.maps[2].operand == "c":
            expected["BOX"] = plan.maps[2].box[0]
        text = "".join(f'static_assert({what} == {value}, "");\n' for what, value in expected.items())
        source = tmp_path / f"constants_{i}.cu"
        source.write_text(KERNEL.read_text() + text)
        found = compiled([(form, config)], tmp_path, source)[0]
        assert found.status == "ok", (found.reason, expected, config)


def test_an_instruction_reads_both_operands_from_shared_memory() -> None:
    """m64n256k16: 1024 of 2048 multiply-adds a clock twice over, 128 clocks; 2 KB + 8 KB at 128 B a clock, 80."""
    t = traits()
    assert t.wgmma_count[0] == 2 * 4
    assert t.fmas[0] / t.wgmma_count[0] / RATE == 128
    assert t.smem_reads[0] / t.wgmma_count[0] == 80
    few = traits(bn=32)
    assert few.fmas[0] / few.wgmma_count[0] / RATE == 16
    assert few.smem_reads[0] / few.wgmma_count[0] == 24  # two thirds of the peak at most; 63 % measured (Luo et al.)


def test_every_consumer_reads_y_anew() -> None:
    """256 x 128 as two warpgroups of 128 x 128 or, swapped, of 64 x 256: the second reads fewer bytes."""
    assert traits(bm=256, bn=128).smem_reads[0] == 2 * 2 * 4 * 48
    assert traits(bm=256, bn=128, swap=1).smem_reads[0] == 2 * 4 * 80


def test_what_pads_a_tile_is_loaded_too() -> None:
    assert traits(bn=200).smem_writes[0] == (128 + 224) * 64 * 2 / 128
    assert traits(Form("bf16", layout="NT"), bn=200).smem_writes[0] == (128 + 200) * 64 * 2 / 128
    assert traits(bn=200).fmas[0] == 128 * 200 * 64


def test_what_l2_reads_beside_a_tile() -> None:
    """Columns up to whole chunks, and ends of sectors where rows of memory, or tiles, begin amid one."""
    assert traits(bn=176).b_padded[0] == pytest.approx(192 / 176 - 1)
    assert traits(bn=176).a_padded[0] == traits(Form("bf16", layout="NT"), bn=176).b_padded[0] == 0
    assert traits(size=552).a_padded[0] == pytest.approx(16 / 128)  # 1,104 B a row
    assert traits(size=552, bn=40).b_padded[0] == pytest.approx(48 / 40 * 1.5 - 1)  # in rows of 32 B


def test_boxes_that_the_loader_asks_for_and_their_rows() -> None:
    """A's 128 rows of 64 columns are one box, B's 64 rows are four of 64 columns, or where 64 do not fit of 16."""
    alone, pair = traits(cluster_m=1), traits(cluster_m=2)
    assert (alone.boxes[0], alone.shared_boxes[0], alone.box_rows[0]) == (1 + 4, 0, 128 + 4 * 64)
    assert (pair.boxes[0], pair.shared_boxes[0], pair.box_rows[0]) == (1 + 4, 4, 128 + 4 * 32)
    deep = traits(bk=128, bn=112, cluster_m=1, stages=2)
    assert (deep.boxes[0], deep.box_rows[0]) == (2 + 7, 2 * 128 + 7 * 128)
    assert (deep.a_row_bytes[0], deep.b_row_bytes[0]) == (128, 32)
    both = traits(Form("bf16", layout="NT"), cluster_m=1)
    assert (both.boxes[0], both.box_rows[0]) == (2, 128 + 256)


def test_short_rows_and_askew_ones_cost_pieces_of_memory() -> None:
    assert traits().a_extra[0] == traits().b_extra[0] == 0
    assert traits(bn=112).b_extra[0] == (64 - 32) / 32
    begun = traits(bn=176, cluster_m=1)  # tiles begin at multiples of 352 bytes
    assert begun.b_extra[0] == (64 - 32) / 128
    assert begun.box_rows[0] == 128 + 3 * 64 * (1 + (128 - 32) / 128)
    assert traits(Form("bf16", layout="NT"), bn=176).b_extra[0] == 0
    askew = traits(size=1000, cluster_m=1)  # rows begin at multiples of 16 bytes
    assert askew.a_extra[0] == askew.b_extra[0] == (64 - 16) / 128
    assert askew.box_rows[0] == (128 + 4 * 64) * (1 + (128 - 16) / 128)


@pytest.mark.parametrize(
    ("change", "rounds"),
    [
        ({"bn": 256}, 2),
        ({"bn": 192}, 2),
        ({"bn": 176}, 6),
        ({"bn": 176, "pingpong": 1}, 11),
        ({"bm": 176, "bn": 256, "swap": 1}, 11),
    ],
)
def test_rounds_of_results(change: dict[str, int], rounds: int) -> None:
    """Two buffers of up to 64 columns at a time, of 16 where 176 are to be stored."""
    assert traits(**change).store_rounds[0] == rounds
    assert traits(**change).store_sectors[0] == 0


def test_results_that_the_copy_engine_cannot_store() -> None:
    wide = traits(Form("tf32", layout="NT"), bk=32)
    assert wide.store_rounds[0] == 0
    assert wide.store_sectors[0] == 128 * 256 * 4 / 32
    assert traits(size=4100, form="bf16").store_rounds[0] == 0


def test_the_space_is_valid_and_says_nothing_twice() -> None:
    assert 20_000 < len(SPACE) < 200_000
    assert (lacking(SPACE) == 0).all()
    assert starts(SPACE).all()
    rows = np.stack([SPACE[p.name] for p in wgmma.PARAMETERS], 1)
    assert len(np.unique(rows, axis=0)) == len(rows)
    for p in wgmma.PARAMETERS:
        assert set(np.unique(SPACE[p.name])) <= set(p.choices)
        assert p.low <= p.default <= p.high
    problem = gemm(*np.full((3, len(SPACE)), 4096), Form("bf16", layout="NT"))
    launch = wgmma.launch(problem, SPACE, H200.arch)
    refused = wgmma.refusals(problem, SPACE, launch, H200.arch)
    codes = {refused.code(int(i)) for i in np.flatnonzero(~refused.feasible)}
    assert codes <= {"shared_memory", "share_a", "share_b"}
    assert refused.feasible.mean() > 0.5


@pytest.mark.parametrize(
    ("dtype", "layout"), [("bf16", "NN"), ("bf16", "TN"), ("fp16", "TT"), ("fp8", "NT"), ("tf32", "NT")]
)
def test_every_dtype_has_a_pipeline_of_three_buffers_for_a_large_tile(dtype: str, layout: str) -> None:
    found = rank(4096, 4096, 4096, gpu=H200, dtype=Form(dtype, layout=layout), family="wgmma", top=50).entries
    large = [e for e in found if e.config["bm"] * e.config["bn"] >= 128 * 192]
    assert large
    assert max(e.config["stages"] for e in large) >= 3


def time_us(*size: int, form: str | Form = "bf16", **change: int) -> float:
    p = predict(*size, gpu=H200, dtype=form, family="wgmma", config=DEFAULT | change, calibrated="none")
    assert p.feasible[0], p.reasons[0]
    return float(p.time_s[0]) * 1e6


def test_what_each_effect_changes() -> None:
    """As the model's docstrings have it, each against the same launch without it."""
    square = (4096, 4096, 4096)
    alone = predict(*square, gpu=H200, dtype="bf16", family="wgmma", config=DEFAULT | {"cluster_m": 1})
    pair = predict(*square, gpu=H200, dtype="bf16", family="wgmma", config=DEFAULT | {"group_m": 4})
    assert 0.6 < pair.l2_read_bytes[0] / alone.l2_read_bytes[0] < 0.95  # half of B's requests at most
    assert pair.dram_read_bytes[0] == pytest.approx(alone.dram_read_bytes[0], rel=0.01)
    # 33 rows of tiles take as long as 34 where clusters pair them up
    odd, even = (time_us(m, 4096, 4096) for m in (33 * 128, 34 * 128))
    assert odd == pytest.approx(even, rel=0.01)
    # one fill a launch: eight waves take less than eight launches of one
    assert time_us(132 * 128, 2048, 4096) < 8 * time_us(132 * 128, 256, 4096)
    # few rows: split along K where there are few tiles, swapped where a tile would be mostly outside
    deep = [time_us(128, 512, 16384, bn=128, split_k=s, cluster_m=1) for s in (1, 8, 64)]
    assert deep[1] < deep[0] / 2
    assert deep[1] < deep[2]  # parts that are summed one after another
    # more buffers hide more latency, up to a point
    narrow = [time_us(512, 512, 8192, bm=128, bn=64, stages=s, cluster_m=1) for s in (2, 4, 8)]
    assert narrow[0] > 1.2 * narrow[1] > narrow[2]


def test_families_are_ranked_together() -> None:
    found = rank(1536, 1536, 4096, gpu=H200, dtype="bf16", family="all", top=None)
    assert {"triton", "wgmma"} <= {entry.family for entry in found.entries}
    best = {name: min(e.time_s for e in found.entries if e.family == name) for name in ("triton", "wgmma")}
    assert best["wgmma"] < best["triton"]
