"""README's error table: `python studies/h200/errors.py [FAMILY]`. Held out: new shapes with new configurations."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gemmsim.calibrate import Model, fit, halves
from gemmsim.conditions import NOISE_FLOOR
from gemmsim.measured import joined, read_measured
from gemmsim.rows import read_csv
from gemmsim.validate import ALIGNED, Errors, errors, held_out

HERE = Path(__file__).resolve().parent
TRITON, TILE = ("triton_bf16", "triton_bf16_uniform"), ("register_tile_fp32",)
#: what, file scored, files always fitted, slice, whether tile parameters alone are scored too
LINES = (
    ("Triton bf16, hand-picked tiles, no spills, aligned", "triton_bf16", (), "no spills, aligned", True),
    ("Triton bf16, tiles drawn from the whole space, spills and all", "triton_bf16_uniform", TRITON[:1], "all", True),
    (
        "Triton bf16, 26 more shapes (M from 1), no spills, aligned",
        "triton_bf16_more",
        TRITON,
        "no spills, aligned",
        True,
    ),
    ("the same, spills", "triton_bf16_more", TRITON, "spills", True),
    ("the same, unaligned N or K", "triton_bf16_more", TRITON, "unaligned N or K", True),
    ("Triton fp16", "triton_fp16", (), "all", False),
    ("Triton tf32", "triton_tf32", (), "all", False),
    ("Triton fp8", "triton_fp8", (), "all", False),
    ("register tile fp32, no spills", "register_tile_fp32", (), "no spills, aligned", True),
    ("register tile fp32, 14 more shapes", "register_tile_fp32_more", TILE, "all", True),
    ("shared-memory tile fp32", "smem_tile_fp32", (), "all", False),
    ("naive fp32", "naive_fp32", (), "all", False),
    ("wgmma bf16", "wgmma_bf16", (), "all", True),
    ("wgmma fp16", "wgmma_fp16", (), "all", False),
    ("wgmma tf32", "wgmma_tf32", (), "all", False),
    ("wgmma fp8", "wgmma_fp8", (), "all", False),
    ("mma bf16", "mma_bf16", (), "all", True),
    ("wmma bf16", "wmma_bf16", (), "all", False),
)
COLUMNS = ("rows of an H200", "known", "MAPE", "median", "Spearman a shape", "top-1 regret", "best of top 5")


def row(what: str, known: str, e: Errors) -> str:
    """A line of the table; shapes with few configurations have no ranking."""
    ranking = f"{e.spearman:.3f} | {e.regret[1]:.1%} | {e.regret[5]:.1%}" if e.spearman == e.spearman else "- | - | -"
    return f"| {what} | {known} | {e.mape:.1%} | {e.median:.1%} | {ranking} |"


def simt(facts: bool, seeds: int = 10) -> Iterator[tuple[str, Errors]]:
    """simt's errors, held out like the others', of configurations drawn uniformly and of all."""
    path = str(HERE / "simt_fp32.csv.gz")
    rows, drawn = read_measured(path), np.asarray(read_csv(path).text("drawn")) == "uniform"
    p = rows.problem
    easy = ~rows.spills & (p.n % ALIGNED == 0) & (p.k % ALIGNED == 0)
    model = Model(rows if facts else rows.without_facts())
    parts = [halves(rows, seed) for seed in range(seeds)]
    times = [model.time_s(fit(rows.take(fitted), of=rows).values)[scored] for fitted, scored in parts]
    index = np.concatenate([scored for _, scored in parts])
    shape = np.concatenate([rows.shapes[scored] + i * len(rows) for i, (_, scored) in enumerate(parts)])
    for what, mask in {
        "simt fp32, tiles drawn from the whole space, no spills": drawn & ~rows.spills,
        "the same, spills": drawn & rows.spills,
        "simt fp32, all tiles, no spills, aligned": easy,
        "the same, spills and all": np.ones(len(rows), bool),
    }.items():
        here = mask[index]
        predicted, measured = np.concatenate(times)[here], rows.time_s[index][here]
        yield what, errors(predicted, measured, shape[here], noise=NOISE_FLOOR["fp32"])


@functools.cache
def scored(name: str, others: tuple[str, ...], aligned: bool, facts: bool) -> Mapping[str, Errors]:
    """Errors of a file's rows by slice, ten seeds; others: files that are always fitted; aligned: those rows alone."""
    rows = read_measured(str(HERE / f"{name}.csv.gz"))
    if aligned:
        p = rows.problem
        rows = rows.take(~rows.spills & (p.n % ALIGNED == 0) & (p.k % ALIGNED == 0))
    fixed = joined([read_measured(str(HERE / f"{other}.csv.gz")) for other in others]) if others else None
    return held_out(rows, seeds=10, fit_with=fixed, facts=facts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="?", default="", help="lines of this family alone")
    family = parser.parse_args().family
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for what, name, others, part, alone in LINES:
        if not name.startswith(family):
            continue
        aligned = part == "no spills, aligned" and not others  # fitted without the rest, too
        for facts in (True, False) if alone else (True,):
            found = scored(name, others, aligned, facts)[part]
            print(row(what, "compiler facts" if facts else "tile alone", found), flush=True)
    for facts in (True, False) if "simt".startswith(family) else ():
        for what, e in simt(facts):
            print(row(what, "compiler facts" if facts else "tile alone", e), flush=True)


if __name__ == "__main__":
    main()
