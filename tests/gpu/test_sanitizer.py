"""compute-sanitizer on a sample of every family; racecheck must see a barrier that was taken out."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernels_under_test import CONFIGS, TENSOR_CONFIGS, WGMMA_CONFIGS, ask

from gemmsim.bench.task import Kernel, Task
from gemmsim.cli.doctor import _tool
from gemmsim.problem import Form

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
#: two k-steps and edges on every side
SIZE = (97, 131, 70)
#: the same for copies of 16 bytes, and deep enough for slices; and for the copy engine in every layout
ALIGNED = (97, 136, 328)
BOXED = (104, 136, 328)


@pytest.fixture(scope="module")
def sanitizer(request: pytest.FixtureRequest) -> str:
    path = _tool("compute-sanitizer")
    if path is None:
        (pytest.fail if request.config.getoption("--require-gpu") else pytest.skip)("no compute-sanitizer")
    return str(path)


@pytest.fixture(scope="module")
def sample(compiled: Any) -> list[Task]:
    """Every mechanism of every family, plain, transposed and with an epilogue."""
    forms = [Form("fp32"), Form("fp32", layout="TN"), Form("fp32", layout="NT", beta=True, epilogue=("bias", "gelu"))]
    fused = Form("bf16", layout="NT", beta=True, epilogue=("bias", "gelu"))
    tensor = [Form("bf16"), Form("bf16", layout="TT", batch=2), fused]
    asks = [
        ask(SIZE, family, config, kinds[i % len(kinds)])
        for configs, kinds in ((CONFIGS, forms), (TENSOR_CONFIGS, tensor))
        for family in configs
        for i, config in enumerate(configs[family].values())
    ]
    asks += [ask(ALIGNED, "mma", config, tensor[0]) for config in TENSOR_CONFIGS["mma"].values()]
    asks += [ask(BOXED, "wgmma", config, tensor[i % len(tensor)]) for i, config in enumerate(WGMMA_CONFIGS.values())]
    return list(compiled(asks))


def checked(sanitizer: str, tool: str, tasks: Sequence[Task], folder: Path) -> tuple[int, str]:
    """Exit status and output of the tasks under a tool; calls that CuPy makes to see what is there may fail."""
    path = folder / "tasks.json"
    path.write_text(json.dumps([task.plain() for task in tasks]))
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9"]
    command += ["--report-api-errors", "no"] if tool == "memcheck" else []
    done = subprocess.run(
        [*command, sys.executable, str(HERE / "sanitized.py"), str(path)],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_clean(sanitizer: str, sample: list[Task], tmp_path: Path, tool: str) -> None:
    status, said = checked(sanitizer, tool, sample, tmp_path)
    assert f"launched {len(sample)}" in said, said[-2000:]
    assert status == 0, said[-4000:]
    assert hazards(said) == 0, said[-4000:]


def hazards(said: str) -> int:
    """Hazards that racecheck counts, or errors of the other tools."""
    found = re.search(r"RACECHECK SUMMARY: (\d+) hazards?", said) or re.search(r"ERROR SUMMARY: (\d+) errors?", said)
    assert found, said[-2000:]
    return int(found[1])


def test_racecheck_sees_a_barrier_taken_out(sanitizer: str, gpu: Any, tmp_path: Path) -> None:
    from gemmsim.bench.compile import Source, arch_of, compile_one
    from gemmsim.paths import data_folder

    plain = ask(SIZE, "register_tile", {})
    family: Any = importlib.import_module("gemmsim.families.register_tile")
    macros = family.macros(plain.form, dict(plain.config)) | {"DROP_BARRIER": "1"}
    source = Source(data_folder("kernels") / family.SOURCE, tuple(sorted(macros.items())), arch_of(gpu))
    made = compile_one(source)
    assert made.status == "ok", made.log
    task = Task(0, replace(plain, k=200), Kernel(path=str(made.cubin)))
    _, said = checked(sanitizer, "racecheck", [task], tmp_path)
    assert "launched 1" in said, said[-2000:]
    assert hazards(said) > 0
