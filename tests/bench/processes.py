"""Processes that tests look for and wait for."""

from __future__ import annotations

import time
from pathlib import Path


def child_of(parent: int) -> int:
    """The measuring process that a process has started, waited for."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                if b"gemmsim.bench.worker" in _command(child):
                    return int(child)
        time.sleep(0.02)
    raise AssertionError("no child came")


def _command(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def gone(process: int) -> bool:
    """Whether a process ends within ten seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
