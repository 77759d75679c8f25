"""gemmsim says which tile, how fast, why, and how you know, for a GEMM on a GPU that is described by a YAML file."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "predict": "gemmsim.model.predict",
    "rank": "gemmsim.ranking",
    "explain": "gemmsim.explanation",
    "compare": "gemmsim.comparison",
    "pad": "gemmsim.padding",
    "gemm": "gemmsim.problem",
    "Gemm": "gemmsim.problem",
    "Form": "gemmsim.problem",
    "Gpu": "gemmsim.hardware",
    "load_gpu": "gemmsim.hardware",
    "GemmsimError": "gemmsim.errors",
}
__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing gemmsim costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module 'gemmsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
