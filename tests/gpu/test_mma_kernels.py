"""mma and wmma against float64: shapes, layouts, types, epilogues, batches, slices; and the same bits again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest
from kernels_under_test import EPILOGUES, SHAPES, TENSOR_CONFIGS, TENSOR_FORMS, ask, faults

from gemmsim import families
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Ask
from gemmsim.problem import LAYOUTS, Form

pytestmark = pytest.mark.gpu

FAMILIES = ("mma", "wmma")
#: strides that are multiples of 16, 8, 4 and 2 bytes of 16-bit elements, and edges of tiles
ALIGNED = (
    (1, 8, 8), (8, 8, 8), (16, 64, 64), (65, 64, 64), (64, 72, 40), (127, 128, 136), (129, 264, 72), (257, 256, 520),
    (100, 104, 96), (300, 200, 104), (1, 4096, 64), (17, 2048, 32), (512, 512, 512), (33, 64, 5000), (1151, 1152, 96),
)  # fmt: skip
#: configurations that stand for all where each size, form or layout is a kernel of its own
FEW = ("double_buffer", "split_k", "one_buffer")
NARROW = ((100, 100, 100), (66, 66, 66), (1, 1, 1), (3, 5, 7), (129, 130, 132), (64, 65, 4097), (255, 256, 257))


def asks(family: str, form: Form, sizes: Any, names: Collection[str] = ()) -> Iterator[Ask]:
    """These configurations of a family (all if none is named) on every size, as far as they can run there at all."""
    for name, config in TENSOR_CONFIGS[family].items():
        if names and name not in names:
            continue
        width = 1 if form.dtype == "int8" else 4 if form.dtype == "tf32" else 2
        deep = {**config, "bk": max(config.get("bk", 32), 32 // width)}
        yield from (ask(size, family, deep, form) for size in sizes if name != "split_k" or size[2] >= 5 * 64)


@pytest.mark.parametrize(("dtype", "layouts", "c"), TENSOR_FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_layout(
    rig: Any, compiled: Any, data_of: Any, family: str, dtype: str, layouts: tuple[str, ...], c: str
) -> None:
    for layout in LAYOUTS if family == "wmma" else layouts:
        form = Form(dtype, dtype_c=c, layout=layout)
        every = [*asks(family, form, ALIGNED), *asks(family, form, NARROW, FEW)]
        assert faults(rig, data_of, compiled(every)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_more_than_sixty_shapes(rig: Any, compiled: Any, data_of: Any, family: str) -> None:
    config = TENSOR_CONFIGS[family]["double_buffer" if family == "mma" else "usual"]
    assert faults(rig, data_of, compiled([ask(size, family, config, Form("bf16")) for size in SHAPES])) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_epilogue(rig: Any, compiled: Any, data_of: Any, family: str) -> None:
    sizes = ((65, 64, 64), (127, 129, 136), (257, 260, 328))
    for beta, steps, c in EPILOGUES:
        form = Form("bf16", dtype_c=c or "bf16", beta=beta, epilogue=steps)
        assert faults(rig, data_of, compiled(list(asks(family, form, sizes, FEW)))) == []
    for c in ("fp32", "fp16", "fp8"):
        form = Form("bf16", dtype_c=c, epilogue=("bias", "relu"))
        assert faults(rig, data_of, compiled([ask(sizes[0], family, {}, form)])) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch(rig: Any, compiled: Any, data_of: Any, family: str) -> None:
    for layout in LAYOUTS:
        form = Form("bf16", layout=layout, batch=3, epilogue=("bias", "residual"))
        assert faults(rig, data_of, compiled(list(asks(family, form, ((72, 136, 328), (65, 67, 321)), FEW)))) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_bits_every_time(rig: Any, compiled: Any, data_of: Any, family: str) -> None:
    for task in compiled(list(asks(family, Form("bf16"), ((257, 264, 4104),)))):
        data = data_of(task.ask)
        prepared = prepare(rig.device, task, data)
        prepared.poison()
        seen = []
        for _ in range(4):
            data.poison(rig.device)
            prepared.launch()
            seen.append(data.c.get().tobytes())
        assert len(set(seen)) == 1, dict(task.ask.config)


def test_configurations_drawn_from_the_space(rig: Any, compiled: Any, data_of: Any) -> None:
    """Every 97th, on a size at which it can run."""
    import numpy as np

    from gemmsim import predict

    size = (384, 520, 2056)
    space = families.space("mma")
    space = space.take(np.arange(0, len(space), 97))
    able = predict(*size, gpu="h200_sxm", dtype="bf16", family="mma", config=space).feasible
    chosen = [ask(size, "mma", space.row(int(i)), Form("bf16")) for i in np.flatnonzero(able)]
    assert len(chosen) > 100
    assert faults(rig, data_of, compiled(chosen)) == []
