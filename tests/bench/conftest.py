"""What the measure room's tests share: a bench without a GPU and a store of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # fake_bench, as the children find it


@pytest.fixture
def fake_bench_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Campaigns run on tests/bench/fake_bench.py, and the store lies in the returned folder."""
    monkeypatch.setenv("GEMMSIM_BENCH", "fake_bench")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("FAKE_UUID", f"GPU-{tmp_path.name}-{tmp_path.parent.name}")
    return tmp_path
