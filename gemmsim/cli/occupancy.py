"""`gemmsim occupancy`: blocks per SM of a launch or of a CSV of them; or the inverse, what so many blocks leave."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from gemmsim.cli.options import Command, whole
from gemmsim.cli.tables import Column, emit, emit_record, output_options, said_format
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.occupancy import LIMITERS, Occupancy, blocks_per_sm
from gemmsim.model.residency import room
from gemmsim.rows import Column as Cells
from gemmsim.rows import Table, out_names, read_csv, write_csv

#: column of a batch -> (other spellings, least value)
_ASKED: Mapping[str, tuple[tuple[str, ...], int]] = {
    "threads": ((), 1),
    "regs_per_thread": (("regs",), 1),
    "smem_bytes": ((), 0),
}
_GIVEN = ("blocks_per_sm", "limited_by")
_MOST = 2**31 - 1
_ONE = (
    Column("gpu", "GPU"),
    Column("threads", "threads a block"),
    Column("regs_per_thread", "registers a thread"),
    Column("smem_bytes", "shared memory a block", "B"),
    Column("blocks_per_sm", "blocks per SM"),
    Column("warps_per_sm", "warps per SM"),
    Column("occupancy", "occupancy", "1"),
    Column("limited_by", "limited by"),
    *(
        Column(f"limit_{name}", f"  {name.replace('_', ' ')} allow{'s' * (name == 'shared_memory')}")
        for name in LIMITERS
    ),
)

_ROOM = (
    Column("gpu", "GPU"),
    Column("blocks", "blocks per SM"),
    Column("threads", "threads a block"),
    Column("regs_per_thread", "registers a thread, at most"),
    Column("smem_bytes", "bytes of shared memory a block, at most"),
    Column("warps_per_sm", "warps per SM"),
    Column("occupancy", "occupancy", "1"),
)
#: block sizes of the inverse where none is asked for
_THREADS = (32, 64, 128, 256, 512, 1024)


@click.command(cls=Command)
@click.option("--gpu", help="Name (h200_sxm), device string, or file; in a batch, for rows without a column gpu.")
@click.option("--threads", metavar="N", callback=whole(1, _MOST), help="Threads of a block.")
@click.option("--regs", metavar="N", callback=whole(1, _MOST), help="Registers of a thread.")
@click.option(
    "--smem",
    metavar="BYTES",
    callback=whole(0, _MOST),
    help="Shared memory of a block in bytes, static + dynamic.  [default: 0]",
)
@click.option(
    "--blocks",
    metavar="N",
    callback=whole(1, _MOST),
    help="The other way round: the most registers and shared memory with which N blocks are resident.",
)
@click.option("--batch", metavar="IN.csv", help="Rows with threads, regs_per_thread (or regs), smem_bytes, and gpu.")
@output_options(default=None)
def command(
    gpu: str | None, threads: int | None, regs: int | None, smem: int | None, blocks: int | None, batch: str | None,
    format: str | None, out: str | None,
) -> None:  # fmt: skip
    """Blocks an SM holds at once, as NVIDIA's occupancy calculator gives it, and which resource limits them.

    With --blocks instead of --regs and --smem: what each of so many blocks may take, for --threads or usual sizes.
    """
    if blocks is not None:
        for option, value in {"--regs": regs, "--smem": smem, "--batch": batch}.items():
            if value is not None:
                raise GemmsimError(
                    f"{option} {value} is given with --blocks, which asks for it: expected one of the two"
                )
        _inverse(gpu, blocks, threads, said_format(format, out), out)
        return
    if batch is None:
        _one(gpu, threads, regs, smem or 0, said_format(format, out), out)
        return
    for option, value in {"--threads": threads, "--regs": regs, "--smem": smem}.items():
        if value is not None:
            raise GemmsimError(f"{option} {value} is given with --batch: expected it as a column of {batch}")
    _batch(batch, gpu, format or "csv", out)


def _one(name: str | None, threads: int | None, regs: int | None, smem: int, format: str, out: str | None) -> None:
    if name is None or threads is None or regs is None:
        missing = [o for o, v in {"--gpu": name, "--threads": threads, "--regs": regs}.items() if v is None]
        raise GemmsimError(f"{' and '.join(missing)} missing: expected --gpu, --threads and --regs, or --batch")
    gpu = load_gpu(name)
    found = blocks_per_sm(gpu.arch, threads, regs, smem)
    asked = {"gpu": gpu.name, "threads": threads, "regs_per_thread": regs, "smem_bytes": smem}
    emit_record(asked | _answer(gpu, found, threads), _ONE, format, out, notes=_reason(gpu, found, threads, regs, smem))


def _inverse(name: str | None, blocks: int, threads: int | None, format: str, out: str | None) -> None:
    if name is None:
        raise GemmsimError("--gpu missing: expected it with --blocks")
    gpu = load_gpu(name)
    if threads is not None:
        emit_record(_room(gpu, blocks, threads), _ROOM, format, out)
        return
    rows = []
    for size in (t for t in _THREADS if t <= gpu.arch.max_threads_per_block):
        with contextlib.suppress(GemmsimError):
            rows.append(_room(gpu, blocks, size))
    if not rows:
        room(gpu.arch, blocks, _THREADS[0])  # says why
    emit(rows, _ROOM, format, out)


def _room(gpu: Gpu, blocks: int, threads: int) -> dict[str, Any]:
    found, warps = room(gpu.arch, blocks, threads), blocks * -(-threads // 32)
    return {
        "gpu": gpu.name, "blocks": blocks, "threads": threads, "regs_per_thread": found.regs_per_thread,
        "smem_bytes": found.smem_bytes, "warps_per_sm": warps, "occupancy": warps / gpu.arch.max_warps_per_sm,
    }  # fmt: skip


def _answer(gpu: Gpu, found: Occupancy, threads: int) -> dict[str, Any]:
    blocks = int(found.blocks_per_sm[0])
    warps = blocks * -(-threads // 32)
    ties = [name for bit, name in enumerate(LIMITERS) if found.limiting_mask[0] >> bit & 1]
    return {
        "blocks_per_sm": blocks,
        "warps_per_sm": warps,
        "occupancy": warps / gpu.arch.max_warps_per_sm,
        "limited_by": ", ".join(ties),
        **{f"limit_{name}": int(limit[0]) for name, limit in zip(LIMITERS, found.limits, strict=True)},
    }


def _reason(gpu: Gpu, found: Occupancy, threads: int, regs: int, smem: int) -> list[str]:
    """Why a launch cannot run, with number, limit and unit; nothing for one that can."""
    a = gpu.arch
    if found.blocks_per_sm[0]:
        return []
    if threads > a.max_threads_per_block:
        return [f"cannot launch: {threads} threads a block, at most {a.max_threads_per_block}"]
    if regs > a.regs_per_thread:
        return [f"cannot launch: {regs} registers a thread, at most {a.regs_per_thread}"]
    if smem > a.smem_per_block_bytes:
        return [f"cannot launch: {smem} B of shared memory a block, at most {a.smem_per_block_bytes} B"]
    warps = -(-threads // 32)
    return [
        f"cannot launch: {warps} warps of {regs} registers a thread take more than the {a.regs_per_block} of a block"
    ]


def _batch(path: str, gpu: str | None, format: str, out: str | None) -> None:
    table = read_csv(path)
    sources = _sources(table, gpu)
    numbers = {c: table.whole(s, low=_ASKED[c][1]) for c, s in sources.items()}
    blocks, limiters = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    for name, rows in _by_gpu(table, gpu).items():
        where = np.asarray(rows, np.intp)
        arch = _load(table, name, rows[0]).arch
        found = blocks_per_sm(arch, *(numbers[c][where] for c in _ASKED))
        blocks[where], limiters[where] = found.blocks_per_sm, found.limited_by
    spelled = out_names(table.columns, _GIVEN)
    columns: dict[str, Cells] = {spelled[name]: cells for name, cells in table.columns.items()}
    columns |= {"blocks_per_sm": blocks, "limited_by": [LIMITERS[code] for code in limiters.tolist()]}
    if format == "csv":
        write_csv(out, columns)
        return
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    emit(lines, [Column(name) for name in columns], format, out)


def _by_gpu(table: Table, gpu: str | None) -> dict[str, Sequence[int]]:
    """Rows of each GPU: the cell's where it is filled, else the option's."""
    if "gpu" not in table:
        return {str(gpu): range(len(table))}
    found: dict[str, list[int]] = {}
    for row, cell in enumerate(table.columns["gpu"]):
        found.setdefault(cell.strip() or gpu or cell, []).append(row)
    return dict(found)


def _load(table: Table, name: str, row: int) -> Gpu:
    try:
        return load_gpu(name)
    except GemmsimError as error:
        place = f"{table.place(row, 'gpu')}: " if "gpu" in table else ""
        raise GemmsimError(f"{place}{error}") from None


def _sources(table: Table, gpu: str | None) -> dict[str, str]:
    """Column -> the name it has in the file. Raises GemmsimError for one that is missing."""
    found = {}
    for column, (others, _) in _ASKED.items():
        spelled = [name for name in (column, *others) if name in table]
        if not spelled:
            expected, there = ", ".join(_ASKED), ", ".join(table.columns)
            raise GemmsimError(f"{table.path}: no column {column}: expected {expected} and gpu, found {there}")
        found[column] = spelled[0]
    if "gpu" not in table and gpu is None:
        raise GemmsimError(f"{table.path}: no column gpu: expected it, or the option --gpu")
    return found
