"""`gemmsim specs`: list, show, compare, check."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.cli.tables import Column, emit, human, send
from gemmsim.hardware import gpu_names
from gemmsim.paths import data_folder

Run = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Run:
    with pytest.raises(SystemExit) as caught:
        main(["specs", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


def test_list_names_every_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == gpu_names()
    h100 = next(line for line in out.splitlines() if line.startswith("h100_sxm"))
    for text in ("132", "1980 MHz", "3352 GB/s", "50 MiB", "989.4 TFLOP/s", "66.9 TFLOP/s"):
        assert text in h100


def test_list_says_what_is_calibrated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calibration").mkdir()
    for family in ("triton", "register_tile"):
        (tmp_path / "calibration" / f"h200_sxm.{family}.yaml").touch()
    monkeypatch.setattr("gemmsim.cli.specs.data_folder", lambda name: tmp_path)
    rows = {row["name"]: row["calibrated"] for row in json.loads(run(capsys, "list", "--format", "json")[1])}
    assert (rows["h200_sxm"], rows["h100_sxm"]) == (["register_tile", "triton"], [])


def test_show_prints_each_figure_with_kind_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "h200", "--format", "csv")
    rows = {row["figure"]: row for row in csv.DictReader(io.StringIO(out))}
    assert rows["l2_bytes"]["value"] == "62914560"
    assert (rows["launch_s"]["unit"], rows["launch_s"]["kind"]) == ("s", "measured")
    assert "rounds" in rows["datasheet_flops.fp64"]["conflict"]
    assert rows["peak_flops.bf16"]["kind"] == "derived"
    assert all(row["source"] for row in rows.values())
    table = run(capsys, "show", "NVIDIA H200")[1]
    assert "2.80 us" in table
    assert "60 MiB" in table
    assert "conflict: datasheet_flops.fp64:" in table


def test_compare_gives_ratios_and_ridges(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        r["figure"]: r for r in json.loads(run(capsys, "compare", "a100_sxm_80gb", "h100_sxm", "--format", "json")[1])
    }
    ridge = rows["ridge.bf16"]
    assert (round(ridge["a100_sxm_80gb"]), round(ridge["h100_sxm"]), ridge["unit"]) == (153, 295, "FLOP/B")
    assert rows["peak_flops.fp32"]["h100_sxm_ratio"] == pytest.approx(3.43, abs=0.01)
    assert rows["peak_flops.fp8"]["a100_sxm_80gb"] is None
    assert "295.2 FLOP/B" in run(capsys, "compare", "a100_sxm_80gb", "h100_sxm")[1]


def test_check_takes_what_is_right_and_names_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = Path(shutil.copy(data_folder("hwspecs") / "h100_pcie.yaml", tmp_path))
    arch = data_folder("hwspecs") / "arch" / "sm90.yaml"
    code, out, _ = run(capsys, "check", own, arch)
    assert code == 0
    assert out.count(" ok ") == 2
    own.write_text(own.read_text().replace("clock_hz: {value: 1.755e+9", "clock_hz: {value: 1755", 1))
    code, out, err = run(capsys, "check", own)
    assert code == 2
    assert "mistake  clock_hz.value is 1755: expected a number from 5.0e+08 to 5.0e+09 Hz (is it in MHz?" in out
    assert err == f"gemmsim: specs check: 1 mistake in {own}\n"


def test_check_lists_every_mistake_of_every_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = Path(shutil.copy(data_folder("hwspecs") / "h200_sxm.yaml", tmp_path))
    text = own.read_text()
    for old, new in (
        ("clock_base_hz: {value: 1.5e+9", "clock_base_hz: {value: 2.5e+9"),
        ("tdp_w: {value: 700.0", "tdp_w: {value: seven"),
        ("l2_latency_clk: {value: 285.0", "l2_latency_clk: {value: 985.0"),
        ("  bf16: {value: 989.5e+12", "  bf16: {value: 1979.0e+12"),
        ('kind: device, source: "cudaDeviceGetAttribute', 'kind: guess, source: "cudaDeviceGetAttribute'),
        ("unknown: []", "unknown: [colour]"),
        ("notes:", "remarks: []\nnotes:"),
        ("mig_sms: {value: [16, 26, 32, 60, 64, 132]", "mig_sms: {value: [16, 26, 32, 60, 164]"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    own.write_text(text)
    none = tmp_path / "none.yaml"
    code, out, err = run(capsys, "check", own, none, "--format", "json")
    rows = json.loads(out)
    assert code == 2
    mistakes = [row["what"] for row in rows if row["file"] == str(own)]
    for key in ("clock_base_hz", "tdp_w", "l2_latency_clk", "datasheet_flops.bf16", "dram_bus_bits.kind", "colour",
                "remarks", "mig_sms holds 5 values", "mig_sms is [16"):  # fmt: skip
        assert any(key in what for what in mistakes), key
    assert {row["verdict"] for row in rows} == {"mistake"}
    assert rows[-1]["what"] == "no such file"
    assert err == f"gemmsim: specs check: {len(rows)} mistakes in {own}, {none}\n"


def test_check_says_what_is_unusual(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = Path(shutil.copy(data_folder("hwspecs") / "h200_sxm.yaml", tmp_path / "h900.yaml"))
    own.write_text(own.read_text().replace("tdp_w: {value: 700.0", "tdp_w: {value: 1700.0"))
    code, out, _ = run(capsys, "check", own)
    assert code == 0
    assert " ok " in out
    assert "unusual  tdp_w is 1700 W: the most of the GPUs known is 1000" in out
    assert "unusual  datasheet_flops.fp64: conflict: 33.45 by SMs and clock" in out
    assert "unusual  the name 'NVIDIA H200' is another GPU's too" in out


def test_show_says_what_clusters_reach_and_what_mig_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {r["figure"]: r for r in json.loads(run(capsys, "show", "h100_sxm", "--format", "json")[1])}
    assert (rows["usable_sms.cluster_8"]["value"], rows["usable_sms.cluster_2"]["value"]) == (120, 132)
    assert rows["mig_sms.3g.40gb"]["value"] == 60
    assert "4/8 of the memory and 4/8 of the L2 (h100_sxm:3g.40gb)" in rows["mig_sms.3g.40gb"]["source"]
    assert not any(key.startswith("mig_profiles") or key == "cluster_sms" for key in rows)


def test_show_of_a_slice(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {r["figure"]: r for r in json.loads(run(capsys, "show", "NVIDIA H200 MIG 3g.71gb", "--format", "json")[1])}
    assert (rows["sm_count"]["value"], rows["sm_count"]["kind"]) == (60, "derived")
    assert rows["l2_bytes"]["value"] == 30 * 2**20
    assert "share of" in rows["dram_bytes_per_s"]["source"]
    assert "peak_flops.bf16" in rows
    assert "datasheet_flops.bf16" not in rows


def test_notes_are_shown_wherever_a_gpu_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    says = "B200's own matrix instructions (tcgen05) are not modelled yet: figures are for mma.sync"
    assert f"note: {says}" in run(capsys, "show", "b200")[1]
    assert f"note: b200_sxm: {says}" in run(capsys, "compare", "h200", "b200")[1]


def test_show_names_the_products_own_rate(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {r["figure"]: r for r in json.loads(run(capsys, "show", "rtx_4090", "--format", "json")[1])}
    assert rows["fma_per_clk_per_sm.fp16"]["value"] == 256
    assert "fp32 accumulate" in rows["fma_per_clk_per_sm.fp16"]["source"]
    assert "arch.fma_per_clk_per_sm.fp16" not in rows
    assert rows["peak_flops.fp16"]["source"] == "2 x fma_per_clk_per_sm.fp16 x sm_count x clock_tensor_hz"
    assert rows["peak_flops.int8"]["source"] == "2 x arch.fma_per_clk_per_sm.int8 x sm_count x clock_tensor_hz"


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_compare_draws_a_chart(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    pytest.importorskip("altair")
    file = tmp_path / f"c.{kind}"
    code, out, _ = run(capsys, "compare", "h100_sxm", "l4", "b200", "--chart", file)
    assert code == 0
    assert "ridge.bf16" in out
    data = file.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html"}[kind]
    assert data[:20].lower().startswith(start.lower())
    assert kind == "png" or b"121.2 TFLOP/s" in data


def test_a_chart_holds_the_tables_ratios() -> None:
    pytest.importorskip("altair")
    from gemmsim.cli.tables import human
    from gemmsim.comparison.figures import side_by_side
    from gemmsim.hardware import load_gpu
    from gemmsim.report import charts
    from gemmsim.report.hardware import ratios

    chips = [load_gpu(name) for name in ("h100_sxm", "l4")]
    table = ratios(chips, list(side_by_side(chips)), human)
    ratio = {(r["figure"], r["gpu"]): r["ratio"] for r in table.rows()}
    assert ratio["DRAM rate", "l4"] == pytest.approx(300 / 3352)
    assert {r for (_, gpu), r in ratio.items() if gpu == "h100_sxm"} == {1.0}
    spec = charts.gpus_compared(table).to_dict()
    values = next(iter(spec["datasets"].values()))
    assert {(v["figure"], v["gpu"]) for v in values} == set(ratio)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "h100"], "h100_nvl, h100_pcie, h100_sxm"),
        (["show", "b300"], "unknown GPU 'b300'"),
        (["compare", "h200"], "expected two GPUs or more"),
        (["compare", "h200", "NVIDIA H200"], "expected two GPUs or more, each once"),
        (["compare", "h200", "h100_sxm", "--chart", "c.pdf"], "--chart c.pdf: expected a name that ends in .html"),
        (["compare", "h200", "h100_sxm", "--chart", "/no/such/c.png"], "--chart /no/such/c.png: expected an existing"),
        (["show", "h200:5g.71gb"], "unknown MIG profile '5g.71gb' in GPU h200_sxm"),
        (["show", "l4:1g.6gb"], "GPU l4 has no MIG profiles"),
        (["list", "--out", "/no/such/out.csv"], "--out /no/such/out.csv"),
        (["dance"], "dance"),
        (["show"], "GPU"),
    ],
)
def test_wrong_input(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_out_writes_what_would_be_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, printed, _ = run(capsys, "list", "--format", "csv")
    assert run(capsys, "list", "--format", "csv", "--out", tmp_path / "x.csv")[1] == ""
    assert (tmp_path / "x.csv").read_text() == printed
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


# ---------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (989.4e12, "FLOP/s", "989.4 TFLOP/s"),
        (4.8e12, "B/s", "4800 GB/s"),
        (62914560, "B", "60 MiB"),
        (1000, "B", "1000 B"),
        (166912, "B", "163 KiB"),
        (2.8e-6, "s", "2.80 us"),
        (0.00123, "s", "1.230 ms"),
        (12.5, "s", "12.500 s"),
        (0.25, "1", "25 %"),
        (1.98e9, "Hz", "1980 MHz"),
        (None, "B", "-"),
        ([], "", "-"),
        (True, "", "yes"),
        (("a", "b"), "", "a, b"),
        (float("nan"), "s", "-"),
        (285.0, "clk", "285 clk"),
    ],
)
def test_what_people_read(value: object, unit: str, text: str) -> None:
    assert human(value, unit) == text


def test_numbers_stand_to_the_right_and_json_knows_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column("name"), Column("time_s", "time", "s")]
    rows = [{"name": "a", "time_s": 1e-6}, {"name": "long", "time_s": 123e-6}, {"name": "none", "time_s": float("nan")}]
    emit(rows, columns, "table", None)
    assert capsys.readouterr().out.splitlines() == [
        "name       time",
        "a       1.00 us",
        "long  123.00 us",
        "none          -",
    ]
    emit(rows, columns, "json", None)
    assert json.loads(capsys.readouterr().out)[2] == {"name": "none", "time_s": None}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.csv"
    target.write_text("old")

    def fail(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gemmsim.rows.os.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        send("new", str(target))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
