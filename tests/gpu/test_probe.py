"""On a GPU: what the probe reads, the driver's occupancy against the formula, and counters where ncu is."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench import probe
from gemmsim.bench.device import device_count
from gemmsim.bench.lab import CudaLab
from gemmsim.bench.ncu import find_ncu
from gemmsim.cli import main
from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.model.occupancy import blocks_per_sm

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> None:
    try:
        device_count()
    except GemmsimError as error:
        if request.config.getoption("--require-gpu", default=False):
            raise
        pytest.skip(str(error))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main([*arguments])
    out, err = capsys.readouterr()
    assert caught.value.code == 0, err
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probe")


@pytest.fixture
def probed(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, Any]:
    """Readings by figure; the probe runs once, the file is my.yaml."""
    kept = folder / "readings.json"
    if not kept.exists():
        kept.write_text(run(capsys, "probe", "--out", str(folder / "my.yaml"), "--format", "json"))
    return {row["figure"]: row for row in json.loads(kept.read_text())}


#: figures that the H200's file has from an H200: latencies of DRAM, L1 and shared memory are another chip's there
AS_SHIPPED = (
    "clock_hz", "clock_load_hz", "dram_bytes", "dram_measured_bytes_per_s", "flops.fp32", "l2_latency_clk",
    "l2_measured_bytes_per_s", "launch_s", "smem_bytes_per_clk_per_sm", "sm_count", "tdp_w",
)  # fmt: skip


#: an empty launch reads 2.7 or 3.4 us from one run to the next; L2 reads past L1 are faster than those of the file
WIDER = {"launch_s": 0.35, "l2_measured_bytes_per_s": 0.20}


@pytest.mark.parametrize("figure", AS_SHIPPED)
def test_an_h200_reads_as_its_file_says(probed: dict[str, Any], folder: Path, figure: str) -> None:
    if "H200" not in load_gpu(str(folder / "my.yaml")).product:
        pytest.skip("readings are held against the H200's file")
    row = probed[figure]
    assert row["reading"] == pytest.approx(row["file"], rel=WIDER.get(figure, 0.10)), row


def test_latencies_rise_with_the_distance(probed: dict[str, Any]) -> None:
    near_to_far = ["smem_latency_clk", "l1_latency_clk", "l2_latency_clk", "l2_wide_latency_clk", "dram_latency_clk"]
    found = [probed[key]["reading"] for key in near_to_far]
    assert found[0] < 1.5 * found[1]
    assert found[1:] == sorted(found[1:])


def test_no_reading_beats_the_hardware(probed: dict[str, Any], folder: Path) -> None:
    gpu = load_gpu(str(folder / "my.yaml"))
    assert 0.3 * gpu.dram_bytes_per_s < probed["dram_copy_bytes_per_s"]["reading"] < gpu.dram_bytes_per_s
    assert probed["smem_bytes_per_clk_per_sm"]["reading"] <= gpu.arch.smem_bytes_per_clk_per_sm
    for dtype in ("fp32", "fp64"):
        assert 0.5 * probed[f"flops.{dtype}"]["file"] < probed[f"flops.{dtype}"]["reading"]
        assert probed[f"flops.{dtype}"]["reading"] <= 1.02 * probed[f"flops.{dtype}"]["file"]


def test_the_driver_holds_as_many_blocks_as_the_formula() -> None:
    lab = CudaLab(0)
    name = f"sm{lab.facts.compute_capability.replace('.', '')}"
    arch = next(g.arch for g in map(load_gpu, ("h200_sxm", lab.facts.name)) if g.arch.name == name)
    found = lab.occupancy(*probe.occupancy_grid(arch.smem_per_block_bytes))
    assert len(found) >= 500
    threads, regs, smem, blocks = zip(*found, strict=True)
    ours = blocks_per_sm(arch, threads, regs, smem).blocks_per_sm.tolist()
    assert [(row, our) for row, our in zip(found, ours, strict=True) if row[3] != our] == []
    assert 0 in blocks
    assert max(blocks) == arch.max_blocks_per_sm


def test_counters_of_a_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    try:
        find_ncu()
    except GemmsimError as error:
        pytest.skip(str(error))
    if os.geteuid():
        pytest.skip("counters may be kept for root")
    batch, out = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = ["naive,512,512,512,8,32,4,1", "naive,256,512,512,8,32,4,1"]
    batch.write_text("family,m,n,k,bm,bn,bk,coalesced\n" + "\n".join(rows) + "\n")
    run(capsys, "counters", "--batch", str(batch), "--out", str(out), "--dtype", "fp32")
    with open(out, newline="") as file:
        small, large = sorted(csv.DictReader(file), key=lambda row: int(row["m"]))
    assert (small["status"], large["status"]) == ("ok", "ok"), (small["reason"], large["reason"])
    for row in (small, large):
        m, n, k = (int(row[x]) for x in "mnk")
        assert float(row["math_fma_instructions"]) >= m * n * k / 32
        assert 0.9 * 4 * (m * k + k * n) < float(row["dram_read_bytes"]) < 4 * 4 * (m * k + k * n)
        assert float(row["l2_read_bytes"]) > float(row["dram_read_bytes"])
        assert 1e-6 < float(row["kernel_time_s"]) < 1e-2
        assert float(row["spill_bytes_moved"]) == 0
    ratio = float(large["math_fma_instructions"]) / float(small["math_fma_instructions"])
    assert ratio == pytest.approx(2, rel=0.02)
