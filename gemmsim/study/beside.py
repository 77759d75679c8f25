"""Measured rows that a study names, to be held beside its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gemmsim.errors import GemmsimError
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.problem import form_of
from gemmsim.study.workload import at, once


def read_rows(path: Path, names: Sequence[str]) -> tuple[Measured, ...]:
    """The rows of the files under key rows, beside the study's file: one entry a GPU, kernel and L2 condition.

    Raises GemmsimError for a file twice, one that cannot be read, and rows of another form than the plain product.
    """
    parts: dict[tuple[str, ...], list[Measured]] = {}
    for i, name in enumerate(once("rows", names)):
        found = at(f"rows[{i}]", read_measured, str(path.parent / name))
        if found.problem.form != form_of(found.problem.dtype):
            raise GemmsimError(f"rows[{i}]: {name} is of another layout, type of B or C, batch, beta or epilogue than "
                               "the plain product: expected rows of that")  # fmt: skip
        parts.setdefault((found.gpu.name, found.config.family, found.problem.dtype, found.l2), []).append(found)
    return tuple(joined(files) for files in parts.values())
