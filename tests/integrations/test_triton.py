"""The Triton module: what it holds, and that Triton takes it."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.integrations.text import one_line
from gemmsim.integrations.triton import META, meta_names, module
from gemmsim.picks import Pick, evidence, listed, wanted

ROWS = Path(__file__).parents[2] / "studies" / "h200"
SHAPES = ((4096, 4096, 4096), (1024, 1024, 1024), (4096, 4096, 4104))


@dataclass
class Config:
    """As triton.Config is made."""

    kwargs: dict[str, int]
    num_warps: int = 4
    num_stages: int = 3


@lru_cache
def picks() -> tuple[Pick, ...]:
    found = evidence(ROWS / "triton_pick.csv.gz")
    return tuple(listed(found, wanted(found), SHAPES, near=True))


def loaded(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "picks.py", "exec"), names)
    return names


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A triton that has Config alone."""
    triton = types.ModuleType("triton")
    triton.Config = Config  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton", triton)


@pytest.mark.usefixtures("fake")
def test_a_configuration_a_shape() -> None:
    names = loaded(module(picks()))
    assert list(names["CONFIGS"]) == list(SHAPES)
    for pick in picks():
        found = names["CONFIGS"][pick.m, pick.n, pick.k]
        meta = {META[name]: pick.config[name] for name in META}
        assert found == Config(meta, pick.config["num_warps"], pick.config["num_stages"])
        assert found in names["PICKS"]
    assert len(names["PICKS"]) == len({pick.key for pick in picks()})


@pytest.mark.usefixtures("fake")
def test_prune_leaves_the_pick_of_a_listed_shape_and_all_of_another() -> None:
    names = loaded(module(picks()))
    every, prune = names["PICKS"], names["prune"]
    assert prune(every, {"a": 0, "M": 1024, "N": 1024, "K": 1024}) == [names["CONFIGS"][1024, 1024, 1024]]
    assert prune(every, {"M": 1024, "N": 1024}, K=1024, other=1) == [names["CONFIGS"][1024, 1024, 1024]]
    assert prune(every, {"M": 7, "N": 1024, "K": 1024}) == every


@pytest.mark.usefixtures("fake")
def test_other_names_for_the_meta_parameters() -> None:
    names = loaded(module(picks(), meta_names("BM, BN, BK, G")))
    assert set(names["PICKS"][0].kwargs) == {"BM", "BN", "BK", "G"}
    assert "def kernel(..., M, N, K, ..., BM, BN, BK, G): ..." in names["__doc__"]


@pytest.mark.parametrize("text", ["BM,BN,BK", "BM,BN,BK,BK", "BM,BN,BK,", "BM,BN,BK,1G", "BM,BN,BK,class", ""])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(GemmsimError, match=r"--names is .*: expected four different names, as BLOCK_SIZE_M,"):
        meta_names(text)


def test_picks_of_other_families_are_refused() -> None:
    found = evidence(ROWS / "simt_pick.csv.gz")
    with pytest.raises(GemmsimError, match="that of 1024 x 1024 x 1024 is of simt: expected --family triton"):
        module(listed(found, wanted(found), [(1024, 1024, 1024)]))


def test_text_that_would_end_a_docstring_or_a_comment() -> None:
    assert one_line('a"""\nimport os\\ \x1b[1m') == "a''' import os/ [1m"


def test_the_real_triton_runs_the_pick() -> None:
    """Triton's own autotuner, its kernel never launched: what it would launch is recorded."""
    triton = pytest.importorskip("triton")
    names = loaded(module(picks()))
    launched: list[dict[str, int]] = []

    class Kernel:
        def run(self, *args: Any, **kwargs: Any) -> None:
            launched.append(kwargs)

        @staticmethod
        def fn(a: object, M: int, N: int, K: int, **meta: int) -> None:
            """What the autotuner takes the kernel's name from."""

    tuned = triton.runtime.autotuner.Autotuner(
        Kernel(), ["a", "M", "N", "K"], names["PICKS"], ["M", "N", "K"], [], [],
        prune_configs_by={"early_config_prune": names["prune"]}, do_bench=lambda call, quantiles: [1.0, 1.0, 1.0],
    )  # fmt: skip
    for pick in picks():
        tuned.run(None, pick.m, pick.n, pick.k)
        said = {META[name]: pick.config[name] for name in META}
        said |= {name: pick.config[name] for name in ("num_warps", "num_stages")}
        assert {name: launched[-1][name] for name in said} == said
