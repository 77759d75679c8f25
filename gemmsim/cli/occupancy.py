"""`gemmsim occupancy`: blocks per SM from threads, registers and shared memory, of one launch or of a CSV of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from gemmsim.cli.tables import Column, emit, emit_record, output_options
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model.occupancy import LIMITERS, Occupancy, blocks_per_sm

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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--gpu", help="Name (h200_sxm), device string, or file; in a batch, for rows without a column gpu.")
@click.option("--threads", metavar="N", type=click.IntRange(1, _MOST), help="Threads of a block.")
@click.option("--regs", metavar="N", type=click.IntRange(1, _MOST), help="Registers of a thread.")
@click.option(
    "--smem",
    metavar="BYTES",
    type=click.IntRange(0, _MOST),
    help="Shared memory of a block in bytes, static + dynamic.  [default: 0]",
)
@click.option("--batch", metavar="IN.csv", help="Rows with threads, regs_per_thread (or regs), smem_bytes, and gpu.")
@output_options(default=None)
def command(
    gpu: str | None, threads: int | None, regs: int | None, smem: int | None, batch: str | None, format: str | None,
    out: str | None,
) -> None:  # fmt: skip
    """Blocks an SM holds at once, as NVIDIA's occupancy calculator gives it, and which resource limits them."""
    if batch is None:
        _one(gpu, threads, regs, smem or 0, format or "table", out)
        return
    for option, value in {"--threads": threads, "--regs": regs, "--smem": smem}.items():
        if value is not None:
            raise GemmsimError(f"{option} {value} is given with --batch: expected it as a column of {batch}")
    _batch(Path(batch), gpu, format or "csv", out)


def _one(name: str | None, threads: int | None, regs: int | None, smem: int, format: str, out: str | None) -> None:
    if name is None or threads is None or regs is None:
        missing = [o for o, v in {"--gpu": name, "--threads": threads, "--regs": regs}.items() if v is None]
        raise GemmsimError(f"{' and '.join(missing)} missing: expected --gpu, --threads and --regs, or --batch")
    gpu = load_gpu(name)
    found = blocks_per_sm(gpu.arch, threads, regs, smem)
    asked = {"gpu": gpu.name, "threads": threads, "regs_per_thread": regs, "smem_bytes": smem}
    emit_record(asked | _answer(gpu, found, threads), _ONE, format, out, notes=_reason(gpu, found, threads, regs, smem))


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


def _batch(path: Path, gpu: str | None, format: str, out: str | None) -> None:
    header, rows = _read(path)
    sources = _sources(path, header, gpu)
    numbers = {c: _numbers(path, rows, header.index(s), s, _ASKED[c][1]) for c, s in sources.items() if c in _ASKED}
    names = [row[header.index("gpu")] for row in rows] if "gpu" in header else [str(gpu)] * len(rows)
    blocks, limiters = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for name, where in _by_name(names).items():
        found = blocks_per_sm(_load(path, name, where, "gpu" in header).arch, *(numbers[c][where] for c in _ASKED))
        blocks[where], limiters[where] = found.blocks_per_sm, found.limited_by
    columns = [f"in_{name}" if name in _GIVEN else name for name in header] + list(_GIVEN)
    answers = zip(rows, blocks.tolist(), limiters.tolist(), strict=True)
    table = [dict(zip(columns, [*row, b, LIMITERS[by]], strict=True)) for row, b, by in answers]
    emit(table, [Column(c) for c in columns], format, out)


def _by_name(names: Sequence[str]) -> dict[str, Any]:
    """GPU -> the positions of its rows."""
    column = np.asarray(names)
    return {str(name): np.flatnonzero(column == name) for name in np.unique(column)}


def _load(path: Path, name: str, where: Any, from_column: bool) -> Gpu:
    try:
        return load_gpu(name)
    except GemmsimError as error:
        place = f"{path}, row {where[0] + 1}, column gpu: " if from_column else ""
        raise GemmsimError(f"{place}{error}") from None


def _sources(path: Path, header: Sequence[str], gpu: str | None) -> dict[str, str]:
    """Column -> the name it has in the file. Raises GemmsimError for one that is missing."""
    found = {}
    for column, (others, _) in _ASKED.items():
        spelled = [name for name in (column, *others) if name in header]
        if not spelled:
            raise GemmsimError(
                f"{path}: no column {column}: expected {', '.join(_ASKED)} and gpu, found {', '.join(header)}"
            )
        found[column] = spelled[0]
    if "gpu" not in header and gpu is None:
        raise GemmsimError(f"{path}: no column gpu: expected it, or the option --gpu")
    return found


def _numbers(path: Path, rows: Sequence[Sequence[str]], place: int, column: str, least: int) -> Any:
    return np.fromiter(
        (_number(path, i, row[place], column, least) for i, row in enumerate(rows, 1)), np.int64, len(rows)
    )


def _number(path: Path, row: int, text: str, column: str, least: int) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (least <= value <= _MOST and value.is_integer()):
        raise GemmsimError(
            f"{path}, row {row}, column {column} is {text!r}: expected a whole number from {least} to {_MOST}"
        )
    return int(value)


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV as text. Raises GemmsimError for a file that is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        header, *rows = [line for line in csv.reader(io.StringIO(text)) if line] or [[]]
    except OSError as error:
        raise GemmsimError(f"--batch {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise GemmsimError(
            f"--batch {path}: expected UTF-8 text, found other bytes at position {error.start}"
        ) from None
    except csv.Error as error:
        raise GemmsimError(f"--batch {path}: expected CSV: {error}") from None
    for mistake in _shape_mistakes(header, rows):
        raise GemmsimError(f"{path}{mistake}")
    return header, rows


def _shape_mistakes(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield ": expected a header and rows, found " + ("only a header" if header else "an empty file")
    for name in header:
        if header.count(name) > 1:
            yield f": column {name} is there twice"
    for i, row in enumerate(rows, 1):
        if len(row) != len(header):
            yield f", row {i}: expected {len(header)} cells ({', '.join(header)}), found {len(row)}"
