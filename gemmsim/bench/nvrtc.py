"""NVRTC through cuda-core: which version, for which chips, and C++ to a cubin. No GPU and no driver are needed."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gemmsim.bench.ptxas import timeless
from gemmsim.errors import GemmsimError

MISSING = "gemmsim compile needs cuda-core and NVRTC: pip install 'gemmsim[compile]'"
#: options of every compilation beside macros, architecture and include folder: a part of what a cubin is known by.
#: A constexpr function without __device__ is the device's, as with nvcc.
OPTIONS: Mapping[str, Any] = {"std": "c++17", "ptxas_options": ["-v"], "device_as_default_execution_space": True}
#: in the error of a source that does not compile, and of no other
_VERDICT = "NVRTC_ERROR_COMPILATION"
_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


@functools.cache
def version() -> str:
    """The compiler's version, "nvrtc 13.5.37". Raises GemmsimError if cuda-core or NVRTC is not installed."""
    try:
        import cuda.core  # noqa: F401
        from cuda.bindings import nvrtc

        error, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        raise GemmsimError(MISSING) from None
    if int(error):
        raise GemmsimError(f"NVRTC does not say its version ({error.name}): pip install 'gemmsim[compile]' anew")
    return f"nvrtc {_full(f'{major}.{minor}')}"


def _full(short: str) -> str:
    """major.minor.build, from the wheel that holds the loaded library or from the library's own file name."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    library = Path(load_nvidia_dynamic_lib("nvrtc").abs_path or "").resolve()
    for name in _WHEELS:
        try:
            wheel = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if wheel.version.startswith(f"{short}.") and Path(str(wheel.locate_file(""))).resolve() in library.parents:
            return wheel.version
    ending = library.name.partition(".so.")[2]
    return ending if ending.startswith(f"{short}.") else short


@functools.cache
def architectures() -> tuple[int, ...]:
    """The compute capabilities that this NVRTC compiles for, times ten: 80 for sm_80."""
    version()
    from cuda.bindings import nvrtc

    return tuple(int(number) for number in nvrtc.nvrtcGetSupportedArchs()[-1])


def check_arch(arch: str) -> None:
    """Raise GemmsimError for an architecture that this NVRTC has no code for."""
    have = architectures()
    digits = arch.removeprefix("sm_").rstrip("af")
    if not digits.isdigit() or int(digits) not in have:
        listed = ", ".join(f"sm_{number}" for number in have)
        raise GemmsimError(f"{version()} cannot compile for {arch}: it has {listed}")


class Refused(Exception):
    """The compiler's verdict on a source: it does not compile. The message is its log."""


def compile_cubin(
    name: str, source: str, macros: Mapping[str, str], arch: str, include: Sequence[str], ptx: bool
) -> tuple[bytes, str, str | None]:
    """Cubin, the compiler's log, and PTX if asked for; in a process of its own. Raises Refused."""
    from cuda.core import Program, ProgramOptions

    log = io.StringIO()
    options = ProgramOptions(
        name=os.path.basename(name), arch=arch, define_macro=list(macros.items()) or None,
        include_path=list(include) or None, **OPTIONS,
    )  # fmt: skip
    try:
        program = Program(source, "c++", options)
        code = bytes(program.compile("cubin", logs=log).code)
    except Exception as error:  # cuda-core has several types for what NVRTC says
        if _VERDICT not in str(error):
            raise
        raise Refused(timeless(str(error))) from None
    return code, timeless(log.getvalue()), _ptx(program.handle) if ptx else None


def _ptx(program: Any) -> str:
    """The PTX on the way to the cubin; cuda-core's own call for it asks for a driver."""
    from cuda.bindings import nvrtc

    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytearray(size)
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()
