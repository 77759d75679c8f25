"""`gemmsim probe`: measures the GPU, prints each figure beside what a file says, and writes a hardware file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.options import Command, whole
from gemmsim.cli.tables import FORMATS, Column, emit, progress
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Arch
from gemmsim.rows import check_out

if TYPE_CHECKING:
    from gemmsim.bench.hwspec import Known
    from gemmsim.bench.lab import CudaLab, Facts
    from gemmsim.bench.probe import Reading

_COLUMNS = (
    Column("figure"),
    Column("reading", unit_from="unit"),
    Column("file", "file says", unit_from="unit"),
    Column("difference", unit="1"),
    Column("how"),
)
#: reading -> figure of the file that it stands beside, where the names differ; peak_flops is SMs x rate x clock
_BESIDE = {"clock_load_hz": "clock_hz", "flops.fp32": "peak_flops.fp32", "flops.fp64": "peak_flops.fp64"}


@click.command(cls=Command)
@click.option("--out", metavar="FILE", help="The hardware file to write, mychip.yaml; its name is the GPU's.")
@click.option("--device", metavar="N", callback=whole(0, 1023), help="Which GPU, as CUDA counts them.  [default: 0]")
@click.option(
    "--gpu", metavar="NAME", help="The file that knows the product.  [default: the one that has the device's name]"
)
@click.option("--quick", is_flag=True, help="Fewer launches and footprints: readings that are good for a first look.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True, help="Of what is printed.")
def command(out: str | None, device: int | None, gpu: str | None, quick: bool, force: bool, format: str) -> None:
    """Measure a GPU and write its hardware file.

    Bandwidth of DRAM, L2 and shared memory, FMA rate, latencies, launch, clock under load, and the driver's occupancy
    against gemmsim's. What no kernel can read (datasheet peaks, tensor clock, MIG) comes from the product's file with
    its source, or is named under `unknown`. `gemmsim specs check FILE` reads the result.
    """
    path = _target(out, force)
    from gemmsim.bench.hwspec import architecture, known, refuse_nonsense, write_spec
    from gemmsim.bench.lab import CudaLab
    from gemmsim.bench.lock import gpu_lock

    lab = CudaLab(device or 0)
    arch = architecture(lab.facts, Path(path).parent)
    like = known(gpu or lab.facts.name, lab.facts, asked=gpu is not None)
    with gpu_lock(lab.facts.uuid):
        found, agreement = _measure(lab, arch, quick)
    emit(list(_rows(lab.facts, found, arch, like)), _COLUMNS, format, None, notes=[agreement] * (format == "table"))
    refuse_nonsense(found)
    write_spec(path, _text(lab.facts, found, arch, like, agreement))


def _target(out: str | None, force: bool) -> str:
    """The file to write. Raises GemmsimError for one that cannot be, or is there."""
    if out is None:
        raise GemmsimError("--out is missing: expected the hardware file to write, such as mychip.yaml")
    check_out(out)
    if not out.endswith((".yaml", ".yml")):
        raise GemmsimError(f"--out {out}: expected a name that ends in .yaml")
    if os.path.exists(out) and not force:
        raise GemmsimError(f"--out {out} is there already: expected another name, or --force to replace it")
    return out


def _measure(lab: CudaLab, arch: Arch, quick: bool) -> tuple[list[Reading], str]:
    """The readings, and a sentence on the driver's occupancy against gemmsim's."""
    from gemmsim.bench.probe import QUICK, STEPS, Plan, occupancy_grid, readings

    found: list[Reading] = []
    with progress(len(STEPS) + 1, "Probing") as step:
        for _, some in readings(lab, QUICK if quick else Plan(), arch.fma_per_clk_per_sm):
            found += some
            step(1)
        driver = lab.occupancy(*occupancy_grid(arch.smem_per_block_bytes))
        step(1)
    return found, occupancy_agreement(arch, driver)


def occupancy_agreement(arch: Arch, driver: Sequence[tuple[int, int, int, int]]) -> str:
    """How many of the driver's answers (threads, registers, shared bytes, blocks an SM) gemmsim's formula gives."""
    from gemmsim.model.occupancy import blocks_per_sm

    threads, regs, smem, blocks = zip(*driver, strict=True)
    ours = blocks_per_sm(arch, threads, regs, smem).blocks_per_sm.tolist()
    wrong = [(row, our) for row, our in zip(driver, ours, strict=True) if row[3] != our]
    text = (
        f"occupancy: {len(blocks) - len(wrong)} of {len(blocks)} launches have as many blocks an SM as the driver says"
    )
    if not wrong:
        return text
    (t, r, s, b), our = wrong[0]
    return f"{text}; the first that has not: {t} threads, {r} registers, {s} B: the driver says {b}, gemmsim {our}"


def _rows(facts: Facts, found: Sequence[Reading], arch: Arch, like: Known | None) -> Iterator[dict[str, Any]]:
    """A line a figure: what the device says, then what was read, each beside the file's."""
    device = {
        "sm_count": (facts.sm_count, "SMs"), "clock_hz": (facts.clock_hz, "Hz"), "dram_bytes": (facts.dram_bytes, "B"),
        "dram_bus_bits": (facts.dram_bus_bits, "bit"), "dram_clock_hz": (facts.dram_clock_hz, "Hz"),
        "l2_bytes": (facts.l2_bytes, "B"), "tdp_w": (facts.tdp_w, "W"),
    }  # fmt: skip
    limits = {key: (value, "B" if key.endswith("bytes") else "") for key, value in facts.limits.items()}
    for key, (value, unit) in (device | limits).items():
        yield _row(key, value, unit, _said(key, facts, arch, like), "the device says")
    for r in found:
        yield _row(r.key, r.value, r.unit, _said(_BESIDE.get(r.key, r.key), facts, arch, like), r.how)
        for at, rate in r.curve:
            yield _row(f"  at {_point(r, at)}", rate, r.unit, None, "")


def _point(reading: Reading, at: float) -> str:
    return f"{at / 2**20:.4g} MiB" if reading.unit == "B/s" else f"{at:g} threads"


def _row(figure: str, value: float | None, unit: str, file: float | None, how: str) -> dict[str, Any]:
    difference = value / file - 1 if value and file else None
    return {"figure": figure, "reading": value, "unit": unit, "file": file, "difference": difference, "how": how}


def _said(key: str, facts: Facts, arch: Arch, like: Known | None) -> float | None:
    """What the product's file, or the architecture's, says of a figure; a peak is 2 x rate x SMs x clock."""
    name, _, dtype = key.partition(".")
    if name == "peak_flops":
        return 2 * arch.fma_per_clk_per_sm[dtype] * facts.sm_count * facts.clock_hz
    from_product: Mapping[str, Any] = {k: f.value for k, f in like.figures.items()} if like else {}
    value = from_product.get(key, getattr(arch, key, None))
    return float(value) if isinstance(value, int | float) else None


def _text(facts: Facts, found: Sequence[Reading], arch: Arch, like: Known | None, agreement: str) -> str:
    import datetime

    from gemmsim.bench.hwspec import figures, yaml_text

    when = datetime.datetime.now(datetime.UTC).date().isoformat()
    values, unknown, notes = figures(facts, found, arch, like, when)
    return yaml_text(facts, arch, like, values, unknown, [*notes, f"{agreement} ({when})"])
