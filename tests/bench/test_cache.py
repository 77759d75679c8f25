"""The folder of compiled kernels: whole entries or none, whoever else writes there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmsim.bench.cache import Cache, Entry, key_of, source_digest
from gemmsim.errors import GemmsimError

KEY = "ab" * 32


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "folder")
    assert cache.get(KEY) is None
    put = cache.put(KEY, b"cubin", "log")
    assert put.cubin is not None
    assert put.cubin.read_bytes() == b"cubin"
    assert cache.get(KEY) == put
    assert cache.get(KEY, ptx=True) is None
    cache.put(KEY, b"cubin", "log", "ptx")
    assert cache.get(KEY, ptx=True) == put
    assert put.cubin.with_suffix(".ptx").read_text() == "ptx"


def test_a_failure_is_kept_too_but_not_a_fault(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    fault = {"cubin": None, "log": "no memory", "ptx": None, "fault": True}
    assert cache.keep(KEY, fault) == Entry(None, "no memory")
    assert cache.get(KEY) is None
    cache.keep(KEY, {"cubin": None, "log": "error: x", "ptx": None})
    assert cache.get(KEY) == Entry(None, "error: x")


@pytest.mark.parametrize("suffix", [".cubin", ".json"])
@pytest.mark.parametrize("left", [None, b"", b"half"])
def test_what_is_not_whole_counts_as_none(suffix: str, left: bytes | None, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.put(KEY, b"cubin", "log").cubin
    assert path is not None
    broken = path.with_suffix(suffix)
    if left is None:
        broken.unlink()
    else:
        broken.write_bytes(left)
    assert cache.get(KEY) is None
    cache.put(KEY, b"cubin", "log")
    assert cache.get(KEY) is not None


@pytest.mark.parametrize("record", ["[]", "{}", '{"log": 1}', '{"log": "x", "sha256": "0"}', "null"])
def test_a_record_of_another_shape_counts_as_none(record: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.put(KEY, b"cubin", "log").cubin
    assert path is not None
    path.with_suffix(".json").write_text(record)
    assert cache.get(KEY) is None


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GemmsimError, match=r"file.*cannot be written.*--cache or GEMMSIM_CACHE"):
        Cache(tmp_path / "file").put(KEY, b"", "")


def test_nothing_partial_stays_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(GemmsimError, match="No space left on device"):
        Cache(tmp_path).put(KEY, b"cubin", "log")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_two_processes_write_the_same_entries(tmp_path: Path) -> None:
    """A reader beside them sees each entry whole or not at all."""
    write = (
        "import sys; from pathlib import Path; from gemmsim.bench.cache import Cache\n"
        "c = Cache(Path(sys.argv[1]))\n"
        "for turn in range(200):\n"
        "    for i in range(4):\n"
        "        c.put(f'{i:064x}', bytes([i]) * 50_000, 'log')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", write, str(tmp_path)]) for _ in range(2)]
    cache, seen = Cache(tmp_path), 0
    while any(w.poll() is None for w in writers):
        for i in range(4):
            entry = cache.get(f"{i:064x}")
            if entry is not None:
                assert entry.cubin is not None
                assert entry.cubin.read_bytes() == bytes([i]) * 50_000
                seen += 1
    assert [w.wait() for w in writers] == [0, 0]
    assert seen > 0
    assert not list(tmp_path.rglob("*.part"))


def test_usual_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSIM_CACHE", str(tmp_path))
    assert Cache().folder == tmp_path / "cubins"
    monkeypatch.delenv("GEMMSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert Cache().folder == tmp_path / "xdg" / "gemmsim" / "cubins"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Cache().folder.parts[-4:] == ("Library", "Caches", "gemmsim", "cubins")


def test_digest_follows_source_and_headers(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    source, direct, nested = tmp_path / "k.cu", tmp_path / "common" / "a.cuh", tmp_path / "common" / "b.cuh"
    source.write_text('#include "common/a.cuh"\n#include <cstdint>\n#include "missing.h"\n')
    direct.write_text('#pragma once\n#  include "b.cuh"\n')
    nested.write_text('#include "a.cuh"\nint b;\n')
    (tmp_path / "common" / "other.cuh").write_text("int other;")
    seen = {source_digest(source)}
    for path in (nested, direct, source):
        path.write_text(path.read_text() + "// changed\n")
        seen.add(source_digest(source))
    assert len(seen) == 4
    (tmp_path / "common" / "other.cuh").write_text("int changed;")
    assert source_digest(source) in seen


def test_digest_of_nothing() -> None:
    with pytest.raises(GemmsimError, match=r"none\.cu: cannot be read"):
        source_digest(Path("none.cu"))


def test_key_follows_every_part() -> None:
    parts = {"source": "s", "macros": [["BM", "64"]], "arch": "sm_80", "compiler": "nvrtc 13.5.37"}
    keys = {key_of(parts), *(key_of(parts | {name: "other"}) for name in parts)}
    assert len(keys) == 5
    assert key_of(dict(reversed(parts.items()))) in keys
