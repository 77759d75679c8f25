"""Asks -> compiled kernels, by the compile room: CUDA families through NVRTC, Triton through its own compiler."""

from __future__ import annotations

import ast
import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from gemmsim import families
from gemmsim.bench import cache, triton_compile
from gemmsim.bench import compile as cuda_compile
from gemmsim.bench.compile import Request, arch_of, compile_all, cuda_family
from gemmsim.bench.pool import Pool
from gemmsim.bench.task import Ask, Kernel
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.paths import data_folder

if TYPE_CHECKING:
    from gemmsim.bench.compile import Compiled
    from gemmsim.bench.triton_compile import TritonCompiled

TRITON = "triton"
#: comments of C++, and the literals that may look like them
_COMMENT = re.compile(rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


class KernelCompiler:
    """Processes that compile, started when there is something for them, and alive until `close`.

    jobs: so many of each compiler, one a core if left out.
    """

    def __init__(self, jobs: int | None) -> None:
        jobs = jobs or cuda_compile.cores()
        self._cuda, self._triton = Pool(cuda_compile.WORKER, jobs), Pool(triton_compile.WORKER, jobs)
        self._loaded: set[bool] = set()

    def expect(self, asks: Sequence[Ask]) -> None:
        """Start as many processes as asks like these need, and load what their keys need; returns at once."""
        for of_triton in (False, True):
            kernels = {(a.form, a.family, a.config) for a in asks if (a.family == TRITON) == of_triton}
            if not kernels:
                continue
            (self._triton if of_triton else self._cuda).start(len(kernels))
            if of_triton not in self._loaded:
                self._loaded.add(of_triton)
                threading.Thread(target=_load, args=(of_triton,), daemon=True).start()

    def compiled(self, asks: Sequence[Ask], gpu: Gpu) -> Iterator[tuple[int, str, Kernel]]:
        """Position, why it does not compile ("" if it does) and kernel of each ask, as they finish.

        Raises GemmsimError where a compiler is not installed.
        """
        arch = arch_of(gpu)
        cuda = [i for i, ask in enumerate(asks) if ask.family != TRITON]
        triton = [i for i, ask in enumerate(asks) if ask.family == TRITON]
        if cuda:
            requests = [Request(asks[i].family, asks[i].form, asks[i].fitted, arch) for i in cuda]
            for at, found in compile_all(requests, pool=self._cuda):
                yield cuda[at], _why(found), _kernel(found, found.smem_bytes, {})
        if triton:
            wanted = [_triton_request(asks[i], arch) for i in triton]
            for at, made in triton_compile.compile_triton(wanted, pool=self._triton):
                yield triton[at], _why(made), _kernel(made, made.shared, _launcher(made))

    def close(self) -> None:
        """End every process, whatever it does."""
        self._cuda.close()
        self._triton.close()


def _load(of_triton: bool) -> None:
    """Import a compiler's package, which takes a while, before it is needed; what is missing is said then."""
    from gemmsim.bench import nvrtc

    with contextlib.suppress(GemmsimError):
        (triton_compile.version if of_triton else nvrtc.version)()


def _triton_request(ask: Ask, arch: str) -> triton_compile.TritonRequest:
    return triton_compile.TritonRequest(ask.form, ask.config, arch, (ask.m, ask.n, ask.k))


def _launcher(found: TritonCompiled) -> dict[str, object]:
    """What triton_launch needs beside the cubin."""
    return {"name": found.name, "num_warps": found.num_warps, "shared": found.shared,
            "arguments": list(found.arguments)}  # fmt: skip


def _why(found: Compiled) -> str:
    return "" if found.status == "ok" else found.reason or "the compiler gave no reason"


def _kernel(found: Compiled, smem_bytes: int, extra: dict[str, object]) -> Kernel:
    if found.status != "ok":
        return Kernel(key=found.key, compiler=found.compiler)
    return Kernel(
        path=str(found.cubin), key=found.key, compiler=found.compiler, regs_per_thread=found.regs_per_thread,
        spill_bytes=found.spill_bytes, smem_bytes=smem_bytes, stack_bytes=found.stack_bytes, warnings=found.warnings,
        extra=extra,
    )  # fmt: skip


def source_digest(family: str) -> str:
    """What a family's kernels are made of, as a SHA-256, without compiling: the source and its headers, comments aside.

    For triton its installed version counts too, which decides half of the code ("none" where there is none); NVRTC's
    does not, which is in each row's `compiler`. Raises GemmsimError for a family without a kernel of ours.
    """
    if family == TRITON:
        digest = cache.source_digest(data_folder("kernels") / triton_compile.SOURCE, _python_code)
        return cache.key_of({"source": digest, "triton": _triton_version()})
    families.family(family)
    return cache.source_digest(data_folder("kernels") / cuda_family(family).SOURCE, _cuda_code)


def _triton_version() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return "none"


def _python_code(text: bytes) -> bytes:
    return ast.unparse(ast.parse(text)).encode()


def _cuda_code(text: bytes) -> bytes:
    """The lines with something on them, comments and the space at their ends taken out."""
    bare = _COMMENT.sub(lambda found: b" " if found[0].startswith(b"/") else found[0], text)
    return b"\n".join(line.rstrip() for line in bare.splitlines() if line.strip())
