"""Work once a unique configuration: columns of small integers are packed into one key, computed on, and gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: up to this many rows it is quicker to compute each than to find the unique ones
FEW = 2048


def unique_rows(columns: Mapping[str, npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """First position of each distinct row, and for every row the number of its distinct one."""
    key = np.zeros(len(next(iter(columns.values()))), np.int64)
    size = 1
    for column in columns.values():
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        size *= span
        key = key * span + (column - low)
    if size >= 2**63:
        _, first, inverse = np.unique(
            np.stack(list(columns.values()), 1), axis=0, return_index=True, return_inverse=True
        )
    else:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.ravel()


def per_unique(
    columns: Mapping[str, npt.NDArray[np.int64]],
    rows: int,
    compute: Callable[[Mapping[str, npt.NDArray[np.int64]]], tuple[Array, ...]],
) -> tuple[Array, ...]:
    """compute(columns) for all rows, called on the distinct rows only."""
    if rows <= FEW:
        return compute(columns)
    first, inverse = unique_rows(columns)
    return tuple(x[inverse] for x in compute({name: column[first] for name, column in columns.items()}))
