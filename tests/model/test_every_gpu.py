"""Every shipped GPU and MIG slice predicts every dtype it has: finite, above its roof's time, faster where faster."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsim import families
from gemmsim.errors import GemmsimError
from gemmsim.hardware import gpu_names, load_gpu
from gemmsim.model.predict import predict
from gemmsim.problem import Form

SHAPES = np.array([(8192, 8192, 8192), (4096, 4096, 4096), (16, 11008, 4096), (1, 1, 1), (129, 4097, 4095)])
SLICES = ["a100_sxm_80gb:3g.40gb", "h200_sxm:1g.18gb", "a30:1g.6gb"]


def times(name: str, family: str, dtype: str, **config: int) -> np.ndarray:
    m, n, k = SHAPES.T
    if family == "triton":
        config = {"bm": 64, "bn": 64, "bk": 32, "num_stages": 2, **config}
    if family == "mma":  # tf32 too in the shared memory of a GeForce
        config = {"bm": 64, "bn": 64, "wm": 32, "wn": 32, "stages": 2, **config}
    if family == "simt":  # what P100s can do in fp64 too
        tile = {"bm": 64, "bn": 64, "bk": 8, "wm": 32, "wn": 32, "tm": 8, "tn": 4}
        config = {**tile, "stages": 2, "async_copy": 0, "regs": 0, **config}
    form = Form(dtype, layout=families.layouts(family, dtype)[0])
    return predict(m, n, k, gpu=name, dtype=form, family=family, config=config, calibrated="none").time_s


def best(name: str, family: str, dtype: str) -> np.ndarray:
    """The time of the best of a few tiles: no single one suits every number of SMs."""
    return np.nanmin([times(name, family, dtype, bm=bm, bn=bn) for bm in (64, 128) for bn in (64, 128)], axis=0)


@pytest.mark.parametrize("name", [*gpu_names(), *SLICES])
def test_every_dtype_of_every_gpu(name: str) -> None:
    gpu = load_gpu(name)
    for family in set(families.FAMILIES) - {"wgmma"}:  # refused on most chips, and for odd strides
        for dtype in families.family(family).DTYPES:
            peak = gpu.peak_flops(dtype)
            if peak is None:
                with pytest.raises(GemmsimError, match=f"has no {dtype} path"):
                    times(name, family, dtype)
                continue
            found = times(name, family, dtype)
            if family in ("mma", "wmma") and float(gpu.arch.compute_capability) < 8:
                assert np.isnan(found).all(), (family, dtype)
                continue
            assert np.isfinite(found).all(), (family, dtype)
            assert (found > 2.0 * SHAPES.prod(1) / peak).all(), (family, dtype)


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        ("p100", "v100_sxm2_32gb"), ("t4", "rtx_2080_ti"), ("rtx_2080_ti", "rtx_3090"),
        ("v100_sxm2_32gb", "a100_sxm_80gb"),
        ("rtx_a4000", "rtx_a6000"), ("a10", "a40"), ("a40", "rtx_a6000"), ("rtx_3090", "rtx_4090"), ("l4", "l40s"),
        ("rtx_4090", "rtx_5090"), ("a30", "a100_pcie_40gb"), ("h100_pcie", "h100_sxm"), ("h20", "h100_sxm"),
        ("a100_sxm_80gb:3g.40gb", "a100_sxm_80gb"), ("h200_sxm:1g.18gb", "h200_sxm:3g.71gb"),
    ],
)  # fmt: skip
def test_the_faster_chip_is_faster(slow: str, fast: str) -> None:
    dtypes = {family: families.family(family).DTYPES for family in ("triton", "register_tile")}
    for family, names in dtypes.items():
        for dtype in names:
            peaks = [load_gpu(name).peak_flops(dtype) for name in (slow, fast)]
            if peaks[0] and peaks[1] and peaks[0] < peaks[1]:  # a T4's fp16 peak is above a GeForce's of its time
                assert best(fast, family, dtype)[0] < best(slow, family, dtype)[0], (family, dtype)
