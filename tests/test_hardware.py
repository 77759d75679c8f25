"""Hardware files: every shipped one loads and is right; a wrong one is refused with file, key, found and expected."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.hardware import (
    HWSPECS_VARIABLE,
    check_file,
    gpu_names,
    load_figures,
    load_gpu,
    plain_name,
)
from gemmsim.hwfields import KINDS, PEAK_TOLERANCE, peak_clock
from gemmsim.paths import data_folder
from gemmsim.problem import DTYPE_BYTES

SHIPPED = data_folder("hwspecs")
PRODUCTS = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
ARCHS = sorted(path.stem for path in (SHIPPED / "arch").glob("*.yaml"))
FIRST_EIGHT = {
    *("a100_pcie_40gb", "a100_pcie_80gb", "a100_sxm_40gb", "a100_sxm_80gb"),
    *("h100_nvl", "h100_pcie", "h100_sxm", "h200_sxm"),
}
SEVENTEEN_MORE = {
    *("v100_sxm2_32gb", "t4", "a10", "a30", "a40", "rtx_a6000", "rtx_a4000", "rtx_2080_ti", "rtx_3090", "rtx_4090"),
    *("rtx_5090", "l4", "l40s", "p100", "h20", "gh200", "b200_sxm"),
}


# ---------------------------------------------------------------------------------------------- what ships


def test_the_products_are_there() -> None:
    assert set(PRODUCTS) >= FIRST_EIGHT | SEVENTEEN_MORE
    assert set(ARCHS) >= {"sm60", "sm70", "sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120"}
    assert gpu_names() == PRODUCTS


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_shipped_file_loads(name: str) -> None:
    gpu = load_gpu(name)
    assert (gpu.name, gpu.arch.name in ARCHS, Path(gpu.path)) == (name, True, SHIPPED / f"{name}.yaml")


@pytest.mark.parametrize("path", [*SHIPPED.glob("*.yaml"), *(SHIPPED / "arch").glob("*.yaml")], ids=lambda p: p.stem)
def test_every_shipped_file_passes_the_check(path: Path) -> None:
    assert "figures" in check_file(path)


@pytest.mark.parametrize("name", PRODUCTS)
def test_derived_peaks_are_the_datasheets(name: str) -> None:
    gpu = load_gpu(name)
    conflicts = {f.key: f.conflict for f in load_figures(name)}
    assert "fp32" in gpu.datasheet_flops
    assert set(gpu.datasheet_flops) <= set(gpu.arch.fma_per_clk_per_sm)
    for dtype, stated in gpu.datasheet_flops.items():
        derived = gpu.peak_flops(dtype)
        assert derived is not None
        assert abs(stated / derived - 1) <= PEAK_TOLERANCE or conflicts[f"datasheet_flops.{dtype}"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_figure_has_a_kind_and_a_source_to_follow(name: str) -> None:
    for figure in load_figures(name):
        assert figure.kind in KINDS
        assert len(figure.source.split()) >= 2, figure
        if figure.kind == "measured":
            assert re.search(r"20\d\d-\d\d-\d\d|arXiv|[0-9a-f]{8}|/[A-Za-z]\w+", figure.source), figure


@pytest.mark.parametrize(
    ("name", "field", "right"),
    [
        ("h100_sxm", "sm_count", 132),
        ("h100_pcie", "sm_count", 114),
        ("a100_sxm_80gb", "sm_count", 108),  # not the full chip's 128
        ("a100_sxm_80gb", "l2_bytes", 40 * 2**20),  # not 48 MB
        ("a100_pcie_80gb", "l2_bytes", 40 * 2**20),  # not 80 MB
        ("h100_sxm", "l2_bytes", 50 * 2**20),
        ("h100_nvl", "l2_bytes", 60 * 2**20),  # not 50 MB
        ("h200_sxm", "l2_bytes", 60 * 2**20),  # not 50 MB
        ("h200_sxm", "dram_bus_bits", 6016),  # not 6144, not 8192
        ("h100_nvl", "dram_bus_bits", 6016),
        ("a100_sxm_40gb", "dram_type", "HBM2"),  # not HBM2e
        ("a100_pcie_40gb", "tdp_w", 250.0),
        ("h100_sxm", "clock_tensor_hz", 1.83e9),
        ("h100_sxm", "clock_hz", 1.98e9),
        ("l4", "sm_count", 58),  # not the full chip's 60
        ("l4", "dram_bytes_per_s", 300e9),  # not an H100's 3350
        ("l4", "l2_bytes", 48 * 2**20),
        ("l40s", "l2_bytes", 96 * 2**20),  # not 48 MB
        ("l40s", "tdp_w", 350.0),  # not the L40's 300
        ("v100_sxm2_32gb", "tdp_w", 300.0),  # not the PCIe card's 250
        ("v100_sxm2_32gb", "clock_hz", 1.53e9),  # not the V100S' 1597
        ("v100_sxm2_32gb", "dram_clock_hz", 0.877e9),  # not the V100S' 1106
        ("t4", "sm_count", 40),
        ("t4", "dram_bytes_per_s", 320e9),
        ("a30", "dram_type", "HBM2"),  # not HBM2e
        ("a10", "sm_count", 72),
        ("b200_sxm", "dram_bytes", 191514411008),  # not one die's 90 GB
        ("b200_sxm", "dram_bytes_per_s", 7.672e12),  # not one die's 4.1
        ("b200_sxm", "l2_bytes", 132644864),  # 126.5 MiB, not one die's 50 MB
        ("gh200", "l2_bytes", 60 * 2**20),  # not 50 MB
        ("h20", "sm_count", 78),
    ],
)
def test_figures_that_others_have_wrong(name: str, field: str, right: object) -> None:
    assert getattr(load_gpu(name), field) == right


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("h100_sxm", "bf16", 989.4),  # not the sparse 1979, not half of it
        ("h100_sxm", "fp8", 1978.9),
        ("h100_sxm", "tf32", 494.7),  # not the A100's 156
        ("h100_sxm", "fp64", 33.5),
        ("h100_pcie", "bf16", 756.4),
        ("h100_nvl", "bf16", 835.3),  # not 133, the CUDA cores'
        ("h200_sxm", "bf16", 989.4),
        ("a100_sxm_80gb", "bf16", 311.9),
        ("a100_pcie_40gb", "fp32", 19.5),
        ("l4", "bf16", 121.2),  # not the sparse 242
        ("l4", "fp8", 242.3),  # not the sparse 485
        ("l4", "tf32", 60.6),  # not the sparse 120
        ("l4", "fp64", 0.5),  # not 15.1
        ("l40s", "bf16", 366.4),
        ("l40s", "fp8", 732.9),  # not the sparse 1466
        ("a10", "bf16", 125.0),
        ("a40", "fp16", 149.7),
        ("rtx_a6000", "fp16", 154.8),  # not the sparse 309.7
        ("rtx_a4000", "fp16", 76.7),  # not the sparse 153.4
        ("rtx_3090", "fp16", 71.2),  # fp32 accumulate: not 142.3, not the sparse 284.7
        ("rtx_3090", "int8", 284.7),
        ("rtx_4090", "fp16", 165.2),  # fp32 accumulate: not 330.3
        ("rtx_4090", "fp8", 330.3),  # fp32 accumulate: not 660.6
        ("rtx_4090", "tf32", 82.6),
        ("rtx_5090", "fp16", 209.5),  # fp32 accumulate: not 419, not the sparse 838
        ("rtx_2080_ti", "fp16", 53.8),  # fp32 accumulate: not 107.6
        ("t4", "fp16", 65.1),  # the tensor cores', with fp32 accumulate too
        ("t4", "fp32", 8.1),
        ("v100_sxm2_32gb", "fp16", 125.3),
        ("p100", "fp32", 10.6),
        ("p100", "fp64", 5.3),
        ("h20", "bf16", 148.0),
        ("gh200", "bf16", 989.4),
        ("b200_sxm", "bf16", 2250.2),  # not the sparse 4500, not the GB200's 2500
    ],
)
def test_dense_peaks(name: str, dtype: str, tflops: float) -> None:
    peak = load_gpu(name).peak_flops(dtype)
    assert peak is not None
    assert round(peak / 1e12, 1) == tflops


@pytest.mark.parametrize(
    ("name", "has_not"),
    [
        ("a100_sxm_80gb", {"fp8"}),
        ("v100_sxm2_32gb", {"bf16", "tf32", "fp8", "int8"}),
        ("t4", {"bf16", "tf32", "fp8"}),
        ("rtx_2080_ti", {"bf16", "tf32", "fp8"}),
        ("p100", {"bf16", "tf32", "fp8", "int8", "fp16"}),
        ("rtx_3090", {"fp8"}),
        ("h20", {"fp64"}),  # its rate is not known
        ("l4", set()),
        ("b200_sxm", set()),
    ],
)
def test_no_path_for_a_dtype_is_none(name: str, has_not: set[str]) -> None:
    gpu = load_gpu(name)
    assert {dtype for dtype in DTYPE_BYTES if gpu.peak_flops(dtype) is None} == has_not


@pytest.mark.parametrize(
    "name", ["a10", "a40", "rtx_a6000", "rtx_a4000", "rtx_3090", "l4", "l40s", "rtx_4090", "rtx_5090"]
)
def test_fp64_is_a_64th_of_fp32(name: str) -> None:  # TechPowerUp has 1/32 for the A10 and the A4000
    gpu = load_gpu(name)
    assert (gpu.peak_flops("fp32") or 0) / (gpu.peak_flops("fp64") or 1) == 64


@pytest.mark.parametrize(
    ("name", "factor"),
    [("a100_sxm_80gb", 1), ("h200_sxm", 0.5), ("h100_sxm", 0.5), ("a10", 2), ("a40", 2), ("l4", 2), ("l40s", 2),
     ("rtx_3090", 4), ("rtx_4090", 4), ("rtx_5090", 4)],
)  # fmt: skip
def test_tritons_own_peak_is_right_on_an_a100_only(name: str, factor: float) -> None:
    # triton.testing.get_max_tensorcore_tflops: 512 FLOP a clock and sub-core on every cc >= 8
    gpu = load_gpu(name)
    tritons = 4 * gpu.sm_count * 512 * gpu.clock_tensor_hz
    assert tritons / (gpu.peak_flops("fp16") or 1) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("name", "instructions", "shape"),
    [
        ("p100", (), None),
        ("v100_sxm2_32gb", ("mma_sync",), "m8n8k4"),
        ("t4", ("mma_sync",), "m16n8k8"),
        ("a100_sxm_80gb", ("mma_sync",), "m16n8k16"),
        ("l4", ("mma_sync",), "m16n8k16"),
        ("h200_sxm", ("mma_sync", "wgmma"), "m16n8k16"),
        ("b200_sxm", ("mma_sync", "tcgen05"), "m16n8k16"),
        ("rtx_5090", ("mma_sync",), "m16n8k16"),
    ],
)
def test_matrix_instructions(name: str, instructions: tuple[str, ...], shape: str | None) -> None:
    arch = load_gpu(name).arch
    assert arch.matrix_instructions == instructions
    assert arch.mma_shapes[:1] == (() if shape is None else (shape,))
    assert (arch.mma_sync_fraction_of_peak > 0) == bool(instructions)


@pytest.mark.parametrize("name", ["rtx_2080_ti", "rtx_3090", "rtx_4090", "rtx_5090"])
def test_geforce_files_say_which_accumulate_their_figure_is_for(name: str) -> None:
    figures = {f.key: f for f in load_figures(name)}
    assert "fp32 accumulate" in figures["fma_per_clk_per_sm.fp16"].source
    assert "arch.fma_per_clk_per_sm.fp16" not in figures
    assert "half rate" in " ".join(load_gpu(name).notes)


def test_the_b200_says_what_is_not_modelled() -> None:
    assert load_gpu("b200_sxm").notes[0] == (
        "B200's own matrix instructions (tcgen05) are not modelled yet: figures are for mma.sync"
    )


def test_ridge_of_the_h100_is_295_flop_per_byte() -> None:
    gpu = load_gpu("h100_sxm")
    assert round((gpu.peak_flops("bf16") or 0) / gpu.dram_bytes_per_s) == 295


@pytest.mark.parametrize(
    ("name", "opt_in"),
    [("p100", 49_152), ("v100_sxm2_32gb", 98_304), ("t4", 65_536), ("a100_sxm_80gb", 166_912), ("a40", 101_376),
     ("l4", 101_376), ("h100_sxm", 232_448), ("b200_sxm", 232_448), ("rtx_5090", 101_376)],
)  # fmt: skip
def test_the_most_shared_memory_of_a_block(name: str, opt_in: int) -> None:
    arch = load_gpu(name).arch
    assert arch.smem_per_block_bytes == opt_in
    assert name == "p100" or opt_in == arch.smem_per_sm_bytes - arch.smem_reserved_per_block_bytes


def test_what_was_measured_on_the_h200() -> None:
    gpu = load_gpu("h200_sxm")
    assert (gpu.launch_s, gpu.l2_measured_bytes_per_s, gpu.dram_measured_bytes_per_s) == (2.8e-6, 7.9e12, 4.53e12)


# ---------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H200", "h200_sxm"),
        ("NVIDIA_H200", "h200_sxm"),
        ("h200", "h200_sxm"),
        ("H200-SXM", "h200_sxm"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("nvidia h100 pcie", "h100_pcie"),
        ("NVIDIA H100 NVL", "h100_nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm_80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100_sxm_40gb"),
        ("NVIDIA A100-PCIE-40GB", "a100_pcie_40gb"),
        ("NVIDIA A100 80GB PCIe", "a100_pcie_80gb"),
        ("A100_SXM_80GB", "a100_sxm_80gb"),
        ("Tesla V100-SXM2-32GB", "v100_sxm2_32gb"),
        ("Tesla T4", "t4"),
        ("Tesla P100-SXM2-16GB", "p100"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA RTX A6000", "rtx_a6000"),
        ("NVIDIA RTX A4000", "rtx_a4000"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx_2080_ti"),
        ("GeForce RTX 3090", "rtx_3090"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090"),
        ("NVIDIA GeForce RTX 5090", "rtx_5090"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA B200", "b200_sxm"),
        ("L40S", "l40s"),
    ],
)
def test_device_strings_are_names(text: str, name: str) -> None:
    assert load_gpu(text).name == name


def test_no_two_products_share_an_alias() -> None:
    aliases = {name: {plain_name(alias) for alias in load_gpu(name).aliases} | {name} for name in PRODUCTS}
    assert len(set().union(*aliases.values())) == sum(len(names) for names in aliases.values())


def test_aliases_cost_no_reading_of_the_other_files(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text("aliases: [NVIDIA Z1]\nproduct: broken\n")
    monkeypatch.setenv(HWSPECS_VARIABLE, str(own.parent))
    assert load_gpu("NVIDIA H200").name == "h200_sxm"
    with pytest.raises(GemmsimError, match=r"mychip\.yaml: missing key"):
        load_gpu("NVIDIA Z1")


def test_aliases_on_several_lines_are_found(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text(re.sub(r"aliases: .*", "aliases:\n  - NVIDIA Z1\n  - z_1", own.read_text()))
    monkeypatch.setenv(HWSPECS_VARIABLE, str(own.parent))
    assert load_gpu("NVIDIA Z1").name == load_gpu("Z-1").name == "mychip"


@pytest.mark.parametrize("text", ["h100", "H100", "NVIDIA H100", "a100", "a100_sxm", "A100-PCIE"])
def test_a_name_of_several_is_answered_with_the_variants(text: str) -> None:
    with pytest.raises(GemmsimError) as caught:
        load_gpu(text)
    start = text.lower().replace("-", "_").removeprefix("nvidia ")
    for variant in (name for name in PRODUCTS if name.startswith(start + "_")):
        assert variant in str(caught.value)


@pytest.mark.parametrize("text", ["h300", "", "h", "h200 sxm 9", "../x"])
def test_an_unknown_name_is_refused(text: str) -> None:
    with pytest.raises(GemmsimError):
        load_gpu(text)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(GemmsimError, match="did you mean h100_pcie"):
        load_gpu("h100_pcei")


# ---------------------------------------------------------------------------------------------- MIG slices


@pytest.mark.parametrize("text", ["h100_sxm:1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-SXM:1G.10GB"])
def test_a_slice_is_what_the_driver_reports_of_it(text: str) -> None:
    # openxla/xla, target_config/specs/h100_sxm_mig.txtpb: a device record of this slice
    gpu = load_gpu(text)
    assert (gpu.name, gpu.sm_count, gpu.l2_bytes) == ("h100_sxm:1g.10gb", 16, 6553600)
    assert gpu.dram_bytes_per_s == pytest.approx(419.04e9, rel=1e-3)
    assert gpu.dram_bytes == pytest.approx(10468982784, rel=0.02)
    assert gpu.dram_bus_bits == 640
    assert gpu.notes[-1].startswith("MIG slice: 16 of 132 SMs, 1/8 of the memory, 1/8 of the L2")


@pytest.mark.parametrize(
    ("text", "sms", "memory", "l2", "sides"),
    [
        ("a100_sxm_40gb:3g.20gb", 42, 0.5, 0.5, 1),
        ("a100_pcie_80gb:7g.80gb", 98, 1, 1, 2),
        ("h100_sxm:1g.20gb", 26, 0.25, 0.125, 1),
        ("h200:3g.71gb", 60, 0.5, 0.5, 1),
        ("h200_sxm:7g.141gb", 132, 1, 1, 2),
        ("a30:2g.12gb", 28, 0.5, 0.5, 1),
    ],
)
def test_shares_of_a_slice(text: str, sms: int, memory: float, l2: float, sides: int) -> None:
    gpu, whole = load_gpu(text), load_gpu(text.split(":")[0])
    assert (gpu.sm_count, gpu.l2_partitions) == (sms, sides)
    assert gpu.dram_bytes_per_s == memory * whole.dram_bytes_per_s
    assert gpu.l2_bytes == l2 * whole.l2_bytes
    assert gpu.peak_flops("fp32") == pytest.approx((whole.peak_flops("fp32") or 0) * sms / whole.sm_count)


@pytest.mark.parametrize("text", ["h200:9g.99gb", "l4:1g.6gb", "h200:", "h200:3g", "h100:3g.40gb", "nothing:3g.40gb"])
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(GemmsimError):
        load_gpu(text)


@pytest.mark.parametrize("name", PRODUCTS)
def test_slices_fit_their_gpu(name: str) -> None:
    gpu = load_gpu(name)
    for profile, memory in zip(gpu.mig_profiles, gpu.mig_memory_eighths, strict=True):
        named = float(re.search(r"\.(\d+)gb", profile)[1])  # type: ignore[index]
        assert memory * gpu.dram_bytes / 8 / 1e9 == pytest.approx(named, rel=0.15)
        assert load_gpu(f"{name}:{profile}").sm_count <= gpu.sm_count


# ---------------------------------------------------------------------------------------------- files of one's own


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHIPPED / "h200_sxm.yaml", tmp_path / "mychip.yaml"))


def test_a_path_is_a_gpu_and_takes_a_shipped_architecture(own: Path) -> None:
    gpu = load_gpu(str(own))
    assert (gpu.name, gpu.arch.name) == ("mychip", "sm90")


def test_an_architecture_beside_the_file_is_taken_first(own: Path) -> None:
    text = (SHIPPED / "arch" / "sm90.yaml").read_text()
    (own.parent / "sm90.yaml").write_text(
        text.replace("smem_latency_clk: {value: 29.0", "smem_latency_clk: {value: 31.0")
    )
    assert load_gpu(str(own)).arch.smem_latency_clk == 31.0
    (own.parent / "sm90.yaml").write_text(text)
    os.utime(own.parent / "sm90.yaml", ns=(1, 1))
    assert load_gpu(str(own)).arch.smem_latency_clk == 29.0


def test_folders_of_the_environment_come_before_the_shipped(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = own.parent / "other"
    other.mkdir()
    shutil.copy(own, other / "a100_sxm_80gb.yaml")
    monkeypatch.setenv(HWSPECS_VARIABLE, os.pathsep.join([str(own.parent), str(other)]))
    assert load_gpu("mychip").sm_count == 132
    assert load_gpu("a100_sxm_80gb").sm_count == 132
    assert "mychip" in gpu_names()


def test_a_folder_of_the_environment_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HWSPECS_VARIABLE, "/no/such/folder")
    with pytest.raises(GemmsimError, match="GEMMSIM_HWSPECS names '/no/such/folder'"):
        load_gpu("h200_sxm")


def test_a_changed_file_is_read_again(own: Path) -> None:
    assert load_gpu(str(own)).tdp_w == 700
    own.write_text(own.read_text().replace("tdp_w: {value: 700.0", "tdp_w: {value: 600.0"))
    os.utime(own, ns=(1, 1))
    assert load_gpu(str(own)).tdp_w == 600


# ---------------------------------------------------------------------------------------------- cost


def test_importing_costs_no_yaml_and_no_pydantic() -> None:
    code = "import sys, gemmsim.hardware; print([m for m in ('yaml', 'pydantic', 'pydantic_core') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_clock_of_a_peak_is_named() -> None:
    assert [peak_clock(d) for d in ("fp32", "fp64", "bf16")] == ["clock_hz", "clock_hz", "clock_tensor_hz"]
