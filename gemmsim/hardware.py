"""What a chip is: `Gpu` and `Arch` hold the figures the model reads, in SI units; `load_gpu` reads them from YAML."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.hwfields import GPU, GROUPS, OVERRIDES, Document, Figure, arch_mistakes, gpu_mistakes, peak_clock
from gemmsim.paths import data_folder

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
    #: by dtype, dense, with fp32 accumulate; fp32, fp64: the CUDA cores', the others: the tensor cores'
    fma_per_clk_per_sm: Mapping[str, float]
    matrix_instructions: tuple[str, ...]  # of "mma_sync", "wgmma", "tcgen05"; none before sm_70
    mma_shapes: tuple[str, ...]  # of mma.sync: m16n8k16, ...
    mma_sync_fraction_of_peak: float  # NaN where the chip has no mma.sync
    smem_latency_clk: float | None
    l1_latency_clk: float | None


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
    cluster_sizes: tuple[int, ...] = ()  # blocks of a cluster, and the SMs such clusters reach at one block an SM
    cluster_sms: tuple[int, ...] = ()
    mig_profiles: tuple[str, ...] = ()  # 3g.40gb, ...: the SMs of each, its eighths of the memory and of the L2
    mig_sms: tuple[int, ...] = ()
    mig_memory_eighths: tuple[int, ...] = ()
    mig_l2_eighths: tuple[int, ...] = ()

    def peak_flops(self, dtype: str) -> float | None:
        """Dense peak in FLOP/s, derived: 2 x FMA a clock x SMs x clock; None if the chip has no path for the dtype."""
        rate = self.arch.fma_per_clk_per_sm.get(dtype)
        if rate is None:
            return None
        clock_hz: float = getattr(self, peak_clock(dtype))
        return 2 * rate * self.sm_count * clock_hz


def load_gpu(name_or_path: str) -> Gpu:
    """A GPU by name (`h200_sxm`), device string (`NVIDIA H200`) or file (`./mychip.yaml`), or a MIG slice of one.

    Names are looked for in the folders of GEMMSIM_HWSPECS, then among the shipped files. A slice is written
    `h200_sxm:3g.71gb`, or as the driver does, `NVIDIA H200 MIG 3g.71gb`. Raises GemmsimError for an unknown or
    ambiguous name or slice, and for a wrong file: its path, the key, what was found, what was expected.
    """
    whole, profile = _split(name_or_path)
    gpu = _read(find_gpu(whole))[0]
    return mig_slice(gpu, profile) if profile else gpu


def load_figures(name_or_path: str) -> tuple[Figure, ...]:
    """The figures behind `load_gpu` with unit, kind and source; the architecture's last, with keys `arch.<figure>`.

    Figures of the architecture that the product replaces are left out; a MIG slice's share stands as derived.
    """
    whole, profile = _split(name_or_path)
    gpu, figures = _read(find_gpu(whole))
    if not profile:
        return figures
    cut = mig_slice(gpu, profile)
    return tuple(_of_slice(f, gpu, cut, profile) for f in figures if not f.key.startswith(_OF_THE_WHOLE))


def check_file(path: Path) -> str:
    """Read a product's or an architecture's file as `load_gpu` would, and say what it is. Raises GemmsimError."""
    from gemmsim.yamlfile import read_yaml

    if "compute_capability" in read_yaml(path):
        arch, figures = _load_arch(path, _stamp(path))
        return f"architecture {arch.name}, compute capability {arch.compute_capability}, {len(figures)} figures"
    gpu, figures = _read(path)
    return f"{gpu.product} ({gpu.arch.name}), {len(figures)} figures"


def load_arch(path: Path) -> Arch:
    """An architecture by its file. Raises GemmsimError as `load_gpu` does."""
    return _load_arch(path, _stamp(path))[0]


#: figures that a MIG slice does not have
_OF_THE_WHOLE = ("datasheet_flops.", "cluster_", "mig_")


def mig_slice(gpu: Gpu, profile: str) -> Gpu:
    """The part of a GPU that a MIG profile (`3g.40gb`) gives to one instance: SMs, eighths of memory and L2.

    Bandwidth goes with the share of memory or L2: a slice has its own memory controllers and L2 banks (NVIDIA MIG User
    Guide; the driver of an H100 1g.10gb reports an eighth of bus and L2). Half the L2 or less lies in one partition.
    Raises GemmsimError for a profile that the GPU's file does not have.
    """
    if profile not in gpu.mig_profiles:
        if not gpu.mig_profiles:
            raise GemmsimError(f"GPU {gpu.name} has no MIG profiles in its file: {profile!r} cannot be cut")
        raise unknown("MIG profile", profile, gpu.mig_profiles, where=f"GPU {gpu.name}")
    i = gpu.mig_profiles.index(profile)
    memory, l2 = gpu.mig_memory_eighths[i], gpu.mig_l2_eighths[i]
    one_side = l2 <= 4
    share = f"{gpu.mig_sms[i]} of {gpu.sm_count} SMs, {memory}/8 of the memory, {l2}/8 of the L2"
    return replace(
        gpu, name=f"{gpu.name}:{profile}", product=f"{gpu.product} MIG {profile}", sm_count=gpu.mig_sms[i],
        dram_bytes=gpu.dram_bytes * memory // 8, dram_bytes_per_s=gpu.dram_bytes_per_s * memory / 8,
        dram_measured_bytes_per_s=_part(gpu.dram_measured_bytes_per_s, memory),
        dram_bus_bits=None if gpu.dram_bus_bits is None else gpu.dram_bus_bits * memory // 8,
        l2_bytes=gpu.l2_bytes * l2 // 8, l2_measured_bytes_per_s=_part(gpu.l2_measured_bytes_per_s, l2),
        l2_partitions=1 if one_side else gpu.l2_partitions,
        l2_far_latency_clk=None if one_side else gpu.l2_far_latency_clk,
        datasheet_flops={}, aliases=(), cluster_sizes=(), cluster_sms=(),
        mig_profiles=(), mig_sms=(), mig_memory_eighths=(), mig_l2_eighths=(),
        notes=(*gpu.notes, f"MIG slice: {share}; the board's power is shared with the other slices"),
    )  # fmt: skip


def _part(rate: float | None, eighths: int) -> float | None:
    return None if rate is None else rate * eighths / 8


def _of_slice(figure: Figure, gpu: Gpu, cut: Gpu, profile: str) -> Figure:
    value = getattr(cut, figure.key, None)
    if "." in figure.key or value == getattr(gpu, figure.key) or value is None:
        return figure
    source = f"MIG profile {profile} of {gpu.name}: share of {figure.value:.6g}; {figure.source}"
    return replace(figure, value=value, kind="derived", source=source, conflict="")


_MIG = re.compile(r"(.+?)(?::|[ _]mig[ _])(\d+g\.\d+gb)", re.IGNORECASE)


def _split(name: str) -> tuple[str, str]:
    """A GPU's name, and the MIG profile of a slice or nothing."""
    found = _MIG.fullmatch(str(name).strip())
    return (found[1], found[2].lower()) if found else (str(name), "")


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
    found: dict[str, str] = {}
    for name, path in files.items():
        for alias in _quick_aliases(path, _stamp(path)):
            found.setdefault(plain_name(alias), name)
    return found


@lru_cache(maxsize=256)
def _quick_aliases(path: Path, stamp: int) -> tuple[str, ...]:
    """The aliases of a file without reading the rest of it, where they stand on one line as in the shipped files."""
    from gemmsim.yamlfile import yaml_line

    try:
        line = next((x for x in path.read_text("utf-8").splitlines() if x.startswith("aliases:")), "")
    except (OSError, UnicodeDecodeError):
        return ()
    names = yaml_line(line)
    return tuple(names["aliases"] if names else _document(path, stamp).plain["aliases"])


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
    arch_path = _arch_file(path, doc)
    return _load(path, _stamp(path), arch_path, _stamp(arch_path))


def _stamp(path: Path) -> int:
    """Changes when the file does; 0 for no file."""
    try:
        return path.stat().st_mtime_ns
    except (OSError, ValueError):  # ValueError: a null character
        return 0


@lru_cache(maxsize=256)
def _document(path: Path, stamp: int) -> Document:
    from gemmsim.hwfile import read_gpu

    return read_gpu(path)


@lru_cache(maxsize=256)
def _load(path: Path, stamp: int, arch_path: Path, arch_stamp: int) -> tuple[Gpu, tuple[Figure, ...]]:
    from gemmsim.hwfile import refuse

    doc = _document(path, stamp)
    arch, arch_figures = _load_arch(arch_path, arch_stamp)
    replaced = {key for key in doc.figures if key.startswith(OVERRIDES)}
    absent = {key for key in doc.plain["unknown"] if key.startswith(OVERRIDES)}
    rates = dict(arch.fma_per_clk_per_sm) | doc.by_dtype("fma_per_clk_per_sm")
    own = replace(arch, fma_per_clk_per_sm={d: r for d, r in rates.items() if f"fma_per_clk_per_sm.{d}" not in absent})
    refuse(path, [*doc.mistakes, *gpu_mistakes(doc, arch.name, arch.fma_per_clk_per_sm, own.fma_per_clk_per_sm)])
    kept = (f for f in arch_figures if f.key.removeprefix("arch.") not in replaced | absent)
    return _gpu(doc, own, path), (*doc.figures.values(), *kept)


@lru_cache(maxsize=256)
def _load_arch(path: Path, stamp: int) -> tuple[Arch, tuple[Figure, ...]]:
    from gemmsim.hwfile import read_arch, refuse

    doc = read_arch(path)
    refuse(path, [*doc.mistakes, *arch_mistakes(doc, path.stem)])
    arch = _arch(doc, path)
    return arch, tuple(replace(figure, key=f"arch.{key}") for key, figure in doc.figures.items())


def _arch_file(path: Path, doc: Document) -> Path:
    """The architecture's file: beside the product's, in its folder arch/, or shipped."""
    from gemmsim.hwfile import refuse

    arch = doc.plain["arch"]
    shipped = data_folder("hwspecs") / "arch"
    for folder in (path.parent, path.parent / "arch", shipped):
        candidate = folder / f"{arch}.yaml"
        if arch and candidate.is_file() and candidate != path:
            return candidate
    known = sorted(p.stem for p in shipped.glob("*.yaml"))
    refuse(path, doc.mistakes if not arch else [*doc.mistakes, str(unknown("architecture", arch, known, where="arch"))])
    raise AssertionError("a file without an architecture has a mistake")


def _arch(doc: Document, path: Path) -> Arch:
    known: dict[str, Any] = {
        "smem_latency_clk": None,
        "l1_latency_clk": None,
        "mma_sync_fraction_of_peak": float("nan"),
    }
    known |= {key: figure.value for key, figure in doc.figures.items() if "." not in key}
    rates = doc.by_dtype("fma_per_clk_per_sm")
    return Arch(name=path.stem, compute_capability=doc.plain["compute_capability"], fma_per_clk_per_sm=rates, **known)


def _gpu(doc: Document, arch: Arch, path: Path) -> Gpu:
    grouped = [key for group in GROUPS for key in group]
    known: dict[str, Any] = dict.fromkeys(key for key, quantity in GPU.items() if getattr(quantity, "optional", False))
    known |= dict.fromkeys(grouped, ())
    known |= {key: figure.value for key, figure in doc.figures.items() if "." not in key}
    known |= {key: tuple(doc.plain[key]) for key in ("aliases", "notes")}
    peaks = doc.by_dtype("datasheet_flops")
    name = path.stem.lower()
    return Gpu(name=name, product=doc.plain["product"], arch=arch, datasheet_flops=peaks, path=str(path), **known)
