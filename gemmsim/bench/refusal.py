"""Configurations that cannot launch, found before anything is compiled: the families' own rules on the GPU's limits."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmsim import families
from gemmsim.bench.task import CUBLAS, Ask
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Arch, Gpu
from gemmsim.problem import Form, Gemm, gemm


def refused(asks: Sequence[Ask], gpu: Gpu) -> list[str]:
    """Why each ask cannot run on the GPU: code, number, limit; empty where it may."""
    groups: dict[tuple[str, Form], list[int]] = {}
    for i, ask in enumerate(asks):
        groups.setdefault((ask.family, ask.form), []).append(i)
    reasons = [""] * len(asks)
    for (family, form), where in groups.items():
        for i, reason in zip(where, _group(family, form, [asks[i] for i in where], gpu), strict=True):
            reasons[i] = reason
    return reasons


def _group(family: str, form: Form, asks: Sequence[Ask], gpu: Gpu) -> Sequence[str]:
    """Reasons of asks that share family and Form."""
    if form.dtype not in gpu.arch.fma_per_clk_per_sm:
        return [f"dtype: GPU {gpu.name} has no {form.dtype} path"] * len(asks)
    if family == CUBLAS:
        return [""] * len(asks)
    problem = gemm([a.m for a in asks], [a.n for a in asks], [a.k for a in asks], form)
    try:
        check_kernel(family, problem, form, dict(asks[0].config))
    except GemmsimError as error:
        return [f"kernel: {error}"] * len(asks)
    names = [name for name, _ in asks[0].config]
    values: dict[str, Any] = {p: np.asarray([dict(a.config)[p] for a in asks], np.int64) for p in names}
    return broken(problem, families.config(family, values, len(asks)), gpu.arch)


def broken(problem: Gemm, config: Config, arch: Arch) -> list[str]:
    """The rule of its family that each row breaks: code, number, limit; empty where it breaks none."""
    module = families.family(config.family)
    return module.refusals(problem, config, module.launch(problem, config, arch), arch).reasons()


def check_kernel(family: str, problem: Gemm, form: Form, config: Mapping[str, int]) -> None:
    """Raise GemmsimError for a Form that the family has no source for: kernels do more than the model predicts."""
    if family == "triton":
        from gemmsim.bench.triton_compile import check_form

        families.check(family, problem)
        check_form(form)
        return
    module: Any = importlib.import_module(f"gemmsim.families.{family}")
    if not hasattr(module, "macros"):
        raise GemmsimError(f"family {family} has no kernel that can be launched")
    families.check_batch(family, problem)
    try:
        module.macros(form, config)
    except GemmsimError as error:
        raise GemmsimError(f"{error}{families.would_do(families.that_do(problem))}") from None
