"""Tasks through JSON, and what makes a row's identity."""

from __future__ import annotations

import json
from dataclasses import replace

from gemmsim.bench.task import Ask, Conditions, Kernel, Task, Turns, job_from
from gemmsim.problem import Form, form_of
from gemmsim.store import IDENTITY

ASK = Ask(
    3, 5, 7, form_of(Form("fp32", layout="TN", beta=True, epilogue=("bias", "gelu"))), "simt", (("bm", 8), ("bn", 16)),
    Conditions("warm", True, "", 9, 0.02),
)  # fmt: skip


def test_a_task_survives_json() -> None:
    task = Task(4, ASK, Kernel("/x.cubin", "ab", "nvrtc 13.0", 64, 0, 128, 0, ("slow",), {"name": "mm"}))
    again = job_from(json.loads(json.dumps(task.plain())))
    assert again == task
    assert isinstance(again, Task)
    assert hash(again.ask) == hash(ASK)
    turns = Turns((task, replace(task, number=5)), 20, 1.5)
    assert job_from(json.loads(json.dumps(turns.plain()))) == turns


def test_identity_has_every_column_of_the_store() -> None:
    row = ASK.identity("c", "h200_sxm", "ab")
    assert row.keys() == {*IDENTITY, "config"}
    assert (row["epilogue"], row["beta"], row["timing"], row["dtype_c"]) == ("bias,gelu", 1, "graph", "fp32")


def test_tritons_kernels_hang_on_sizes_and_cudas_do_not() -> None:
    def kernels(family: str, *sizes: tuple[int, int, int]) -> int:
        return len({replace(ASK, family=family, m=m, n=n, k=k).kernel for m, n, k in sizes})

    assert kernels("naive", (16, 16, 16), (17, 16, 16), (1, 16, 16)) == 1
    assert kernels("triton", (16, 16, 16), (32, 64, 16)) == 1
    assert kernels("triton", (16, 16, 16), (17, 16, 16), (1, 16, 16)) == 3
