"""wgmma against float64: mechanisms, widths of a tile, layouts, types, epilogues, batches; and the same bits again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from kernels_under_test import EPILOGUES, ONE_BLOCK, WGMMA_CONFIGS, ask, faults

from gemmsim import families, predict
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Ask
from gemmsim.problem import Form

pytestmark = pytest.mark.gpu

#: one, edges of tiles and boxes, odd M, thin, deep, many tiles; N and K make strides that are multiples of 16 bytes
SIZES = (
    (1, 8, 8), (64, 64, 64), (65, 72, 40), (127, 128, 136), (129, 264, 72), (257, 256, 520), (1, 4096, 64),
    (17, 2048, 328), (300, 200, 104), (512, 512, 512), (33, 64, 5000), (1151, 1160, 96), (1000, 3000, 1032),
)  # fmt: skip
FEW = ("usual", "swap", "split_k")


@pytest.fixture(autouse=True)
def _hopper(rig: Any) -> None:
    if rig.place.compute_capability != "9.0":
        pytest.skip("needs compute capability 9.0")


def fitted(config: Mapping[str, int], dtype: str) -> dict[str, int]:
    """The configuration with a k-step of as many bytes as it has in bf16."""
    bk = config.get("bk", 64)
    return {**config, "bk": {"fp8": 2 * bk, "tf32": bk // 2}.get(dtype, bk)}


def asks(form: Form, sizes: Sequence[tuple[int, int, int]], names: Collection[str] = ()) -> Iterator[Ask]:
    """These mechanisms (all if none is named) on every size, as far as they can run there at all."""
    unit = 16 if form.dtype == "fp8" else 8
    up = [(-(-m // unit) * unit if form.layout[0] == "T" else m, n, -(-k // unit) * unit) for m, n, k in sizes]
    for name, config in WGMMA_CONFIGS.items():
        for size in up if not names or name in names else ():
            fits = fitted(config, form.dtype)
            p = predict(*size, gpu="h200_sxm", dtype=form, family="wgmma", config=fits, calibrated="none")
            if p.feasible[0]:
                yield ask(size, "wgmma", fits, form)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_mechanism_in_every_layout(rig: Any, compiled: Any, data_of: Any, layout: str) -> None:
    every = list(asks(Form("bf16", layout=layout), SIZES))
    assert len({dict(a.config)["split_k"] for a in every}) > 2
    assert faults(rig, data_of, compiled(every)) == []


@pytest.mark.parametrize(
    "form", [Form("fp16"), Form("fp16", layout="TT"), Form("tf32", layout="NT"), Form("fp8", layout="NT")]
)
def test_other_types(rig: Any, compiled: Any, data_of: Any, form: Form) -> None:
    assert faults(rig, data_of, compiled(list(asks(form, SIZES)))) == []


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
def test_every_width_of_an_instruction(rig: Any, compiled: Any, data_of: Any, layout: str, swap: int) -> None:
    """8 to 256 in steps of 8: a width of 8 mod 16 was once silently wrong in a compiler."""
    wide = [ONE_BLOCK | {"swap": swap, "stages": 3, **({"bm": y, "bn": 128} if swap else {"bm": 128, "bn": y})}
            for y in range(8, 257, 8)]  # fmt: skip
    every = [ask((520, 520, 328), "wgmma", config, Form("bf16", layout=layout)) for config in wide]
    assert faults(rig, data_of, compiled(every)) == []


def test_rows_of_c_that_tma_cannot_store(rig: Any, compiled: Any, data_of: Any) -> None:
    sizes = ((64, 65, 64), (127, 129, 136), (257, 1001, 520))
    assert faults(rig, data_of, compiled(list(asks(Form("bf16", layout="NT"), sizes)))) == []


def test_every_epilogue(rig: Any, compiled: Any, data_of: Any) -> None:
    sizes = ((65, 64, 64), (127, 136, 136), (257, 264, 328))
    for beta, steps, c in (*EPILOGUES, (False, ("bias", "relu"), "fp32"), (False, ("scale",), "fp8")):
        form = Form("bf16", dtype_c=c or "bf16", beta=beta, epilogue=steps)
        assert faults(rig, data_of, compiled(list(asks(form, sizes, FEW)))) == []
        odd = Form("bf16", dtype_c=c or "bf16", layout="NT", beta=beta, epilogue=steps)
        assert faults(rig, data_of, compiled(list(asks(odd, ((127, 129, 136),), FEW)))) == []


@pytest.mark.parametrize("layout", ["NN", "TN", "NT"])
def test_a_batch(rig: Any, compiled: Any, data_of: Any, layout: str) -> None:
    form = Form("bf16", layout=layout, batch=3, epilogue=("bias", "residual"))
    assert faults(rig, data_of, compiled(list(asks(form, ((72, 136, 328), (136, 264, 520)))))) == []


def test_the_same_bits_every_time(rig: Any, compiled: Any, data_of: Any) -> None:
    for task in compiled(list(asks(Form("bf16"), ((257, 264, 4104),)))):
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
    """Every 211th, on a size with a tail, an odd M and edges."""
    size = (1031, 1544, 2056)
    space = families.space("wgmma")
    space = space.take(np.arange(0, len(space), 211))
    able = predict(*size, gpu="h200_sxm", dtype="bf16", family="wgmma", config=space).feasible
    chosen = [ask(size, "wgmma", space.row(int(i)), Form("bf16")) for i in np.flatnonzero(able)]
    assert len(chosen) > 100
    assert faults(rig, data_of, compiled(chosen)) == []
