"""Triton's compiler without a GPU gives the registers, stack and shared memory that it gave on an H200."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from gemmsim.bench import triton_worker
from gemmsim.bench.compile import Compiled
from gemmsim.bench.triton_compile import TritonCompiled, TritonRequest, _question, compile_triton, version
from gemmsim.errors import GemmsimError
from gemmsim.paths import data_folder
from gemmsim.problem import Form

PARAMETERS = ("bm", "bn", "bk", "num_warps", "num_stages", "group_m")
#: variants in the column dtype -> M, N, K
SIZES = {"": (4096, 4096, 4096), "N_not_mult_16": (4096, 4097, 4096), "K_not_mult_16": (4096, 4096, 4097)}
#: the version behind studies/h200/triton_facts_*.csv.gz
RECORDED = "triton 3.6.0"


def recorded() -> list[dict[str, str]]:
    rows = []
    for kind in ("bf16", "other"):
        with gzip.open(data_folder("studies") / "h200" / f"triton_facts_{kind}.csv.gz", "rt") as file:
            rows += list(csv.DictReader(file))
    return rows


def request(row: dict[str, str]) -> TritonRequest:
    dtype, _, variant = row["dtype"].partition("_")
    dtype = dtype.replace("fp8e4nv", "fp8")
    return TritonRequest(Form(dtype), tuple((p, int(row[p])) for p in PARAMETERS), "sm_90a", SIZES[variant])


def compiled(requests: list[TritonRequest], cache: Path) -> list[TritonCompiled]:
    found = dict(compile_triton(requests, cache=cache))
    return [found[i] for i in range(len(requests))]


def test_facts_are_those_recorded_on_a_gpu(tmp_path: Path) -> None:
    """A sample of every type and of what ptxas refuses; registers only with the version that was recorded."""
    pytest.importorskip("triton")
    rows, draw = recorded(), random.Random(4)
    sample = draw.sample([r for r in rows if r["status"] == "ok"], 10)
    for dtype in ("fp16", "tf32", "fp8e4nv", "bf16_N_not_mult_16", "bf16_K_not_mult_16"):
        sample += draw.sample([r for r in rows if r["dtype"] == dtype and r["status"] == "ok"], 2)
    found = compiled([request(r) for r in sample], tmp_path)
    for row, f in zip(sample, found, strict=True):
        assert f.status == "ok", f.reason
        assert f.smem_bytes == f.shared == int(row["smem_bytes"])
        if version() == RECORDED:
            assert (f.regs_per_thread, f.stack_bytes) == (int(row["registers"]), int(row["stack_bytes"]))
        assert f.num_warps == int(row["num_warps"])
        assert f.cubin is not None
        assert f.cubin.with_suffix(".ptx").is_file()
    assert compiled([request(r) for r in sample], tmp_path) == found


def test_a_kernel_that_ptxas_refuses_is_a_result(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    row = next(r for r in recorded() if r["status"] == "ptxas_error")
    (found,) = compiled([request(row)], tmp_path)
    assert (found.status, found.cubin) == ("compile", None)
    assert found.reason


def test_arguments_of_a_launch(tmp_path: Path) -> None:
    """As docs of TritonCompiled say; the cubin's own parameters are those and two pointers for scratch memory."""
    pytest.importorskip("triton")
    config = tuple(zip(PARAMETERS, (32, 32, 32, 4, 2, 8), strict=True))
    whole, vector = compiled(
        [TritonRequest(Form("bf16"), config, "sm_80", size) for size in ((64, 64, 64), (1, 64, 64))], tmp_path
    )
    assert whole.arguments == ("a", "b", "c", "M", "N", "K", "sam", "sbk", "scm")
    assert vector.arguments == ("a", "b", "c", "N", "K", "sam", "sbk", "scm")
    assert whole.name == "mm"
    for found in (whole, vector):
        assert found.cubin is not None
        text = found.cubin.with_suffix(".ptx").read_text()
        assert text.count(".param .") == len(found.arguments) + 2


def test_specialisations_are_those_of_tritons_launcher() -> None:
    config = tuple(zip(PARAMETERS, (32, 32, 32, 4, 2, 8), strict=True))

    def asked(*size: int) -> dict[str, Any]:
        m, n, k = size
        return _question(TritonRequest(Form("fp8"), config, "sm_90a", (m, n, k)))

    plain = asked(64, 48, 33)
    assert plain["aligned"] == ["a", "b", "c", "M", "N", "sbk", "scm"]
    assert plain["capability"] == 90
    assert [plain["signature"][x] for x in "abc"] == ["*fp8e4nv", "*fp8e4nv", "*bf16"]
    assert plain["constants"] == {"BM": 32, "BN": 32, "BK": 32, "G": 8}
    row = asked(64, 1, 64)
    assert {name for name, kind in row["signature"].items() if kind == "constexpr"} == {
        "N", "sbk", "scm", "BM", "BN", "BK", "G",
    }  # fmt: skip
    assert row["constants"]["sbk"] == 1
    assert asked(64, 64, 64) == asked(128, 128, 128)


def test_a_fault_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: Exception) -> Any:
        def compile_kernel(**question: Any) -> None:
            raise error

        return compile_kernel

    monkeypatch.setattr(triton_worker, "compile_kernel", raising(OSError("no room")))
    assert triton_worker.answer({}) == {"cubin": None, "log": "OSError: no room", "ptx": None, "fault": True}
    monkeypatch.setattr(triton_worker, "compile_kernel", raising(RuntimeError("pass failed\n  here")))
    assert triton_worker.answer({}) == {"cubin": None, "log": "RuntimeError: pass failed here", "ptx": None}


def test_other_products_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsim.bench import triton_compile

    monkeypatch.setattr(triton_compile, "version", lambda: "triton 0")
    config = tuple(zip(PARAMETERS, (32, 32, 32, 4, 2, 8), strict=True))
    for form in (Form("bf16", layout="NT"), Form("bf16", epilogue=("relu",)), Form("bf16", beta=True)):
        with pytest.raises(GemmsimError, match="plain row-major product alone"):
            next(compile_triton([TritonRequest(form, config, "sm_90a", (64, 64, 64))]))


def test_a_triton_kernel_is_a_compiled_one() -> None:
    assert issubclass(TritonCompiled, Compiled)
