"""Measured rows that a study names, to be held beside its predictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.problem import form_of
from gemmsim.study.workload import at, once


def read_rows(
    path: Path, names: Sequence[str], gpus: Sequence[Gpu], kernels: Collection[tuple[str, str]]
) -> tuple[Measured, ...]:
    """The rows of the files under key rows, beside the study's file: one entry a GPU, kernel and L2 condition.

    Raises GemmsimError for a file twice, one that cannot be read, and rows of another form than the plain product, or
    of none of these GPUs and (family, dtype).
    """
    parts: dict[tuple[str, ...], list[Measured]] = {}
    for i, name in enumerate(once("rows", names)):
        found = at(f"rows[{i}]", read_measured, str(path.parent / name))
        if found.problem.form != form_of(found.problem.dtype):
            raise GemmsimError(f"rows[{i}]: {name} is of another layout, type of B or C, batch, beta or epilogue than "
                               "the plain product: expected rows of that")  # fmt: skip
        check_asked(f"rows[{i}]", name, found, gpus, kernels)
        parts.setdefault((found.gpu.name, found.config.family, found.problem.dtype, found.l2), []).append(found)
    return tuple(joined(files) for files in parts.values())


def check_gpu(key: str, name: str, rows: Measured, gpus: Sequence[Gpu]) -> None:
    """Raise GemmsimError for rows of a GPU that the study has not."""
    known = [gpu.name for gpu in gpus]
    if rows.gpu.name not in known:
        raise GemmsimError(f"{key}: {name} is of {rows.gpu.name}: expected rows of {', '.join(known)}, the key gpus")


def check_asked(key: str, name: str, rows: Measured, gpus: Sequence[Gpu], kernels: Collection[tuple[str, str]]) -> None:
    """Raise GemmsimError for rows of a GPU or (family, dtype) that the study has not: they would stand nowhere."""
    check_gpu(key, name, rows, gpus)
    mine = (rows.config.family, rows.problem.dtype)
    if mine not in kernels:
        asked = ", ".join(" ".join(kernel) for kernel in dict.fromkeys(kernels))
        raise GemmsimError(f"{key}: {name} is of {' '.join(mine)}: expected rows of the study's kernels, {asked}")
