"""`gemmsim specs`: the GPUs gemmsim knows, one with its sources, several side by side, a check of one's own file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gemmsim.cli.tables import Column, emit, output_options
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, check_file, gpu_names, load_figures, load_gpu
from gemmsim.hwfields import peak_clock
from gemmsim.paths import data_folder
from gemmsim.problem import DTYPE_BYTES

_LIST = (
    Column("name"),
    Column("product"),
    Column("sm_count", "SMs"),
    Column("clock_hz", "clock", "Hz"),
    Column("dram_bytes", "DRAM", "B"),
    Column("dram_bytes_per_s", "DRAM rate", "B/s"),
    Column("l2_bytes", "L2", "B"),
    Column("bf16_flops", "bf16 dense", "FLOP/s"),
    Column("fp32_flops", "fp32", "FLOP/s"),
    Column("calibrated", "calibrated for"),
)
_SHOW = (
    Column("figure"),
    Column("value", unit_from="unit"),
    Column("kind"),
    Column("source"),
)
#: compared figures that are not by dtype: attribute path -> unit
_COMPARED = {
    "sm_count": "",
    "clock_hz": "Hz",
    "clock_tensor_hz": "Hz",
    "dram_bytes": "B",
    "dram_bytes_per_s": "B/s",
    "dram_measured_bytes_per_s": "B/s",
    "l2_bytes": "B",
    "l2_measured_bytes_per_s": "B/s",
    "l2_latency_clk": "clk",
    "dram_latency_clk": "clk",
    "tdp_w": "W",
    "arch.smem_per_sm_bytes": "B",
    "arch.smem_per_block_bytes": "B",
    "arch.regs_per_sm": "",
    "arch.max_warps_per_sm": "",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The GPUs gemmsim knows, and a check of your own file.

    A GPU is a YAML file: give its path wherever a name is asked for, or put it into a folder named in GEMMSIM_HWSPECS.
    """


@command.command("list")
@output_options()
def list_(format: str, out: str | None) -> None:
    """Every GPU by name, with its main figures; peaks are dense."""
    emit([_summary(load_gpu(name)) for name in gpu_names()], _LIST, format, out)


@command.command(short_help="Each figure of a GPU with unit, kind and source.")
@click.argument("gpu")
@output_options()
def show(gpu: str, format: str, out: str | None) -> None:
    """Each figure of GPU: unit, kind (datasheet, device, measured, derived, inferred) and source."""
    rows = list(_figures(gpu))
    columns = _SHOW if format == "table" else (*_SHOW[:2], Column("unit"), *_SHOW[2:], Column("conflict"))
    notes = [f"conflict: {row['figure']}: {row['conflict']}" for row in rows if row["conflict"]]
    emit(rows, columns, format, out, notes=notes + [f"note: {note}" for note in load_gpu(gpu).notes])


@command.command(short_help="GPUs side by side, with ratios and ridge points.")
@click.argument("gpus", nargs=-1, required=True)
@output_options()
def compare(gpus: Sequence[str], format: str, out: str | None) -> None:
    """GPUS side by side: figures, dense peaks, ridge points (FLOP a DRAM byte), and ratios to the first one."""
    chips = [load_gpu(name) for name in gpus]
    if len({chip.name for chip in chips}) < max(2, len(chips)):
        raise GemmsimError(f"specs compare {' '.join(gpus)}: expected two GPUs or more, each once")
    columns = [Column("figure"), *(Column(c.name, unit_from="unit") for c in chips)]
    columns += [Column(f"{c.name}_ratio", "ratio" if len(chips) == 2 else f"{c.name} ratio") for c in chips[1:]]
    if format != "table":
        columns.insert(1, Column("unit"))
    emit(list(_comparison(chips)), columns, format, out, notes=[f"ratios are to {chips[0].name}; peaks are dense"])


@command.command(short_help="Read hardware files strictly: ok, or what is wrong.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_options()
def check(files: Sequence[str], format: str, out: str | None) -> None:
    """Read hardware files strictly: `ok`, or what is wrong (file, key, found, expected) and exit code 2."""
    rows, mistakes = [], []
    for file in files:
        try:
            rows.append({"file": file, "verdict": "ok", "what": check_file(Path(file))})
        except GemmsimError as error:
            mistakes.append(str(error))
    if mistakes:
        raise GemmsimError("; ".join(mistakes))
    emit(rows, [Column("file"), Column("verdict"), Column("what")], format, out)


def _summary(gpu: Gpu) -> dict[str, Any]:
    figures = {key: getattr(gpu, key) for key in ("sm_count", "clock_hz", "dram_bytes", "dram_bytes_per_s", "l2_bytes")}
    peaks = {f"{dtype}_flops": gpu.peak_flops(dtype) for dtype in ("bf16", "fp32")}
    return {"name": gpu.name, "product": gpu.product, **figures, **peaks, "calibrated": _families(gpu.name)}


def _families(gpu: str) -> list[str]:
    """Kernel families with a shipped calibration for the GPU."""
    files = (data_folder("hwspecs") / "calibration").glob(f"{gpu}.*.yaml")
    return sorted(path.stem.split(".", 1)[1] for path in files)


def _figures(name: str) -> Iterator[dict[str, Any]]:
    for f in load_figures(name):
        yield _figure_row(f.key, f.value, f.unit, f.kind, f.source, f.conflict)
    gpu = load_gpu(name)
    for dtype in DTYPE_BYTES:
        if peak := gpu.peak_flops(dtype):
            source = f"2 x arch.fma_per_clk_per_sm.{dtype} x sm_count x {peak_clock(dtype)}"
            yield _figure_row(f"peak_flops.{dtype}", peak, "FLOP/s", "derived", source, "")


def _figure_row(*values: Any) -> dict[str, Any]:
    return dict(zip(("figure", "value", "unit", "kind", "source", "conflict"), values, strict=True))


def _comparison(chips: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    for key, unit in _COMPARED.items():
        yield _compared(key, unit, chips, [_attribute(chip, key) for chip in chips])
    for dtype in DTYPE_BYTES:
        peaks = [chip.peak_flops(dtype) for chip in chips]
        if any(peaks):
            yield _compared(f"peak_flops.{dtype}", "FLOP/s", chips, peaks)
    for dtype in DTYPE_BYTES:
        ridges = [peak / chip.dram_bytes_per_s if (peak := chip.peak_flops(dtype)) else None for chip in chips]
        if any(ridges):
            yield _compared(f"ridge.{dtype}", "FLOP/B", chips, ridges)


def _attribute(gpu: Gpu, key: str) -> Any:
    return getattr(gpu.arch, key.removeprefix("arch.")) if key.startswith("arch.") else getattr(gpu, key)


def _compared(key: str, unit: str, chips: Sequence[Gpu], values: Sequence[float | None]) -> dict[str, Any]:
    first = values[0]
    ratios = {f"{c.name}_ratio": v / first if v and first else None for c, v in zip(chips, values, strict=True)}
    return {"figure": key, "unit": unit, **{c.name: v for c, v in zip(chips, values, strict=True)}, **ratios}
