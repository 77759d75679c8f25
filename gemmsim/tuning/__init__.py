"""Tuning: searches whose times come from the bench, recorded rows or the model; of many shapes, by many workers.

Needs the extra `tune`: pip install 'gemmsim[tune]'.
"""

from __future__ import annotations

from gemmsim.errors import GemmsimError


def import_optuna() -> None:
    """Raise GemmsimError, with what to install, where Optuna is not; quiet it where it is."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise GemmsimError("Optuna is not installed, and searches run on it: pip install 'gemmsim[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
