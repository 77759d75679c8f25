"""What a CUDA family's kernels are called with, on a device that only writes it down."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemmsim.bench.data import ALPHA, BETA, Data, supported
from gemmsim.bench.device import Device, Function, Launch
from gemmsim.bench.kernels import prepare
from gemmsim.bench.task import Ask, Kernel, Refused, Task
from gemmsim.bench.triton_launch import arguments, grid
from gemmsim.families.cuda import Plan, TensorMap
from gemmsim.problem import Form, form_of


@dataclass
class _Array:
    """An array on no device: an address and what was done to it."""

    address: int
    nbytes: int = 64

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.address, memset_async=self.memset)

    def memset(self, value: int, size: int, stream: object) -> None:
        SAID.append((self.address, value, size))


SAID: list[Any] = []
TABLES: list[Any] = []


class FakeDevice:
    """Two blocks an SM; launches are kept as (name, grid, threads, shared memory, arguments as they lie in memory)."""

    def __init__(self, blocks: int = 2, max_threads: int = 1024) -> None:
        self.sm_count, self.blocks, self.max_threads = 132, blocks, max_threads
        self.in_clusters = 60
        self.stream = SimpleNamespace(ptr=77)
        self.names: dict[int, str] = {}
        self.launched: list[tuple[Any, ...]] = []
        self.allowed: list[tuple[str, int]] = []
        self.used = 0
        driver = SimpleNamespace(launchKernel=self._launch)
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(driver=driver), empty=lambda n, kind: _Array(900, n),
            asarray=lambda table: TABLES.append(table) or _Array(950),
        )  # fmt: skip

    def use(self) -> None:
        self.used += 1

    def function(self, path: str, name: str) -> Function:
        handle = 1000 + len(self.names)
        self.names[handle] = name
        return Function(handle, 256, self.max_threads, 64, 0, None)

    def allow_smem(self, function: Function, dynamic: int) -> None:
        self.allowed.append((self.names[function.handle], dynamic))

    def blocks_per_sm(self, function: Function, threads: int, dynamic: int) -> int:
        return self.blocks

    def clusters(self, function: Function, grid: tuple[int, int, int], threads: int, dynamic: int) -> int:
        assert grid == (132, 1, 1)
        return self.in_clusters

    def _launch(self, handle: int, *given: int) -> None:
        *shape, smem, stream, pointers, extra = given
        assert (stream, extra) == (77, 0)
        self.launched.append((self.names[handle], tuple(shape[:3]), tuple(shape[3:]), smem, pointers))


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A family whose grid is what the slots say, with a second kernel and a workspace."""
    module: Any = ModuleType("gemmsim.families.made_up")

    def plan(m: int, n: int, k: int, config: dict[str, int], form: Form, slots: int) -> Plan:
        second = Plan((7, 1, 1), 256, 0, (5,), name="reduce")
        return Plan((slots, 1, 1), 128, 50_000, (11, 12), 4096, 64, second=second)

    module.plan = plan
    monkeypatch.setitem(sys.modules, "gemmsim.families.made_up", module)
    SAID.clear()
    return module  # type: ignore[no-any-return]


def data_of(form: Form, size: tuple[int, int, int]) -> Data:
    a, b, c, bias, residual = (_Array(address) for address in (100, 200, 300, 400, 500))
    return Data((*size, form), a, b, c, None, bias, residual, None, None, None)


def task_of(form: Form) -> tuple[Task, Data]:
    ask = Ask(3, 5, 7, form, "made_up", (("bm", 8),))
    return Task(0, ask, Kernel(path="/x.cubin")), data_of(form, (3, 5, 7))


def values(pointers: int, kinds: list[Any]) -> list[Any]:
    """What stands behind the pointers of a launch."""
    found = (ctypes.c_void_p * len(kinds)).from_address(pointers)
    return [kind.from_address(at).value for kind, at in zip(kinds, found, strict=True)]


INT, PTR = ctypes.c_int32, ctypes.c_uint64


@pytest.mark.parametrize(("dtype", "real"), [("fp32", ctypes.c_float), ("fp64", ctypes.c_double)])
def test_arguments_in_their_order(family: ModuleType, dtype: str, real: Any) -> None:
    device = FakeDevice()
    task, data = task_of(form_of(Form(dtype, beta=True, epilogue=("bias", "residual"))))
    prepared = prepare(device, task, data)  # type: ignore[arg-type]
    prepared.launch()
    (first, second) = device.launched
    assert first[:4] == ("gemm", (264, 1, 1), (128, 1, 1), 50_000)
    kinds = [INT, INT, INT, PTR, PTR, PTR, real, real, real, PTR, PTR, INT, INT, PTR]
    assert values(first[4], kinds) == [3, 5, 7, 100, 200, 300, ALPHA, BETA, 1.0, 400, 500, 11, 12, 900]
    assert second[:4] == ("reduce", (7, 1, 1), (256, 1, 1), 0)
    kinds = [INT, INT, PTR, real, real, real, PTR, PTR, INT, PTR]
    assert values(second[4], kinds) == [3, 5, 300, ALPHA, BETA, 1.0, 400, 500, 5, 900]
    assert ("gemm", 50_000) in device.allowed
    assert device.used == 1  # before anything is queued on its stream
    assert prepared.columns() == {"threads": 128, "smem_bytes": 50_256, "blocks_per_sm": 2, "workspace_bytes": 4096}


def test_the_workspace_is_poisoned_but_for_its_head(family: ModuleType) -> None:
    prepare(FakeDevice(), *task_of(form_of("fp32"))).poison()  # type: ignore[arg-type]
    assert SAID == [(900, 0xFF, 4096), (900, 0, 64)]


def test_without_a_workspace_there_is_no_argument(family: Any) -> None:
    family.plan = lambda *given: Plan((1, 2, 3), 64, 0, ())
    device = FakeDevice()
    task, data = task_of(form_of("fp32"))
    data.bias = data.residual = None
    prepared = prepare(device, task, data)  # type: ignore[arg-type]
    prepared.launch()
    ((*_, pointers),) = device.launched
    kinds = [INT, INT, INT, PTR, PTR, PTR, ctypes.c_float, ctypes.c_float, ctypes.c_float, PTR, PTR]
    assert values(pointers, kinds) == [3, 5, 7, 100, 200, 300, ALPHA, 0.0, 1.0, 0, 0]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the driver is asked to encode; the code is its count of calls, 128 times."""
    from cuda.bindings import driver

    asked: list[tuple[Any, ...]] = []

    def encode(*given: Any) -> tuple[int, Any]:
        asked.append(given)
        room = ctypes.create_string_buffer(bytes([len(asked)]) * 128, 128)
        return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(room), room=room)

    monkeypatch.setattr(driver, "cuTensorMapEncodeTiled", encode)
    return asked


def test_a_struct_of_words_is_one_argument(family: Any) -> None:
    family.plan = lambda *given: Plan((1, 2, 3), 64, 0, (11, (2**32 - 1, -2, 5), 12))
    device = FakeDevice()
    prepared = prepare(device, *task_of(form_of("fp32")))  # type: ignore[arg-type]
    prepared.launch()
    ((*_, pointers),) = device.launched
    at = (ctypes.c_void_p * 14).from_address(pointers)[11:]
    assert [list((ctypes.c_uint32 * n).from_address(p)) for n, p in zip((1, 3, 1), at, strict=True)] == [
        [11], [2**32 - 1, 2**32 - 2, 5], [12],
    ]  # fmt: skip


def test_order_table_and_tensor_maps_come_last(family: Any, driver: list[tuple[Any, ...]]) -> None:
    maps = tuple(TensorMap(x, "bf16", (64, 3), (128,), (64, 3), 128) for x in "bc")
    family.plan = lambda *given: Plan((1, 2, 3), 64, 0, (11,), 4096, maps=maps, order=(2, 0, 1))
    device = FakeDevice()
    task, data = task_of(form_of("bf16"))
    data.b.address, data.c.address = 2048, 4096
    prepared = prepare(device, task, data)  # type: ignore[arg-type]
    prepared.launch()
    ((*_, pointers),) = device.launched
    real = ctypes.c_float
    kinds = [INT, INT, INT, PTR, PTR, PTR, real, real, real, PTR, PTR, INT, PTR, PTR]
    assert values(pointers, kinds)[11:] == [11, 900, 950]
    at = (ctypes.c_void_p * 16).from_address(pointers)[14:]
    assert [ctypes.string_at(p, 128) for p in at] == [bytes([1]) * 128, bytes([2]) * 128]
    assert [p % 64 for p in at] == [0, 0]
    assert [given[2] for given in driver] == [2048, 4096]
    assert (TABLES[-1].dtype, TABLES[-1].tolist()) == (np.int32, [2, 0, 1])


def test_a_tensor_map_that_breaks_a_rule_is_refused(family: Any, driver: list[tuple[Any, ...]]) -> None:
    odd = TensorMap("a", "bf16", (65, 3), (130,), (64, 3), 128)
    family.plan = lambda *given: Plan((1, 2, 3), 64, maps=(odd,))
    task, data = task_of(form_of("bf16"))
    data.a.address = 1024
    with pytest.raises(Refused, match="tensor_map: a: stride of 130 B, expected a multiple of 16 B"):
        prepare(FakeDevice(), task, data)  # type: ignore[arg-type]
    assert driver == []


def test_slots_of_clusters_are_those_that_the_driver_holds(family: Any) -> None:
    family.plan = lambda *given: Plan((given[-1], 1, 1), 64, cluster=2)
    device = FakeDevice()
    prepare(device, *task_of(form_of("bf16"))).launch()  # type: ignore[arg-type]
    assert device.launched[0][1] == (120, 1, 1)
    device.in_clusters = 0
    with pytest.raises(Refused, match="no cluster of 2 blocks of 64 threads fits the GPU"):
        prepare(device, *task_of(form_of("bf16")))  # type: ignore[arg-type]


def test_what_no_sm_holds_is_refused(family: ModuleType) -> None:
    device = FakeDevice(blocks=0)
    with pytest.raises(Refused, match="no block of 128 threads and 50256 B of shared memory fits an SM"):
        prepare(device, *task_of(form_of("fp32")))  # type: ignore[arg-type]
    device = FakeDevice(max_threads=96)
    with pytest.raises(Refused, match="128 threads a block, limit 96 by registers"):
        prepare(device, *task_of(form_of("fp32")))  # type: ignore[arg-type]
    assert device.launched == []


def test_static_and_dynamic_shared_memory_count_together() -> None:
    class Raw:
        max_dynamic_shared_size_bytes = -1

    for static, dynamic, asked in ((0, 48 * 1024, -1), (8, 48 * 1024, 48 * 1024), (40_000, 10_000, 10_000)):
        raw = Raw()
        Device.allow_smem(None, Function(1, static, 1024, 1, 0, raw), dynamic)  # type: ignore[arg-type]
        assert raw.max_dynamic_shared_size_bytes == asked


def test_a_launch_keeps_its_arguments_alive() -> None:
    device = FakeDevice()
    device.names[1] = "k"
    array = _Array(5)
    launch = Launch(device, Function(1, 0, 1, 1, 0, None), (1, 1, 1), 32, 0, [array, np.int32(3)])  # type: ignore[arg-type]
    assert any(kept is array for kept in launch._kept)


def test_tritons_arguments() -> None:
    ask = Ask(100, 70, 30, form_of("bf16"), "triton", (("bm", 64), ("bn", 32), ("bk", 32)))
    names = ["a", "b", "c", "M", "N", "K", "sam", "sbk", "scm"]
    found = arguments(ask, names, {"a": "A", "b": "B", "c": "C"})
    assert found == ["A", "B", "C", 100, 70, 30, 30, 70, 70, None, None]
    assert all(isinstance(x, np.int32) for x in found[3:9])
    assert arguments(ask, ["a", "K"], {"a": "A"}) == ["A", 30, None, None]
    assert grid(ask) == (6, 1, 1)


def test_forms_without_inputs() -> None:
    assert supported(form_of("fp32")) == ""
    assert supported(form_of(Form("fp8", dtype_c="fp8", batch=2))) == ""
    assert "C in int8" in supported(form_of(Form("int8", dtype_c="int8")))
    assert "B in int8 beside A in bf16" in supported(form_of(Form("bf16", dtype_b="int8")))
