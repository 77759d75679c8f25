"""Predictions stay what they were until somebody regenerates them and reviews the change."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from gemmsim import families
from gemmsim.conditions import L2_CONDITIONS

HERE = Path(__file__).parent


def _regenerate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regenerate", HERE / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOLDEN = _regenerate()
ROWS = GOLDEN.recorded()


def test_the_file_covers_gpus_families_and_conditions() -> None:
    seen = Counter((r["gpu"], r["family"], r["l2"]) for r in ROWS)
    assert set(seen) == {(g, f, c) for g in GOLDEN.GPUS for f in families.FAMILIES for c in L2_CONDITIONS}
    assert len(ROWS) >= 200
    assert sum(not r["reason"] for r in ROWS) >= 0.5 * len(ROWS)
    assert len(list(GOLDEN.asked())) == len(ROWS)


@pytest.mark.parametrize("gpu", GOLDEN.GPUS)
def test_predictions_are_the_recorded_ones(gpu: str) -> None:
    """After a wanted change: python tests/golden/regenerate.py."""
    for row in (r for r in ROWS if r["gpu"] == gpu):
        found = GOLDEN.answer(row)
        asked = {name: row[name] for name in GOLDEN.ASKED}
        assert (found["reason"], found["bound_by"]) == (row["reason"], row["bound_by"]), asked
        for name in GOLDEN.NUMBERS:
            recorded = float(row[name])
            both_nan = math.isnan(found[name]) and math.isnan(recorded)
            assert both_nan or found[name] == pytest.approx(recorded, rel=1e-9, abs=0), (name, asked)
