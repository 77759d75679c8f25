"""What a chip is: `Gpu` and `Arch` hold the figures the model reads, in SI units; `load_gpu` reads them from YAML."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.hwfields import CONFLICT_TOLERANCE, GPU, PEAK_TOLERANCE, Document, Figure
from gemmsim.paths import data_folder
from gemmsim.problem import DTYPE_BYTES

#: environment variable: folders of hardware files of one's own, searched before the shipped ones
HWSPECS_VARIABLE = "GEMMSIM_HWSPECS"


@dataclass(frozen=True)
class Arch:
    """Limits and per-clock rates that every product of one compute capability shares."""

    name: str  # sm80, sm90, ...
    compute_capability: str  # "9.0"
    max_warps_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    regs_per_sm: int
    regs_per_block: int
    regs_per_thread: int
    reg_alloc_unit_per_warp: int
    sub_partitions: int
    smem_per_sm_bytes: int
    smem_per_block_bytes: int  # the opt-in maximum
    smem_reserved_per_block_bytes: int
    smem_alloc_unit_bytes: int
    smem_carveouts_bytes: tuple[int, ...]
    l1_smem_bytes: int  # L1 and shared memory together
    smem_bytes_per_clk_per_sm: float
    fma_per_clk_per_sm: Mapping[
        str, float
    ]  # by dtype, dense; fp32, fp64: the CUDA cores', the others: the tensor cores'
    matrix_instructions: tuple[str, ...]  # of "mma_sync", "wgmma"
    mma_sync_fraction_of_peak: float
    smem_latency_clk: float
    l1_latency_clk: float


@dataclass(frozen=True)
class Gpu:
    """One product. Optional figures are None where no source gives them; the model then scales from the others."""

    name: str  # the file's name: h200_sxm
    product: str  # NVIDIA H200 SXM 141GB
    arch: Arch
    sm_count: int
    clock_hz: float  # boost: the clock of the SIMT peak
    clock_tensor_hz: float  # the clock at which the datasheet's tensor peak holds
    dram_bytes: float
    dram_bytes_per_s: float
    dram_measured_bytes_per_s: float | None
    l2_bytes: float
    l2_partitions: int
    l2_measured_bytes_per_s: float | None
    l2_latency_clk: float | None
    dram_latency_clk: float | None
    launch_s: float | None  # an empty kernel between two events
    tdp_w: float
    datasheet_flops: Mapping[str, float] = field(default_factory=dict)  # dense peaks, by dtype
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path: str = ""
    clock_base_hz: float | None = None
    dram_type: str = ""  # HBM3e
    dram_bus_bits: int | None = None
    dram_clock_hz: float | None = None  # two transfers a clock
    l2_far_latency_clk: float | None = None  # the other partition's half

    def peak_flops(self, dtype: str) -> float | None:
        """Dense peak in FLOP/s, derived: 2 x FMA a clock x SMs x clock; None if the chip has no path for the dtype."""
        rate = self.arch.fma_per_clk_per_sm.get(dtype)
        if rate is None:
            return None
        clock_hz: float = getattr(self, peak_clock(dtype))
        return 2 * rate * self.sm_count * clock_hz


def peak_clock(dtype: str) -> str:
    """The field of Gpu that holds the clock of a dtype's peak."""
    return "clock_hz" if dtype in ("fp32", "fp64") else "clock_tensor_hz"


def load_gpu(name_or_path: str) -> Gpu:
    """A GPU by name (`h200_sxm`), device string (`NVIDIA H200`) or file (`./mychip.yaml`).

    Names are looked for in the folders of GEMMSIM_HWSPECS, then among the shipped files. Raises GemmsimError for an
    unknown or ambiguous name, and for a wrong file: its path, the key, what was found, what was expected.
    """
    return _read(find_gpu(name_or_path))[0]


def load_figures(name_or_path: str) -> tuple[Figure, ...]:
    """The figures behind `load_gpu` with unit, kind and source; the architecture's last, with keys `arch.<figure>`."""
    return _read(find_gpu(name_or_path))[1]


def check_file(path: Path) -> str:
    """Read a product's or an architecture's file as `load_gpu` would, and say what it is. Raises GemmsimError."""
    from gemmsim.yamlfile import read_yaml

    if "compute_capability" in read_yaml(path):
        arch, figures = _load_arch(path, _stamp(path))
        return f"architecture {arch.name}, compute capability {arch.compute_capability}, {len(figures)} figures"
    gpu, figures = _read(path)
    return f"{gpu.product} ({gpu.arch.name}), {len(figures)} figures"


def gpu_names() -> list[str]:
    """Names of the GPUs that `load_gpu` finds without a path, sorted."""
    return sorted(_files())


def find_gpu(name_or_path: str) -> Path:
    """The file that `load_gpu` would read. Raises GemmsimError for an unknown or ambiguous name."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or "/" in text or os.sep in text:
        return Path(text)
    files = _files()
    wanted = plain_name(text)
    if wanted in files:
        return files[wanted]
    return files[_by_alias(wanted, text, files)]


def plain_name(text: str) -> str:
    """A GPU's name as names are compared: lower case, spaces and hyphens as underscores."""
    return "_".join(text.lower().replace("-", " ").replace("_", " ").split())


def _by_alias(wanted: str, text: str, files: Mapping[str, Path]) -> str:
    names = {name: name for name in files} | _aliases(files)
    if wanted in names:
        return names[wanted]
    bare = wanted.removeprefix("nvidia_")
    variants = sorted({n for alias, n in names.items() if alias.removeprefix("nvidia_").startswith(bare + "_")})
    if variants:
        raise GemmsimError(f"GPU {text!r} names no single product: say which of {', '.join(variants)}")
    raise unknown("GPU", text, sorted(files))


def _aliases(files: Mapping[str, Path]) -> dict[str, str]:
    return {plain_name(alias): name for name, path in files.items() for alias in _read(path)[0].aliases}


def _files() -> dict[str, Path]:
    """Name -> file, from the folders of GEMMSIM_HWSPECS and the shipped one; the first folder wins."""
    own = [Path(f) for f in os.environ.get(HWSPECS_VARIABLE, "").split(os.pathsep) if f]
    for folder in own:
        if not folder.is_dir():
            raise GemmsimError(f"{HWSPECS_VARIABLE} names {str(folder)!r}: expected a folder of hardware files")
    folders = [data_folder("hwspecs"), *reversed(own)]
    return {path.stem.lower(): path for folder in folders for path in sorted(folder.glob("*.y*ml"))}


def _read(path: Path) -> tuple[Gpu, tuple[Figure, ...]]:
    """A GPU and its figures, read again only if its file or its architecture's has changed."""
    doc = _document(path, _stamp(path))
    arch_path = _arch_file(path, doc.plain["arch"])
    return _load(path, _stamp(path), arch_path, _stamp(arch_path))


def _stamp(path: Path) -> int:
    """Changes when the file does; 0 for no file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache
def _document(path: Path, stamp: int) -> Document:
    from gemmsim.hwfile import read_gpu

    return read_gpu(path)


@lru_cache
def _load(path: Path, stamp: int, arch_path: Path, arch_stamp: int) -> tuple[Gpu, tuple[Figure, ...]]:
    doc = _document(path, stamp)
    arch, arch_figures = _load_arch(arch_path, arch_stamp)
    gpu = _gpu(doc, arch, path)
    _refuse(path, _gpu_mistakes(gpu, doc))
    return gpu, (*doc.figures.values(), *arch_figures)


@lru_cache
def _load_arch(path: Path, stamp: int) -> tuple[Arch, tuple[Figure, ...]]:
    from gemmsim.hwfile import read_arch

    doc = read_arch(path)
    arch = _arch(doc, path)
    _refuse(path, _arch_mistakes(arch))
    return arch, tuple(replace(figure, key=f"arch.{key}") for key, figure in doc.figures.items())


def _arch_file(path: Path, arch: str) -> Path:
    """The architecture's file: beside the product's, in its folder arch/, or shipped."""
    shipped = data_folder("hwspecs") / "arch"
    tried = [folder / f"{arch}.yaml" for folder in (path.parent, path.parent / "arch", shipped)]
    for candidate in tried:
        if candidate.is_file() and candidate != path:
            return candidate
    known = sorted(p.stem for p in shipped.glob("*.yaml"))
    raise unknown("architecture", arch, known, where=f"{path}, key arch")


def _arch(doc: Document, path: Path) -> Arch:
    values = {key: figure.value for key, figure in doc.figures.items() if "." not in key}
    rates = doc.by_dtype("fma_per_clk_per_sm")
    return Arch(name=path.stem, compute_capability=doc.plain["compute_capability"], fma_per_clk_per_sm=rates, **values)


def _gpu(doc: Document, arch: Arch, path: Path) -> Gpu:
    known: dict[str, Any] = dict.fromkeys(key for key, quantity in GPU.items() if getattr(quantity, "optional", False))
    known |= {key: figure.value for key, figure in doc.figures.items() if "." not in key}
    known |= {key: tuple(doc.plain[key]) for key in ("aliases", "notes")}
    peaks = doc.by_dtype("datasheet_flops")
    name = path.stem.lower()
    return Gpu(name=name, product=doc.plain["product"], arch=arch, datasheet_flops=peaks, path=str(path), **known)


def _refuse(path: Path, mistakes: Iterator[str]) -> None:
    """Raise the first mistakes as one sentence, if there are any."""
    found = list(mistakes)
    if found:
        raise GemmsimError(f"{path}: " + "; ".join(found[:5]))


def _arch_mistakes(a: Arch) -> Iterator[str]:
    """What of an architecture's figures cannot be true together."""
    digits = a.compute_capability.replace(".", "")
    if not digits.isdigit() or a.compute_capability.count(".") != 1:
        yield f'compute_capability is {a.compute_capability!r}: expected text like "9.0"'
    elif a.name.startswith("sm") and a.name[2:].isdigit() and a.name != f"sm{digits}":
        yield f"compute_capability is {a.compute_capability!r}: expected that of the file's name, {a.name}"
    most = {
        "max_threads_per_block": (a.max_threads_per_block, "max_threads_per_sm", a.max_threads_per_sm),
        "regs_per_block": (a.regs_per_block, "regs_per_sm", a.regs_per_sm),
        "smem_per_block_bytes": (a.smem_per_block_bytes, "smem_per_sm_bytes", a.smem_per_sm_bytes),
        "smem_per_sm_bytes": (a.smem_per_sm_bytes, "l1_smem_bytes", a.l1_smem_bytes),
    }
    for key, (value, bound, limit) in most.items():
        if value > limit:
            yield f"{key} is {value}: expected at most {bound}, {limit}"
    if a.max_threads_per_sm != 32 * a.max_warps_per_sm:
        yield f"max_threads_per_sm is {a.max_threads_per_sm}: expected 32 x max_warps_per_sm, {32 * a.max_warps_per_sm}"
    sizes = a.smem_carveouts_bytes
    if list(sizes) != sorted(set(sizes)) or sizes[-1] != a.smem_per_sm_bytes:
        yield f"smem_carveouts_bytes is {list(sizes)}: expected to rise up to smem_per_sm_bytes, {a.smem_per_sm_bytes}"


def _gpu_mistakes(gpu: Gpu, doc: Document) -> Iterator[str]:
    """What of a product's figures cannot be true together."""
    yield from _dtype_mistakes(gpu, doc)
    yield from _peak_mistakes(gpu, doc)
    yield from _bandwidth_mistakes(gpu, doc)
    if gpu.clock_base_hz is not None and gpu.clock_base_hz > gpu.clock_hz:
        yield f"clock_base_hz is {gpu.clock_base_hz:.4g}: expected at most clock_hz, {gpu.clock_hz:.4g}"
    if gpu.clock_tensor_hz > 1.05 * gpu.clock_hz:
        yield f"clock_tensor_hz is {gpu.clock_tensor_hz:.4g}: expected at most clock_hz, {gpu.clock_hz:.4g}"
    if (gpu.l2_latency_clk or 0) >= (gpu.dram_latency_clk or float("inf")):
        yield f"l2_latency_clk is {gpu.l2_latency_clk}: expected less than dram_latency_clk, {gpu.dram_latency_clk}"


def _dtype_mistakes(gpu: Gpu, doc: Document) -> Iterator[str]:
    """Every dtype the architecture computes has a datasheet peak, or is named as unknown; no other has."""
    given, said = set(gpu.datasheet_flops), {k.split(".")[1] for k in doc.plain["unknown"] if "." in k}
    rates = set(gpu.arch.fma_per_clk_per_sm)
    for dtype in (d for d in DTYPE_BYTES if d in rates - given - said):
        yield f"missing key datasheet_flops.{dtype}: give the dense peak with its source, or name it under unknown"
    for dtype in sorted((given | said) - rates):
        yield f"datasheet_flops.{dtype} is given: arch {gpu.arch.name} has no fma_per_clk_per_sm.{dtype}"
    for dtype in sorted(given & said):
        yield f"datasheet_flops.{dtype} is given and named under unknown too: keep one"


def _peak_mistakes(gpu: Gpu, doc: Document) -> Iterator[str]:
    """A derived peak is the datasheet's within PEAK_TOLERANCE, or the file names the conflict."""
    wrong: dict[tuple[str, int], list[str]] = {}  # by clock and factor: one cause, one mistake
    for dtype, stated in gpu.datasheet_flops.items():
        ratio = stated / (gpu.peak_flops(dtype) or stated)
        if abs(ratio - 1) > _tolerance(doc, f"datasheet_flops.{dtype}"):
            wrong.setdefault((peak_clock(dtype), round(100 * ratio)), []).append(dtype)
    for (clock, percent), (dtype, *more) in wrong.items():
        key, derived = f"datasheet_flops.{dtype}", gpu.peak_flops(dtype)
        hint = " (with 2:4 sparsity? halve it)" if 190 < percent < 210 else ""
        hint = f" (if both stand, say why in {key}.conflict)" if 88 <= percent <= 112 else hint
        yield (
            f"{key}.value is {gpu.datasheet_flops[dtype]:.4g}: expected the dense peak, {derived:.4g} FLOP/s, which is "
            f"2 x fma_per_clk_per_sm.{dtype} x sm_count x {clock}{hint}{', and so for ' * bool(more)}{', '.join(more)}"
        )


def _tolerance(doc: Document, key: str) -> float:
    return CONFLICT_TOLERANCE if doc.figures[key].conflict else PEAK_TOLERANCE


def _bandwidth_mistakes(gpu: Gpu, doc: Document) -> Iterator[str]:
    """Measured bandwidth is below nominal, nominal is bus times clock, L2 is faster than DRAM."""
    nominal, measured = gpu.dram_bytes_per_s, gpu.dram_measured_bytes_per_s
    if measured is not None and not 0.3 * nominal <= measured <= 1.02 * nominal:
        yield f"dram_measured_bytes_per_s is {measured:.4g}: expected 30 to 102 % of dram_bytes_per_s, {nominal:.4g}"
    if gpu.l2_measured_bytes_per_s is not None and gpu.l2_measured_bytes_per_s < (measured or nominal):
        yield f"l2_measured_bytes_per_s is {gpu.l2_measured_bytes_per_s:.4g}: expected more than DRAM's, {nominal:.4g}"
    if gpu.dram_bus_bits is None or gpu.dram_clock_hz is None:
        return
    derived = gpu.dram_bus_bits / 8 * 2 * gpu.dram_clock_hz
    if abs(nominal / derived - 1) > _tolerance(doc, "dram_bytes_per_s"):
        yield f"dram_bytes_per_s is {nominal:.4g}: expected dram_bus_bits / 8 x 2 x dram_clock_hz, {derived:.4g}"
