"""Tuning: searches whose times come from the bench, recorded rows or the model; of many shapes, by many workers.

Needs the extra `tune`: pip install 'gemmsim[tune]'.
"""

from __future__ import annotations

import importlib.util

from gemmsim.errors import GemmsimError


def check_optuna() -> None:
    """Raise GemmsimError, with what to install, where Optuna is not; it is not imported yet."""
    if importlib.util.find_spec("optuna") is None:
        raise GemmsimError("Optuna is not installed, and searches run on it: pip install 'gemmsim[tune]'")


def quiet_optuna() -> None:
    """Let Optuna say warnings alone: what it does is said here."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
