"""triton.autotune pruned by the model, with a kernel as in Triton's tutorial; the GPU is found by its name."""

from __future__ import annotations

from typing import Any

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.hardware import load_gpu
from gemmsim.integrations.triton import perf_model, prune

TILES = ((64, 64, 32), (128, 128, 64), (128, 128, 32), (64, 128, 64), (256, 64, 32), (32, 64, 64))
#: its buffers are larger than any GPU's shared memory
HUGE = (256, 256, 256)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
@pytest.mark.parametrize("by_perf_model", [True, False])
def test_three_of_the_list_are_tried_and_the_result_is_right(layout: str, by_perf_model: bool) -> None:
    torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
    import tutorial

    try:
        load_gpu(torch.cuda.get_device_name())
    except GemmsimError:
        pytest.skip("no hardware file has the name of this GPU")
    configs = [
        triton.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": 8}, num_warps=4,
                      num_stages=stages)
        for m, n, k in (HUGE, *TILES) for stages in (3, 4)
    ]  # fmt: skip
    pruner = prune() if by_perf_model else prune(top=3)
    by = {"early_config_prune": pruner} | ({"perf_model": perf_model(), "top_k": 3} if by_perf_model else {})
    tuned = triton.autotune(configs=configs, key=["M", "N", "K"], prune_configs_by=by)(tutorial.matmul)
    m, n, k = 520, 768, 1032
    a, b = (torch.randn(size, device="cuda", dtype=torch.float16) for size in ((m, k), (k, n)))
    if layout[0] == "T":
        a = a.t().contiguous().t()
    if layout[1] == "T":
        b = b.t().contiguous().t()
    c = torch.empty((m, n), device="cuda", dtype=torch.float16)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(m, meta["BLOCK_SIZE_M"]) * triton.cdiv(n, meta["BLOCK_SIZE_N"]),)

    tuned[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=0.5)
    times = {config: measured[0] for config, measured in tuned.configs_timings.items()}
    assert len(times) == 3
    assert max(times.values()) < float("inf")
    assert tuned.best_config in configs
    assert [config for config, _ in pruner.dropped] == configs[:2]
