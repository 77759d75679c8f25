"""What the simt campaign on an H200 measures: `python studies/h200/draw_simt.py OUT.csv`, the same rows each time.

Configurations: half drawn uniformly from what can run of simt's space at 4096 x 4096 x 4096 (column `drawn` =
uniform), half shaped by hand (`drawn` = shaped): tiles that make sense, with their caps, pipelines and ways of sharing
tiles, those of the first sweep that won among them. Shapes: squares, linear layers of language models, skinny M, deep
K, odd sizes, edges of waves. Not every pair: each shape gets a share of both halves, and a pair goes where the
prediction without fitted coefficients is several times the best of its shape, so that the whole fits a budget of time.

simt_fp32.csv.gz was drawn when the space that `rank` searches held 381,096 configurations (caps of 216 to 240, both
ways to lay a warp and a thread). It has since been cut to those that differ in what was measured: a draw today gives
other rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gemmsim import families, predict
from gemmsim.config import Config
from gemmsim.rows import write_csv

SEED = 20261130
GPU, DTYPE = "h200_sxm", "fp32"
UNIFORM, SHAPED = 170, 170
ROWS, BUDGET_S = 9600, 240.0
#: samples of a row, and the flush of the L2 before each
SAMPLES, FLUSH_S = 8, 0.13e-3
#: a pair predicted slower than so many times the best of its shape is left out; fewer times where the best takes long
SLOWEST, SLOWEST_LONG, LONG_S = 8.0, 4.0, 0.5e-3
BARS = (
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 4096, 4096),
    (2048, 11008, 4096), (4096, 4096, 11008), (512, 6144, 4096), (1536, 1536, 4096), (4097, 4096, 4096),
    (128, 11008, 4096), (512, 512, 32768),
)  # fmt: skip
#: linear layers: Llama 7B and 8B, Mistral 7B, Qwen 7B; then skinny, deep, odd, edges of a wave
OTHERS = (
    (2048, 14336, 4096), (2048, 4096, 14336), (2048, 6144, 4096), (2048, 18944, 3584), (1024, 3584, 18944),
    (1, 4096, 4096), (2, 11008, 4096), (4, 4096, 11008), (8, 14336, 4096), (16, 4096, 14336), (32, 11008, 4096),
    (64, 4096, 4096), (64, 14336, 4096),
    (256, 256, 16384), (128, 128, 65536), (64, 512, 32768),
    (1023, 1025, 1027), (777, 3333, 555), (1000, 1000, 1000), (127, 4095, 2049), (3001, 999, 2003),
    (2112, 2048, 1024), (2176, 2048, 1024), (1056, 4096, 2048), (1088, 4096, 2048),
    (8192, 512, 2048), (512, 8192, 2048), (16384, 256, 1024), (384, 384, 384), (6144, 6144, 1536),
)  # fmt: skip
SHAPES = BARS + OTHERS
PLAIN = {"split_k": 1, "split_tail": 0, "stream_k": 0}
#: ways to share tiles that shaped configurations come with
SHARED = (
    PLAIN, PLAIN, {"split_k": 3, "split_tail": 1}, {"stream_k": 1}, {"split_k": 2}, {"split_k": 8, "split_tail": 1},
    {"split_k": 4}, {"stream_k": 1}, {"split_k": 8}, {"split_k": 12, "split_tail": 1}, {"split_k": 16},
)  # fmt: skip
#: bm bn bk wm wn tm tn and the caps (blocks, regs) that suit
TILES = (
    ((64, 256, 8, 32, 128, 8, 16), ((1, 216), (1, 224), (1, 232), (1, 240), (1, 0))),
    ((64, 128, 16, 64, 32, 8, 8), ((3, 0), (1, 0), (4, 0))),
    ((64, 128, 16, 32, 64, 8, 8), ((3, 0), (1, 0))),
    ((64, 128, 8, 32, 64, 8, 8), ((3, 0), (4, 0))),
    ((128, 256, 16, 32, 128, 8, 16), ((1, 216), (1, 224))),
    ((128, 256, 16, 64, 64, 8, 16), ((1, 224), (1, 0))),
    ((128, 256, 8, 32, 128, 8, 16), ((1, 224), (1, 0))),
    ((128, 256, 8, 64, 64, 16, 8), ((1, 224), (1, 0))),
    ((128, 128, 8, 32, 128, 8, 16), ((1, 224), (1, 0))),
    ((128, 128, 8, 64, 64, 16, 8), ((1, 224),)),
    ((128, 128, 16, 64, 32, 8, 8), ((1, 0), (2, 0))),
    ((128, 128, 8, 32, 64, 8, 8), ((1, 0), (2, 0))),
    ((64, 128, 8, 32, 128, 8, 16), ((1, 232), (1, 0))),
    ((96, 192, 8, 48, 96, 12, 12), ((1, 0), (1, 240))),
    ((96, 192, 16, 48, 96, 12, 12), ((1, 0),)),
    ((96, 128, 16, 48, 64, 12, 8), ((3, 0), (1, 0))),
    ((192, 128, 8, 96, 64, 12, 16), ((1, 0),)),
    ((256, 128, 8, 64, 64, 8, 16), ((1, 0), (1, 224))),
    ((64, 64, 16, 32, 32, 8, 4), ((4, 0), (6, 0))),
    ((64, 64, 16, 32, 64, 8, 8), ((1, 0), (4, 0))),
    ((64, 64, 32, 32, 32, 8, 4), ((4, 0),)),
    ((32, 128, 16, 32, 32, 8, 4), ((4, 0), (6, 0))),
    ((32, 128, 16, 16, 64, 4, 8), ((4, 0),)),
    ((32, 64, 16, 16, 32, 4, 4), ((6, 0),)),
    ((32, 64, 32, 32, 32, 8, 4), ((6, 0),)),
    ((32, 96, 8, 16, 96, 4, 12), ((6, 0),)),
    ((96, 96, 8, 48, 48, 12, 6), ((1, 0),)),
)
#: what won the first sweep of the kernel as it is compiled here: tile, stages, caps; each with every way of sharing
WINNERS = (
    (64, 128, 16, 64, 32, 8, 8, 2, 3, 0), (64, 128, 16, 32, 64, 8, 8, 2, 3, 0),
    (128, 256, 16, 64, 64, 8, 16, 4, 1, 232),
    (128, 256, 16, 32, 128, 8, 16, 4, 1, 240), (128, 96, 16, 32, 96, 8, 12, 2, 2, 0),
    (96, 128, 16, 48, 64, 12, 8, 3, 3, 0),
    (64, 256, 16, 32, 128, 8, 16, 4, 1, 224), (64, 256, 8, 32, 128, 8, 16, 3, 1, 232),
    (64, 64, 16, 32, 64, 8, 8, 3, 6, 0),
    (128, 64, 16, 32, 64, 8, 8, 2, 4, 0), (64, 64, 16, 32, 32, 8, 4, 3, 6, 0),
)  # fmt: skip
WINNERS_SHARED = (
    PLAIN, {"stream_k": 1}, {"split_k": 3, "split_tail": 1}, {"split_k": 2}, {"split_k": 4}, {"split_k": 12},
)  # fmt: skip
PIPELINES = ((3, 1), (3, 1), (4, 1), (2, 1), (2, 0), (1, 0))


def shaped(generator: np.random.Generator) -> Config:
    """Tiles with each of their caps, pipelines and ways of sharing in turn; none twice."""
    names = ("bm", "bn", "bk", "wm", "wn", "tm", "tn")
    seen: dict[tuple[int, ...], dict[str, int]] = {}
    for *tile, stages, blocks, regs in WINNERS:
        for way in WINNERS_SHARED:
            row = dict(zip(names, tile, strict=True)) | {"stages": stages, "async_copy": 1}
            row |= {"vec": 4, "blocks": blocks, "regs": regs, "order": 1, "group_m": 8} | PLAIN | way
            seen.setdefault(tuple(row.values()), row)
    turn = 0
    while len(seen) < SHAPED:
        for tile, caps in TILES:
            stages, asynchronous = PIPELINES[turn % len(PIPELINES)] if turn >= len(TILES) else (3, 1)
            blocks, regs = caps[turn % len(caps)]
            row = dict(zip(names, tile, strict=True)) | {"stages": stages, "async_copy": asynchronous}
            row |= {"vec": 4, "blocks": blocks, "regs": regs, "order": 1, "group_m": (8, 8, 16, 1)[turn % 4]}
            row |= PLAIN | SHARED[int(generator.integers(len(SHARED))) if turn >= len(TILES) else 0]
            seen.setdefault(tuple(row.values()), row)
            turn += 1
    rows = list(seen.values())[:SHAPED]
    return families.config("simt", {name: np.asarray([row[name] for row in rows]) for name in rows[0]})


def uniform(generator: np.random.Generator) -> Config:
    """Configurations drawn from all that can run."""
    space = families.space("simt")
    able = np.flatnonzero(predict(4096, 4096, 4096, gpu=GPU, dtype=DTYPE, family="simt", config=space).feasible)
    return space.take(np.sort(generator.choice(able, UNIFORM, replace=False)))


def pairs(config: Config, generator: np.random.Generator) -> Iterator[tuple[int, int, float]]:
    """Shape, configuration and predicted time of the pairs that stay, shape by shape."""
    for number, (m, n, k) in enumerate(SHAPES):
        p = predict(m, n, k, gpu=GPU, dtype=DTYPE, family="simt", config=config, calibrated="none")
        best = float(np.nanmin(p.time_s))
        most = best * (SLOWEST if best < LONG_S else SLOWEST_LONG)
        stay = np.flatnonzero(p.feasible & (p.time_s <= most))
        chosen = generator.permutation(stay)[: -(-ROWS // len(SHAPES))]
        for i in np.sort(chosen):
            yield number, int(i), float(p.time_s[i])


def table() -> dict[str, npt.NDArray[np.int64] | list[str]]:
    """The columns of the campaign."""
    generator = np.random.default_rng(SEED)
    halves = uniform(generator), shaped(generator)
    together = {name: np.concatenate([half[name] for half in halves]) for name in halves[0].values}
    config, drawn = Config("simt", together), ["uniform"] * len(halves[0]) + ["shaped"] * len(halves[1])
    rows = list(pairs(config, generator))
    index = np.asarray([i for _, i, _ in rows])
    sizes = np.asarray([SHAPES[number] for number, _, _ in rows], np.int64)
    total = sum(SAMPLES * (time_s + FLUSH_S) for _, _, time_s in rows)
    counts = {half: len({i for i in index.tolist() if drawn[i] == half}) for half in ("uniform", "shaped")}
    sys.stderr.write(f"{len(rows)} rows, {len(SHAPES)} shapes, configurations {counts}, {total:.0f} s predicted\n")
    if total > BUDGET_S:
        raise SystemExit(f"{total:.0f} s are over the budget of {BUDGET_S:.0f}")
    fixed = {"gpu": GPU, "family": "simt", "dtype": DTYPE, "l2": "cold_clean"}
    out: dict[str, npt.NDArray[np.int64] | list[str]] = {name: [value] * len(rows) for name, value in fixed.items()}
    out |= {name: sizes[:, i] for i, name in enumerate("mnk")}
    out |= dict(config.take(index).values)
    return out | {"drawn": [drawn[i] for i in index.tolist()]}


if __name__ == "__main__":
    write_csv(sys.argv[1], table())
