"""A study of one's own, written and opened."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from gemmsim.study import Study, open_study

S = TypeVar("S", bound=Study)


def opened(kind: type[S], folder: Path, text: str, **files: str) -> S:
    """The study of a YAML text, with the CSV files that it names beside it: files are name -> text, without .csv."""
    for name, rows in files.items():
        (folder / f"{name}.csv").write_text(rows)
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    found = open_study(str(path))
    assert isinstance(found, kind)
    return found
