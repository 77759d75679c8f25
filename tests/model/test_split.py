"""Tiles that blocks share along K: split-K, its tail alone, stream-K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmsim import families, load_gpu, predict
from gemmsim.model import effects, split
from gemmsim.model.calibration import defaults
from gemmsim.model.case import make_case
from gemmsim.model.demand import Demand
from gemmsim.model.predict import Prediction
from gemmsim.problem import gemm

H200 = load_gpu("h200_sxm")
SLOTS = 2 * 132  # the default tile, 64x256x8: two blocks an SM


def asked(m: int = 4096, n: int = 4096, k: int = 4096, without: tuple[str, ...] = (), **config: Any) -> Prediction:
    return predict(m, n, k, gpu=H200, dtype="fp32", family="simt", config=config, calibrated="none", without=without)


def demand(m: int, n: int, k: int, **config: int) -> Demand:
    problem, tile = gemm(m, n, k, "fp32"), families.config("simt", config)
    launch = families.family("simt").launch(problem, tile, H200.arch)
    held = np.full(1, 2)
    return effects.fill(make_case(problem, tile, launch, held, H200, defaults("simt").values, "cold_clean"))


def test_one_slice_is_the_whole() -> None:
    plain, one = demand(4096, 4096, 4096), demand(4096, 4096, 4096, split_k=1)
    assert plain.units.whole == plain.tiles == 1024
    assert not plain.units.parts.any()
    assert not plain.workspace_bytes.any()
    assert not plain.second_s.any()
    assert asked().time_s == asked(split_k=1, split_tail=0, stream_k=0).time_s
    assert one.units == plain.units


def test_all_tiles_in_slices() -> None:
    d = demand(1024, 1024, 4096, split_k=4)
    assert d.units.whole == 0
    assert d.units.parts == 4 * 64
    assert d.units.part_steps == 128
    assert d.workspace_bytes == 4 * 4 * 1024 * 1024
    assert asked(1024, 1024, 4096, split_k=4).waves == 1


def test_the_tail_alone_in_slices() -> None:
    d = demand(4096, 4096, 4096, split_k=9, split_tail=1)
    assert d.units.whole == 3 * SLOTS
    assert d.units.parts == 9 * (1024 - 3 * SLOTS)
    assert d.units.part_steps == np.ceil(512 / 9)
    assert d.workspace_bytes == d.units.parts * 64 * 256 * 4


def test_a_tail_of_whole_waves_is_no_tail() -> None:
    plain = asked(64 * 132, 512, 1024)
    assert plain.waves == 1
    assert asked(64 * 132, 512, 1024, split_k=4, split_tail=1).time_s == plain.time_s
    assert asked(64 * 132, 512, 1024, stream_k=1).time_s == plain.time_s


def test_stream_k_shares_out_all_steps_evenly() -> None:
    d = demand(4096, 4096, 4096, stream_k=1)
    assert d.units.whole == 2 * SLOTS
    assert d.units.parts == SLOTS
    shared = (1024 - 2 * SLOTS) * 512
    assert shared <= d.units.parts * d.units.part_steps < shared + SLOTS
    assert not d.second_s.any()
    few = demand(64, 256, 4096, stream_k=1)
    assert few.units.parts == np.floor(np.sqrt(4096 / split.PART_DEPTH))


def test_plan_and_model_agree() -> None:
    """The blocks that the launch has are those that the model counts."""
    module = families.family("simt")
    for sizes in ((4096, 4096, 4096), (128, 11008, 4096), (512, 512, 32768), (2048, 2048, 2048)):
        for more in ({}, {"split_k": 4}, {"split_k": 4, "split_tail": 1}, {"stream_k": 1}):
            config = {p.name: p.default for p in module.PARAMETERS} | more
            d = demand(*sizes, **more)
            plan = module.plan(*sizes, config, _form(), SLOTS)  # type: ignore[attr-defined]
            blocks = d.units.parts if more.get("stream_k") and d.units.parts.any() else d.units.blocks
            assert plan.grid[0] == blocks, (sizes, more)


def _form() -> Any:
    from gemmsim.problem import form_of

    return form_of("fp32")


@pytest.mark.parametrize("more", [{"split_k": 3}, {"split_k": 16, "split_tail": 1}, {"stream_k": 1}])
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (512, 512, 32768), (128, 11008, 4096), (777, 3333, 1555)])
def test_sharing_never_beats_the_arithmetic(sizes: tuple[int, int, int], more: dict[str, int]) -> None:
    p = asked(*sizes, **more)
    peak = 2 * H200.arch.fma_per_clk_per_sm["fp32"] * H200.sm_count * H200.clock_hz
    assert p.time_s > p.problem.flops / peak
    assert p.time_s > asked(*sizes, without=("split",), **more).time_s
    assert p.problem.flops == asked(*sizes).problem.flops


def test_sharing_pays_where_tiles_are_few() -> None:
    few = (512, 512, 32768)
    plain = asked(*few).time_s
    assert asked(*few, split_k=16).time_s < 0.5 * plain
    assert asked(*few, stream_k=1).time_s < 0.5 * plain


def test_more_slices_than_fill_the_chip_only_cost() -> None:
    times = [float(asked(4096, 4096, 4096, split_k=s).time_s[0]) for s in (1, 4, 16)]
    assert times == sorted(times)


def test_what_sharing_costs_is_a_term() -> None:
    p = predict(512, 512, 32768, gpu=H200, dtype="fp32", family="simt", config={"split_k": 16}, terms=True)
    assert p.demand["split"][0] > 1e-6
    assert 0 < p.saved["split"][0] < p.time_s[0]
    whole = predict(512, 512, 32768, gpu=H200, dtype="fp32", family="simt", terms=True)
    assert whole.demand["split"][0] == whole.saved["split"][0] == 0
