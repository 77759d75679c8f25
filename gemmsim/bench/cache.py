"""Compiled kernels on disk, each under the hash of all that it follows from; several processes may share the folder.

An entry is two files: `<key>.cubin`, and `<key>.json` with the compiler's log and the cubin's own hash; PTX, where it
was asked for, is a third, `<key>.ptx`. All take their names only when they are complete, and an entry whose hash is not
that of its cubin counts as none.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsim.errors import GemmsimError
from gemmsim.paths import cache_folder

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """What a compilation left: the cubin's file (None: it failed) and the compiler's log."""

    cubin: Path | None
    log: str


class Cache:
    """Entries below a folder, which is made when the first is put there."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: where; left out, `cubins` in the folder for caches ($GEMMSIM_CACHE)."""
        self.folder = cache_folder() / "cubins" if folder is None else folder

    def get(self, key: str, *, ptx: bool = False) -> Entry | None:
        """The entry of a key; None if there is none, or no whole one, or one without the PTX that is asked for."""
        cubin, record = self._files(key)
        try:
            found = json.loads(record.read_bytes())
            log, digest = found["log"], found["sha256"]
            if digest is None:
                return Entry(None, str(log))
            whole = _sha256(cubin.read_bytes()) == digest and (not ptx or cubin.with_suffix(".ptx").is_file())
            return Entry(cubin, str(log)) if whole else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, cubin: bytes | None, log: str, ptx: str | None = None) -> Entry:
        """Keep what a compilation left. Raises GemmsimError where the folder cannot be written."""
        path, record = self._files(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if ptx is not None:
                _write(path.with_suffix(".ptx"), ptx.encode())
            if cubin is not None:
                _write(path, cubin)
            digest = None if cubin is None else _sha256(cubin)
            _write(record, json.dumps({"log": log, "sha256": digest}).encode())
        except OSError as error:
            raise GemmsimError(
                f"cache {self.folder}: cannot be written: {error.strerror or error}: expected a folder with room in "
                "--cache or GEMMSIM_CACHE"
            ) from None
        return Entry(None if cubin is None else path, log)

    def keep(self, key: str, answer: Mapping[str, Any]) -> Entry:
        """`put` what a worker answers: `cubin` in base64 or None, `log`, `ptx` or None; a `fault` is not kept."""
        packed = answer["cubin"]
        if answer.get("fault"):
            return Entry(None, str(answer["log"]))
        return self.put(key, None if packed is None else base64.b64decode(packed), str(answer["log"]), answer["ptx"])

    def _files(self, key: str) -> tuple[Path, Path]:
        folder = self.folder / key[:2]
        return folder / f"{key}.cubin", folder / f"{key}.json"


def _write(path: Path, data: bytes) -> None:
    """The file, complete or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        with open(part, "xb") as file:
            file.write(data)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def key_of(parts: Mapping[str, object]) -> str:
    """The sha256 of all that a cubin follows from, in one order."""
    return _sha256(json.dumps(parts, sort_keys=True).encode())


def source_digest(path: Path, read_as: Callable[[bytes], bytes] = bytes) -> str:
    """The sha256 of a source and of every header of its own folder that it includes, whichever way.

    read_as: what of a file counts, all of it if left out. Raises GemmsimError for a source that cannot be read; a
    header that is not there is left to the compiler.
    """
    try:
        todo, texts = [path], {path.name: path.read_bytes()}
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be read: {error.strerror or error}") from None
    while todo:
        here = todo.pop()
        for name in _INCLUDE.findall(here.read_bytes()):
            header = next((f for f in (here.parent / name.decode(), path.parent / name.decode()) if f.is_file()), None)
            if header is not None and str(header.resolve()) not in texts:
                texts[str(header.resolve())] = header.read_bytes()
                todo.append(header)
    return _sha256(b"\0".join(read_as(texts[name]) for name in sorted(texts)))
