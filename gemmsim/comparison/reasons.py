"""Why one GPU is faster than another: the part of the speed-up that each group of figures is due.

Shapley's value of the logarithm of the time (gemmsim.shapley): groups of figures are changed
from one GPU's to the other's in every order, and a group's part is what its change gains on average over the orders.
Unlike one change at a time, the parts do not hang on an order and multiply to the whole speed-up, though a wider memory
helps a chip with few SMs less than one with many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from math import exp, log

from gemmsim.hardware import Arch, Gpu
from gemmsim.shapley import shapley

_RATE = "fma_per_clk_per_sm"
FITS = "fitted coefficients"
#: group -> figures of a Gpu, those of its Arch with `arch.`; together all that a prediction reads
GROUPS: Mapping[str, tuple[str, ...]] = {
    "memory bandwidth": ("dram_bytes_per_s", "dram_measured_bytes_per_s", "dram_latency_clk"),
    "L2": ("l2_bytes", "l2_partitions", "l2_measured_bytes_per_s", "l2_latency_clk", "l2_far_latency_clk"),
    "SMs": ("sm_count", "cluster_sizes", "cluster_sms"),
    "clock": ("clock_hz", "clock_tensor_hz"),
    "math rate per SM": (f"arch.{_RATE}",),
    "SM architecture": tuple(f"arch.{f.name}" for f in fields(Arch) if f.name != _RATE),
    "launch": ("launch_s",),
    FITS: ("name", "path"),  # a calibration is found by them
}
#: under this the speed-up has no parts worth telling
LEAST_LOG = 1e-3


@dataclass(frozen=True)
class Reason:
    """What a group of figures does: the speed-up it is due, and its share of the logarithm of the whole speed-up.

    The factors of all groups multiply to the speed-up, the shares add up to 1; a share is None where there is none.
    """

    group: str
    factor: float
    share: float | None


def with_group(gpu: Gpu, other: Gpu, group: str) -> Gpu:
    """The GPU with a group's figures taken from the other one."""
    own = {name: getattr(other, name) for name in GROUPS[group] if not name.startswith("arch.")}
    keys = [name.removeprefix("arch.") for name in GROUPS[group] if name.startswith("arch.")]
    return replace(gpu, arch=replace(gpu.arch, **{key: getattr(other.arch, key) for key in keys}), **own)


def reasons(base: Gpu, other: Gpu, time_s: Callable[[Gpu], float], fitted: bool) -> tuple[Reason, ...]:
    """The part of each group that differs, largest first.

    time_s(gpu): time with the best configurations there. fitted: each GPU has coefficients of its own.
    """
    chosen_from = [group for group in GROUPS if fitted or group != FITS]
    groups = [group for group in chosen_from if with_group(base, other, group) != base]

    def gained(chosen: tuple[str, ...]) -> float:
        return -log(time_s(reduce(lambda gpu, group: with_group(gpu, other, group), chosen, base)))

    parts = shapley(groups, gained)
    whole = sum(parts.values())
    found = [Reason(g, exp(part), part / whole if abs(whole) > LEAST_LOG else None) for g, part in parts.items()]
    return tuple(sorted(found, key=lambda r: -abs(log(r.factor))))
