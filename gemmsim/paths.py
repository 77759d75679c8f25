"""Where the files that ship with gemmsim lie: in the wheel below gemmsim/_data, in a checkout beside gemmsim/."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gemmsim.errors import GemmsimError

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Folder of shipped files: name is 'hwspecs', 'kernels' or 'studies'."""
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


def cache_folder() -> Path:
    """Folder of what can be made again: $GEMMSIM_CACHE, else `gemmsim` in the platform's folder for caches."""
    given = os.environ.get("GEMMSIM_CACHE")
    if given:
        return expanded(given, "GEMMSIM_CACHE")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expanded(base, "GEMMSIM_CACHE") / "gemmsim"


def expanded(path: str, variable: str) -> Path:
    """A path whose ~ is the home folder; raises GemmsimError, naming what says another path, where none is known."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise GemmsimError(f"{path}: no home folder is known: expected HOME, or a place in {variable}") from None
