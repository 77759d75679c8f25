"""Which hardware counter stands beside which term of the model: the table that docs/counters.md prints.

A `Counter` is one Nsight Compute metric. Its column in a file of counters is the metric's name with underscores for
dots, as in studies/h200/*_counters.csv.gz; a `Beside` is the same count under the name and in the unit of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: bytes of a sector, what L2 and L1 pass on at once
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Counter:
    """One metric: its unit once read, and how those of a row's kernels (split-K's reduction is one) become one.

    combine: "sum"; "time" (mean, weighted by the kernels' times); "first" (the main kernel's). other: the name that
    later versions of Nsight Compute have for it.
    """

    metric: str
    unit: str
    combine: str = "sum"
    other: str = ""

    @property
    def column(self) -> str:
        """Its column in a file of counters."""
        return self.metric.replace(".", "_")


@dataclass(frozen=True)
class Beside:
    """A count under the model's name. term: whose time it explains (model.demand.TERMS); against: what of a prediction.

    of: from the columns of its counters, in their order.
    """

    name: str
    term: str
    unit: str
    counters: tuple[Counter, ...]
    of: Callable[..., float]
    formula: str
    against: str


def _same(x: float) -> float:
    return x


def _sum(*x: float) -> float:
    return math.fsum(x)


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.nan


def _bytes(sectors: float) -> float:
    return SECTOR_BYTES * sectors


def _share(percent: float) -> float:
    return percent / 100


DRAM_READ = Counter("dram__bytes_read.sum", "B", other="dram__bytes_op_read.sum")
DRAM_WRITE = Counter("dram__bytes_write.sum", "B", other="dram__bytes_op_write.sum")
TIME = Counter("gpu__time_duration.sum", "s")
CYCLES = Counter("sm__cycles_elapsed.max", "clk")
BUSY = Counter("smsp__cycles_active.avg", "clk")
L2_SECTORS = Counter("lts__t_sectors_srcunit_tex.sum", "sectors")
L2_READS = Counter("lts__t_sectors_srcunit_tex_op_read.sum", "sectors")
L2_HITS = Counter("lts__t_sectors_srcunit_tex_lookup_hit.sum", "sectors")
L1_HITS = Counter("l1tex__t_sector_hit_rate.pct", "%", "time")
WAVEFRONTS = Counter("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "wavefronts")
CONFLICTS = Counter("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "wavefronts")
ISSUED = Counter("smsp__inst_executed.sum", "warp instructions")
FMA = Counter("smsp__inst_executed_pipe_fma.sum", "warp instructions")
FP64 = Counter("smsp__inst_executed_pipe_fp64.sum", "warp instructions")
TENSOR = Counter("sm__inst_executed_pipe_tensor.sum", "warp instructions")
ALU = Counter("smsp__inst_executed_pipe_alu.sum", "warp instructions")
LSU = Counter("smsp__inst_executed_pipe_lsu.sum", "warp instructions")
LOCAL_LOADS = Counter("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "sectors")
LOCAL_STORES = Counter("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", "sectors")
WARPS = Counter("sm__warps_active.avg.pct_of_peak_sustained_active", "%", "time")
REGISTERS = Counter("launch__registers_per_thread", "registers", "first")

#: what is asked of Nsight Compute, in the order of the columns
COUNTERS = (
    DRAM_READ, DRAM_WRITE, TIME, CYCLES, BUSY, L2_SECTORS, L2_READS, L2_HITS, L1_HITS, WAVEFRONTS, CONFLICTS, ISSUED,
    FMA, FP64, TENSOR, ALU, LSU, LOCAL_LOADS, LOCAL_STORES, WARPS, REGISTERS,
)  # fmt: skip

#: the map term -> counter, in the order in which docs/counters.md has it
BESIDE = (
    Beside("dram_read_bytes", "dram", "B", (DRAM_READ,), _same, "", "column dram_read_bytes of predict"),
    Beside("dram_write_bytes", "writeback", "B", (DRAM_WRITE,), _same, "", "column dram_write_bytes of predict"),
    Beside("l2_read_bytes", "l2", "B", (L2_READS,), _bytes, "32 x", "column l2_read_bytes of predict"),
    Beside("l2_hit_share", "dram", "1", (L2_HITS, L2_SECTORS), _ratio, "ratio",
           "1 - dram_read_bytes / l2_read_bytes of predict, about"),
    Beside("shared_wavefronts", "shared", "wavefronts", (WAVEFRONTS,), _same, "",
           "a clock of an SM's shared memory each: demand_shared_s x clock x SMs"),
    Beside("shared_conflicts", "shared", "wavefronts", (CONFLICTS,), _same, "", "the part of them that conflicts add"),
    Beside("issue_instructions", "issue", "warp instructions", (ISSUED,), _same, "",
           "an issue slot of a sub-partition each: demand_issue_s x clock x SMs x sub-partitions"),
    Beside("math_fma_instructions", "math", "warp instructions", (FMA,), _same, "",
           "fp32: M N K / 32, padding, integer multiply-adds; demand_math_s x clock x SMs x fma_per_clk_per_sm / 32"),
    Beside("math_fp64_instructions", "math", "warp instructions", (FP64,), _same, "", "fp64: the same"),
    Beside("math_tensor_instructions", "math", "warp instructions", (TENSOR,), _same, "",
           "other types: M N K over the instruction's shape"),
    Beside("integer_instructions", "integer", "warp instructions", (ALU,), _same, "", "demand_integer_s"),
    Beside("load_instructions", "latency", "warp instructions", (LSU,), _same, "",
           "what the k-steps wait for: loads and stores of global and shared memory"),
    Beside("spill_bytes_moved", "spill", "B", (LOCAL_LOADS, LOCAL_STORES), lambda a, b: _bytes(_sum(a, b)), "32 x sum",
           "demand_spill_s; 0 for a kernel that spills nothing"),
    Beside("busy_share", "waves", "1", (BUSY, CYCLES), _ratio, "ratio",
           "1 - saved_waves_s / time_s, about: sub-partitions with a warp, over the time of the launch"),
    Beside("occupancy", "waves", "1", (WARPS,), _share, "/ 100", "warps of blocks_per_sm over an SM's"),
    Beside("clock_hz", "power", "Hz", (CYCLES, TIME), _ratio, "ratio", "the clock that power leaves"),
    Beside("kernel_time_s", "launch", "s", (TIME,), _same, "", "time_s less demand_launch_s"),
)  # fmt: skip
#: terms that no counter shows by itself
WITHOUT = ("fill", "epilogue", "edge", "alignment", "split")


def combined(kernels: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The counters of a row by column, from those of its kernels by metric; NaN where a kernel has none."""
    times = [kernel.get(TIME.metric, math.nan) for kernel in kernels]
    return {c.column: _combined(c, [k.get(c.metric, math.nan) for k in kernels], times) for c in COUNTERS}


def _combined(counter: Counter, values: Sequence[float], times: Sequence[float]) -> float:
    if counter.combine == "first" or len(values) == 1:
        return values[0]
    if counter.combine == "sum":
        return math.fsum(values)
    return math.fsum(v * t for v, t in zip(values, times, strict=True)) / math.fsum(times)


def beside(row: Mapping[str, float]) -> dict[str, float]:
    """The counts of a row under the model's names, from its columns of counters."""
    return {b.name: b.of(*(row[c.column] for c in b.counters)) for b in BESIDE}


def columns() -> list[str]:
    """The columns that a file of counters has behind those of its input."""
    return [*(b.name for b in BESIDE), *(c.column for c in COUNTERS)]


def markdown() -> Iterator[str]:
    """The table of docs/counters.md, line by line."""
    yield "| term | column | unit | counter | stands beside |"
    yield "|---|---|---|---|---|"
    for b in BESIDE:
        yield f"| {b.term} | `{b.name}` | {b.unit} | {_formula(b)} | {b.against} |"
    yield f"| {', '.join(WITHOUT)} | | | none by itself | |"


def _formula(b: Beside) -> str:
    names: Iterable[str] = (f"`{c.metric}`" for c in b.counters)
    if b.formula == "ratio":
        return " / ".join(names)
    if b.formula.endswith("sum"):
        return f"{b.formula.removesuffix(' sum')} ({' + '.join(names)})"
    listed = " ".join(names)
    return f"{listed} {b.formula}" if b.formula.startswith("/") else f"{b.formula} {listed}".strip()
