"""`gemmsim doctor`: what measuring needs, what is there, and how to install what is not."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from gemmsim.cli.options import Command, whole
from gemmsim.cli.tables import FORMATS, Column, emit
from gemmsim.errors import GemmsimError

COLUMNS = (Column("what"), Column("state"), Column("found"), Column("install"))
#: what a person reads; how to install it follows below, each way once
_SHOWN = COLUMNS[:-1]
OK, MISSING, OPTIONAL = "ok", "missing", "optional"
EXTRA = "pip install 'gemmsim[cuda13]' (CUDA 13) or 'gemmsim[cuda12]'"


@dataclass(frozen=True)
class Finding:
    """One thing that is there or not: state is OK, or not there: MISSING (measuring needs it) or OPTIONAL."""

    what: str
    state: str
    found: str
    install: str = ""


@click.command(cls=Command)
@click.option("--device", metavar="N", callback=whole(0, 1023), help="Which GPU, as CUDA counts them.  [default: 0]")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True)
def command(device: int | None, format: str) -> int:
    """Say what `gemmsim measure` needs and what of it is here. Exit code 0: measuring would work, 2: it would not."""
    found = list(findings(device or 0))
    rows: list[Mapping[str, Any]] = [vars(f) for f in found]
    notes = [*_installs(found), "", _verdict(found)]
    emit(rows, _SHOWN if format == "table" else COLUMNS, format, None, notes=notes)
    return 2 if any(f.state == MISSING for f in found) else 0


def _installs(found: Sequence[Finding]) -> Iterator[str]:
    """What to install, and for what of that which is not there."""
    for install in dict.fromkeys(f.install for f in found if f.install):
        yield f"\n{install}"
        yield _wrapped("for " + ", ".join(f.what for f in found if f.install == install), indent="  ")


def _verdict(found: Sequence[Finding]) -> str:
    missing = ", ".join(f.what for f in found if f.state == MISSING)
    return _wrapped(f"Measuring would not work: {missing} missing.") if missing else "Measuring works."


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 80, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def findings(device: int) -> Iterator[Finding]:
    """Every check in turn; none raises."""
    for name, needed_for, needed in _PACKAGES:
        yield _package(name, needed_for, needed)
    yield _said("NVRTC", _nvrtc, EXTRA)
    gpu = _said("GPU", lambda: _gpu(device), "a GPU of NVIDIA's and its driver")
    yield gpu
    if gpu.state == OK:
        yield _said("hardware file", lambda: _hardware(device), "gemmsim probe, or --gpu NAME")
        yield _said("NVML", lambda: _nvml(device), "NVIDIA's driver")
        yield _said("a kernel", lambda: _runs(device), EXTRA)
    for tool, use, install in _TOOLS:
        path = _tool(tool)
        yield Finding(f"{tool} ({use})", OK if path else OPTIONAL, path or "-", "" if path else install)
    yield _said("store", _store, "GEMMSIM_STORE: a file in a folder that can be written")
    yield _said("cache", _cache, "GEMMSIM_CACHE: a folder that can be written")


#: distribution, what it is for, whether measuring needs it
_PACKAGES = (
    ("sqlalchemy", "the store of rows", True),
    ("cupy", "the GPU", True),
    ("nvidia-ml-py", "clocks and power", True),
    ("cuda-core", "compiling", True),
    ("triton", "family triton", False),
    ("optuna", "gemmsim tune", False),
)
#: distribution -> what installs it, where that is not EXTRA
_INSTALLS = {name: f"pip install 'gemmsim[{extra}]'"
             for name, extra in (("triton", "triton"), ("sqlalchemy", "measure"), ("optuna", "tune"))}  # fmt: skip
_TOOLS = (
    ("ncu", "gemmsim counters", "NVIDIA Nsight Compute, part of the CUDA toolkit"),
    ("nvdisasm", "gemmsim compile --sass", "pip install 'gemmsim[compile]'"),
    ("compute-sanitizer", "kernel tests", "part of the CUDA toolkit"),
)


def _package(name: str, use: str, needed: bool) -> Finding:
    what = f"{name} ({use})"
    names = [d for d in _distributions() if d == name or (name == "cupy" and d.startswith("cupy-cuda"))]
    if names:
        return Finding(what, OK, f"{names[0]} {metadata.version(names[0])}")
    return Finding(what, MISSING if needed else OPTIONAL, "-", _INSTALLS.get(name, EXTRA))


def _distributions() -> list[str]:
    names = {str(d.metadata["Name"]) for d in metadata.distributions() if d.metadata["Name"]}
    return sorted(name.lower().replace("_", "-") for name in names)


def _said(what: str, check: Callable[[], str], install: str) -> Finding:
    """A check's answer, or the sentence of what went wrong."""
    try:
        return Finding(what, OK, check())
    except GemmsimError as error:
        return Finding(what, MISSING, str(error), install)
    except Exception as error:  # a check that breaks is an answer, too
        return Finding(what, MISSING, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", install)


def _nvrtc() -> str:
    from gemmsim.bench import nvrtc

    return nvrtc.version()


def _gpu(device: int) -> str:
    from gemmsim.bench.device import device_count, import_cupy

    count = device_count()
    if device >= count:
        raise GemmsimError(f"--device is {device}: expected a GPU's number from 0 to {count - 1}")
    return f"{_product(import_cupy(), device)}, one of {count}"


def _product(cupy: Any, device: int) -> str:
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _hardware(device: int) -> str:
    from gemmsim.bench.device import import_cupy
    from gemmsim.hardware import load_gpu

    return load_gpu(_product(import_cupy(), device)).name


def _nvml(device: int) -> str:
    from gemmsim.bench.device import import_cupy
    from gemmsim.bench.environment import Nvml

    nvml = Nvml(import_cupy().cuda.runtime.deviceGetPCIBusId(device))
    clock = nvml.read()["sm_clock_hz"]
    return f"driver {nvml.driver()}" + (f", SM clock {clock / 1e6:.0f} MHz" if clock else "")


def _runs(device: int) -> str:
    """A kernel compiled by NVRTC and run."""
    from gemmsim.bench.device import Device

    opened = Device(device)
    opened.spin(1e-6)
    opened.synchronize()
    return "compiled and run"


def _tool(name: str) -> str | None:
    """A program on the PATH, or where pip's packages and the CUDA toolkit put it."""
    found = shutil.which(name)
    if found:
        return found
    folders = [Path("/usr/local/cuda/bin"), *(Path(p) for p in _site_folders())]
    return next((str(folder / name) for folder in folders if (folder / name).is_file()), None)


def _site_folders() -> Iterator[str]:
    import site

    for base in site.getsitepackages():
        for folder in sorted(Path(base).glob("nvidia/**/bin")):
            yield str(folder)


def _store() -> str:
    from gemmsim.store import Store, import_sqlalchemy

    import_sqlalchemy()
    store = Store()
    store.campaigns()
    store.close()
    return store.name


def _cache() -> str:
    import tempfile

    from gemmsim.paths import cache_folder

    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return str(folder)
