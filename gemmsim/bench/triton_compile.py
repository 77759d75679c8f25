"""Family triton compiled by Triton itself, without a GPU: the kernel of kernels/triton_gemm.py, cached as CUDA's are.

Registers, stack and shared memory belong to a version of Triton: another one allocates otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from gemmsim.bench.cache import Cache, Entry, key_of, source_digest
from gemmsim.bench.compile import Compiled, cores
from gemmsim.bench.cubin import resources
from gemmsim.bench.pool import Died, Pool, pool_of
from gemmsim.errors import GemmsimError
from gemmsim.paths import data_folder
from gemmsim.problem import Form, form_of

MISSING = "gemmsim compile --family triton needs Triton: pip install 'gemmsim[triton]'"
KERNEL = "mm"
#: the file with it
SOURCE = "triton_gemm.py"
#: the module that each compiling process runs
WORKER = "gemmsim.bench.triton_worker"
#: our dtype -> Triton's, of A and B, of C
TYPES: Mapping[str, tuple[str, str]] = {
    "bf16": ("bf16", "bf16"),
    "fp16": ("fp16", "fp16"),
    "tf32": ("fp32", "fp32"),  # fp32 in memory, tl.dot's default precision in between
    "fp8": ("fp8e4nv", "bf16"),
}
#: arguments of the kernel that are known when it runs -> M, N or K
SIZES = {"M": "m", "N": "n", "K": "k", "sam": "k", "sbk": "n", "scm": "n"}
#: constants of the kernel -> parameters of the family
CONSTANTS = {"BM": "bm", "BN": "bn", "BK": "bk", "G": "group_m"}
#: a size that is a multiple of it compiles to other code than one that is not, as in Triton's own launcher
ALIGNMENT = 16


@dataclass(frozen=True)
class TritonRequest:
    """A configuration to compile, for M, N and K: Triton compiles anew where one is 1 or no multiple of 16."""

    form: Form
    config: tuple[tuple[str, int], ...]
    arch: str  # "sm_90a", "sm_90"
    size: tuple[int, int, int]


@dataclass(frozen=True)
class TritonCompiled(Compiled):
    """A Triton kernel and how to launch it without Triton, through cuLaunchKernel or CuPy's RawKernel.

    Load `cubin`, take the function `name`, allow it `shared` bytes of dynamic shared memory (over 48 KiB through the
    function attribute max_dynamic_shared_size_bytes) and launch it with

        grid (ceil(M / bm) * ceil(N / bn), 1, 1), block (32 * num_warps, 1, 1), `shared` bytes,

    and these arguments, as Triton 3.6's own launcher passes them (backends/nvidia/driver.py, make_launcher): those of
    `arguments` in order, then two pointers, global_scratch and profile_scratch, both null where, as here, the kernel
    asks for no scratch memory. a, b and c are 64-bit device pointers, 16-byte aligned; the others are 32-bit integers:
    M, N, K, sam (elements from a row of A to the next: K), sbk (of B: N), scm (of C: N). An argument that is 1 is a
    constant of the code and not in `arguments`. `smem_bytes` is `shared`: all of it is dynamic.
    """

    name: str = ""
    num_warps: int = 0
    shared: int = 0
    arguments: tuple[str, ...] = ()


def version() -> str:
    """The compiler's version, "triton 3.6.0". Raises GemmsimError if Triton is not installed."""
    try:
        import triton.compiler  # noqa: F401

        return f"triton {metadata.version('triton')}"
    except (ImportError, metadata.PackageNotFoundError):
        raise GemmsimError(MISSING) from None


def check_form(form: Form) -> None:
    """Raise GemmsimError for what the shipped kernel does not do."""
    f = form_of(form)
    if f.dtype not in TYPES:
        raise GemmsimError(f"kernels/triton_gemm.py has no {f.dtype}: it has {', '.join(TYPES)}")
    plain = form_of(f.dtype)
    if f != plain:
        raise GemmsimError("kernels/triton_gemm.py does the plain row-major product alone: no other layout, type of B "
                           "or C, batch, beta or epilogue can be compiled")  # fmt: skip


def compile_triton(
    requests: Sequence[TritonRequest],
    *,
    jobs: int | None = None,
    cache: Path | None = None,
    progress: Callable[[int], object] = lambda done: None,
    pool: Pool | None = None,
) -> Iterator[tuple[int, TritonCompiled]]:
    """Position and result of each request, as they finish; what the cache holds comes first. See compile_all."""
    version()
    for request in requests:
        check_form(request.form)
    path = data_folder("kernels") / SOURCE
    digest, kept = source_digest(path), Cache(cache)
    places: dict[str, list[int]] = {}
    questions: dict[str, dict[str, Any]] = {}
    for i, request in enumerate(requests):
        question = _question(request)
        key = key_of({"source": digest, "compiler": version(), **question})
        places.setdefault(key, []).append(i)
        questions[key] = question | {"path": str(path)}
    with pool_of(pool, WORKER, jobs or cores()) as workers:
        for key, found in _entries(questions, kept, workers):
            for i in places[key]:
                progress(1)
                yield i, _compiled(key, requests[i], questions[key], found)


def _question(request: TritonRequest) -> dict[str, Any]:
    """What the worker is asked, the path aside; specialisations are those that Triton's launcher would find."""
    config, form = dict(request.config), form_of(request.form)
    operand, result = TYPES[form.dtype]
    sizes = dict(zip("mnk", request.size, strict=True))
    values = {name: sizes[size] for name, size in SIZES.items()}
    ones = {name: 1 for name, value in values.items() if value == 1}
    constants = {name: config[p] for name, p in CONSTANTS.items()}
    signature = {"a": f"*{operand}", "b": f"*{operand}", "c": f"*{result}", **dict.fromkeys(values, "i32")}
    signature |= dict.fromkeys([*ones, *constants], "constexpr")
    aligned = ["a", "b", "c", *(name for name, value in values.items() if value % ALIGNMENT == 0)]
    capability = int(request.arch.removeprefix("sm_").rstrip("af"))
    return {"kernel": KERNEL, "signature": signature, "constants": ones | constants, "aligned": aligned,
            "capability": capability, "num_warps": config["num_warps"],
            "num_stages": config["num_stages"]}  # fmt: skip


def _entries(
    questions: Mapping[str, Mapping[str, Any]], cache: Cache, pool: Pool
) -> Iterator[tuple[str, Entry | Died]]:
    """Key and entry: what the cache holds, then what is compiled."""
    missing = []
    for key in questions:
        entry = cache.get(key)
        if entry is None:
            missing.append(key)
        else:
            yield key, entry
    for i, answer in pool.answers([questions[key] for key in missing]):
        yield missing[i], answer if isinstance(answer, Died) else cache.keep(missing[i], answer)


def _compiled(key: str, request: TritonRequest, question: Mapping[str, Any], found: Entry | Died) -> TritonCompiled:
    if isinstance(found, Died):
        return TritonCompiled(None, "compile", None, key, version(), reason=f"the compiler gave nothing: {found}")
    if found.cubin is None:
        reason = found.log[:200]
        return TritonCompiled(None, "compile", None, key, version(), log=found.log, reason=reason)
    said = json.loads(found.log)
    taken = resources(found.cubin.read_bytes(), str(found.cubin))[said["name"]]
    stack = taken.stack_bytes
    warnings = (f"spills: {stack} B of local memory a thread",) if stack else ()
    arguments = tuple(name for name, kind in question["signature"].items() if kind != "constexpr")
    return TritonCompiled(
        None, "ok", found.cubin, key, version(), taken.regs_per_thread, stack, said["shared"], stack, warnings,
        name=said["name"], num_warps=said["num_warps"], shared=said["shared"], arguments=arguments,
    )  # fmt: skip
