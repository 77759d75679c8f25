"""Where the files that ship with gemmsim lie: in the wheel below gemmsim/_data, in a checkout beside gemmsim/."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Folder of shipped files: name is 'hwspecs', 'kernels' or 'studies'."""
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
