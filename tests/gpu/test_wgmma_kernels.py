"""wgmma against float64: mechanisms, shapes, layouts, types, epilogues, batches; and the same bits again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernels_under_test import EPILOGUES, WGMMA_CONFIGS, ask, faults

from gemmsim import families, predict
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Ask
from gemmsim.problem import Form, form_of

pytestmark = pytest.mark.gpu

#: rows of any number; edges of tiles, of clusters and of k-steps
SIZES = (
    (1, 8, 8), (8, 8, 8), (17, 64, 64), (63, 72, 40), (127, 128, 136), (129, 264, 72), (257, 256, 520), (100, 104, 96),
    (301, 200, 104), (1, 4096, 64), (512, 512, 512), (33, 64, 5000), (1151, 1152, 96), (2049, 1544, 328),
)  # fmt: skip
#: those of them that a mechanism alone is tried on elsewhere
FEW = ("usual", "turns", "swapped", "split_k", "stream_k", "lone")


def asks(form: str | Form, sizes: Any, names: Any = tuple(WGMMA_CONFIGS), bk: int = 1) -> Iterator[Ask]:
    """These configurations on every size at which they can run; bk: k-steps so many times as deep."""
    form = form_of(form)
    for name in names:
        for size in sizes:
            given = ask(size, "wgmma", WGMMA_CONFIGS[name], form)
            config = dict(given.config)
            config["bk"] *= bk
            p = predict(*size, gpu="h200_sxm", dtype=form, family="wgmma", config=families.config("wgmma", config))
            if p.feasible[0]:
                yield ask(size, "wgmma", config, form)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_mechanism_and_layout(rig: Any, compiled: Any, data_of: Any, dtype: str, layout: str) -> None:
    tasks = compiled(list(asks(Form(dtype, layout=layout), SIZES)))
    assert len(tasks) > 100
    assert faults(rig, data_of, tasks) == []


@pytest.mark.parametrize(("dtype", "bk"), [("fp8", 2), ("tf32", 1)])
def test_narrow_and_wide_types(rig: Any, compiled: Any, data_of: Any, dtype: str, bk: int) -> None:
    sizes = [(m, n, max(16, k // 16 * 16)) for m, n, k in SIZES]
    names = [name for name, config in WGMMA_CONFIGS.items() if dtype == "fp8" or config.get("bk", 64) < 128]
    tasks = compiled(list(asks(Form(dtype, layout="NT"), sizes, names, bk)))
    assert len(tasks) > 40
    assert faults(rig, data_of, tasks) == []


def test_any_columns_where_b_runs_along_k(rig: Any, compiled: Any, data_of: Any) -> None:
    """C's rows are then no multiple of 16 bytes."""
    sizes = ((65, 67, 72), (129, 131, 200), (257, 1, 64), (130, 255, 520))
    for steps in ((), ("bias", "residual")):
        form = Form("bf16", layout="NT", beta=bool(steps), epilogue=steps)
        assert faults(rig, data_of, compiled(list(asks(form, sizes, FEW)))) == []


def test_every_epilogue(rig: Any, compiled: Any, data_of: Any) -> None:
    sizes = ((65, 64, 64), (127, 136, 328), (257, 264, 1160))
    for beta, steps, c in EPILOGUES:
        form = Form("bf16", dtype_c=c or "bf16", beta=beta, epilogue=steps)
        assert faults(rig, data_of, compiled(list(asks(form, sizes, FEW)))) == []
    for c in ("fp32", "fp16", "fp8"):
        form = Form("bf16", dtype_c=c, epilogue=("bias", "relu"))
        assert faults(rig, data_of, compiled(list(asks(form, sizes, FEW)))) == []


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_a_batch(rig: Any, compiled: Any, data_of: Any, layout: str) -> None:
    form = Form("bf16", layout=layout, batch=3, epilogue=("bias", "residual"))
    assert faults(rig, data_of, compiled(list(asks(form, ((72, 136, 328), (264, 200, 1160)))))) == []


def test_the_same_bits_every_time(rig: Any, compiled: Any, data_of: Any) -> None:
    for task in compiled(list(asks("bf16", ((257, 1544, 4104),)))):
        data = data_of(task.ask)
        prepared = prepare(rig.device, task, data)
        prepared.poison()
        seen = set()
        for _ in range(4):
            data.poison(rig.device)
            prepared.launch()
            seen.add(data.c.get().tobytes())
        assert len(seen) == 1, dict(task.ask.config)


def test_configurations_drawn_from_the_space(rig: Any, compiled: Any, data_of: Any) -> None:
    """As many as a few minutes of compiling allow, on a size at which they can run."""
    size = (384, 520, 2056)
    space = families.space("wgmma")
    able = np.flatnonzero(predict(*size, gpu="h200_sxm", dtype="bf16", family="wgmma", config=space).feasible)
    chosen = np.random.default_rng(7).choice(able, 120, replace=False)
    tasks = compiled([ask(size, "wgmma", space.row(int(i)), "bf16") for i in chosen])
    assert faults(rig, data_of, tasks) == []
