"""The file of shapes that `gemmsim tune` and `gemmsim export` read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsim.cli.batch import shapes_of
from gemmsim.errors import GemmsimError


def test_each_shape_once_with_all_its_names_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text('M,N,K,name\n4096,512,64,"q\nk"\n1,2,3,\n4096,512,64,v\n4096,512,64,v\n')
    assert shapes_of(str(path)) == {(4096, 512, 64): "q k, v", (1, 2, 3): ""}


def test_what_is_missing_is_said_without_what_no_shape_has(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("m,n\n1,2\n")
    with pytest.raises(GemmsimError, match=rf"^{path}: no column k: expected m, n and k, found m, n$"):
        shapes_of(str(path))
    with pytest.raises(GemmsimError, match=r"^--shapes is '': expected the name of a CSV$"):
        shapes_of("")
