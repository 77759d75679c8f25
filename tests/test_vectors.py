"""Small cases with right answers read elsewhere (tests/data/vectors.json), through the public functions.

Every case of the file is either tested here or named under LATER: none is forgotten.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsim import Gpu, gemm, load_gpu, predict
from gemmsim.errors import GemmsimError
from gemmsim.families import triton
from gemmsim.families.triton_resources import resources
from gemmsim.model import geometry
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.traffic import textbook_bytes
from gemmsim.simulate.engine import Sms, run
from gemmsim.simulate.raster import GROUPED, ROW, order, panel_loads
from gemmsim.simulate.schedule import How, schedule

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((Path(__file__).parent / "data" / "vectors.json").read_text())
}
SHIPPED = Path(load_gpu("h200_sxm").path)
#: cases that need what the model does not have yet
LATER = {
    "vllm30528_grid16": "split-K",
    "vllm30528_grid66": "split-K",
    "vllm30528_grid132": "split-K",
    "setmaxnreg": "registers moved between warp groups",
}
#: architectures of the case smem_limits that have no file yet
LATER_ARCHS = {"sm61", "sm75", "sm86", "sm89"}
#: tested below by name rather than by its columns
SINGLE = {
    "cutlass_count_130", "peak_h100_h200", "mfu_dense", "smem_triton1561_s4", "smem_triton1561_s3", "smem_limits",
    "smem_gb10", "grid_y", "align_ld4096", "align_ld4097", "dram_formula", "clock_unit", "triton_group_9x9",
    "grid_cluster_mult",
}  # fmt: skip
#: tiles, waves and their efficiency
GRIDS = [name for name in CASES if name not in SINGLE and name not in LATER]


def of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return CASES[name]["input"], CASES[name]["expected"]


def test_no_case_is_forgotten() -> None:
    assert set(LATER) < set(CASES)
    assert set(SINGLE) < set(CASES)
    assert len(GRIDS) == 14
    assert all("sms" in of(name)[0] or "active_sms" in of(name)[0] for name in GRIDS)


@pytest.mark.parametrize("name", GRIDS)
def test_tiles_waves_and_efficiency(name: str) -> None:
    given, expected = of(name)
    sms, resident = given.get("sms", given.get("active_sms")), given.get("blocks_per_sm", 1)
    found: dict[str, float] = {}
    blocks = given.get("tiles")
    if blocks is None:
        m, n, bm, bn = (given[key] for key in ("M", "N", "BM", "BN"))
        blocks = float(geometry.tiles(m, bm) * geometry.tiles(n, bn))
        found["useful_frac"] = float(geometry.useful_share(m, n, bm, bn))
        found["cost_waves_x_bn"] = float(geometry.waves(blocks, sms, resident)) * bn
    found["tiles"] = blocks
    found["waves"] = float(geometry.waves(blocks, sms, resident))
    found["eff"] = found["wave_eff"] = found["sm_fill"] = float(geometry.wave_efficiency(blocks, sms, resident))
    asked = [key for key in expected if key not in ("note", "needs_split_k")]
    assert asked
    assert {key: found[key] for key in asked} == pytest.approx({key: expected[key] for key in asked}, abs=5.1e-5)


@pytest.mark.parametrize(("name", "gpu"), [("cluster_132", "h100_sxm"), ("cluster_112", "h100_sxm")])
def test_waves_of_a_prediction_on_some_of_the_sms(name: str, gpu: str) -> None:
    given, expected = of(name)
    tile = {"bm": given["BM"], "bn": given["BN"], "bk": 64, "num_warps": 8, "num_stages": 5, "group_m": 8}
    found = predict(given["M"], given["N"], 4096, gpu=gpu, config=tile, num_sms=given["active_sms"])
    assert found.blocks_per_sm[0] == 1
    assert found.waves[0] == expected["waves"]


@pytest.mark.parametrize("name", GRIDS)
def test_blocks_placed_one_by_one_take_as_many_waves(name: str) -> None:
    given, expected = of(name)
    sms, resident = given.get("sms", given.get("active_sms")), given.get("blocks_per_sm", 1)
    blocks = given.get("tiles") or expected["tiles"]
    placed = run(np.zeros(blocks, int), np.full((1, resident), 100.0), Sms(sms, resident), skip=False)
    makespan = placed.end_clk.max()
    if "waves" in expected:
        assert makespan == 100 * expected["waves"]
    busy = placed.busy_clk.sum() / (sms * makespan)
    eff = next((expected[key] for key in ("eff", "wave_eff", "sm_fill") if key in expected), busy)
    assert busy == pytest.approx(eff, abs=5.1e-5)


def test_block_loads_of_the_first_blocks_in_raster_order() -> None:
    given, expected = of("triton_group_9x9")
    for raster, group_m, loads in ((ROW, 1, "row_major_block_loads"), (GROUPED, 3, "grouped3_block_loads")):
        rows, columns = order(raster, given["grid_m"], given["grid_n"], group_m)
        panels = panel_loads(rows[: given["first"]], columns[: given["first"]])
        assert 9 * panels == expected[loads]  # 9 blocks along K


def test_a_grid_that_clusters_do_not_divide() -> None:
    given, expected = of("grid_cluster_mult")
    (across, down, _), (cluster_n, cluster_m, _) = given["grid"], given["cluster"]
    tile = {"bm": 128, "bn": 128, "bk": 64}
    p = predict(128 * down, 128 * across, 64, gpu="h100_sxm", config=tile)
    assert not expected["legal"]
    with pytest.raises(GemmsimError, match="cluster of 2 x 4 blocks: expected its sides to divide the grid of 33 x 4"):
        schedule(p, how=How(cluster_m=cluster_m, cluster_n=cluster_n))
    assert schedule(p, how=How(cluster_n=cluster_n)).simulated


def test_bytes_and_flops() -> None:
    given, expected = of("cutlass_count_130")
    problem = gemm(given["M"], given["N"], given["K"], "fp32")
    assert problem.compulsory_bytes[0] == expected["bytes"]
    assert problem.flops[0] == expected["flops_2mnk"]
    seconds = given["ms"] / 1e3
    assert problem.compulsory_bytes[0] / seconds / 2**30 == pytest.approx(expected["GiBps"], rel=1e-4)
    # CUTLASS counts one multiply-add more a result: 2 M N (K + 1)
    more = problem.flops[0] + 2 * given["M"] * given["N"]
    assert more == expected["flops_cutlass"]
    assert more / seconds / 1e9 == pytest.approx(expected["GFLOPs"], rel=1e-5)


@pytest.mark.parametrize("name", ["h100_sxm", "h200_sxm"])
def test_peak_at_the_clock_that_the_datasheet_means(name: str) -> None:
    given, expected = of("peak_h100_h200")
    gpu = load_gpu(name)
    assert gpu.sm_count == given["sms"]
    assert gpu.clock_tensor_hz == given["ghz"] * 1e9
    assert 2 * gpu.arch.fma_per_clk_per_sm["bf16"] == given["flop_clk_sm"]
    assert gpu.peak_flops("bf16") == pytest.approx(expected["tflops"] * 1e12, rel=1e-4)


def test_utilisation_is_of_the_dense_peak() -> None:
    given, expected = of("mfu_dense")
    share = given["achieved"] * 1e12 / (load_gpu("h100_sxm").peak_flops("bf16") or 0)
    assert share == pytest.approx(expected["mfu_dense_989"], abs=5e-4)
    assert share > 1.9 * expected["mfu_sparse_1979_WRONG"]


@pytest.mark.parametrize("name", ["smem_triton1561_s4", "smem_triton1561_s3"])
def test_shared_memory_of_pipelined_tiles(name: str) -> None:
    given, expected = of(name)
    tile = (given["BM"], given["BN"], given["BK"])
    found = resources(*tile, 8, given["stages"], element_bytes=given["bytes"])
    assert found.smem_bytes == expected["smem"]
    arch = load_gpu("a100_sxm_80gb").arch
    assert arch.smem_per_block_bytes == given["limit"]
    fits = blocks_per_sm(arch, 256, 32, found.smem_bytes).blocks_per_sm[0] > 0
    assert bool(fits) == expected["fits"]


def test_shared_memory_that_a_block_may_opt_in_to() -> None:
    _, expected = of("smem_limits")
    folder = SHIPPED.parent / "arch"
    shipped = {path.stem for path in folder.glob("*.yaml")}
    limits = {name: value for name, value in expected.items() if name.startswith("sm")}
    assert set(limits) - shipped <= LATER_ARCHS
    seen = set()
    for gpu in _gpus():
        if gpu.arch.name in limits:
            seen.add(gpu.arch.name)
            assert gpu.arch.smem_per_block_bytes == limits[gpu.arch.name]
            if gpu.arch.name >= "sm80":
                assert gpu.arch.smem_per_block_bytes == gpu.arch.smem_per_sm_bytes - 1024
    assert seen >= {"sm80", "sm90"}


def test_a_kibibyte_too_much_does_not_fit() -> None:
    from dataclasses import replace

    given, expected = of("smem_gb10")
    arch = replace(
        load_gpu("h100_sxm").arch, smem_per_block_bytes=given["limit"], smem_per_sm_bytes=given["limit"] + 1024
    )
    assert bool(blocks_per_sm(arch, 128, 32, given["need"]).blocks_per_sm[0] > 0) == expected["fits"]
    assert blocks_per_sm(arch, 128, 32, given["limit"]).blocks_per_sm[0] == 1


def test_more_blocks_along_grid_y_than_a_launch_takes() -> None:
    given, expected = of("grid_y")
    tile = {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4}
    rows = [64 * (given["grid_y"] - 1), 64 * given["grid_y"]]
    found = predict(rows, 64, 64, gpu="h200_sxm", dtype="fp32", family="register_tile", config=tile)
    assert found.feasible.tolist() == [True, expected["legal"]]
    assert found.reasons[1] == f"grid_y: {given['grid_y']} blocks in grid.y, limit {expected['max']}"


@pytest.mark.parametrize("name", ["align_ld4096", "align_ld4097"])
def test_row_strides_of_whole_16_byte_units(name: str) -> None:
    given, expected = of(name)
    assert given["bytes"] == 2
    a, b = triton.aligned(gemm(128, given["ld"], given["ld"], "bf16"))
    assert (bool(a[0]), bool(b[0])) == (expected["tma_legal"],) * 2


def test_textbook_traffic_and_compulsory_bytes() -> None:
    given, expected = of("dram_formula")
    sizes = (given["M"], given["N"], given["K"])
    assert textbook_bytes(*sizes, given["BM"], given["BN"], given["bytes"]) == expected["tile_traffic_B"]
    assert gemm(*sizes, "bf16").compulsory_bytes[0] == expected["compulsory_B"]


@pytest.mark.parametrize("unit", ["MHz", "kHz"])
def test_a_clock_in_another_unit_is_refused(unit: str, tmp_path: Path) -> None:
    _, expected = of("clock_unit")
    factor = expected["error_factor"] ** {"kHz": 1, "MHz": 2}[unit]
    text = SHIPPED.read_text()
    assert "clock_hz: {value: 1.98e+9," in text
    wrong = tmp_path / "mychip.yaml"
    wrong.write_text(text.replace("clock_hz: {value: 1.98e+9,", f"clock_hz: {{value: {1.98e9 / factor:.0f}.0,"))
    with pytest.raises(GemmsimError, match=r"clock_hz.*Hz"):
        load_gpu(str(wrong))


def _gpus() -> list[Gpu]:
    return [load_gpu(path.stem) for path in sorted(SHIPPED.parent.glob("*.yaml"))]
