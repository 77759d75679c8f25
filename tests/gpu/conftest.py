"""One rig and one cache of compiled kernels for all tests on the GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench.data import Data, make
from gemmsim.bench.task import Ask, Kernel, Task

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "bench")]


@pytest.fixture(scope="session")
def rig() -> Any:
    """The first GPU."""
    from gemmsim.bench.rig import Rig

    return Rig(0)


@pytest.fixture(scope="session")
def gpu(rig: Any) -> Any:
    """Its hardware file."""
    from gemmsim.bench.campaign import chip

    return chip(rig.place, "auto")


@pytest.fixture(scope="session")
def compiled(gpu: Any) -> Callable[[Sequence[Ask]], list[Task]]:
    """Asks -> tasks, compiled in parallel and cached as usual; one that does not compile fails the test."""

    def tasks(asks: Sequence[Ask]) -> list[Task]:
        from gemmsim.bench.backend import compile_ahead

        made: dict[int, Kernel] = {}
        for i, error, kernel in compile_ahead(asks, gpu, None):
            assert not error, f"{asks[i].family} {dict(asks[i].config)}: {error}"
            made[i] = kernel
        return [Task(i, ask, made[i]) for i, ask in enumerate(asks)]

    return tasks


@pytest.fixture(scope="module")
def data_of(rig: Any) -> Iterator[Any]:
    """Inputs and reference by problem, made once."""
    made: dict[Any, Data] = {}

    def get(asked: Ask) -> Data:
        key = (asked.m, asked.n, asked.k, asked.form)
        if key not in made:
            made[key] = make(rig.device, asked, 1000 * len(made))
        return made[key]

    yield get
    made.clear()
    rig.forget()


@pytest.fixture
def store_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A store of the test's own, and the folder of tests/gpu for children."""
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    return tmp_path
