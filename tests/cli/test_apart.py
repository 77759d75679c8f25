"""No verb writes over a file that it was told to read: exit code 2, and the file is as it was."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gemmsim.cli import VERBS, main
from gemmsim.cli.apart import OUTPUTS

HELD = b"m,n,k\n64,64,64\n"
#: a study's --out is a folder
FOLDERS = ("study",)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from leaves(command.commands[name], (*path, name))
    else:
        yield path, command


def cases() -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """Verb, option with a file to write, and the words that name the same file to be read."""
    for verb in VERBS:
        if verb in FOLDERS:
            continue
        for path, command in leaves(importlib.import_module(f"gemmsim.cli.{verb}").command, (verb,)):
            outputs = [p.opts[-1] for p in command.params if p.name in OUTPUTS]
            for p in command.params:
                file = any(word in str(p.metavar) for word in ("FILE", ".csv", "JSON"))
                words = ("held",) if isinstance(p, click.Argument) else (p.opts[-1], "held")
                yield from ((path, out, words) for out in outputs if file and out != p.opts[-1])


CASES = list(cases())


def refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], held: Path) -> str:
    before = held.read_bytes()
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    shown = capsys.readouterr()
    assert (end.value.code, shown.out, shown.err.count("\n")) == (2, "", 1), shown.err
    assert held.read_bytes() == before
    return shown.err


def needed(path: tuple[str, ...], given: tuple[str, ...]) -> Iterator[str]:
    """What the verb does not start without, and what is not given."""
    of_verb = dict(leaves(importlib.import_module(f"gemmsim.cli.{path[0]}").command, (path[0],)))
    for p in of_verb[path].params:
        if p.required and p.opts[-1] not in given:
            yield from [p.opts[-1]] if isinstance(p, click.Option) else []
            yield p.type.choices[0] if isinstance(p.type, click.Choice) else "other"


@pytest.mark.parametrize(("path", "out", "words"), CASES, ids=[" ".join((*p, *w, o)) for p, o, w in CASES])
def test_a_file_is_not_read_and_written(
    path: tuple[str, ...], out: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("held").write_bytes(HELD)
    arguments = (*path, *words, out, "./held")
    said = refused(capsys, (*arguments, *needed(path, arguments)), Path("held"))
    assert "expected another file than" in said
    assert [*tmp_path.iterdir()] == [tmp_path / "held"]


def test_verbs_with_inputs_are_among_them() -> None:
    found = {(path, words[0]) for path, _, words in CASES}
    assert {
        (("predict",), "--batch"), (("compile",), "--batch"), (("measure",), "--batch"), (("counters",), "--batch"),
        (("occupancy",), "--batch"), (("compare",), "--shapes"), (("compare",), "--workload"), (("workload",), "held"),
        (("calibrate",), "--rows"), (("validate",), "--rows"), (("export",), "--shapes"), (("tune",), "--rows"),
        (("specs", "check"), "held"), (("rows", "export"), "--store"), (("rank",), "--calibration"),
    } <= found  # fmt: skip


def test_a_hardware_file_and_the_store_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu, store = tmp_path / "mine.yaml", tmp_path / "rows.sqlite"
    gpu.write_bytes(HELD)
    store.write_bytes(HELD)
    monkeypatch.setenv("GEMMSIM_STORE", str(store))
    assert "--gpu" in refused(capsys, ("rank", "64", "64", "64", "--gpu", str(gpu), "--out", str(gpu)), gpu)
    assert "--store" in refused(capsys, ("rows", "export", "--out", str(store)), store)


def test_a_name_that_is_no_file_may_be_an_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            main(["predict", "64", "64", "64", "--gpu", "h200_sxm", "--dtype", "bf16", "--out", "bf16"])
        assert end.value.code == 0
