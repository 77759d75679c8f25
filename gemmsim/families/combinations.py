"""Configurations of a space put together column by column: grids of choices, products, selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

#: parameter -> value of each configuration
Columns = dict[str, npt.NDArray[np.int64]]


def grid(choices: Mapping[str, Sequence[int]], *names: str) -> Columns:
    """Every combination of these parameters' choices, the last changing fastest."""
    mesh = np.meshgrid(*(np.asarray(choices[n], np.int64) for n in names), indexing="ij")
    return {n: g.ravel() for n, g in zip(names, mesh, strict=True)}


def times(a: Columns, b: Columns) -> Columns:
    """Every row of a with every row of b."""
    rows_a, rows_b = len(next(iter(a.values()))), len(next(iter(b.values())))
    left = {n: np.repeat(v, rows_b) for n, v in a.items()}
    return left | {n: np.tile(v, rows_a) for n, v in b.items()}


def where(columns: Columns, keep: npt.NDArray[np.bool_]) -> Columns:
    """The rows that are kept."""
    return {n: v[keep] for n, v in columns.items()}
