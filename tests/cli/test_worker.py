"""`gemmsim worker` without a GPU: several processes at one study, what is refused, what is said."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest

from gemmsim.cli import main
from gemmsim.search.storage import open_storage
from gemmsim.store import Store

SIMT = str(Path(__file__).parents[2] / "studies" / "h200" / "simt_fp32.csv.gz")
SHAPE = ("4096", "4096", "4096")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gemmsim", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def trials(storage: str, name: str) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=name, storage=open_storage(storage)).get_trials(deepcopy=False)


def configurations(found: list[optuna.trial.FrozenTrial]) -> list[str]:
    return [str(sorted(t.params.items())) for t in found if t.user_attrs["status"] in ("ok", "compile")]


@pytest.fixture
def journal(tune_folder: Path) -> str:
    return str(tune_folder / "tune.journal")


def test_two_workers_and_the_tuning_share_a_study_of_recorded_rows(journal: str) -> None:
    tune = start("tune", *SHAPE, "--rows", SIMT, "--trials", 60, "--study", "s", "--storage", journal)
    workers = [start("worker", "--study", "s", "--storage", journal, "--wait-s", 60) for _ in range(2)]
    said = [process.communicate() for process in (tune, *workers)]
    assert [process.returncode for process in (tune, *workers)] == [0, 0, 0], said
    found = trials(journal, "s")
    assert len(configurations(found)) == len(set(configurations(found))) == 60
    shares = Counter(int(t.user_attrs["worker"].split(":")[1]) for t in found if t.user_attrs["status"] == "ok")
    for process, (out, _) in zip(workers, said[1:], strict=True):
        assert out.startswith(f"{shares[process.pid]} trials by this worker")
    assert shares.total() == 60
    assert "60 trials of 229 recorded configurations: 60 ok; " in said[0][0]


def test_workers_with_a_gpu_each_measure_different_configurations(journal: str, tune_folder: Path) -> None:
    problem = ("256", "256", "256", "--dtype", "fp32", "--family", "register_tile")
    kept = ("--study", "s", "--storage", journal)
    tune = start("tune", *problem, "--trials", 40, *kept, FAKE_S="0.3", FAKE_UUID=f"GPU-a-{os.getpid()}")
    while len(Store().keys("tune")) < 2:
        assert tune.poll() is None, tune.communicate()
        time.sleep(0.02)
    worker = start("worker", *kept, FAKE_S="0.02", FAKE_UUID=f"GPU-b-{os.getpid()}")
    (out, err), report = worker.communicate(), tune.communicate()[0]
    assert (worker.returncode, tune.returncode) == (0, 0), (out, err)
    (own,) = re.findall(r"^(\d+) trials by this worker: \d+ ok$", out, re.M)
    found = configurations(trials(journal, "s"))
    assert len(found) == len(set(found)) == 40
    assert 0 < int(own) < 40
    rows = [row for row in Store().rows("tune", latest=False) if row["against"] == ""]
    assert [row["attempt"] for row in rows] == [0] * 40
    assert len({row["uuid"] for row in rows}) == 2
    assert "gain over cuBLAS" in report


def test_what_a_killed_process_was_at_is_measured_by_a_worker(
    journal: str, tune_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = ("256", "256", "256", "--dtype", "fp32", "--family", "register_tile")
    kept = ("--study", "s", "--storage", journal)
    assert run(capsys, "tune", *problem, "--trials", 1, *kept)[0] == 0
    raised = start("tune", *problem, "--trials", 30, *kept, FAKE_S="0.05")
    while len(Store().keys("tune")) < 12:
        assert raised.poll() is None, raised.communicate()
        time.sleep(0.02)
    raised.kill()
    raised.communicate()
    code, out, _ = run(capsys, "worker", *kept)
    assert code == 0
    assert re.match(r"\d+ trials by this worker: \d+ ok\n", out)
    found = configurations(trials(journal, "s"))
    assert len(found) == len(set(found)) == 30
    assert all(row["attempt"] == 0 for row in Store().rows("tune", latest=False) if row["against"] == "")


def test_a_worker_stopped_by_a_person_says_what_it_did(journal: str, tune_folder: Path) -> None:
    problem = ("256", "256", "256", "--dtype", "fp32", "--family", "register_tile")
    kept = ("--study", "s", "--storage", journal)
    tune = start("tune", *problem, "--trials", 1000, "--budget-s", "1", *kept)
    tune.communicate()
    before = len(Store().keys("tune"))
    worker = start("worker", *kept, FAKE_S="0.1")
    while len(Store().keys("tune")) < before + 4:
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.02)
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate()
    assert worker.returncode == 130, err
    assert re.match(r"\d+ trials by this worker: \d+ ok\n", out)


def test_a_fleet_is_worked_on_study_after_study(
    journal: str, tune_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = tune_folder / "shapes.csv"
    shapes.write_text("m,n,k\n4096,4096,4096\n1024,1024,1024\n")
    fleet = ("--shapes", shapes, "--rows", SIMT, "--study", "f", "--storage", journal)
    assert run(capsys, "tune", *fleet, "--trials", 3)[0] == 0
    study = optuna.load_study(study_name="f/1024x1024x1024", storage=open_storage(journal))
    study.set_user_attr("gemmsim_tune", {**study.user_attrs["gemmsim_tune"], "trials": 8})
    code, out, err = run(capsys, "worker", "--study", "f", "--storage", journal)
    assert (code, out) == (0, "5 trials by this worker: 5 ok\n")
    assert [line.split(":")[0] for line in err.splitlines()] == [
        "[1/2] f/4096x4096x4096", "[2/2] f/1024x1024x1024"
    ]  # fmt: skip
    assert len(configurations(trials(journal, "f/1024x1024x1024"))) == 8


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("gpu", "h100_sxm", "gpu h100_sxm, not h200_sxm"),
        ("digests", {"register_tile": "old"}, "digests register_tile old, not register_tile "),
    ],
)
def test_another_gpu_or_kernel_than_the_studys_is_refused(
    journal: str, tune_folder: Path, capsys: pytest.CaptureFixture[str], name: str, changed: object, said: str
) -> None:
    problem = ("256", "256", "256", "--dtype", "fp32", "--family", "register_tile")
    kept = ("--study", "s", "--storage", journal)
    assert run(capsys, "tune", *problem, "--trials", 1, *kept)[0] == 0
    study = optuna.load_study(study_name="s", storage=open_storage(journal))
    study.set_user_attr("gemmsim_tune", {**study.user_attrs["gemmsim_tune"], name: changed})
    code, out, err = run(capsys, "worker", *kept)
    assert (code, out) == (2, "")
    assert err.startswith(f"gemmsim: study s is for {said}")
    assert err.endswith(": expected the same GPU, kernels and rows as where it was begun\n")


def test_changed_rows_are_refused(journal: str, tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tune_folder / "rows.csv"
    head = "gpu,family,dtype,l2,m,n,k,bm,bn,bk,tm,tn,time_s\n"
    rows.write_text(head + "h200_sxm,register_tile,fp32,warm,64,64,64,64,64,8,4,4,3e-6\n")
    kept = ("--study", "s", "--storage", journal)
    assert run(capsys, "tune", 64, 64, 64, "--rows", rows, *kept)[0] == 0
    rows.write_text(head + "h200_sxm,register_tile,fp32,warm,64,64,64,64,64,8,4,4,4e-6\n")
    code, _, err = run(capsys, "worker", *kept)
    assert (code, "study s is for digests rows " in err) == (2, True)


def test_bad_input(journal: str, tune_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "worker", "--study", "s", "--storage", journal, "--wait-s", -1)[0] == 2
    missing = "is missing: expected a study's name and where it is kept\n"
    assert run(capsys, "worker") == (2, "", f"gemmsim: --study {missing}")
    assert run(capsys, "worker", "--study", "s") == (2, "", f"gemmsim: --storage {missing}")
    code, out, err = run(capsys, "worker", "--study", "s", "--storage", journal)
    assert (code, out, Path(journal).exists()) == (2, "", False)
    open_storage(journal)
    assert run(capsys, "worker", "--study", "s", "--storage", journal) == (
        2, "", "gemmsim: no study s in the storage: expected one that gemmsim tune --study s has begun\n"
    )  # fmt: skip
    optuna.create_study(study_name="s", storage=open_storage(journal))
    assert run(capsys, "worker", "--study", "s", "--storage", journal) == (
        2, "", "gemmsim: study s does not say what it is for: expected one that gemmsim tune has begun\n"
    )  # fmt: skip
    code, _, err = run(capsys, "worker", "--study", "s", "--storage", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert (code, err.count("\n"), err.startswith("gemmsim: storage postgresql")) == (2, 1, True)
