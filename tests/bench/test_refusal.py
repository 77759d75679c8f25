"""What is refused before anything is compiled."""

from __future__ import annotations

import pytest

from gemmsim import families
from gemmsim.bench.refusal import refused
from gemmsim.bench.task import Ask
from gemmsim.hardware import load_gpu
from gemmsim.problem import Form, form_of


def ask(family: str, form: Form, **changes: int) -> Ask:
    config = families.config(family, changes).row(0)
    return Ask(64, 64, 64, form_of(form), family, tuple(config.items()))


@pytest.mark.parametrize("family", ["naive", "smem_tile", "register_tile", "simt"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
def test_every_cuda_kernel_takes_the_layouts_and_the_epilogue(family: str, layout: str) -> None:
    asks = [
        ask(family, Form("fp32", layout=layout)),
        ask(family, Form("fp32", layout=layout, epilogue=("bias", "gelu"))),
    ]
    assert refused(asks, load_gpu("h200_sxm")) == ["", ""]


def test_a_batch_is_refused_where_the_kernel_does_one_problem() -> None:
    simt, cublas = ask("simt", Form("fp32", batch=2)), Ask(64, 64, 64, form_of(Form("fp32", batch=2)), "cublas", ())
    assert refused([simt, cublas], load_gpu("h200_sxm")) == [
        "kernel: family simt has no kernel with batch: it does one problem a launch", "",
    ]  # fmt: skip


def test_a_rule_and_a_type_are_named_row_by_row() -> None:
    asks = [ask("naive", Form("fp32")), ask("naive", Form("fp32"), bm=1024, bn=2), ask("naive", Form("bf16"))]
    fine, threads, kind = refused(asks, load_gpu("h200_sxm"))
    assert fine == ""
    assert threads == "threads_per_block: 2048 threads a block, limit 1024"
    others = "family triton or wgmma or mma or wmma would do"
    assert kind == f"kernel: CUDA-core kernels have no A and B in bf16: they have fp32, fp64; {others}"
