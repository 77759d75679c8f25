"""What so many blocks leave each of them, found by the forward function; SMs that clusters reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.hardware import gpu_names, load_gpu
from gemmsim.model.occupancy import blocks_per_sm
from gemmsim.model.residency import room, usable_sms


@given(st.sampled_from(gpu_names()), st.integers(1, 1024), st.integers(1, 33))
def test_one_more_register_or_byte_is_one_block_less(name: str, threads: int, blocks: int) -> None:
    arch = load_gpu(name).arch
    if blocks_per_sm(arch, threads, 1, 0).blocks_per_sm[0] < blocks:
        with pytest.raises(GemmsimError, match=f"{blocks} blocks of {threads} threads: an SM of {arch.name} holds"):
            room(arch, blocks, threads)
        return
    found = room(arch, blocks, threads)
    assert blocks_per_sm(arch, threads, found.regs_per_thread, found.smem_bytes).blocks_per_sm[0] >= blocks
    assert blocks_per_sm(arch, threads, found.regs_per_thread + 1, 0).blocks_per_sm[0] < blocks
    assert blocks_per_sm(arch, threads, 1, found.smem_bytes + 1).blocks_per_sm[0] < blocks


@pytest.mark.parametrize(
    ("name", "blocks", "threads", "regs", "smem"),
    [
        ("h100_sxm", 2, 256, 128, 115_712),  # 113 KiB each: 228 / 2 less the reserved KiB
        ("a100_sxm_80gb", 2, 128, 255, 82_944),
        ("h200_sxm", 1, 128, 255, 232_448),
        ("t4", 2, 512, 64, 32_768),
        ("p100", 2, 256, 128, 32_768),
        ("l40s", 3, 256, 80, 33_024),
    ],
)
def test_room(name: str, blocks: int, threads: int, regs: int, smem: int) -> None:
    found = room(load_gpu(name).arch, blocks, threads)
    assert (found.regs_per_thread, found.smem_bytes) == (regs, smem)


@pytest.mark.parametrize(
    ("name", "size", "sms"),
    [("h100_sxm", 8, 120), ("h200_sxm", 1, 132), ("h200_sxm", 2, 132), ("h200_sxm", 4, 120), ("h200_sxm", 16, 112),
     ("gh200", 8, 120), ("a100_sxm_80gb", 1, 108)],
)  # fmt: skip
def test_clusters_reach_so_many_sms(name: str, size: int, sms: int) -> None:
    assert usable_sms(load_gpu(name), size) == sms


def test_clusters_on_fewer_sms() -> None:
    assert usable_sms(replace(load_gpu("h200_sxm"), sm_count=100), 8) == 96


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("a100_sxm_80gb", 2, "sm80 has no clusters"),
        ("h100_pcie", 8, "its file gives no cluster_sms"),
        ("b200_sxm", 2, "its file gives no cluster_sms"),
        ("h200_sxm", 3, "its file knows sizes 1, 2, 4, 8, 16"),
    ],
)
def test_clusters_without_a_source_are_refused(name: str, size: int, says: str) -> None:
    with pytest.raises(GemmsimError, match=says):
        usable_sms(load_gpu(name), size)
