"""The lock on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsim.bench import lock
from gemmsim.errors import GemmsimError


def test_it_is_held_and_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.0)
    monkeypatch.setattr(lock, "lock_path", lambda uuid: tmp_path / uuid)
    with lock.gpu_lock("a"):
        with lock.gpu_lock("b"):
            pass
        with pytest.raises(GemmsimError, match="GPU a is in use"), lock.gpu_lock("a"):
            pass
    with lock.gpu_lock("a"):
        pass


def test_a_uuid_makes_no_path_of_its_own() -> None:
    assert lock.lock_path("../x/GPU-1").name == "gemmsim-___x_GPU-1.lock"
