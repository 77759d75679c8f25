"""The bars on speed, as benchmarks: `pytest tests/benchmarks --benchmark-only` prints them; each also fails its bar."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsim import families, predict, rank
from gemmsim.cli import main
from gemmsim.hardware import load_gpu
from gemmsim.model.traffic import Grid, dram_traffic
from gemmsim.problem import Form, gemm
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.engine import Sms, run
from gemmsim.simulate.launched import launched
from gemmsim.simulate.schedule import SLACK, schedule

ROWS = 200_000


def drawn(rows: int) -> dict[str, Any]:
    """Problems up to 8192 and configurations from triton's whole space, the same each time."""
    rng = np.random.default_rng(0)
    config = families.space("triton")
    sizes = {name: rng.integers(1, 8193, rows) for name in "mnk"}
    return sizes | dict(config.take(rng.integers(0, len(config), rows)).values)


def test_a_million_rows_through_the_api(benchmark: Any) -> None:
    """At least 1 M rows/s on one core."""
    columns = drawn(1_000_000)
    m, n, k = (columns.pop(name) for name in "mnk")
    result = benchmark.pedantic(predict, (m, n, k), {"gpu": "h200_sxm", "config": columns}, rounds=3, warmup_rounds=1)
    assert len(result) == 1_000_000
    benchmark.extra_info["rows_per_s"] = round(1e6 / benchmark.stats["min"])
    assert benchmark.stats["min"] <= 1.0


@pytest.mark.parametrize("terms", [True, False], ids=["terms", "no_terms"])
def test_csv_to_csv(benchmark: Any, tmp_path: Path, terms: bool) -> None:
    """200,000 rows, CSV to CSV, in at most 6 s: a process of its own, imports included."""
    columns = drawn(ROWS)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in np.stack(list(columns.values()), 1).tolist())]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    command = ["predict", "--batch", "in.csv", "--gpu", "h200_sxm", "--family", "triton", "--dtype", "bf16"]
    command += ["--out", "out.csv", *([] if terms else ["--no-terms"])]
    benchmark.pedantic(_run, (command, tmp_path), rounds=3)
    with open(tmp_path / "out.csv", "rb") as file:
        assert sum(1 for _ in file) == ROWS + 1
    assert benchmark.stats["min"] <= 6.0


def test_the_closed_form_of_traffic(benchmark: Any) -> None:
    """At least 1 M rows/s on one core."""
    rows = 8192
    rng = np.random.default_rng(0)
    m, n, k = (rng.integers(64, 8193, rows).astype(np.float64) for _ in range(3))
    tile = np.exp2(rng.integers(4, 9, rows))
    tiles_m, tiles_n, slots = np.ceil(m / tile), np.ceil(n / tile), 132 * np.exp2(rng.integers(0, 3, rows))
    sizes = (2 * m * n, 132, 2.0, 2.0, 2.0, 30 * 2.0**20, 2)
    grid = Grid(m, n, k, np.ones(rows), tiles_m, tiles_n, np.minimum(8.0, tiles_m), slots, *sizes)
    benchmark(dram_traffic, grid)
    benchmark.extra_info["rows_per_s"] = round(rows / benchmark.stats["min"])
    assert benchmark.stats["min"] <= rows * 1e-6


@pytest.mark.parametrize("group_m", [1, 8])
def test_the_simulator_of_traffic(benchmark: Any, group_m: int) -> None:
    """At most 10 ms for 4096^3 with 128 x 128 tiles."""
    config = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4, "group_m": group_m}
    x = launched(predict(4096, 4096, 4096, gpu="h200_sxm", config=config))
    benchmark(traffic, x)
    assert benchmark.stats["min"] <= 10e-3


@pytest.mark.parametrize("family", families.FAMILIES)
def test_rank_of_a_whole_space(benchmark: Any, family: str) -> None:
    """At most 1 s, the API alone."""
    dtype = families.family(family).DTYPES[0]
    found = benchmark(rank, 4096, 4096, 4096, gpu="h200_sxm", dtype=dtype, family=family)
    assert found.configurations == len(families.space(family))
    assert benchmark.stats["mean"] <= 1.0


def test_rank_from_the_command_line(benchmark: Any, tmp_path: Path) -> None:
    """At most 1 s, start-up included."""
    command = ["rank", "4096", "4096", "4096", "--gpu", "h200_sxm"]
    benchmark.pedantic(_run, (command, tmp_path), rounds=5, warmup_rounds=1)
    assert benchmark.stats["median"] <= 1.0


def test_start_against_importing_numpy(benchmark: Any, tmp_path: Path) -> None:
    """`gemmsim predict` in at most 3.5 times `python -c "import numpy"`, medians of ten taken in turn."""
    numpy_s = []

    def both() -> None:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)
        numpy_s.append(time.perf_counter() - start)

    command = ["predict", "4096", "4096", "4096", "--gpu", "h200_sxm"]
    benchmark.pedantic(_run, (command, tmp_path), setup=both, rounds=10, warmup_rounds=1)
    ratio = benchmark.stats["median"] / statistics.median(numpy_s)
    benchmark.extra_info["times_numpy"] = round(ratio, 2)
    assert ratio <= 3.5


def _run(command: list[str], folder: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(main.__code__.co_filename).parents[2])!r}); " + (
        "from gemmsim.cli import main; main(sys.argv[1:])"
    )
    subprocess.run([sys.executable, "-c", code, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_a_hundred_thousand_unequal_blocks(benchmark: Any, slots: int) -> None:
    """Placed one by one in at most 1 s."""
    kind = np.random.default_rng(0).integers(0, 3, 100_000)
    clk = np.outer([1000.0, 1100.0, 900.0], np.arange(1, slots + 1) ** 0.7)
    placed = benchmark.pedantic(run, (kind, clk, Sms(132, slots)), {"slack": SLACK}, rounds=3)
    assert len(placed.sm) == len(kind)
    assert benchmark.stats["min"] <= 1.0


def test_a_launch_of_a_hundred_thousand_slices(benchmark: Any) -> None:
    """Uneven slices of 6,400 tiles, from the prediction to the schedule, in at most 1 s."""
    p = predict(8192, 12800, 4096, gpu="h200_sxm", dtype="fp32", family="simt", config={"split_k": 15})
    found = benchmark.pedantic(schedule, (p,), rounds=3)
    assert len(found) == 96_000
    assert benchmark.stats["min"] <= 1.0


@pytest.mark.parametrize("of", ["every family", "simt"])
def test_compile_rate_with_a_cold_cache(benchmark: Any, tmp_path: Path, of: str) -> None:
    """At least 4 kernels/s on two cores: configurations of every CUDA family, or of simt, start-up included."""
    pytest.importorskip("cuda.core")
    from gemmsim.bench.compile import Request, cores

    requests = [
        Request(name, Form("fp32"), tuple(row.items()), "sm_90a")
        for name in families.FAMILIES
        if name != "triton" and of in ("every family", name)
        for row in feasible(name, 24)
    ]
    turn = iter(range(1000))
    benchmark.pedantic(_compile, setup=lambda: ((requests, tmp_path / str(next(turn))), {}), rounds=2)
    rate = len(requests) / benchmark.stats["min"]
    benchmark.extra_info["kernels_per_s"] = round(rate, 2)
    assert rate >= 4 * min(1, cores() / 2)


def feasible(family: str, rows: int) -> list[dict[str, int]]:
    """Configurations of a family's space that may run on an H200, drawn uniformly, the same each time."""
    module, space, arch = families.family(family), families.space(family), load_gpu("h200_sxm").arch
    problem = gemm(np.full(len(space), 4096), 4096, 4096, "fp32")
    may = module.refusals(problem, space, module.launch(problem, space, arch), arch).feasible
    drawn = np.random.default_rng(0).choice(np.flatnonzero(may), min(rows, int(may.sum())), replace=False)
    return [space.row(int(i)) for i in drawn]


def _compile(requests: list[Any], cache: Path) -> None:
    from gemmsim.bench.compile import compile_all

    found = [result.status for _, result in compile_all(requests, cache=cache)]
    assert found == ["ok"] * len(requests)
