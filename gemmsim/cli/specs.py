"""`gemmsim specs`: the GPUs gemmsim knows, one with its sources, several side by side, a check of one's own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.charted import chart_option, check_chart, draw
from gemmsim.cli.options import HELP, Command
from gemmsim.cli.tables import Column, emit, output_options
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, check_file, gpu_names, load_figures, load_gpu
from gemmsim.hwfields import GROUPS, Figure, peak_clock
from gemmsim.model.residency import usable_sms
from gemmsim.paths import data_folder
from gemmsim.problem import DTYPE_BYTES

if TYPE_CHECKING:
    from gemmsim.report.table import Table

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


@click.group(context_settings=HELP)
def command() -> None:
    """The GPUs gemmsim knows, and a check of your own file.

    A GPU is a YAML file: give its path wherever a name is asked for, or put it into a folder named in GEMMSIM_HWSPECS.
    A MIG slice is h200_sxm:3g.71gb.
    """


@command.command("list", cls=Command)
@output_options()
def list_(format: str, out: str | None) -> None:
    """Every GPU by name, with its main figures; peaks are dense."""
    emit([_summary(load_gpu(name)) for name in gpu_names()], _LIST, format, out)


@command.command(cls=Command, short_help="Each figure of a GPU with unit, kind and source.")
@click.argument("gpu")
@output_options()
def show(gpu: str, format: str, out: str | None) -> None:
    """Each figure of GPU: unit, kind (datasheet, device, measured, derived, inferred) and source."""
    rows = list(_figures(gpu))
    columns = _SHOW if format == "table" else (*_SHOW[:2], Column("unit"), *_SHOW[2:], Column("conflict"))
    notes = [f"conflict: {row['figure']}: {row['conflict']}" for row in rows if row["conflict"]]
    emit(rows, columns, format, out, notes=notes + [f"note: {note}" for note in load_gpu(gpu).notes])


@command.command(cls=Command, short_help="GPUs side by side, with ratios and ridge points.")
@click.argument("gpus", nargs=-1, required=True)
@chart_option("the ratios")
@output_options()
def compare(gpus: Sequence[str], chart: str | None, format: str, out: str | None) -> None:
    """GPUS side by side: figures, dense peaks, ridge points (FLOP a DRAM byte), and ratios to the first one."""
    check_chart(chart)
    chips = [load_gpu(name) for name in gpus]
    if len({chip.name for chip in chips}) < max(2, len(chips)):
        raise GemmsimError(f"specs compare {' '.join(gpus)}: expected two GPUs or more, each once")
    columns = [Column("figure"), *(Column(c.name, unit_from="unit") for c in chips)]
    columns += [Column(f"{c.name}_ratio", "ratio" if len(chips) == 2 else f"{c.name} ratio") for c in chips[1:]]
    if format != "table":
        columns.insert(1, Column("unit"))
    rows = list(_comparison(chips))
    notes = [f"ratios are to {chips[0].name}; peaks are dense", *_notes(chips)]
    if chart is not None:
        _draw(chips, rows, notes, chart)
    emit(rows, columns, format, out, notes=notes)


@command.command(cls=Command, short_help="Read hardware files strictly: mistakes, and what is unusual.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_options()
def check(files: Sequence[str], format: str, out: str | None) -> None:
    """Read hardware files strictly: every mistake (key, found, expected), or ok and what is unusual.

    Exit code 2 if there is a mistake.
    """
    rows = [row for file in files for row in _checked(file)]
    emit(rows, [Column("file"), Column("verdict"), Column("what")], format, out)
    wrong = [row["file"] for row in rows if row["verdict"] == "mistake"]
    if wrong:
        several = f"{len(wrong)} mistakes" if len(wrong) > 1 else "1 mistake"
        raise GemmsimError(f"specs check: {several} in {', '.join(dict.fromkeys(wrong))}")


def _checked(file: str) -> Iterator[dict[str, str]]:
    """A row a mistake; or one that says ok, and one for each thing that is unusual."""
    from gemmsim.hwfile import HardwareFileError

    try:
        what = check_file(Path(file))
    except HardwareFileError as error:
        yield from ({"file": file, "verdict": "mistake", "what": mistake} for mistake in error.mistakes)
        return
    except GemmsimError as error:
        yield {"file": file, "verdict": "mistake", "what": str(error).removeprefix(f"{file}: ")}
        return
    yield {"file": file, "verdict": "ok", "what": what}
    if not what.startswith("architecture"):
        yield from ({"file": file, "verdict": "unusual", "what": text} for text in _unusual(file))


def _unusual(file: str) -> Iterator[str]:
    """What in a file is no mistake and still worth a look."""
    gpu, figures = load_gpu(file), [f for f in load_figures(file) if not f.key.startswith("arch.")]
    for f in figures:
        if f.conflict:
            yield f"{f.key}: conflict: {f.conflict}"
    others = [load_gpu(name) for name in gpu_names() if Path(load_gpu(name).path).resolve() != Path(file).resolve()]
    for f in figures:
        values = [v for other in others if isinstance(v := _number(other, f.key), int | float)]
        if isinstance(f.value, int | float) and values and not min(values) <= f.value <= max(values):
            side = f"the least of the GPUs known is {min(values):.6g}" if f.value < min(values) else (
                f"the most of the GPUs known is {max(values):.6g}")  # fmt: skip
            yield f"{f.key} is {f.value:.6g} {f.unit}".rstrip() + f": {side}"
    names = {plain for other in others for plain in (other.name, *other.aliases)}
    for name in (gpu.name, *gpu.aliases):
        if name in names:
            yield f"the name {name!r} is another GPU's too: the file's path is safe, the name may find the other"
    inferred = [f.key for f in figures if f.kind == "inferred"]
    if len(inferred) > len(figures) / 2:
        yield f"{len(inferred)} of {len(figures)} figures are inferred: {', '.join(inferred[:5])}, ..."


def _number(gpu: Gpu, key: str) -> Any:
    name, _, dtype = key.partition(".")
    if dtype:
        rates = gpu.arch.fma_per_clk_per_sm if name == "fma_per_clk_per_sm" else gpu.datasheet_flops
        return rates.get(dtype)
    return getattr(gpu, name, None)


def _summary(gpu: Gpu) -> dict[str, Any]:
    figures = {key: getattr(gpu, key) for key in ("sm_count", "clock_hz", "dram_bytes", "dram_bytes_per_s", "l2_bytes")}
    peaks = {f"{dtype}_flops": gpu.peak_flops(dtype) for dtype in ("bf16", "fp32")}
    return {"name": gpu.name, "product": gpu.product, **figures, **peaks, "calibrated": _families(gpu.name)}


def _families(gpu: str) -> list[str]:
    """Kernel families with a shipped calibration for the GPU."""
    files = (data_folder("hwspecs") / "calibration").glob(f"{gpu}.*.yaml")
    return sorted(path.stem.split(".", 1)[1] for path in files)


def _figures(name: str) -> Iterator[dict[str, Any]]:
    gpu, figures = load_gpu(name), load_figures(name)
    grouped = {key for group in GROUPS for key in group}
    for f in figures:
        if f.key not in grouped:
            yield _figure_row(f.key, f.value, f.unit, f.kind, f.source, f.conflict)
    yield from _groups(gpu, {f.key: f for f in figures if f.key in grouped})
    own = {f.key for f in figures}
    for dtype in DTYPE_BYTES:
        if peak := gpu.peak_flops(dtype):
            rate = f"fma_per_clk_per_sm.{dtype}"
            source = f"2 x {'' if rate in own else 'arch.'}{rate} x sm_count x {peak_clock(dtype)}"
            yield _figure_row(f"peak_flops.{dtype}", peak, "FLOP/s", "derived", source, "")


def _groups(gpu: Gpu, figures: Mapping[str, Figure]) -> Iterator[dict[str, Any]]:
    """The SMs that clusters reach, and the MIG slices: a row each, in place of their lists."""
    for size in gpu.cluster_sizes:
        f = figures["cluster_sms"]
        yield _figure_row(f"usable_sms.cluster_{size}", usable_sms(gpu, size), "SMs", f.kind, f.source, f.conflict)
    slices = zip(gpu.mig_profiles, gpu.mig_sms, gpu.mig_memory_eighths, gpu.mig_l2_eighths, strict=True)
    for profile, sms, memory, l2 in slices:
        f = figures["mig_sms"]
        source = f"with {memory}/8 of the memory and {l2}/8 of the L2 ({gpu.name}:{profile}); {f.source}"
        yield _figure_row(f"mig_sms.{profile}", sms, "SMs", f.kind, source, f.conflict)


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


# ---------------------------------------------------------------------------------------------- chart


def _notes(chips: Sequence[Gpu]) -> list[str]:
    return [f"note: {chip.name}: {note}" for chip in chips for note in chip.notes]


#: charted figures that are not by dtype: key in the comparison -> name in the chart
_CHARTED = {
    "sm_count": "SMs",
    "dram_bytes": "DRAM",
    "dram_bytes_per_s": "DRAM rate",
    "l2_bytes": "L2",
    "tdp_w": "power limit",
}


def _draw(chips: Sequence[Gpu], rows: Sequence[Mapping[str, Any]], notes: Sequence[str], path: str) -> None:
    from gemmsim.report import charts

    table = _ratios(chips, rows)
    draw(
        path, charts.gpus_compared(table), [table], notes, caption=f"Ratios to {chips[0].name}", section="Side by side",
        title=" against ".join([", ".join(c.name for c in chips[1:]), chips[0].name]),
        question="What differs between these GPUs, and by how much?",
    )  # fmt: skip


def _ratios(chips: Sequence[Gpu], rows: Sequence[Mapping[str, Any]]) -> Table:
    """The table that the chart draws: a row a figure and GPU."""
    from gemmsim.cli.tables import human
    from gemmsim.report.table import Column as Shown
    from gemmsim.report.table import table

    found = []
    for row in rows:
        key, _, dtype = row["figure"].partition(".")
        names = {"peak_flops": f"{dtype} dense", "ridge": f"ridge {dtype}"}
        name = names.get(key, _CHARTED.get(row["figure"]))
        for chip in chips if name else ():
            value = row[chip.name]
            ratio = 1.0 if value and chip is chips[0] else row[f"{chip.name}_ratio"]
            found.append(
                {"figure": name, "gpu": chip.name, "value": value, "shown": human(value, row["unit"]), "ratio": ratio}
            )
    shown = (Shown("figure", "figure"), Shown("gpu", "GPU"), Shown("shown", "value"), Shown("ratio", "ratio", "x"))
    return table("comparison", "Figures and ratios", shown, found, f"ratios are to {chips[0].name}")
