"""What ncu prints, read: a page of raw CSV among its other lines, units, numbers with commas, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gemmsim.bench import ncu
from gemmsim.bench.metrics import COUNTERS, DRAM_READ, TIME, WARPS
from gemmsim.bench.ncu import KernelCounts, Metrics
from gemmsim.errors import GemmsimError

LOG = """==PROF== Connected to process 2061 (/usr/bin/python3.12)
==PROF== Profiling "spin" - 0: 0%....50%....100% - 9 passes
==PROF== Profiling "gemm" - 1: 0%....50%....100% - 9 passes
a line of the program's own
==PROF== Disconnected from process 2061
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","byte","ns","%"
"0","2061","python3.12","127.0.0.1","spin","1","13","(1, 1, 1)","(1, 1, 1)","0","9.0","2,816","2,016","1.56"
"1","2061","python3.12","127.0.0.1","gemm","1","13","(256, 1, 1)","(64, 2, 1)","0","9.0","8,402,432","233,216","24.2"
"2","2061","python3.12","127.0.0.1","void cutlass::Kernel2<a, b>(T1::Params)","1","13","(128, 1, 1)","(9, 32, 1)","0",\
"9.0","n/a","1,000","n/a"
==WARNING== a line behind the table
"""


def test_kernels_in_order_with_si_units() -> None:
    spin, gemm, other = ncu.parse(LOG, Metrics())
    assert (spin.name, spin.grid, gemm.name, gemm.grid) == ("spin", (1, 1, 1), "gemm", (64, 2, 1))
    assert gemm.values[DRAM_READ.metric] == 8402432
    assert gemm.values[TIME.metric] == pytest.approx(233.216e-6)
    assert gemm.values[WARPS.metric] == 24.2
    assert other.name == "void cutlass::Kernel2<a, b>(T1::Params)"
    assert math.isnan(other.values[DRAM_READ.metric])
    assert math.isnan(gemm.values["smsp__inst_executed.sum"]), "a counter that was not printed"


@pytest.mark.parametrize("log", ["", "==ERROR== nothing\n", LOG[: LOG.index('"ID"')]])
def test_no_table_is_no_kernel(log: str) -> None:
    assert ncu.parse(log, Metrics()) == []


def test_an_older_page_without_grids_is_refused() -> None:
    with pytest.raises(GemmsimError, match="no column Grid Size"):
        ncu.parse(LOG.replace("Grid Size", "Something"), Metrics())


def test_a_table_cut_off_gives_the_whole_rows() -> None:
    assert [k.name for k in ncu.parse(LOG[: LOG.index('"127.0.0.1","void')], Metrics())] == ["spin", "gemm"]


@pytest.mark.parametrize(
    ("cell", "unit", "value"),
    [("1,234.5", "us", 1234.5e-6), ("7", "Mbyte", 7e6), ("7", "nsecond", 7e-9), ("3", "inst", 3.0), ("3", "", 3.0)],
)
def test_numbers(cell: str, unit: str, value: float) -> None:
    assert ncu.number(cell, unit) == pytest.approx(value)


def test_rows_by_their_markers() -> None:
    def kernel(name: str, blocks: int = 8) -> KernelCounts:
        return KernelCounts(name, (blocks, 1, 1), {})

    profile = [kernel("noise"), kernel("spin", 3), kernel("gemm"), kernel("reduce"), kernel("spin(unsigned long)", 8)]
    found = {row: [k.name for k in kernels] for row, kernels in ncu.by_row(profile, "spin")}
    assert found == {2: ["gemm", "reduce"], 7: []}
    assert list(ncu.by_row([], "spin")) == []


def test_a_metric_with_another_name_and_one_that_is_none() -> None:
    said = r"==ERROR== Failed to find metric regex:^dram__bytes_read\.(sum|avg|min|max)$"
    assert ncu.missing_metric(said) == "dram__bytes_read"
    assert ncu.missing_metric("==ERROR== Failed to find metric dram__bytes_read.sum") == "dram__bytes_read"
    assert ncu.missing_metric(LOG) is None
    once = Metrics().without("dram__bytes_read")
    assert "dram__bytes_op_read.sum" in once.asked()
    assert "dram__bytes_read.sum" not in once.asked()
    twice = once.without("dram__bytes_op_read")
    assert len(twice.asked()) == len(COUNTERS) - 1
    assert twice.without("none") == twice
    (gemm,) = ncu.parse(
        LOG.replace("dram__bytes_read.sum", "dram__bytes_op_read.sum").replace('"spin"', '"gemm"'), once
    )[1:2]
    assert gemm.values[DRAM_READ.metric] == 8402432


def test_refusals_are_one_sentence() -> None:
    with pytest.raises(GemmsimError, match="run as root, or load the nvidia module with NVreg_Restrict"):
        ncu.refuse_failure("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", 1)
    with pytest.raises(GemmsimError, match=r"ncu ended with status 1: Unknown option"):
        ncu.refuse_failure("==PROF== x\n==ERROR== Unknown option\n==ERROR== more", 1)
    with pytest.raises(GemmsimError, match="ncu was ended after its time: it counted no kernel"):
        ncu.refuse_failure("", None)


def test_no_ncu_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "cuda*" / "ncu"),))
    with pytest.raises(GemmsimError, match="install the package nsight-compute"):
        ncu.find_ncu()
    for version in ("12.9", "13.0"):
        (tmp_path / f"cuda-{version}").mkdir()
        (tmp_path / f"cuda-{version}" / "ncu").touch()
    assert ncu.find_ncu() == str(tmp_path / "cuda-13.0" / "ncu")


def test_the_command_leaves_clocks_and_flushes_caches() -> None:
    found = ncu.command("ncu", ["a.sum", "b.sum"], "log", ["python3", "-m", "x"])
    said = " ".join(found)
    assert found[-3:] == ["python3", "-m", "x"]
    for part in ("--clock-control none", "--cache-control all", "--metrics a.sum,b.sum", "--page raw", "--csv",
                 "--print-units base", "--profile-from-start off", "--log-file log"):  # fmt: skip
        assert part in said
