"""How far residents of an SM drift apart: by age, by k-steps in flight, and what holds them together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmsim import families, predict
from gemmsim.families.traits import FMA, WGMMA, Traits
from gemmsim.model.drift import CHOICE, LEAD, PRIORITY, by_age, groups


def some_traits() -> Traits:
    p = predict(512, 512, 512, gpu="h200_sxm", dtype="fp32", family="register_tile", config={})
    return families.family("register_tile").traits(p.problem, p.config, p.launch, p.gpu.arch)


TRAITS = some_traits()


def aged(busy: float, blocks: int, warps: int = 8, catching_up: float = 0.0, path: int = FMA) -> float:
    traits = replace(TRAITS, warps=np.asarray([float(warps)]), path=np.asarray([path]))
    share, resident = np.asarray([busy]), np.asarray([float(blocks)])
    return float(by_age(share, resident, traits, 4, np.asarray([catching_up]))[0])


def parted(busy: float, blocks: int, share: float, depth: int = 1) -> tuple[float, float]:
    together, lag = groups(*(np.asarray([float(v)]) for v in (busy, blocks, share, depth)))
    return float(together[0]), float(lag[0])


def test_age_counts_on_an_oversubscribed_sm_alone() -> None:
    assert aged(0.6, 2) == PRIORITY
    assert aged(0.49, 2) == 0


def test_a_scheduler_with_two_warps_hands_over_in_turn() -> None:
    assert CHOICE == 3
    assert aged(0.95, 2, warps=4) == 0
    assert aged(0.95, 3, warps=4) == PRIORITY


def test_tensor_cores_serve_warps_in_turn() -> None:
    assert aged(0.6, 2, path=WGMMA) == 0


def test_waiting_for_dram_alone_brings_the_first_back() -> None:
    """Two blocks that want 1.2 of the SM: the first gains 2 (0.6 - 0.4) of K a tile where all time goes by age."""
    assert aged(0.6, 2, catching_up=0.5 * PRIORITY * 0.4) == pytest.approx(0.5 * PRIORITY)
    assert aged(0.6, 2, catching_up=0.5) == 0


def test_k_steps_in_flight_part_residents() -> None:
    assert parted(0.2, 3, 0.0, depth=1) == (1, 0)
    assert parted(0.2, 3, 0.0, depth=4) == (1, pytest.approx(3 * LEAD))
    assert parted(0.2, 1, 0.0, depth=4) == (1, 0)


def test_the_eldest_that_fit_stay_together() -> None:
    together, lag = parted(0.4, 4, 0.5)
    assert together == 2
    assert lag > 0
    assert parted(0.9, 4, 0.5)[0] == 1
