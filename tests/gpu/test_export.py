"""The exported Triton module in triton.autotune, with a real kernel."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gemmsim.cli import main

ROOT = Path(__file__).parents[2]
LISTED, OTHER = (1024, 1024, 1024), (1000, 512, 520)


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.gpu
def test_a_listed_shape_runs_its_pick_and_another_one_of_all(tmp_path: Path) -> None:
    torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the picks are an H200's: another GPU may have too little shared memory for them")
    with pytest.raises(SystemExit) as ended:
        main(["export", "--best", "--rows", str(ROOT / "studies/h200/triton_pick.csv.gz"), "--format", "triton",
              "--names", "BM,BN,BK,G", "--out", str(tmp_path / "picks.py")])  # fmt: skip
    assert not ended.value.code
    picks, kernel = loaded(tmp_path / "picks.py"), loaded(ROOT / "kernels" / "triton_gemm.py")
    prune = {"early_config_prune": picks.prune}
    tuned = triton.autotune(configs=picks.PICKS, key=["M", "N", "K"], prune_configs_by=prune)(kernel.mm)
    for m, n, k in (LISTED, OTHER):
        a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        c = torch.empty((m, n), device="cuda", dtype=torch.bfloat16)

        def grid(meta: dict[str, Any], m: int = m, n: int = n) -> tuple[int]:
            return (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)

        tuned[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0))
        torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=0.5)
        assert tuned.best_config in picks.PICKS
        if (m, n, k) == LISTED:
            assert tuned.best_config is picks.CONFIGS[LISTED]
