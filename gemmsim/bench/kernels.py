"""Kernels ready to launch on a problem's data: CUDA families from their cubins, cuBLAS from the library."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from gemmsim.bench import cublas, cublaslt
from gemmsim.bench.data import Data, Scalars, scalars, step_code
from gemmsim.bench.device import TYPE_NUMBERS, Device, Function, Launch
from gemmsim.bench.task import CUBLAS, Ask, Kernel, Refused, Task
from gemmsim.bench.tensor_map import encoded
from gemmsim.families.cuda import Plan
from gemmsim.problem import Form


class _Planner(Protocol):
    def plan(self, m: int, n: int, k: int, config: dict[str, int], form: Form, slots: int) -> Plan: ...


@dataclass(frozen=True)
class Prepared:
    """A kernel on a problem's arrays. launch queues one launch; poison fills its workspace with NaN, zeroed where due.

    threads, smem_bytes (static and dynamic), blocks_per_sm of its main kernel; None for a library's. unfused: the
    epilogue is a kernel of its own.
    """

    launch: Callable[[], None]
    poison: Callable[[], None]
    threads: int | None = None
    smem_bytes: int | None = None
    blocks_per_sm: int | None = None
    workspace_bytes: int = 0
    unfused: bool = False

    def columns(self) -> dict[str, int | None]:
        """The columns of a row; what is not known stays as the compiler said."""
        known = {"threads": self.threads, "smem_bytes": self.smem_bytes, "blocks_per_sm": self.blocks_per_sm,
                 "workspace_bytes": self.workspace_bytes}  # fmt: skip
        return {name: value for name, value in known.items() if value is not None}


def prepare(device: Device, task: Task, data: Data) -> Prepared:
    """A task's kernel on its data. Raises Refused, and CuPy's error where the module cannot be loaded."""
    device.use()
    if task.ask.family == CUBLAS:
        return library(device, task.ask, data, data.c)
    if task.ask.family == "triton":
        from gemmsim.bench.triton_launch import prepare_triton

        return prepare_triton(device, task, data)
    return _cuda(device, task, data)


def library(device: Device, ask: Ask, data: Data, c: Any) -> Prepared:
    """cuBLAS with the result in c, the epilogue's steps as a kernel of their own. Raises Refused."""
    form, s = ask.form, scalars(ask.form)
    gemm = cublaslt.gemm if form.dtype == cublaslt.DTYPE else cublas.gemm
    product = gemm(device, (ask.m, ask.n, ask.k), form, data.a, data.b, c, s.alpha, s.beta)
    if not form.epilogue:
        return Prepared(product, _nothing)
    number = np.int32(TYPE_NUMBERS[str(form.dtype_c)])
    steps = device.own(
        "epilogue",
        (number, c, np.uint64(ask.m * form.batch), np.uint64(ask.n), np.float64(s.scale), data.bias, data.residual,
         np.uint64(step_code(form.epilogue))),
    )  # fmt: skip
    return Prepared(_in_turn(product, steps), _nothing, unfused=True)


def _nothing() -> None:
    pass


def _in_turn(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def launch() -> None:
        first()
        second()

    return launch


def _cuda(device: Device, task: Task, data: Data) -> Prepared:
    """A CUDA family's kernel: plan for one block an SM, see how many the driver holds, plan for those."""
    ask = task.ask
    family = cast(_Planner, importlib.import_module(f"gemmsim.families.{ask.family}"))
    given = (ask.m, ask.n, ask.k, dict(ask.config), ask.form)
    first = family.plan(*given, device.sm_count)
    function = device.function(task.kernel.path, first.name)
    smem = function.smem_bytes + first.dynamic_smem_bytes
    if first.threads > function.max_threads:
        raise Refused(f"threads_per_block: {first.threads} threads a block, limit {function.max_threads} by registers")
    device.allow_smem(function, first.dynamic_smem_bytes)
    blocks = device.blocks_per_sm(function, first.threads, first.dynamic_smem_bytes)
    if blocks < 1:
        raise Refused(f"blocks_per_sm: no block of {first.threads} threads and {smem} B of shared memory fits an SM")
    slots = device.sm_count * blocks if first.cluster == 1 else _in_clusters(device, function, first)
    plan = family.plan(*given, slots)
    return replace(_planned(device, task.kernel, ask, data, plan), smem_bytes=smem, blocks_per_sm=blocks)


def _in_clusters(device: Device, function: Function, plan: Plan) -> int:
    """Blocks that reside on the GPU at once, in whole clusters."""
    count = device.clusters(function, plan.grid, plan.threads, plan.dynamic_smem_bytes)
    if count < 1:
        raise Refused(f"cluster: no cluster of {plan.cluster} blocks of {plan.threads} threads fits the GPU")
    return count * plan.cluster


def _planned(device: Device, kernel: Kernel, ask: Ask, data: Data, plan: Plan) -> Prepared:
    work = device.cupy.empty(plan.workspace_bytes, "uint8") if plan.workspace_bytes else None
    ends = _Ends(ask, data, scalars(ask.form), work, _order(device, plan))
    launch: Callable[[], None] = _launch(device, kernel, plan, ends.first(plan))
    if plan.second is not None:
        device.allow_smem(device.function(kernel.path, plan.second.name), plan.second.dynamic_smem_bytes)
        launch = _in_turn(launch, _launch(device, kernel, plan.second, ends.second(plan.second)))

    def poison() -> None:
        if work is not None:
            work.data.memset_async(0xFF, work.nbytes, device.stream)
            if plan.zeroed_bytes:
                work.data.memset_async(0, plan.zeroed_bytes, device.stream)

    return Prepared(launch, poison, threads=plan.threads, workspace_bytes=plan.workspace_bytes)


def _order(device: Device, plan: Plan) -> Any:
    """The order table on the device; None without one."""
    return None if plan.order is None else device.cupy.asarray(np.asarray(plan.order, np.int32))


def _launch(device: Device, kernel: Kernel, plan: Plan, arguments: tuple[Any, ...]) -> Launch:
    function = device.function(kernel.path, plan.name)
    return Launch(device, function, plan.grid, plan.threads, plan.dynamic_smem_bytes, arguments)


@dataclass(frozen=True)
class _Ends:
    """The arguments of a CUDA family's kernels, in the order of gemmsim.families.cuda."""

    ask: Ask
    data: Data
    s: Scalars
    work: Any
    order: Any

    def first(self, plan: Plan) -> tuple[Any, ...]:
        sizes = tuple(np.int32(x) for x in (self.ask.m, self.ask.n, self.ask.k))
        tail = tuple(array for array in (self.work, self.order) if array is not None)
        return (*sizes, self.data.a, self.data.b, *self._middle(), *_integers(plan), *tail, *self._maps(plan))

    def second(self, plan: Plan) -> tuple[Any, ...]:
        return (np.int32(self.ask.m), np.int32(self.ask.n), *self._middle(), *_integers(plan), self.work)

    def _maps(self, plan: Plan) -> tuple[bytes, ...]:
        arrays = {"a": self.data.a, "b": self.data.b, "c": self.data.c}
        return tuple(encoded(one, int(arrays[one.operand].data.ptr)) for one in plan.maps)

    def _middle(self) -> tuple[Any, ...]:
        real = np.float64 if self.ask.form.dtype == "fp64" else np.float32
        factors = tuple(real(x) for x in (self.s.alpha, self.s.beta, self.s.scale))
        return (self.data.c, *factors, self.data.bias, self.data.residual)


def _integers(plan: Plan) -> tuple[Any, ...]:
    return tuple(x if isinstance(x, tuple) else np.int32(x) for x in plan.scalars)
