"""GPUs compared on the same GEMMs: time, bound, energy, best tiles, what makes the difference, what time hangs on."""

from __future__ import annotations

from gemmsim.comparison.compare import Comparison, Speedup, compare
from gemmsim.comparison.cost import Card, Pick
from gemmsim.comparison.elasticity import Elasticity
from gemmsim.comparison.reasons import GROUPS, Reason

__all__ = [
    "GROUPS",
    "Card",
    "Comparison",
    "Elasticity",
    "Pick",
    "Reason",
    "Speedup",
    "compare",
]
