"""Every family against float64: more than sixty shapes, three layouts, all epilogues, fp32 and fp64.

Each launch is on fresh normal inputs and a C full of NaN; the limits are those of gemmsim.bench.check.
"""

from __future__ import annotations

from typing import Any

import pytest
from kernels_under_test import CONFIGS, EPILOGUES, LAYOUTS, SHAPES, ask, families, faults, sized

from gemmsim.bench import cublas, cublaslt
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Task
from gemmsim.problem import Form

pytestmark = pytest.mark.gpu


def test_there_are_sixty_shapes_of_every_kind() -> None:
    assert len(set(SHAPES)) >= 60
    assert all(any(shape[i] == 1 for shape in SHAPES) for i in range(3))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", families())
def test_every_shape_and_layout(rig: Any, compiled: Any, data_of: Any, family: str, layout: str) -> None:
    kernels = compiled([ask(SHAPES[0], family, c, Form("fp32", layout=layout)) for c in CONFIGS[family].values()])
    assert faults(rig, data_of, sized(kernels, SHAPES)) == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", families())
def test_every_epilogue(rig: Any, compiled: Any, data_of: Any, family: str, layout: str) -> None:
    configs = list(CONFIGS[family].values())
    chosen = configs if layout == "NN" else configs[:1]
    forms = [Form("fp32", dtype_c=c, layout=layout, beta=beta, epilogue=steps) for beta, steps, c in EPILOGUES]
    kernels = compiled([ask(SHAPES[0], family, config, form) for config in chosen for form in forms])
    shapes = [(1, 1, 1), (3, 5, 7), (65, 64, 64), (127, 128, 129), (256, 256, 256), (257, 258, 259), (64, 65, 4097)]
    assert faults(rig, data_of, sized(kernels, shapes)) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fp64(rig: Any, compiled: Any, data_of: Any, layout: str) -> None:
    tile = {"bm": 64, "bn": 64, "bk": 16, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "regs": 0, "stages": 2,
            "vec": 2}  # fmt: skip
    more: list[dict[str, int]] = [{}, {"async_copy": 0}, {"split_k": 4}, {"stream_k": 1}, {"vec": 1}]
    forms = [Form("fp64", layout=layout), Form("fp64", layout=layout, beta=True, epilogue=("bias", "gelu", "residual"))]
    kernels = compiled([ask(SHAPES[0], "simt", tile | extra, form) for extra in more for form in forms])
    assert faults(rig, data_of, sized(kernels, SHAPES[::3])) == []


@pytest.mark.parametrize("dtype", [dtype for dtype in cublas.DTYPES if dtype != cublaslt.DTYPE])
def test_cublas_in_every_type_and_layout(rig: Any, data_of: Any, dtype: str) -> None:
    from gemmsim.bench.task import Kernel

    forms = [Form(dtype, layout=layout, beta=beta) for layout in (*LAYOUTS, "TT") for beta in (False, True)]
    forms += [Form(dtype, layout=layout, batch=3, beta=True) for layout in (*LAYOUTS, "TT")]
    asks = [ask((128, 256, 64), "cublas", {}, form) for form in forms]
    asks.append(ask((64, 96, 32), "cublas", {}, Form(dtype, epilogue=("bias", "gelu", "residual"))))
    shapes = [(1, 1, 1), (65, 64, 72), (127, 128, 129), (512, 256, 1000)]
    assert faults(rig, data_of, sized([Task(i, a, Kernel()) for i, a in enumerate(asks)], shapes)) == []


def test_fp8_by_cublaslt(rig: Any, data_of: Any) -> None:
    from gemmsim.bench.task import Kernel

    forms = [Form("fp8", layout="NT", dtype_c=c, batch=batch) for c in ("bf16", "fp16", "fp32") for batch in (1, 3)]
    forms += [Form("fp8", layout="NT", dtype_c="fp8"), Form("fp8", layout="NT", beta=True)]
    forms.append(Form("fp8", layout="NT", epilogue=("bias", "gelu", "residual")))
    asks = [ask((16, 16, 16), "cublas", {}, form) for form in forms]
    shapes = [(16, 16, 16), (64, 80, 96), (512, 256, 1008), (1024, 1024, 8192)]
    assert faults(rig, data_of, sized([Task(i, a, Kernel()) for i, a in enumerate(asks)], shapes)) == []


def test_another_device_opened_meanwhile_changes_nothing(rig: Any) -> None:
    """CuPy and cuBLAS queue on the stream of the one that was opened last, unless they are told."""
    import numpy as np

    from gemmsim.bench.check import compare
    from gemmsim.bench.data import ALPHA, make
    from gemmsim.bench.device import Device
    from gemmsim.bench.task import Kernel

    other = Device(0)
    for seed in range(4):
        asked = ask((255, 256, 257), "cublas", {}, Form("fp32"))
        rig.device.spin(5e-3)  # what is not queued behind this comes too early
        data = make(rig.device, asked, seed)
        product = data.a.get().reshape(255, 257).astype(float) @ data.b.get().reshape(257, 256).astype(float)
        np.testing.assert_allclose(data.reference.get().reshape(255, 256), ALPHA * product, rtol=1e-9, atol=1e-9)
        prepared = prepare(rig.device, Task(0, asked, Kernel()), data)
        rig.device.spin(5e-3)
        data.poison(rig.device)
        prepared.launch()
        assert compare(rig.device, data).reason == ""
        other.use()


def test_fp8_that_cublaslt_has_not_is_refused(rig: Any, data_of: Any) -> None:
    from gemmsim.bench.task import Kernel

    asks = [ask((64, 64, 64), "cublas", {}, Form("fp8")), ask((64, 60, 60), "cublas", {}, Form("fp8", layout="NT"))]
    [wrong_layout], odd = (faults(rig, data_of, [Task(0, a, Kernel())]) for a in asks)
    assert "refused: cublas: fp8 in layout NN" in wrong_layout
    # newer versions take sizes that are no multiples of 16
    assert odd == [] or "refused: cublas: cuBLASLt has no fp8 kernel for 64 x 60 x 60" in odd[0]


@pytest.mark.parametrize("family", families())
def test_a_sum_is_the_same_bits_every_time(rig: Any, compiled: Any, data_of: Any, family: str) -> None:
    for task in compiled([ask((257, 258, 4099), family, c) for c in CONFIGS[family].values()]):
        data = data_of(task.ask)
        prepared = prepare(rig.device, task, data)
        prepared.poison()
        seen = []
        for _ in range(4):
            data.poison(rig.device)
            prepared.launch()
            seen.append(data.c.get().tobytes())
        assert len(set(seen)) == 1, dict(task.ask.config)


def test_a_wrong_kernel_is_found(rig: Any, compiled: Any, data_of: Any) -> None:
    """The kernel of another layout: what the check is there for."""
    from dataclasses import replace

    (task,) = compiled([ask((65, 66, 67), "register_tile", {}, Form("fp32", layout="NT"))])
    planted = replace(task, ask=replace(task.ask, form=ask((65, 66, 67), "register_tile", {}).form))
    assert "limit" in faults(rig, data_of, [planted])[0]


def test_triton(rig: Any, compiled: Any, data_of: Any) -> None:
    pytest.importorskip("triton")
    tile = {"bm": 64, "bn": 64, "bk": 32, "num_warps": 4, "num_stages": 3}
    sizes = [(64, 64, 64), (127, 128, 129), (1, 256, 64), (512, 768, 1000)]
    kernels = compiled([ask(size, "triton", tile, dtype) for dtype in ("bf16", "fp16", "tf32") for size in sizes])
    assert faults(rig, data_of, kernels) == []
