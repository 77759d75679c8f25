"""The CUTLASS profiler's command lines, as a shell runs them."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.integrations.cutlass import script
from gemmsim.picks import Pick, best
from gemmsim.problem import Form
from gemmsim.store import Store

ROWS = Path(__file__).parents[2] / "studies" / "h200"


@lru_cache
def simt() -> Pick:
    return best(512, 6144, 4096, rows=ROWS / "simt_pick.csv.gz")


def run(text: str, tmp_path: Path, *options: str) -> list[list[str]]:
    """What the profiler is called with: a stand-in writes down its arguments."""
    (tmp_path / "picks.sh").write_text(text)
    profiler = tmp_path / "profiler"
    profiler.write_text('#!/bin/sh\necho "$@" >> "$0.log"\n')
    profiler.chmod(0o755)
    subprocess.run(["sh", str(tmp_path / "picks.sh"), *options], check=True, env={"CUTLASS_PROFILER": str(profiler)})
    return [line.split() for line in (tmp_path / "profiler.log").read_text().splitlines()]


def test_a_line_a_pick_of_the_transposed_product(tmp_path: Path) -> None:
    pick = simt()
    (line,) = run(script([pick]), tmp_path, "--output=times", "--append=true")
    c = pick.config
    said = {"operation": "Gemm", "m": 6144, "n": 512, "k": 4096, "A": "f32:column", "B": "f32:column", "beta": 0,
            "batch_count": 1, "op_class": "simt", "cta_m": c["bn"], "cta_n": c["bm"], "cta_k": c["bk"],
            "warps_m": c["bn"] // c["wn"], "warps_n": c["bm"] // c["wm"], "warps_k": 1, "stages": c["stages"],
            "output": "times", "append": "true"}  # fmt: skip
    assert line == [f"--{name}={value}" for name, value in said.items()]


def test_the_header_says_what_does_not_map() -> None:
    head = script([simt()]).split(': "${')[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert (
        "# Not mapped: tm, tn, async_copy, vec, blocks, regs, order, group_m, split_tail, stream_k, the type of C"
        in head
    )
    text = script([best(4096, 4096, 4096, rows=ROWS / "triton_pick.csv.gz")])
    assert "# Not mapped: num_warps, num_stages (kernels of sm_90 and later choose it), group_m" in text
    assert "--op_class=tensorop" in text
    assert "--stages" not in text


def test_layouts_splits_and_stages_of_an_earlier_gpu(tmp_path: Path) -> None:
    config = {"bm": 128, "bn": 256, "bk": 32, "num_warps": 8, "num_stages": 3, "group_m": 8}
    plain = {"campaign": "c", "gpu": "a100_sxm_80gb", "family": "triton", "dtype": "bf16", "dtype_b": "int8",
             "dtype_c": "bf16", "layout": "NT", "batch": 4, "beta": 1, "epilogue": "", "m": 64, "n": 128, "k": 256,
             "kernel_hash": "", "l2": "warm", "timing": "event", "against": "", "config": config, "status": "ok",
             "time_s": 1e-5}  # fmt: skip
    Store(tmp_path / "rows.sqlite").add([plain])
    form = Form("bf16", "int8", layout="NT", beta=True, batch=4)
    (line,) = run(script([best(64, 128, 256, store=tmp_path / "rows.sqlite", dtype=form)]), tmp_path)
    assert {"--m=128", "--n=64", "--A=s8:row", "--B=bf16:column", "--beta=1", "--batch_count=4", "--stages=3"} <= {
        *line
    }


def test_split_k_maps_where_all_tiles_are_split(tmp_path: Path) -> None:
    from dataclasses import replace

    pick = simt()
    whole, tail = (replace(pick, timed=replace(pick.timed, config=dict(pick.config) | {"split_k": 4, "split_tail": t}))
                   for t in (0, 1))  # fmt: skip
    first, second = run(script([whole, tail]), tmp_path)
    assert {"--split_k_slices=4", "--split_k_mode=parallel"} <= {*first}
    assert not any("split" in argument for argument in second)


def test_what_the_profiler_has_no_kernel_for(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match=r"families simt and triton, and that of .* is of naive"):
        script([best(1024, 1024, 1024, rows=ROWS / "naive_fp32.csv.gz")])
    pick = simt()
    from dataclasses import replace

    fused = replace(pick, wanted=replace(pick.wanted, form=replace(pick.wanted.form, epilogue=("bias", "gelu"))))
    with pytest.raises(GemmsimError, match=r"--epilogue bias,gelu: the profiler's kernels have none"):
        script([fused])
