"""Orders of the tiles side by side: which there are, their bytes and times, and the verdict's words."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gemmsim import GemmsimError, families, predict
from gemmsim.config import Config
from gemmsim.families import triton
from gemmsim.families.traits import Parameter
from gemmsim.simulate import launched
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.launch import simulate
from gemmsim.simulate.raster import HILBERT, order
from gemmsim.simulate.rasters import Order, Rasters, rasters
from gemmsim.simulate.schedule import schedule

SQUARE = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4}


def found(*sizes: int, family: str = "triton", dtype: str = "bf16", gpu: str = "h200_sxm", **config: int) -> Rasters:
    tile: dict[str, Any] = (SQUARE if family == "triton" else {}) | config
    return rasters(predict(*sizes, gpu=gpu, dtype=dtype, family=family, config=tile))


def named(x: Rasters) -> dict[str, Order]:
    return {order.name: order for order in x.orders}


def test_every_order_with_the_simulator_s_bytes_and_the_time_of_that_configuration() -> None:
    orders = named(found(8192, 8192, 1024))
    assert orders.keys() == {"row", "column", "hilbert", *(f"grouped by {g}" for g in (2, 4, 8, 16, 32))}
    for name, group in {"row": 1, "grouped by 4": 4, "grouped by 32": 32, "column": 64}.items():
        p = predict(8192, 8192, 1024, gpu="h200_sxm", config=SQUARE | {"group_m": group})
        t = traffic(launched.launched(p))
        assert orders[name].dram_read_bytes == pytest.approx(t.dram_read_bytes)
        assert orders[name].l2_hit_rate == pytest.approx(t.l2_hit_rate)
        assert orders[name].time_s == pytest.approx(float(p.time_s[0]), rel=0.01)
        assert orders[name].read_share == orders[name].dram_read_bytes / (2 * 2 * 8192 * 1024)
    assert [name for name, order in orders.items() if order.own] == ["grouped by 8"]
    assert [name for name, order in orders.items() if not order.in_kernel] == ["hilbert"]
    assert max(order.share for order in orders.values() if order.in_kernel) == 1


def test_a_verdict_where_one_wins() -> None:
    x = found(2048, 11008, 4096)
    assert x.orders[0].name == "column"
    assert x.verdict.startswith("column wins by ")
    assert " over row and by " in x.verdict
    assert "the configuration's grouped by 8: DRAM reads go from " in x.verdict


def test_it_does_not_matter_where_both_operands_fit_in_l2() -> None:
    verdict = found(1024, 1024, 1024).verdict
    assert verdict == (
        "does not matter: every order reads 4 MB from DRAM: both operands, 4.0 MiB, fit in L2 (60 MiB, of which a side "
        "holds 30)"
    )


def test_it_does_not_matter_where_all_read_as_often() -> None:
    verdict = found(256, 256, 262144).verdict
    assert verdict == "does not matter: every order reads 268 MB from DRAM, 1.00 x A and B"


def test_one_row_of_tiles_has_one_order() -> None:
    x = found(128, 11008, 4096)
    assert [order.name for order in x.orders] == ["row"]
    assert x.verdict.startswith("does not matter: one row or column of tiles, ")


def test_bytes_that_cost_no_time_hardly_matter() -> None:
    x = found(4096, 4096, 14336, bn=256, num_warps=8)
    assert x.verdict.startswith("hardly matters: DRAM reads go from ")
    assert "and one row's differ by 2.5% from one GPU to the next" in x.verdict


def test_a_kernel_that_walks_one_order_alone() -> None:
    x = found(4096, 4096, 4096, family="register_tile", dtype="fp32")
    assert x.verdict.startswith("register_tile walks row order alone; of all: ")
    assert [order.name for order in x.orders if order.in_kernel] == ["row"]


def test_too_many_tiles_leave_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "MAX_TILES", 100)
    x = found(4096, 4096, 4096)
    assert "hilbert" not in named(x)
    assert x.notes == ("too many blocks to walk: DRAM bytes are the closed form's, no Hilbert",)
    p = predict(4096, 4096, 4096, gpu="h200_sxm", config=SQUARE)
    own = next(order for order in x.orders if order.own)
    assert own.dram_read_bytes == pytest.approx(float(p.dram_read_bytes[0]))
    assert own.time_s == pytest.approx(float(p.time_s[0]))
    assert own.l2_hit_rate is None


def test_a_warm_l2_and_what_cannot_launch_are_refused() -> None:
    with pytest.raises(GemmsimError, match="warm"):
        rasters(predict(4096, 4096, 4096, gpu="h200_sxm", config=SQUARE, l2="warm"))
    with pytest.raises(GemmsimError, match="cannot launch"):
        found(4096, 4096, 4096, bm=512)


@pytest.fixture
def curved(monkeypatch: pytest.MonkeyPatch) -> str:
    """A family like triton whose kernel can walk Hilbert's curve: to the closed form, groups of 11 tile rows."""
    module = ModuleType("gemmsim.families.curved")
    vars(module).update({name: value for name, value in vars(triton).items() if not name.startswith("__")})

    def group_m(config: Config) -> Any:
        return np.where(config["hilbert"] == 1, 11.0, config["group_m"])

    switch = Parameter("hilbert", (0, 1), 0, 0, 1, False, "1: tiles along Hilbert's curve")
    vars(module).update(NAME="curved", PARAMETERS=(*triton.PARAMETERS, switch), group_m=group_m)
    monkeypatch.setitem(sys.modules, "gemmsim.families.curved", module)
    monkeypatch.setattr(families, "FAMILIES", (*families.FAMILIES, "curved"))
    return "curved"


def of(family: str, *sizes: int, **config: int) -> Any:
    return predict(*sizes, gpu="h200_sxm", family=family, config=SQUARE | config)


def test_a_kernel_that_walks_hilbert_s_curve_is_simulated_along_it(curved: str) -> None:
    p, plain = of(curved, 4096, 4096, 4096, hilbert=1), of(curved, 4096, 4096, 4096)
    groups, curve = (traffic(launched.launched(plain, raster=raster)).dram_read_bytes for raster in ("", HILBERT))
    assert curve != pytest.approx(groups, rel=0.01)
    assert traffic(launched.launched(p)).dram_read_bytes == pytest.approx(curve)
    assert simulate(p).bytes["dram_read_bytes"] == pytest.approx(curve)
    s = schedule(p)
    np.testing.assert_array_equal((s.row, s.column), order(HILBERT, 32, 32))


def test_hilbert_s_curve_in_the_kernel(curved: str) -> None:
    plain, own = (rasters(of(curved, 4096, 4096, 4096, hilbert=switch)) for switch in (0, 1))
    assert all(one.in_kernel for one in (*plain.orders, *own.orders))
    assert [one.name for one in plain.orders if one.own] == ["grouped by 8"]
    assert [one.name for one in own.orders if one.own] == ["hilbert"]
    assert named(own).keys() == named(plain).keys()
    for name, one in named(own).items():
        assert one.dram_read_bytes == pytest.approx(named(plain)[name].dram_read_bytes)
    assert "does not walk" not in plain.verdict + own.verdict


def test_hilbert_s_curve_too_large_to_walk_or_of_one_row(curved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (single,) = rasters(of(curved, 128, 4096, 4096, hilbert=1)).orders
    assert single.own
    monkeypatch.setattr(launched, "MAX_TILES", 100)
    p = of(curved, 4096, 4096, 4096, hilbert=1)
    x = rasters(p)
    own = next(one for one in x.orders if one.own)
    assert (own.name, own.time_s) == ("hilbert", pytest.approx(float(p.time_s[0])))
    assert x.notes == ("too many blocks to walk: DRAM bytes are the closed form's",)
