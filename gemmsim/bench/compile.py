"""Kernels compiled to cubins without a GPU: in parallel, cached on disk, with what the compiler says of them.

A `Request` names a configuration, a `Source` what the compiler is given; requests whose macros are the same share one
cubin. A kernel that does not compile is a result with `status` "compile", never an exception.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsim.bench import nvrtc, ptxas
from gemmsim.bench.cache import Cache, Entry, key_of, source_digest
from gemmsim.bench.cubin import resources
from gemmsim.bench.pool import Died, Pool, pool_of
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.paths import data_folder
from gemmsim.problem import Form, form_of

#: the kernel whose facts count; another one in the same file (a reduction) has its own
KERNEL = "gemm"
#: the module that each compiling process runs
WORKER = "gemmsim.bench.compile_worker"
#: the architecture from which on code for one chip alone exists, sm_90a, and takes all that the chip has
_FIRST_SPECIFIC = 90


@dataclass(frozen=True)
class Request:
    """One configuration of a CUDA family to compile: config holds all parameters, arch is "sm_90a" or the like."""

    family: str
    form: Form
    config: tuple[tuple[str, int], ...]
    arch: str


@dataclass(frozen=True)
class Source:
    """What the compiler is given: a file, macros in one order, an architecture; `kernel`: whose facts are asked for."""

    path: Path
    macros: tuple[tuple[str, str], ...]
    arch: str
    kernel: str = KERNEL


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel and the compiler's facts; zeros and no cubin where `status` is "compile", with `reason`.

    regs_per_thread: registers. stack_bytes: local memory a thread. spill_bytes: the same if the compiler spilled, else
    0: what the model calls spilled, and what a driver reports as local size; a word that is stored and loaded many
    times counts once. smem_bytes: static shared memory a block. key: sha256 of source, headers, macros, architecture,
    compiler and options. warnings: what costs speed. log: all that the compiler said. request: None for a bare Source.
    """

    request: Request | None
    status: str
    cubin: Path | None
    key: str
    compiler: str
    regs_per_thread: int = 0
    spill_bytes: int = 0
    smem_bytes: int = 0
    stack_bytes: int = 0
    warnings: tuple[str, ...] = ()
    log: str = ""
    reason: str = ""


def arch_of(gpu: Gpu) -> str:
    """The architecture to compile for: sm_80; sm_90a from compute capability 9.0 on."""
    number = int(gpu.arch.compute_capability.replace(".", ""))
    return f"sm_{number}{'a' if number >= _FIRST_SPECIFIC else ''}"


def cuda_family(name: str) -> Any:
    """A CUDA family's module, with SOURCE, macros and plan. Raises GemmsimError for one that has no CUDA kernel."""
    module = importlib.import_module(f"gemmsim.families.{name}")
    if not hasattr(module, "SOURCE"):
        raise GemmsimError(f"family {name} has no CUDA kernel to compile")
    return module


def source_of(request: Request) -> Source:
    """What a request gives the compiler. Raises GemmsimError for types that its family has no kernel for."""
    family = cuda_family(request.family)
    macros: dict[str, str] = family.macros(form_of(request.form), dict(request.config))
    return Source(data_folder("kernels") / family.SOURCE, tuple(sorted(macros.items())), request.arch)


def compile_all(
    requests: Sequence[Request],
    *,
    jobs: int | None = None,
    cache: Path | None = None,
    ptx: bool = False,
    progress: Callable[[int], object] = lambda done: None,
    pool: Pool | None = None,
) -> Iterator[tuple[int, Compiled]]:
    """Position and result of each request, as they finish; what the cache holds comes first.

    jobs: processes, one a core if left out. cache: a folder in place of the usual one. ptx: a file beside the
    cubin, of the same name and .ptx. progress is told how many more are done. pool: processes of WORKER that are there
    already and stay, in place of so many jobs. Raises GemmsimError if the compiler is missing or has no code for an
    architecture, or a disk is full.
    """
    sources = [source_of(r) for r in requests]
    for i, found in compile_sources(sources, jobs=jobs, cache=cache, ptx=ptx, progress=progress, pool=pool):
        yield i, replace(found, request=requests[i])


def compile_sources(
    sources: Sequence[Source],
    *,
    jobs: int | None = None,
    cache: Path | None = None,
    ptx: bool = False,
    progress: Callable[[int], object] = lambda done: None,
    pool: Pool | None = None,
) -> Iterator[tuple[int, Compiled]]:
    """As compile_all, of files and macros that belong to no family."""
    for arch in sorted({source.arch for source in sources}):
        nvrtc.check_arch(arch)
    places = _places(sources)
    with pool_of(pool, WORKER, jobs or cores()) as workers:
        for key, found in _entries(places, sources, Cache(cache), workers, ptx):
            for i in places[key]:
                progress(1)
                yield i, _compiled(key, sources[i], found)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _places(sources: Sequence[Source]) -> dict[str, list[int]]:
    """Key -> positions of the sources that share it."""
    digests = {path: source_digest(path) for path in {source.path for source in sources}}
    places: dict[str, list[int]] = {}
    for i, source in enumerate(sources):
        places.setdefault(_key(source, digests[source.path]), []).append(i)
    return places


def _key(source: Source, digest: str) -> str:
    said = {"source": digest, "macros": source.macros, "arch": source.arch, "options": dict(nvrtc.OPTIONS)}
    return key_of(said | {"compiler": nvrtc.version()})


def _entries(
    places: dict[str, list[int]], sources: Sequence[Source], cache: Cache, pool: Pool, ptx: bool
) -> Iterator[tuple[str, Entry | Died]]:
    """Key and entry: what the cache holds, then what is compiled."""
    missing: list[str] = []
    for key in places:
        entry = cache.get(key, ptx=ptx)
        if entry is None:
            missing.append(key)
        else:
            yield key, entry
    questions = [_question(sources[places[key][0]], ptx) for key in missing]
    for i, answer in pool.answers(questions):
        yield missing[i], answer if isinstance(answer, Died) else cache.keep(missing[i], answer)


def _question(source: Source, ptx: bool) -> dict[str, Any]:
    return {
        "name": source.path.name, "source": source.path.read_text(encoding="utf-8"), "macros": dict(source.macros),
        "arch": source.arch, "include": [str(source.path.parent)], "ptx": ptx,
    }  # fmt: skip


def _compiled(key: str, source: Source, found: Entry | Died) -> Compiled:
    compiler = nvrtc.version()
    if isinstance(found, Died):
        return Compiled(None, "compile", None, key, compiler, reason=f"the compiler gave nothing: {found}")
    if found.cubin is None:
        return Compiled(None, "compile", None, key, compiler, log=found.log, reason=ptxas.first_error(found.log))
    lost = ptxas.lost(found.log)
    if lost:
        return Compiled(None, "compile", None, key, compiler, log=found.log, reason=f"ptxas: {lost}")
    kernels = resources(found.cubin.read_bytes(), str(found.cubin))
    if source.kernel not in kernels:
        reason = f"{source.path.name} has no kernel {source.kernel}: it has {', '.join(kernels) or 'none'}"
        return Compiled(None, "compile", None, key, compiler, log=found.log, reason=reason)
    taken, said = kernels[source.kernel], ptxas.said(found.log).get(source.kernel)
    spilled = said is None or said.spill_store_bytes + said.spill_load_bytes > 0
    return Compiled(
        None, "ok", found.cubin, key, compiler, taken.regs_per_thread, taken.stack_bytes if spilled else 0,
        taken.smem_bytes, taken.stack_bytes, ptxas.warnings(found.log, source.kernel), found.log,
    )  # fmt: skip


def compile_one(source: Source | Request, *, cache: Path | None = None) -> Compiled:
    """One source or request, compiled. Raises GemmsimError as compile_all does."""
    if isinstance(source, Request):
        return next(iter(compile_all([source], jobs=1, cache=cache)))[1]
    return _only(compile_sources([source], jobs=1, cache=cache))


def _only(results: Iterable[tuple[int, Compiled]]) -> Compiled:
    return next(iter(results))[1]
