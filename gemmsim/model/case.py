"""From a problem, its configurations and launches to a Case: float arrays that the effects read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemmsim import families
from gemmsim.config import Config, Launch
from gemmsim.hardware import Gpu
from gemmsim.model import epilogue
from gemmsim.model.demand import Case
from gemmsim.model.residency import reached_sms
from gemmsim.problem import FloatArray, Gemm, IntArray


def make_case(
    problem: Gemm,
    config: Config,
    launch: Launch,
    blocks_per_sm: IntArray,
    gpu: Gpu,
    coefficients: Mapping[str, float],
    l2: str,
    *,
    align: bool = False,
) -> Case:
    """The Case of these rows. align: as if every row stride were aligned. Rows that fit no SM count as one block."""
    module = families.family(config.family)
    m, n, k, bm, bn, bk = (
        _float(v) for v in (problem.m, problem.n, problem.k, *(config[p] for p in ("bm", "bn", "bk")))
    )
    traits = module.traits(problem, config, launch, gpu.arch, align)
    return Case(
        gpu=gpu,
        dtype=problem.dtype,
        a_bytes=problem.a_bytes,
        b_bytes=problem.b_bytes,
        c_bytes=problem.c_bytes,
        m=m,
        n=n,
        k=k,
        batch=_float(problem.batch),
        bm=bm,
        bn=bn,
        bk=bk,
        group_m=module.group_m(config),
        regs_per_thread=_float(launch.regs_per_thread),
        spill_bytes=launch.spill_bytes,
        smem_bytes=_float(launch.smem_bytes),
        blocks_per_sm=np.maximum(_float(blocks_per_sm), 1),
        sms=reached_sms(gpu, traits.cluster_m * traits.cluster_n),
        traits=traits,
        c=coefficients,
        l2=l2,
        result_reads=problem.result_reads,
        bias="bias" in problem.epilogue,
        epilogue_slots=epilogue.slots(problem),
    )


def _float(values: IntArray) -> FloatArray:
    return values.astype(np.float64)
