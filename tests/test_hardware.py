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
)
from gemmsim.hwfields import KINDS, PEAK_TOLERANCE, peak_clock
from gemmsim.paths import data_folder

SHIPPED = data_folder("hwspecs")
PRODUCTS = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
ARCHS = sorted(path.stem for path in (SHIPPED / "arch").glob("*.yaml"))
FIRST_EIGHT = {
    *("a100_pcie_40gb", "a100_pcie_80gb", "a100_sxm_40gb", "a100_sxm_80gb"),
    *("h100_nvl", "h100_pcie", "h100_sxm", "h200_sxm"),
}


# ---------------------------------------------------------------------------------------------- what ships


def test_the_first_products_are_there() -> None:
    assert set(PRODUCTS) >= FIRST_EIGHT
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
    ],
)
def test_dense_peaks(name: str, dtype: str, tflops: float) -> None:
    peak = load_gpu(name).peak_flops(dtype)
    assert peak is not None
    assert round(peak / 1e12, 1) == tflops


def test_no_path_for_a_dtype_is_none() -> None:
    assert load_gpu("a100_sxm_80gb").peak_flops("fp8") is None


def test_ridge_of_the_h100_is_295_flop_per_byte() -> None:
    gpu = load_gpu("h100_sxm")
    assert round((gpu.peak_flops("bf16") or 0) / gpu.dram_bytes_per_s) == 295


@pytest.mark.parametrize(("name", "opt_in"), [("a100_sxm_80gb", 166_912), ("h100_sxm", 232_448)])
def test_the_most_shared_memory_of_a_block(name: str, opt_in: int) -> None:
    arch = load_gpu(name).arch
    assert arch.smem_per_block_bytes == opt_in == arch.smem_per_sm_bytes - arch.smem_reserved_per_block_bytes


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
    ],
)
def test_device_strings_are_names(text: str, name: str) -> None:
    assert load_gpu(text).name == name


def test_no_two_products_share_an_alias() -> None:
    aliases = [alias.lower() for name in PRODUCTS for alias in load_gpu(name).aliases]
    assert len(aliases) == len(set(aliases))


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
