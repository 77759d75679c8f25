"""`gemmsim doctor`: a verdict and no traceback, whatever is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsim.cli import doctor, main
from gemmsim.cli.doctor import MISSING, OK, OPTIONAL, Finding
from gemmsim.errors import GemmsimError


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return int(caught.value.code or 0), out


def test_on_this_machine_it_says_something(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                                           tmp_path: Path) -> None:  # fmt: skip
    monkeypatch.setenv("GEMMSIM_STORE", str(tmp_path / "rows.sqlite"))
    monkeypatch.setenv("GEMMSIM_CACHE", str(tmp_path))
    code, out = run(capsys, "--format", "json")
    rows = {row["what"]: row for row in json.loads(out)}
    assert rows["store"]["found"] == str(tmp_path / "rows.sqlite")
    assert rows["cache"]["state"] == OK
    missing = [row for row in rows.values() if row["state"] == MISSING]
    assert code == (2 if missing else 0)
    assert all(row["install"] for row in missing)


@pytest.mark.parametrize(
    ("state", "code", "last"),
    [(OK, 0, "Measuring works."), (OPTIONAL, 0, "Measuring works."), (MISSING, 2, "would not work: GPU missing.")],
)
def test_the_exit_code_says_whether_measuring_would_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: str, code: int, last: str
) -> None:
    found = [Finding("NVML", OK, "here"), Finding("GPU", state, "-", "x")]
    monkeypatch.setattr(doctor, "findings", lambda device: found)
    status, out = run(capsys)
    assert (status, out.rstrip().endswith(last)) == (code, True)


def test_the_table_fits_a_narrow_terminal_and_says_each_way_to_install_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Finding(what, state, "-", doctor.EXTRA)
        for what, state in [*((f"package {i} (what it is for)", MISSING) for i in range(5)), ("tool", OPTIONAL)]
    ]
    monkeypatch.setattr(doctor, "findings", lambda device: found)
    _, out = run(capsys)
    assert max(map(len, out.splitlines())) <= 80
    assert out.count(doctor.EXTRA) == 1
    assert "Traceback" not in out


def test_a_check_that_breaks_is_an_answer() -> None:
    def broken() -> str:
        raise ZeroDivisionError("of\nall things")

    def refused() -> str:
        raise GemmsimError("no GPU")

    assert doctor._said("x", broken, "pip") == Finding("x", MISSING, "ZeroDivisionError: of all things", "pip")
    assert doctor._said("x", refused, "pip") == Finding("x", MISSING, "no GPU", "pip")
