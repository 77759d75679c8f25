"""Readings of a GPU, what its device says and what the file of its product knows, as a hardware file of one's own.

Figures that can be read on the GPU are: kinds `device` and `measured`. Product data (datasheet peaks, tensor clock,
memory type, clusters, MIG) come with their sources from the file whose product the device is; without one they are
inferred where the format wants them, and named under `unknown` where it does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsim.bench.lab import Facts
from gemmsim.bench.probe import Reading
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Arch, Gpu, check_file, find_gpu, gpu_names, load_arch, load_figures, load_gpu
from gemmsim.hwfields import CONFLICT_TOLERANCE, GPU_FORM, GROUPS, PEAK_TOLERANCE, Figure, peak_clock
from gemmsim.hwfile import HardwareFileError, yaml_number
from gemmsim.paths import data_folder
from gemmsim.rows import whole_file

#: readings that a product's file holds
MEASURED = (
    "dram_measured_bytes_per_s", "dram_latency_clk", "l2_measured_bytes_per_s", "l2_latency_clk", "launch_s",
)  # fmt: skip
_GROUPED = [key for group in GROUPS for key in group]
#: figures of the product that no device tells
_PRODUCT = ("clock_tensor_hz", "clock_base_hz", "dram_type", "l2_partitions", "l2_far_latency_clk", *_GROUPED)
_DIGITS = 4


@dataclass(frozen=True)
class Known:
    """The file whose product the device is."""

    gpu: Gpu
    figures: Mapping[str, Figure]


def known(name: str, facts: Facts, *, asked: bool = False) -> Known | None:
    """The file that a name finds, if its SMs and memory are the device's; None for no such file.

    Raises GemmsimError if the name was `asked` for and finds none, or another chip's.
    """
    try:
        gpu = load_gpu(name)
    except GemmsimError:
        if asked:
            raise
        return None
    same = gpu.sm_count == facts.sm_count and abs(gpu.dram_bytes / facts.dram_bytes - 1) < 0.1
    if same and gpu.arch.compute_capability == facts.compute_capability:
        return Known(gpu, {f.key: f for f in load_figures(name) if not f.key.startswith("arch.")})
    if asked:
        raise GemmsimError(
            f"--gpu {name} has {gpu.sm_count} SMs, {gpu.dram_bytes:.4g} B and compute capability "
            f"{gpu.arch.compute_capability}: expected the device's {facts.sm_count} SMs, {facts.dram_bytes:.4g} B and "
            f"{facts.compute_capability} ({facts.name})"
        )
    return None


def architecture(facts: Facts, beside: Path) -> Arch:
    """The architecture's figures: from arch/ beside the file to be written, or shipped.

    Raises GemmsimError where there is no file for the compute capability: what it must hold cannot all be read.
    """
    name = f"sm{facts.compute_capability.replace('.', '')}"
    for folder in (beside, beside / "arch", data_folder("hwspecs") / "arch"):
        if (folder / f"{name}.yaml").is_file():
            return load_arch(folder / f"{name}.yaml")
    have = ", ".join(sorted(path.stem for path in (data_folder("hwspecs") / "arch").glob("*.yaml")))
    raise GemmsimError(
        f"{facts.name} has compute capability {facts.compute_capability} and no file says what such an SM does: write "
        f"{beside / 'arch' / name}.yaml after a shipped one ({have}): limits, FMA rates and instructions"
    )


# ---------------------------------------------------------------------------------------------- figures


def figures(
    facts: Facts, readings: Sequence[Reading], arch: Arch, like: Known | None, when: str
) -> tuple[dict[str, Figure], list[str], list[str]]:
    """The figures of the file by dotted key, the names under `unknown`, and notes. `when`: the date of the readings."""
    found = _device(facts, when) | _measured(facts, readings, when)
    found |= _product(facts, arch, like)
    notes = [*_notes(readings, when)]
    peaks, wrong = _peaks(found, arch, like)
    found |= peaks
    if wrong:
        notes.append(f"no datasheet peak for {', '.join(wrong)}: the product's is not what SMs and clock give")
    return found, _unknown(found, arch, like), notes


def _device(facts: Facts, when: str) -> dict[str, Figure]:
    how = f"cudaDeviceGetAttribute on {facts.name}, driver {facts.driver}, {when}"
    values: dict[str, Any] = {
        "sm_count": facts.sm_count, "clock_hz": facts.clock_hz, "dram_bytes": facts.dram_bytes,
        "dram_bus_bits": facts.dram_bus_bits, "dram_clock_hz": facts.dram_clock_hz, "l2_bytes": facts.l2_bytes,
    }  # fmt: skip
    found = {key: Figure(key, value, "", "device", how) for key, value in values.items() if value}
    if facts.tdp_w:
        limit = f"default power limit, nvidia-smi on {facts.name}, driver {facts.driver}, {when}"
        found["tdp_w"] = Figure("tdp_w", facts.tdp_w, "W", "device", limit)
    return found


def _measured(facts: Facts, readings: Sequence[Reading], when: str) -> dict[str, Figure]:
    return {
        r.key: Figure(r.key, _rounded(r.value), r.unit, "measured", f"{r.how}; gemmsim probe on {facts.name}, {when}")
        for r in readings
        if r.key in MEASURED
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _product(facts: Facts, arch: Arch, like: Known | None) -> dict[str, Figure]:
    """What the device does not tell: the product's, or inferred where the file must have it."""
    have = {} if like is None else like.figures
    keys = [*_PRODUCT, *(key for key in have if key.startswith("fma_per_clk_per_sm."))]
    found = {key: have[key] for key in keys if key in have and not _faster(key, have[key], facts)}
    for key in ("dram_bytes_per_s", "tdp_w"):
        if key in have and not (key == "tdp_w" and facts.tdp_w):
            found[key] = have[key]
    for figure in _inferred(facts, arch):
        found.setdefault(figure.key, figure)
    return {key: _with_conflict(f, facts) if key == "dram_bytes_per_s" else f for key, f in found.items()}


def _faster(key: str, figure: Figure, facts: Facts) -> bool:
    """A clock of the product's that this device, slower than it, does not reach."""
    return key.startswith("clock_") and float(figure.value) > facts.clock_hz


def _inferred(facts: Facts, arch: Arch) -> Iterable[Figure]:
    """What a file must have, for a product that no file knows."""
    yield Figure("clock_tensor_hz", facts.clock_hz, "Hz", "inferred", "the SMs' maximum clock: no source names another")
    yield Figure("dram_type", "not known", "", "inferred", "the driver does not say the memory's type")
    partitions, of = _partitions(facts, arch)
    yield Figure("l2_partitions", partitions, "", "inferred", of)
    bandwidth = _bus_bandwidth(facts)
    if bandwidth is not None:
        yield Figure("dram_bytes_per_s", bandwidth, "B/s", "derived", "dram_bus_bits / 8 x 2 x dram_clock_hz")


def _partitions(facts: Facts, arch: Arch) -> tuple[int, str]:
    """L2 partitions of the known chip of the same architecture whose SM count is nearest."""
    chips = [gpu for gpu in map(load_gpu, gpu_names()) if gpu.arch.name == arch.name]
    if not chips:
        return 1, "no other chip of the architecture is known"
    near = min(chips, key=lambda gpu: abs(gpu.sm_count - facts.sm_count))
    return near.l2_partitions, f"as {near.name}, the chip of the same architecture whose SM count is nearest"


def _bus_bandwidth(facts: Facts) -> float | None:
    if not facts.dram_bus_bits or not facts.dram_clock_hz:
        return None
    return facts.dram_bus_bits / 8 * 2 * facts.dram_clock_hz


def _with_conflict(figure: Figure, facts: Facts) -> Figure:
    """The nominal bandwidth; derived from the device's bus and clock where the product's cannot be this device's."""
    derived = _bus_bandwidth(facts)
    if derived is None or abs(figure.value / derived - 1) <= PEAK_TOLERANCE or figure.conflict:
        return figure
    if abs(figure.value / derived - 1) <= CONFLICT_TOLERANCE:
        return replace(figure, conflict=f"{derived:.4g} by the device's bus and clock")
    source = f"dram_bus_bits / 8 x 2 x dram_clock_hz; the product's is {figure.value:.4g} ({figure.source})"
    return replace(figure, value=derived, kind="derived", source=source)


def _peaks(found: Mapping[str, Figure], arch: Arch, like: Known | None) -> tuple[dict[str, Figure], list[str]]:
    """The product's datasheet peaks that SMs and clock can give, and the dtypes of those that they cannot."""
    if like is None:
        return {}, []
    peaks, wrong = {}, []
    for key, figure in like.figures.items():
        name, _, dtype = key.partition(".")
        if name != "datasheet_flops":
            continue
        rate = like.gpu.arch.fma_per_clk_per_sm[dtype]
        derived = 2 * rate * found["sm_count"].value * found[peak_clock(dtype)].value
        off = abs(figure.value / derived - 1)
        if off > CONFLICT_TOLERANCE:
            wrong.append(dtype)
            continue
        if off > PEAK_TOLERANCE and not figure.conflict:
            figure = replace(figure, conflict=f"{derived:.4g} by the device's SMs and clock")
        peaks[key] = figure
    return peaks, wrong


def _unknown(found: Mapping[str, Figure], arch: Arch, like: Known | None) -> list[str]:
    """The optional figures that are not there, as the file names them."""
    rates = set(arch.fma_per_clk_per_sm)
    own = rates if like is None else set(like.gpu.arch.fma_per_clk_per_sm)
    wanted = {key for key in GPU_FORM.optional if not key.startswith(GPU_FORM.unsaid)}
    wanted |= {f"datasheet_flops.{dtype}" for dtype in own}
    return sorted((wanted - set(found)) | {f"fma_per_clk_per_sm.{dtype}" for dtype in rates - own})


def _notes(readings: Sequence[Reading], when: str) -> Iterable[str]:
    """What was read and has no key of its own."""
    for r in readings:
        if r.key not in MEASURED:
            yield f"{r.key}: {_rounded(r.value):g} {r.unit} ({r.how}; gemmsim probe, {when})"
        elif r.curve:
            points = ", ".join(f"{rate:.3g} at {size / 2**20:.4g} MiB" for size, rate in r.curve)
            yield f"{r.key} by footprint: {points} ({when})"


# ---------------------------------------------------------------------------------------------- the file


def refuse_nonsense(readings: Sequence[Reading]) -> None:
    """Raise GemmsimError for a reading that is no positive number: a kernel that did not run, a clock that stood."""
    for r in readings:
        if not 0 < r.value < math.inf:
            raise GemmsimError(f"{r.key} was read as {r.value:g} {r.unit} ({r.how}): expected a number above 0")


def write_spec(path: str, text: str) -> None:
    """The file, once the strict loader has taken it. Raises GemmsimError for what it refuses; nothing is left then."""
    with whole_file(path) as file:
        file.write(text.encode())
        file.flush()
        try:
            check_file(Path(file.name))
        except HardwareFileError as error:
            raise GemmsimError(f"{path} was not written: the readings make no hardware file: {error.why}") from None


def yaml_text(
    facts: Facts,
    arch: Arch,
    like: Known | None,
    found: Mapping[str, Figure],
    unknown: Sequence[str],
    notes: Sequence[str],
) -> str:
    """The file: one figure a line, in the order of the shipped ones."""
    product = facts.name if like is None else like.gpu.product
    lines = [
        f"# {product}, read by gemmsim probe. One figure a line: value in SI base units, kind "
        "(datasheet | device | measured | derived | inferred), source.",
        f"product: {json.dumps(product)}",
        f"arch: {arch.name}",
        f"aliases: {json.dumps(_aliases(facts))}",
        f"unknown: {json.dumps(unknown)}",
        "notes:" if notes else "notes: []",
        *(f"  - {json.dumps(note, ensure_ascii=False)}" for note in notes),
        "",
    ]
    plain = [*GPU_FORM.texts, *GPU_FORM.numbers]
    order = sorted((key for key in found if "." not in key), key=plain.index)
    lines += [f"{key}: {_entry(found[key])}" for key in order]
    for name in ("fma_per_clk_per_sm", "datasheet_flops"):
        dotted = [key for key in found if key.startswith(name + ".")]
        if dotted or name == "datasheet_flops":
            lines.append(f"{name}:" if dotted else f"{name}: {{}}")
            lines += [f"  {key.partition('.')[2]}: {_entry(found[key])}" for key in dotted]
    return "\n".join(lines) + "\n"


def _aliases(facts: Facts) -> list[str]:
    """The device's name, unless another file has it."""
    try:
        find_gpu(facts.name)
    except GemmsimError:
        return [facts.name]
    return []


def _entry(figure: Figure) -> str:
    parts = {"value": _scalar(figure.value), "kind": figure.kind, "source": _text(figure.source)}
    if figure.conflict:
        parts["conflict"] = _text(figure.conflict)
    return "{" + ", ".join(f"{key}: {value}" for key, value in parts.items()) + "}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_scalar, value)) + "]"
    return str(value) if isinstance(value, int) else _float(value)


def _float(value: float) -> str:
    text = yaml_number(value)
    return text if "." in text else f"{text}.0"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
