"""The case that is asked about and the Demand that the effects fill: everything the solver needs, before it is time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gemmsim.families.traits import Traits
from gemmsim.hardware import Gpu
from gemmsim.problem import FloatArray

_Record = TypeVar("_Record")
#: terms of a prediction: each has demand_X_s (its time alone) and saved_X_s (what would be gained with X free)
TERMS = (
    "math",
    "shared",
    "issue",
    "integer",
    "spill",
    "latency",
    "fill",
    "epilogue",
    "split",
    "l2",
    "dram",
    "writeback",
    "waves",
    "edge",
    "alignment",
    "power",
    "launch",
)


@dataclass(frozen=True)
class Case:
    """What is asked, as float64 arrays of one length: problems, tiles, launches; one GPU, dtype, L2 condition."""

    gpu: Gpu
    dtype: str
    a_bytes: int  # of an element in memory
    b_bytes: int
    c_bytes: int
    m: FloatArray
    n: FloatArray
    k: FloatArray
    batch: FloatArray
    bm: FloatArray
    bn: FloatArray
    bk: FloatArray
    group_m: FloatArray
    regs_per_thread: FloatArray
    spill_bytes: FloatArray
    smem_bytes: FloatArray
    blocks_per_sm: FloatArray
    sms: FloatArray  # that blocks reach: fewer than there are where clusters leave some of a GPC's over
    traits: Traits
    c: Mapping[str, float]
    l2: str
    result_reads: int  # arrays of C's shape that the epilogue reads
    bias: bool
    epilogue_slots: float  # warp instructions an accumulator that beta and the epilogue add


@dataclass(frozen=True)
class Units:
    """What blocks compute: whole tiles one by one, and shares of tiles (see gemmsim.model.split)."""

    whole: FloatArray  # blocks that compute a tile along all of K
    parts: FloatArray  # blocks that compute part_steps k-steps
    part_steps: FloatArray
    begun: FloatArray  # tiles that such a block begins
    summed: FloatArray  # tiles whose slices a second kernel sums

    @property
    def blocks(self) -> FloatArray:
        """All blocks of the launch."""
        return self.whole + self.parts if self.parts.any() else self.whole


@dataclass
class Demand:
    """What the launch asks of each part of the chip. Clocks are SM clocks."""

    # geometry
    tiles_m: FloatArray
    tiles_n: FloatArray
    tiles: FloatArray
    units: Units
    k_steps: FloatArray
    useful_area: FloatArray  # share of the tiles that lies inside M x N
    useful_depth: FloatArray  # share of the k-steps that lies inside K
    # traffic, bytes of the whole launch
    dram_read_bytes: FloatArray
    dram_write_bytes: FloatArray
    writeback_bytes: FloatArray
    second_asked_bytes: FloatArray  # that a second kernel reads
    second_read_bytes: FloatArray  # DRAM bytes of a second kernel that sums slices
    second_write_bytes: FloatArray
    l2_weighted_bytes: FloatArray  # reads weighted by what short rows and narrow copies cost, and stores
    workspace_bytes: FloatArray  # partial results that blocks leave for others
    # stations, clocks a block and k-step
    math_clk: FloatArray
    math_waits: npt.NDArray[np.bool_]  # math and fragment loads take turns
    shared_clk: FloatArray
    issue_clk: FloatArray
    integer_clk: FloatArray
    spill_clk: FloatArray
    spill_lone_clk: FloatArray
    wgmma: npt.NDArray[np.bool_]  # math runs by itself, beside loads that overlap; spill traffic and math take turns
    math_slots: float  # of a clock of the math unit, what the schedulers are busy with issuing it (joint_issue)
    # what delays only the block itself, clocks a k-step
    latency_clk: FloatArray
    arrival_clk: FloatArray
    exposed_clk: FloatArray  # whatever the depth
    loader_clk: FloatArray  # of a warp that only loads
    fetch_clk: FloatArray  # a walk through a main loop that the instruction cache does not hold
    # clocks a block
    fill_steps: FloatArray
    start_clk: FloatArray
    cold_code_clk: FloatArray  # of a launch: the code's own way to the SMs
    start_issue_clk: FloatArray
    epilogue_clk: FloatArray
    fixup_clk: FloatArray  # of one that shares tiles: partial results passed on
    lone_factor: FloatArray  # how much longer issue takes when a lone block has fewer warps than sub-partitions
    # the chip's rates in this launch
    l2_bytes_per_s: float
    dram_bytes_per_s: float
    launch_s: float
    second_s: FloatArray  # a second kernel that sums slices
    clock_hz: float
    l2_read_bytes: FloatArray = field(default_factory=lambda: np.zeros(1))  # of A and B, requests merged


def rows_of(record: _Record, at: npt.NDArray[np.intp], rows: int) -> _Record:
    """The rows at these positions of a dataclass of arrays, of `rows`; what has one value for all of them stays."""
    changed: dict[str, object] = {}
    for name, value in vars(record).items():
        if isinstance(value, np.ndarray) and len(value) == rows:
            changed[name] = value.take(at)
        elif isinstance(value, Traits | Units):
            changed[name] = rows_of(value, at, rows)
    found = copy(record)
    vars(found).update(changed)  # a third of the time of dataclasses.replace, which thousands of small batches feel
    return found
