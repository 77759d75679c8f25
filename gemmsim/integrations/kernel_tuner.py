"""Kernel Tuner's cachefiles as rows: what was tuned, in seconds, failed configurations with their status.

A cachefile (kerneltuner.github.io: cache files; schema versions 1.0.0 and 1.1.0, and files without one) is a JSON
object of device_name, kernel_name, problem_size, tune_params_keys, tune_params and, last, cache: one entry a
configuration, times in milliseconds. Kernel Tuner appends entries and closes the object when it ends, so that one of a
run that was stopped ends anywhere: every complete entry of it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gemmsim import families
from gemmsim.conditions import l2_condition
from gemmsim.errors import GemmsimError, unknown
from gemmsim.hardware import load_gpu
from gemmsim.problem import DTYPE_BYTES, MAX_DIMENSION, dtype_name
from gemmsim.rows import Table

#: what is in an error's name -> the status of the row, the first that fits: CompilationFailedConfig, InvalidConfig
#: (too many threads a block, or a restriction), RuntimeFailedConfig, and the names of its T4 results
_STATUS = (("timeout", "timeout"), ("compil", "compile"), ("correct", "wrong"), ("verif", "wrong"),
           ("invalid", "refused"), ("constraint", "refused"), ("", "launch"))  # fmt: skip
_ERRORS = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
_SIZES = ("m", "n", "k")
#: problem_size by dimension
_DIMENSIONS = ("problem_size_x", "problem_size_y", "problem_size_z")
#: no kernel takes longer, ms: what stands for a failure
_MOST_MS = 1e9
_BLANK = re.compile(r"[\s,]*")
_END = re.compile(r"[\s,}]*\Z")
_NEXT = re.compile(r"\n\s*(?=\")")
_DECODER = json.JSONDecoder()
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Cachefile:
    """What a cachefile holds. sizes: problem_size_x and so on, empty where Kernel Tuner had a function for them.

    entries: by their key, the values of the tunables. unfinished: entries that were broken off and are left out.
    """

    path: str
    device: str
    kernel: str
    tunables: tuple[str, ...]
    sizes: Mapping[str, int]
    entries: Mapping[str, Entry]
    unfinished: int


@dataclass(frozen=True)
class Wanted:
    """What a cachefile does not say. values: parameter or size -> a tunable, problem_size_x or number, or several of
    them with * and / between; a tunable called like a parameter needs none. gpu: None for the one of the device's name.
    """

    family: str | None = None
    dtype: str | None = None
    gpu: str | None = None
    l2: str = "warm"  # Kernel Tuner launches a kernel again and again, nothing in between
    values: Mapping[str, str] | None = None


def read_cachefile(path: str) -> Cachefile:
    """A cachefile, complete or broken off anywhere behind its header. Raises GemmsimError for what is none."""
    try:
        text = Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        document, unfinished = json.loads(text), 0
    except (ValueError, RecursionError):
        document, unfinished = _broken_off(text)
    if not isinstance(document, dict):
        raise GemmsimError(f"{path}: expected a cachefile of Kernel Tuner, found no JSON object")
    device, kernel = (_typed(path, document, name, str) for name in ("device_name", "kernel_name"))
    tunables = tuple(map(str, _typed(path, document, "tune_params_keys", list)))
    entries = _typed(path, document, "cache", dict)
    sizes = dict(zip(_DIMENSIONS, _sizes(document.get("problem_size")), strict=False))
    return Cachefile(path, device, kernel, tunables, sizes, entries, unfinished)


def _typed(path: str, document: Mapping[str, Any], name: str, kind: type) -> Any:
    if name not in document:
        have = ", ".join(document) or "nothing"
        raise GemmsimError(f"{path}: expected a cachefile of Kernel Tuner with {name}, found {have:.80}")
    if not isinstance(document[name], kind):
        raise GemmsimError(f"{path}: {name} is {document[name]!r:.40}: expected a cachefile of Kernel Tuner")
    return document[name]


def _sizes(found: object) -> list[int]:
    listed = found if isinstance(found, list) else [found]
    return [x for x in listed if isinstance(x, int)] if all(isinstance(x, int) for x in listed) else []


def _broken_off(text: str) -> tuple[dict[str, Any], int]:
    """The header and the complete entries of a file that ends too early, and how many entries were broken off."""
    document: dict[str, Any] = {}
    at = _BLANK.match(text).end()  # type: ignore[union-attr]
    if text[at : at + 1] != "{":
        return document, 0
    at += 1
    while (member := _member(text, at)) is not None:
        name, value, at = member
        document[name] = value
    opened = _opened(text, at)
    if opened is None:
        return document, 0
    document["cache"], unfinished = _entries(text, opened, document.get("tune_params_keys"))
    return document, unfinished


def _member(text: str, at: int) -> tuple[str, Any, int] | None:
    """The member of an object that begins here, and where it ends; None where it is not complete."""
    try:
        name, at = _DECODER.raw_decode(text, _BLANK.match(text, at).end())  # type: ignore[union-attr]
        colon = re.compile(r"\s*:\s*").match(text, at)
        if not isinstance(name, str) or colon is None:
            return None
        value, at = _DECODER.raw_decode(text, colon.end())
    except (ValueError, RecursionError):
        return None
    # a number at the end may go on
    return None if at == len(text) and isinstance(value, int | float) else (name, value, at)


def _opened(text: str, at: int) -> int | None:
    """Where the entries begin, if cache is the member that does not end."""
    found = re.compile(r'[\s,]*"cache"\s*:\s*\{').match(text, at)
    return found.end() if found else None


def _entries(text: str, at: int, tunables: object) -> tuple[dict[str, Entry], int]:
    """The complete entries from here on; behind one that is not, those that begin a line."""
    entries: dict[str, Entry] = {}
    unfinished = 0
    needed = set(tunables if isinstance(tunables, list) else [])
    while not _END.match(text, at):
        member = _member(text, at)
        if member is not None and isinstance(member[1], dict) and needed <= member[1].keys():
            entries[member[0]] = member[1]
            at = member[2]
            continue
        unfinished += 1
        line = _NEXT.search(text, _BLANK.match(text, at).end())  # type: ignore[union-attr]
        if line is None:
            break
        at = line.end()
    return entries, unfinished


def table(cache: Cachefile, wanted: Wanted) -> Table:
    """The rows as a CSV has them, for rowfile.read_rows. Raises GemmsimError for a mapping that lacks something."""
    family = _family(cache, wanted.family)
    values = _values(cache, family, wanted.values or {})
    fixed = {"gpu": _gpu(cache, wanted.gpu), "family": family, "dtype": _dtype(cache, family, wanted.dtype),
             "l2": l2_condition(wanted.l2, where="--l2"), "product": cache.device, "timed_by": "Kernel Tuner",
             "kernel_hash": f"kernel_tuner:{cache.kernel}"}  # fmt: skip
    rows = [fixed | row for row in _rows(cache, values)]
    if not rows:
        raise GemmsimError(f"{cache.path}: expected configurations in cache, found none")
    columns = {name: [_storable(str(row[name])) for row in rows] for name in rows[0]}
    return Table(cache.path, columns, range(1, len(rows) + 1))


def _storable(text: str) -> str:
    """The text without the halves of characters that JSON can hold and a database cannot."""
    return text.encode("utf-8", "replace").decode()


def _family(cache: Cachefile, family: str | None) -> str:
    if family is not None:
        return families.family(family, where="--family").NAME
    if cache.kernel in families.FAMILIES:
        return cache.kernel
    raise GemmsimError(f"{cache.path}: kernel {cache.kernel!r} has the name of no family: expected --family F, and "
                       f"--map PARAMETER=TUNABLE for its parameters, of {', '.join(cache.tunables)}")  # fmt: skip


def _gpu(cache: Cachefile, gpu: str | None) -> str:
    try:
        return load_gpu(gpu or cache.device).name
    except GemmsimError as error:
        where = "--gpu" if gpu else f"{cache.path}: device_name"
        raise GemmsimError(f"{where}: {error}{'' if gpu else ', or another one with --gpu'}") from None


def _dtype(cache: Cachefile, family: str, dtype: str | None) -> str:
    have = families.family(family).DTYPES
    if dtype is None and len(have) > 1:
        raise GemmsimError(f"{cache.path}: says no dtype: expected --dtype, of {family}'s {', '.join(have)}")
    try:
        name = have[0] if dtype is None else dtype_name(dtype)
    except GemmsimError:
        raise unknown("dtype", str(dtype), DTYPE_BYTES, where="--dtype") from None
    families.check_dtype(family, name, where="--dtype")
    return name


def _values(cache: Cachefile, family: str, given: Mapping[str, str]) -> dict[str, list[str]]:
    """Size or parameter -> factors and, after a /, divisors. Raises GemmsimError for what is unknown or missing."""
    known = [*_SIZES, *(p.name for p in families.family(family).PARAMETERS)]
    for name in given:
        if name not in known:
            raise unknown(f"size or parameter of family {family}", name, known, where="--map")
    said = {name: given.get(name, name if name in cache.tunables else "") for name in known}
    missing = [name for name, value in said.items() if not value]
    sources = [*cache.tunables, *cache.sizes]
    if missing:
        sizes = ", ".join(f"{name} ({size})" for name, size in cache.sizes.items())
        raise GemmsimError(
            f"{cache.path}: kernel {cache.kernel!r} says no {', '.join(missing)}: expected --map "
            f"{missing[0]}=..., a number or of {', '.join(cache.tunables)}{f', {sizes}' if sizes else ''}"
        )
    parts = {name: re.split(r"\s*([*/])\s*", value.strip()) for name, value in said.items()}
    for name, factors in parts.items():
        for source in factors[::2]:
            if not source.isdecimal() and source not in sources:
                raise unknown("tunable", source, sources, where=f"--map {name}={said[name]}")
    return parts


def _rows(cache: Cachefile, values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, object]]:
    for key, entry in cache.entries.items():
        place = f"{cache.path}, cache entry {key!r}"
        if not isinstance(entry, dict):
            raise GemmsimError(f"{place} is {entry!r:.40}: expected an object with time and the tunables")
        numbers = {name: _number(place, name, parts, {**cache.sizes, **entry}) for name, parts in values.items()}
        m, n, k = (numbers[name] for name in _SIZES)
        yield {**numbers, **_outcome(place, entry, 2.0 * m * n * k), "measured_at": entry.get("timestamp", ""),
               "regs_per_thread": entry.get("num_regs", "")}  # fmt: skip


def _number(place: str, name: str, parts: Sequence[str], known: Mapping[str, Any]) -> int:
    """The whole number that a mapping gives for an entry. Raises GemmsimError for another."""
    over = under = 1
    for sign, source in zip(("*", *parts[1::2]), parts[::2], strict=True):
        value = int(source) if source.isdecimal() else known.get(source)
        if not isinstance(value, int):
            found = "missing" if value is None else f"{value!r:.40}"
            raise GemmsimError(f"{place}: {source} is {found}: expected a whole number for {name}")
        over, under = (over * value, under) if sign == "*" else (over, under * value)
    if under == 0 or over % under or not 0 <= over // under <= MAX_DIMENSION:
        found = f"{over}/{under}" if under != 1 else str(over)
        raise GemmsimError(f"{place}: {name} = {''.join(parts)} is {found:.40}: expected a whole number from 0 to "
                           f"{MAX_DIMENSION}")  # fmt: skip
    return over // under


def _outcome(place: str, entry: Entry, flops: float) -> dict[str, object]:
    """Status and time in seconds; the median of the samples where they are kept."""
    time_ms = entry.get("time")
    said = [entry.get("__error__"), time_ms, *(v for v in entry.values() if isinstance(v, str) and v in _ERRORS)]
    error = next((value for value in said if isinstance(value, str)), None)
    if error is None and (isinstance(time_ms, bool) or not isinstance(time_ms, int | float)):
        raise GemmsimError(f"{place}: time is {time_ms!r:.40}: expected milliseconds, or the name of an error")
    if error is None and not 0 < float(time_ms or 0) < _MOST_MS:
        error = f"time {time_ms} ms"
    if error is not None:
        status = next(status for part, status in _STATUS if part in error.lower())
        return {"status": status, "reason": error, "time_s": "", "min_s": "", "sample_count": "", "tflops": "",
                "samples_s": ""}  # fmt: skip
    times = entry.get("times")
    good = isinstance(times, list) and times and all(isinstance(t, int | float) and 0 < t < _MOST_MS for t in times)
    samples = [1e-3 * t for t in (times if isinstance(times, list) and good else [float(time_ms or 0)])]
    time_s = median(samples)
    return {"status": "ok", "reason": "", "time_s": time_s, "min_s": min(samples), "sample_count": len(samples),
            "tflops": flops / time_s / 1e12, "samples_s": json.dumps(samples)}  # fmt: skip
