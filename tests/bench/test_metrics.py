"""The map term -> counter: in the docs as in the code, and every count from its counters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gemmsim.bench import metrics
from gemmsim.bench.metrics import BESIDE, COUNTERS, DRAM_READ, REGISTERS, TIME, WARPS
from gemmsim.model.demand import TERMS
from gemmsim.rows import read_csv

ROOT = Path(__file__).parents[2]


def test_the_docs_hold_the_table() -> None:
    text = (ROOT / "docs" / "counters.md").read_text()
    assert "\n".join(metrics.markdown()) in text


def test_every_term_is_there_or_named_as_shown_by_none() -> None:
    shown = {b.term for b in BESIDE}
    assert shown | set(metrics.WITHOUT) == set(TERMS)
    assert not shown & set(metrics.WITHOUT)


def test_every_count_is_of_counters_that_are_asked_for() -> None:
    assert all(c in COUNTERS for b in BESIDE for c in b.counters)
    names = metrics.columns()
    assert len(set(names)) == len(names) == len(BESIDE) + len(COUNTERS)


@pytest.mark.parametrize("name", ["register_tile_fp32", "triton_bf16"])
def test_columns_have_the_names_of_recorded_files(name: str) -> None:
    recorded = {c for c in read_csv(str(ROOT / "studies" / "h200" / f"{name}_counters.csv.gz")).columns if "__" in c}
    # these two are no count beside a term: a limit of the launch, and a share of several peaks at once
    spare = {"launch__occupancy_limit_registers", "sm__throughput_avg_pct_of_peak_sustained_elapsed",
             "lts__t_bytes_sum"}  # fmt: skip
    assert recorded - spare <= set(metrics.columns())


def test_kernels_of_a_row_become_one() -> None:
    def kernel(x: float, time_s: float) -> dict[str, float]:
        return {c.metric: x for c in COUNTERS} | {TIME.metric: time_s}

    found = metrics.combined([kernel(60, 3e-6), kernel(20, 1e-6)])
    assert found[DRAM_READ.column] == 80
    assert found[TIME.column] == pytest.approx(4e-6)
    assert found[WARPS.column] == pytest.approx(50)
    assert found[REGISTERS.column] == 60
    assert metrics.combined([kernel(60, 3e-6)])[WARPS.column] == 60


def test_counts_under_the_models_names() -> None:
    row = {c.column: float(i) for i, c in enumerate(COUNTERS, 1)}
    found = metrics.beside(row)
    assert list(found) == [b.name for b in BESIDE]
    assert found["dram_read_bytes"] == row["dram__bytes_read_sum"]
    assert found["l2_read_bytes"] == 32 * row["lts__t_sectors_srcunit_tex_op_read_sum"]
    hits, all_ = row["lts__t_sectors_srcunit_tex_lookup_hit_sum"], row["lts__t_sectors_srcunit_tex_sum"]
    assert found["l2_hit_share"] == hits / all_
    assert found["clock_hz"] == row["sm__cycles_elapsed_max"] / row["gpu__time_duration_sum"]
    local = [row[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{way}_sum"] for way in ("ld", "st")]
    assert found["spill_bytes_moved"] == 32 * sum(local)
    missing = metrics.beside(dict.fromkeys(row, math.nan))
    assert all(math.isnan(x) for x in missing.values())
