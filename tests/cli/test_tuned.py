"""What tuning prints while it goes: a bar before a person, a line now and then elsewhere."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import optuna
import pytest

from gemmsim.cli import tuned
from gemmsim.hardware import load_gpu
from gemmsim.problem import form_of
from gemmsim.tuning.job import PREDICTED, Job
from gemmsim.tuning.tuner import Source, Tuner

JOB = Job(256, 256, 256, form_of("fp32"), "h200_sxm", ("smem_tile",), "warm", PREDICTED, trials=5)


def tune(job: Job, shapes: int = 1) -> tuned.Screen:
    screen = tuned.Screen(shapes)
    Tuner(Source(load_gpu("h200_sxm")), watcher=screen).tune(optuna.create_study(), job, "it")
    return screen


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "A new study created" not in line]


def test_a_bar_has_the_best_so_far_and_the_last_beside_its_prediction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    screen = tune(JOB)
    err = capsys.readouterr().err
    assert re.search(r"5/5.*best \d+\.\d+ us, last \d+\.\d+ us \(predicted \d+\.\d+ us\)", err)
    assert screen.worked() == "5 trials by this worker: 5 ok"


def test_elsewhere_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tune(JOB)
    assert len(lines(capsys.readouterr().err)) == 1
    monkeypatch.setattr(tuned, "EVERY_S", 0.0)
    tune(JOB)
    said = lines(capsys.readouterr().err)
    assert [line.split(" trials, ")[0] for line in said[1:]] == [f"{i} of 5" for i in range(1, 6)]
    assert all(", last " in line for line in said[1:])


def test_every_configuration_where_there_are_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    tune(replace(JOB, trials=1000, number=1), shapes=3)
    said = lines(capsys.readouterr().err)
    assert said[0].startswith("[2/3] it: 256 x 256 x 256 fp32 on h200_sxm: all of 9 configurations (smem_tile)")
    assert said[-1].startswith("  best smem_tile ")
