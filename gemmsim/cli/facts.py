"""Rows with configurations -> columns with the compiler's facts, for `gemmsim compile`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmsim import families
from gemmsim.cli.batch import Options, dimensions_of, groups, placed
from gemmsim.config import Config, config_key
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.problem import Form, form_of, gemm
from gemmsim.rows import Column, Table

if TYPE_CHECKING:
    from gemmsim.bench.compile import Compiled

#: columns that a compilation adds, in their order
FACTS = ("regs_per_thread", "spill_bytes", "smem_bytes", "stack_bytes", "warnings", "compiler", "kernel_hash",
         "status", "reason")  # fmt: skip
#: M, N and K where no column says them
SIZE = 4096


@dataclass(frozen=True)
class Settings:
    """How to compile: processes, the cache's folder, "cubin" or "ptx" -> where to export it, main loop counted too."""

    jobs: int | None = None
    cache: Path | None = None
    exports: Mapping[str, Path] = field(default_factory=dict)
    sass: bool = False


@dataclass(frozen=True)
class Asked:
    """Configurations of one family, form and GPU: their rows, and M, N and K of each."""

    rows: Sequence[int]
    family: str
    form: Form
    gpu: Gpu
    config: Config
    sizes: Sequence[tuple[int, int, int]]
    reasons: Sequence[str]  # why it cannot run; "": it may


def asked_one(family: str, form: Form, config: Mapping[str, int], gpu: str) -> Asked:
    """One configuration. Raises GemmsimError if the family has no kernel for the form."""
    return _asked([0], family, form, load_gpu(gpu), dict(config), [(SIZE, SIZE, SIZE)])


def asked_of(table: Table, gpu: str | None, family: str | None, dtype: str | None, shape: Form) -> list[Asked]:
    """A batch's rows, group by group. Raises GemmsimError for a malformed cell or a form without a kernel."""
    columns = dimensions_of(table, ())
    sizes = [columns.get(name, np.full(len(table), SIZE)) for name in ("m", "n", "k")]
    found = []
    for group in groups(table, Options(gpu=gpu, family=family, dtype=dtype, shape=shape)):
        rows = range(len(table)) if group.where is None else group.where.tolist()
        of_rows = [tuple(int(size[i]) for size in sizes) for i in rows]
        with placed(table, group.first):
            found.append(_asked(rows, group.family, group.form, group.gpu, dict(group.config), of_rows))
    return found


def _asked(
    rows: Sequence[int], family: str, form: Form, gpu: Gpu, values: dict[str, Any], sizes: Sequence[Any]
) -> Asked:
    from gemmsim.bench.refusal import broken, check_kernel

    config = families.config(family, values, len(rows))
    m, n, k = np.asarray(sizes, np.int64).T
    problem, whole = gemm(m, n, k, form), form_of(form)
    check_kernel(family, problem, whole, config.row(0))
    return Asked(rows, family, whole, gpu, config, sizes, broken(problem, config, gpu.arch))


def facts(
    asked: Sequence[Asked], rows: int, settings: Settings, progress: Callable[[int], object]
) -> dict[str, Column]:
    """The columns FACTS (and sass_X) of all rows. Raises GemmsimError where the compiler is missing or a disk full."""
    cells: dict[str, list[str]] = {name: [""] * rows for name in FACTS}
    for group in asked:
        for i, reason in zip(group.rows, group.reasons, strict=True):
            if reason:
                _put(cells, i, {"status": "refused", "reason": reason})
                progress(1)
    export = _Exports(settings.exports)
    for group, i, found in _compiled(asked, settings, progress):
        row = group.rows[i]
        _put(cells, row, _facts(group, i, found))
        if settings.sass and found.status == "ok":
            _put(cells, row, _loop(group, i, found))
        copy = export.keep(found, config_key(group.config.row(i)))
        if copy:
            _put(cells, row, {"cubin": copy})
    return dict(cells)


def _put(cells: dict[str, list[str]], row: int, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        cells.setdefault(name, [""] * len(cells["status"]))[row] = str(value)


def _compiled(
    asked: Sequence[Asked], settings: Settings, progress: Callable[[int], object]
) -> Iterator[tuple[Asked, int, Compiled]]:
    """Group, place in it and result of every row that may run, as they finish: CUDA's first, then Triton's."""
    from gemmsim.bench.compile import Request, arch_of, compile_all

    how: dict[str, Any] = {"jobs": settings.jobs, "cache": settings.cache, "progress": progress}
    cuda, triton = ([(g, i) for g in asked if (g.family == "triton") is of_triton for i, r in enumerate(g.reasons)
                     if not r] for of_triton in (False, True))  # fmt: skip
    if triton:  # a missing compiler is told before the others have worked for an hour
        from gemmsim.bench.triton_compile import version

        version()
    if cuda:
        requests = [Request(g.family, g.form, _chosen(g, i), arch_of(g.gpu)) for g, i in cuda]
        for at, found in compile_all(requests, ptx="ptx" in settings.exports, **how):
            yield *cuda[at], found
    if triton:
        from gemmsim.bench.triton_compile import TritonRequest, compile_triton

        asked_of_triton = [TritonRequest(g.form, _chosen(g, i), arch_of(g.gpu), g.sizes[i]) for g, i in triton]
        for at, made in compile_triton(asked_of_triton, **how):
            yield *triton[at], made


def _loop(group: Asked, i: int, found: Compiled) -> dict[str, str]:
    """The columns sass_X; none where no loop multiplies."""
    from gemmsim.bench.compile import KERNEL
    from gemmsim.bench.sass import columns, main_loop

    assert found.cubin is not None
    within = getattr(families.family(group.family), "loops_within", None)
    rounds = within(group.config.row(i)) if within else ()
    loop = main_loop(found.cubin, getattr(found, "name", KERNEL), rounds)
    return {} if loop is None else columns(loop)


def _chosen(group: Asked, i: int) -> tuple[tuple[str, int], ...]:
    """The configuration that a launch of row i compiles: the family may fit it to the sizes."""
    return tuple(families.fitted(group.family, *group.sizes[i], group.config.row(i), group.form).items())


def _facts(group: Asked, i: int, found: Compiled) -> dict[str, object]:
    said: dict[str, object] = {"compiler": found.compiler, "kernel_hash": found.key, "status": found.status,
                               "reason": found.reason, "warnings": "; ".join(found.warnings)}  # fmt: skip
    if found.status == "ok":
        said |= {"regs_per_thread": found.regs_per_thread, "spill_bytes": found.spill_bytes,
                 "stack_bytes": found.stack_bytes, "smem_bytes": found.smem_bytes + _dynamic(group, i)}  # fmt: skip
    return said


class _Exports:
    """Copies of cubins and PTX under the names of configurations; a second kernel of one name gets its hash as well."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.folders, self.taken = folders, dict[str, str]()

    def keep(self, found: Compiled, name: str) -> str:
        """Copy, if asked; the path of the cubin's copy, else "". Raises GemmsimError where it cannot be written."""
        if found.cubin is None or not self.folders:
            return ""
        if self.taken.setdefault(name, found.key) != found.key:
            name = f"{name}-{found.key[:8]}"
        try:
            for kind, folder in self.folders.items():
                (folder / f"{name}.{kind}").write_bytes(found.cubin.with_suffix(f".{kind}").read_bytes())
        except OSError as error:
            raise GemmsimError(f"{error.filename}: cannot be written: {error.strerror}") from None
        return str(self.folders["cubin"] / f"{name}.cubin") if "cubin" in self.folders else ""


def _dynamic(group: Asked, i: int) -> int:
    """Bytes of dynamic shared memory that a launch of row i adds; the SMs do not matter to it."""
    if group.family == "triton":
        return 0
    from gemmsim.bench.compile import cuda_family

    plan = cuda_family(group.family).plan(*group.sizes[i], group.config.row(i), group.form, 1)
    return int(plan.dynamic_smem_bytes)
