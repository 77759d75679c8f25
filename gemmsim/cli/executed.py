"""Wavefronts and instructions of a file of counters beside what is predicted, for `gemmsim validate --counters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gemmsim.cli.batch import Group, Options, dimensions_of, groups, predicted
from gemmsim.problem import FloatArray, IntArray
from gemmsim.rows import Index, Table

if TYPE_CHECKING:
    from gemmsim.simulate.warps import Warps

#: Nsight Compute's metrics, and instructions of a k-step as `gemmsim compile --sass` writes them
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_sum"
INSTRUCTIONS = "smsp__inst_executed_sum"
STEP = "sass_step"
SPILLS = "spill_bytes"


def warps(table: Table, options: Options) -> Warps:
    """The counted rows of a file, in the order of their groups, with what is predicted of them."""
    from gemmsim.simulate.warps import joined

    sizes = dimensions_of(table)
    return joined([_of(table, group, sizes, options) for group in groups(table, options)])


def _of(table: Table, group: Group, sizes: Mapping[str, IntArray], options: Options) -> Warps:
    from gemmsim.simulate.warps import Executed, Warps, asynchronous, executed

    def column(name: str) -> FloatArray:
        return optional(table, name, group.where)

    p = predicted(table, sizes, group, options)
    counted = Executed(*(column(name) for name in (WAVEFRONTS, CONFLICTS, INSTRUCTIONS, INSTRUCTIONS)))
    return Warps(counted, executed(p, column(STEP)), asynchronous(p), np.nan_to_num(column(SPILLS)) > 0)


def optional(table: Table, name: str, where: Index | None) -> FloatArray:
    """A column of numbers, NaN where it has none or is not there."""
    if name in table:
        return table.number(name, where, blank_ok=True)
    return np.full(len(table) if where is None else len(where), np.nan)
