"""`gemmsim counters`: Nsight Compute's counters of a CSV of configurations and problems, under the model's names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from gemmsim.cli.options import Command, form_options, number_option, whole
from gemmsim.cli.tables import progress
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.problem import Form
from gemmsim.rows import Column, Table, check_out, out_names, read_csv, write_csv

if TYPE_CHECKING:
    from gemmsim.bench.task import Ask, Task

#: columns that say what was counted, where the batch has them not
ASKED = ("gpu", "family", "dtype", "layout", "beta", "epilogue")
#: columns of a row before its counters: what came of it, what was launched, how often
SAID = ("status", "reason", "regs_per_thread", "spill_bytes", "smem_bytes", "blocks_per_sm", "compiler", "kernel_hash",
        "ncu", "driver", "kernels")  # fmt: skip


@click.command(cls=Command)
@click.option("--batch", metavar="IN.csv", help="Problems and configurations, as predict takes them; .gz too.")
@click.option("--out", metavar="FILE", help="The rows with their counters; those it holds already are not run again.")
@click.option("--gpu", metavar="G", help="Name or file of the GPU.  [default: the one that has the device's name]")
@click.option("--device", metavar="N", callback=whole(0, 1023), help="Which GPU, as CUDA counts them.  [default: 0]")
@click.option("--family", metavar="F", help="The family, where the rows do not say; cublas is one.")
@click.option("--dtype", metavar="T", help="The dtype, where the rows do not say.")
@click.option("--jobs", metavar="N", help="Compilers at work at once.  [default: one a core]")
@form_options
def command(
    batch: str | None, out: str | None, gpu: str | None, device: int | None, family: str | None, dtype: str | None,
    jobs: str | None, shape: Form,
) -> None:  # fmt: skip
    """Count what each row of IN.csv does on the GPU, by Nsight Compute, under the names of the model's terms.

    Each launch is alone, its L2 empty at the start, clocks left as they are. docs/counters.md says which counter stands
    beside which term; predict on the same rows gives what the model says (columns it shares are in_NAME there).
    """
    if batch is None or out is None:
        missing = " and ".join(o for o, v in {"--batch": batch, "--out": out}.items() if v is None)
        raise GemmsimError(f"{missing} missing: expected rows to count and a file for them")
    check_out(out)
    if os.path.exists(out) and not os.path.isfile(out):
        raise GemmsimError(f"--out {out}: expected a file, which is read to be carried on, found a device or a pipe")
    processes = number_option("--jobs", jobs, 1, 1024)
    table = read_csv(batch)
    from gemmsim.bench.ncu import find_ncu
    from gemmsim.cli.asked import Said, of_batch

    ncu = find_ncu()
    file = File(table, out)
    asked = of_batch(table, Said(gpu, family, dtype, None, shape))
    asks = {i: asked.asks[asked.of_row[i]] for i in file.left}
    _count(file, asks, gpu or asked.gpu or "auto", device or 0, ncu, processes)


class File:
    """The file of counters: the rows it has, and those of the batch that it has not.

    Raises GemmsimError where it holds other columns than the batch and the counters.
    """

    def __init__(self, batch: Table, path: str) -> None:
        from gemmsim.bench.metrics import columns

        self.batch, self.path = batch, path
        self.results = [*SAID, *columns()]
        self.given = out_names(batch.columns, self.results)
        self.asked = [name for name in ASKED if name not in batch]
        self.names = [*self.asked, *self.given.values(), *self.results]
        self.rows: list[dict[str, str]] = self._there() if os.path.exists(path) else []
        self.left = self._missing()

    def _there(self) -> list[dict[str, str]]:
        table = read_csv(self.path)
        if list(table.columns) != self.names:
            odd = next((c for c in table.columns if c not in self.names), None) or next(
                (c for c in self.names if c not in table), "their order"
            )
            raise GemmsimError(
                f"--out {self.path} holds other columns than {self.batch.path} and its counters ({odd}): expected a "
                "file that this batch was counted into, or a new one"
            )
        return [dict(zip(table.columns, row, strict=True)) for row in zip(*table.columns.values(), strict=True)]

    def _missing(self) -> list[int]:
        """Rows of the batch that are not there, equal ones counted."""
        have = Counter(tuple(row[name] for name in self.given.values()) for row in self.rows)
        left = []
        for i, key in enumerate(zip(*self.batch.columns.values(), strict=True)):
            have[key] -= 1
            if have[key] < 0:
                left.append(i)
        return left

    def add(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Write the file with these rows (positions in the batch, results) behind those there, whole or not at all."""
        for i, found in rows:
            cells = {name: self.batch.columns[column][i] for column, name in self.given.items()}
            self.rows.append(cells | {name: _cell(found.get(name)) for name in (*self.asked, *self.results)})
        columns: dict[str, Column] = {name: [row[name] for row in self.rows] for name in self.names}
        write_csv(self.path, columns)


def _cell(value: Any) -> str:
    """A value as text: whole numbers without a point, nothing for NaN and None."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return ""
    if isinstance(value, float) and value == round(value) and abs(value) < 2**53:
        return str(round(value))
    return str(value)


def _count(file: File, asks: Mapping[int, Ask], gpu: str, device: int, ncu: str, jobs: int | None) -> None:
    from gemmsim.bench.campaign import chip
    from gemmsim.bench.counters import counted
    from gemmsim.bench.lab import device_facts, opened
    from gemmsim.bench.lock import gpu_lock
    from gemmsim.bench.ncu import version

    facts = device_facts(opened(device), device)
    known = chip(facts.place, gpu)
    said = {"ncu": version(ncu), "driver": facts.driver}
    every = {i: said | _asked(ask, known) for i, ask in asks.items()}
    with gpu_lock(facts.uuid), progress(len(asks), "Counting") as step:
        ready, broken = _tasks(asks, known, jobs)
        if broken:
            file.add([(i, every[i] | row) for i, row in broken])
            step(len(broken))
        for rows in counted(ready, device, ncu):
            file.add([(task.number, every[task.number] | _kernel(task) | row) for task, row in rows])
            step(len(rows))


def _asked(ask: Ask, gpu: Gpu) -> dict[str, Any]:
    """The columns ASKED."""
    known = ask.identity("", gpu.name, "")
    return {name: known[name] for name in ASKED}


def _kernel(task: Task) -> dict[str, Any]:
    """What the compiler said of a task's kernel."""
    k = task.kernel
    return {"regs_per_thread": k.regs_per_thread, "spill_bytes": k.spill_bytes, "smem_bytes": k.smem_bytes,
            "compiler": k.compiler, "kernel_hash": k.key}  # fmt: skip


def _tasks(asks: Mapping[int, Ask], gpu: Gpu, jobs: int | None) -> tuple[list[Task], list[tuple[int, dict[str, Any]]]]:
    """Asks with their kernels, numbered by row; and the rows that cannot run, or whose kernel does not compile."""
    from gemmsim.bench import backend
    from gemmsim.bench.refusal import refused
    from gemmsim.bench.task import CUBLAS, Kernel, Task

    reasons = dict(zip(asks, refused(list(asks.values()), gpu), strict=True))
    broken: list[tuple[int, dict[str, Any]]] = [
        (i, {"status": "refused", "reason": reason}) for i, reason in reasons.items() if reason
    ]
    may = [i for i, reason in reasons.items() if not reason]
    tasks = [Task(i, asks[i], Kernel(key=CUBLAS)) for i in may if asks[i].family == CUBLAS]
    rows = [i for i in may if asks[i].family != CUBLAS]
    for place, error, kernel in backend.compile_ahead([asks[i] for i in rows], gpu, jobs):
        if error:
            broken.append((rows[place], {"status": "compile", "reason": error, "kernel_hash": kernel.key}))
        else:
            tasks.append(Task(rows[place], asks[rows[place]], kernel))
    return sorted(tasks, key=_order), sorted(broken, key=lambda row: row[0])


def _order(task: Task) -> tuple[Any, ...]:
    """Tasks of one problem, which share data, one after another."""
    ask = task.ask
    return ask.m, ask.n, ask.k, str(ask.form), task.number
