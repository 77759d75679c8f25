"""What the search's tests share: their helper modules."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # hammer, spaces


@pytest.fixture
def let_go() -> Iterator[None]:
    """Connections that a refused storage leaves to the garbage collector go before the next test, without a word."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
