"""`gemmsim probe`: wrong options and a machine without a GPU; what it writes is in tests/bench/test_hwspec.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gemmsim.cli import main
from gemmsim.cli.probe import occupancy_agreement
from gemmsim.hardware import load_gpu


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["probe", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(str(caught.value.code)), out, err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--out is missing"),
        (["--out", "my.txt"], "expected a name that ends in .yaml"),
        (["--out", "none/my.yaml"], "expected an existing folder"),
        (["--out", "my.yaml", "--device", "-1"], "--device is '-1'"),
        (["--out", "my.yaml", "--device", "x"], "--device is 'x'"),
    ],
)
def test_wrong_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err


def test_without_cupy(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = run(capsys, "--out", tmp_path / "my.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "CuPy" in err
    assert "pip install" in err
    assert list(tmp_path.iterdir()) == []


def test_occupancy_that_differs_is_named() -> None:
    arch = load_gpu("h200_sxm").arch
    assert occupancy_agreement(arch, [(256, 128, 0, 2), (1024, 64, 0, 1)]).startswith("occupancy: 2 of 2 launches")
    found = occupancy_agreement(arch, [(256, 128, 0, 2), (256, 128, 49152, 3)])
    assert found.startswith("occupancy: 1 of 2 launches")
    assert "256 threads, 128 registers, 49152 B: the driver says 3, gemmsim 2" in found
