"""Nsight Compute: where it is, how it is called, what it printed. What it cannot do is one sentence."""

from __future__ import annotations

import csv
import glob
import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from gemmsim.bench.metrics import COUNTERS, Counter
from gemmsim.errors import GemmsimError

#: where it is installed, where it is not on the PATH; the last that is there counts
PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_UNITS: Mapping[str, float] = {
    "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1,
    "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip


def find_ncu() -> str:
    """Nsight Compute's command. Raises GemmsimError, saying how to install it, where there is none."""
    found = shutil.which("ncu") or next((p for place in PLACES for p in sorted(glob.glob(place))[-1:]), None)
    if found is None:
        raise GemmsimError(
            "Nsight Compute (ncu) was not found on the PATH or in /usr/local/cuda: install the package "
            "nsight-compute of NVIDIA's CUDA repository, or https://developer.nvidia.com/nsight-compute"
        )
    return found


def command(ncu: str, metrics: Sequence[str], log: str, child: Sequence[str]) -> list[str]:
    """A call that counts what the child runs between cudaProfilerStart and Stop, from a cold L2, clocks as they are."""
    return [
        ncu, "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all", "--target-processes",
        "all", "--metrics", ",".join(metrics), "--csv", "--page", "raw", "--print-units", "base", "--log-file", log,
        *child,
    ]  # fmt: skip


@dataclass(frozen=True)
class Metrics:
    """The metrics to ask for: those of COUNTERS, under the names this Nsight Compute has, less those it has not."""

    names: tuple[tuple[Counter, str], ...] = tuple((c, c.metric) for c in COUNTERS)

    def asked(self) -> list[str]:
        """Names as ncu takes them."""
        return [name for _, name in self.names]

    def without(self, missing: str) -> Metrics:
        """The same with another name for a metric that ncu does not know, or without it."""
        kept = []
        for counter, name in self.names:
            if name.partition(".")[0] != missing:
                kept.append((counter, name))
            elif counter.other and name != counter.other:
                kept.append((counter, counter.other))
        return Metrics(tuple(kept))


@dataclass(frozen=True)
class KernelCounts:
    """One profiled kernel: its name, grid, and counters by metric, in SI units; NaN where ncu gave none."""

    name: str
    grid: tuple[int, int, int]
    values: Mapping[str, float]


def missing_metric(log: str) -> str | None:
    """The metric that ncu does not know, without what follows its dot; None if it complained of none."""
    found = re.search(r"Failed to find metric (?:regex:\^)?([A-Za-z0-9_]+)", log)
    return found[1] if found else None


def refuse_failure(log: str, status: int | None) -> NoReturn:
    """Raise GemmsimError for what ncu says it cannot do."""
    if "ERR_NVGPUCTRPERM" in log:
        raise GemmsimError(
            "the driver keeps performance counters for root: run as root, or load the nvidia module with "
            "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
    errors = [line.removeprefix("==ERROR== ").strip() for line in log.splitlines() if line.startswith("==ERROR==")]
    how = "was ended after its time" if status is None else f"ended with status {status}"
    raise GemmsimError(f"ncu {how}: {errors[0] if errors else 'it counted no kernel'}")


def parse(log: str, metrics: Metrics) -> list[KernelCounts]:
    """The kernels of ncu's raw page as CSV, in the order of their launch; nothing where it holds no table.

    The header is the line that begins with "ID"; below it stands a row of units; the rest of the log are its own lines
    (==PROF==) and the program's. Numbers have thousands separators.
    """
    lines = log.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    table = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    header, rows = table[0], [row for row in table[1:] if len(row) == len(table[0])]
    if "Grid Size" not in header:
        raise GemmsimError("ncu printed no column Grid Size: expected Nsight Compute 2022.1 or later")
    units = dict(zip(header, rows[0], strict=True)) if rows and not rows[0][0] else {}
    named = [dict(zip(header, row, strict=True)) for row in rows if row[0].isdigit()]
    named.sort(key=lambda row: int(row["ID"]))
    return [_kernel(row, units, metrics) for row in named]


def _kernel(row: Mapping[str, str], units: Mapping[str, str], metrics: Metrics) -> KernelCounts:
    grid = tuple(int(x) for x in re.findall(r"\d+", row.get("Grid Size", "")))
    values = {c.metric: number(row.get(name, ""), units.get(name, "")) for c, name in metrics.names}
    return KernelCounts(row.get("Kernel Name", ""), (*grid, 1, 1, 1)[:3], values)  # type: ignore[arg-type]


def number(cell: str, unit: str) -> float:
    """A cell in its base unit; NaN for one that is none (n/a)."""
    try:
        return float(cell.replace(",", "")) * _UNITS.get(unit, 1)
    except ValueError:
        return math.nan


def by_row(kernels: Sequence[KernelCounts], marker: str) -> Iterator[tuple[int, list[KernelCounts]]]:
    """Row number and its kernels: each row begins with a launch of `marker` whose grid is the number plus one."""
    row: tuple[int, list[KernelCounts]] | None = None
    for kernel in kernels:
        if kernel.name.partition("(")[0] == marker:
            if row is not None:
                yield row
            row = kernel.grid[0] - 1, []
        elif row is not None:
            row[1].append(kernel)
    if row is not None:
        yield row


def version(ncu: str) -> str:
    """Nsight Compute's version, "2025.3.1.0"; nothing where it does not say."""
    try:
        said = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"Version\s+([0-9.]+)", said)
    return found[1] if found else ""
