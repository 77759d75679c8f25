"""Readings as a hardware file: the strict loader takes it, product data keep their sources, nonsense is refused."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
fake = importlib.import_module("fake_lab")

from gemmsim.bench import hwspec, lab  # noqa: E402
from gemmsim.cli import main  # noqa: E402
from gemmsim.errors import GemmsimError  # noqa: E402
from gemmsim.hardware import check_file, load_figures, load_gpu  # noqa: E402

Run = tuple[int, str, str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`gemmsim probe` on a GPU whose facts and rates are set; writes my.yaml."""

    def go(*arguments: str, **settings: Any) -> Run:
        monkeypatch.setattr(lab, "CudaLab", lambda number: fake.FakeLab(**settings))
        with pytest.raises(SystemExit) as caught:
            main(["probe", "--out", str(tmp_path / "my.yaml"), "--quick", *arguments])
        out, err = capsys.readouterr()
        return int(str(caught.value.code)), out, err

    return go


def test_the_strict_loader_takes_it_and_product_data_keep_their_sources(run: Any, tmp_path: Path) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    path = tmp_path / "my.yaml"
    assert "figures" in check_file(path)
    ours, shipped = ({f.key: f for f in load_figures(name)} for name in (str(path), "h200_sxm"))
    kinds = {ours[key].kind for key in ("sm_count", "clock_hz", "dram_bytes", "dram_bus_bits", "l2_bytes", "tdp_w")}
    assert kinds == {"device"}
    assert {ours[key].kind for key in hwspec.MEASURED} == {"measured"}
    assert all("NVIDIA H200, 2" in ours[key].source for key in hwspec.MEASURED), "the date of the reading"
    same = [key for key in shipped if key.startswith(("datasheet_flops", "clock_tensor", "mig_", "cluster_"))]
    assert len(same) > 10
    assert [ours[key] for key in same] == [shipped[key] for key in same]
    assert set(ours) == set(shipped)
    assert load_gpu(str(path)).dram_measured_bytes_per_s == 4.5e12
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "-0.7 %" in lines["dram_measured_bytes_per_s"]
    assert "126 B/clk" in lines["smem_bytes_per_clk_per_sm"]
    assert "launches have as many blocks an SM as the driver says" in out


def test_a_product_that_no_file_knows_names_what_is_unknown(run: Any, tmp_path: Path) -> None:
    code, _, err = run(facts=fake.STRANGER, ffma=37e12, dfma=18e12)
    assert (code, err) == (0, "")
    gpu, figures = load_gpu(str(tmp_path / "my.yaml")), {f.key: f for f in load_figures(str(tmp_path / "my.yaml"))}
    assert (gpu.product, gpu.arch.name, gpu.sm_count) == ("NVIDIA H900 NVL", "sm90", 78)
    assert gpu.aliases == ("NVIDIA H900 NVL",)
    assert gpu.datasheet_flops == {}
    assert gpu.l2_partitions == 2
    assert (figures["clock_tensor_hz"].kind, figures["dram_bytes_per_s"].kind) == ("inferred", "derived")
    assert gpu.dram_bytes_per_s == pytest.approx(6016 / 8 * 2 * 3.201e9)
    assert "unknown:" in (tmp_path / "my.yaml").read_text()


def test_an_alias_of_another_size_is_not_the_product(run: Any, tmp_path: Path) -> None:
    assert run(facts=replace(fake.H200, sm_count=60))[0] == 0
    assert load_gpu(str(tmp_path / "my.yaml")).product == "NVIDIA H200"
    code, _, err = run("--gpu", "h200_sxm", "--force", facts=replace(fake.H200, sm_count=60))
    assert code == 2
    assert "--gpu h200_sxm has 132 SMs" in err
    assert "expected the device's 60 SMs" in err


def test_a_slower_clock_names_the_conflict_or_leaves_the_peaks_out(run: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "my.yaml")
    assert run(facts=replace(fake.H200, clock_hz=1.9e9))[0] == 0
    assert "by the device's SMs and clock" in {f.key: f for f in load_figures(path)}["datasheet_flops.fp32"].conflict
    assert run("--force", facts=replace(fake.H200, clock_hz=1.4e9), ffma=45e12)[0] == 0
    figures = {f.key: f for f in load_figures(path)}
    assert (figures["clock_tensor_hz"].value, figures["clock_tensor_hz"].kind) == (1.4e9, "inferred")
    assert not {"clock_base_hz", "datasheet_flops.fp32", "datasheet_flops.bf16"} & set(figures)
    assert run("--force", facts=replace(fake.H200, dram_clock_hz=2.9e9), dram=4.2e12)[0] == 0
    assert "by the device's bus and clock" in {f.key: f for f in load_figures(path)}["dram_bytes_per_s"].conflict


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dram": 9e12}, "dram_measured_bytes_per_s is 9e+12: expected 30 to 102 %"),
        ({"l2": 2e12}, "l2_measured_bytes_per_s is 2e+12: expected more than DRAM's"),
        ({"empty": 0.0}, "launch_s was read as 0 s"),
        ({"empty": float("nan")}, "launch_s was read as nan s"),
        ({"empty": 0.01}, "launch_s.value is 0.01: expected a number from"),
        ({"clk": {"chase_l1": 33, "chase_shared": 29, "near": 900, "wide": 900, "far": 690}}, "l2_latency_clk is 900"),
        ({"facts": replace(fake.STRANGER, tdp_w=None)}, "missing key tdp_w"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_left(run: Any, tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    code, out, err = run(**settings)
    assert code == 2
    assert why in err
    assert err.count("\n") == 1
    assert "launch_s" in out, "the readings are shown all the same"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(run: Any, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("mine")
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "is there already" in err
    assert (tmp_path / "my.yaml").read_text() == "mine"
    assert run("--force")[0] == 0


def test_a_compute_capability_without_a_file_says_what_is_missing(tmp_path: Path) -> None:
    facts = replace(fake.H200, compute_capability="11.0")
    with pytest.raises(GemmsimError, match=r"compute capability 11.0 and no file .* write .*arch/sm110.yaml after a"):
        hwspec.architecture(facts, tmp_path)
    (tmp_path / "arch").mkdir()
    own = (Path(load_gpu("h200_sxm").path).parent / "arch" / "sm90.yaml").read_text().replace('"9.0"', '"11.0"')
    (tmp_path / "arch" / "sm110.yaml").write_text(own)
    assert hwspec.architecture(facts, tmp_path).name == "sm110"
