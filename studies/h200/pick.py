"""How good the picks are over a whole space: `pick.py draw BATCH`, `gemmsim measure`, `pick.py score ROWS`.

draw: for each of ten shapes the first ten of `gemmsim rank` (source: rank1 to rank10), the first five of `gemmsim
rank --distinct` (distinct1 to distinct5), the best configurations of earlier rows (`--rows`, source: campaign) and some
drawn uniformly from the space's that can launch (source: random; the same for all shapes). score: the best time found
over that of the first pick and over the best of the first five, a shape and as geometric means.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from verbs import run

import gemmsim
from gemmsim import families
from gemmsim.config import Config
from gemmsim.hardware import load_gpu
from gemmsim.measured import read_measured
from gemmsim.model.predict import predict
from gemmsim.problem import IntArray
from gemmsim.rows import read_csv, write_csv

SHAPES = {
    "simt": (
        (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (2048, 11008, 4096), (512, 6144, 4096),
        (1536, 1536, 4096), (4097, 4096, 4096), (128, 11008, 4096), (512, 512, 32768), (3000, 5000, 1000),
    ),
    "triton": (
        (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (2048, 11008, 4096), (512, 6144, 4096),
        (1536, 1536, 4096), (4096, 14336, 4096), (128, 11008, 4096), (64, 4096, 4096), (3072, 5120, 2048),
    ),
    "wgmma": (
        (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (2048, 11008, 4096), (512, 6144, 4096),
        (1536, 1536, 4096), (4096, 14336, 4096), (128, 11008, 4096), (64, 4096, 4096), (256, 4096, 14336),
    ),
}  # fmt: skip
Row = dict[str, object]


def drawn(family: str, dtype: str, gpu: str, count: int, seed: int) -> Config:
    """Configurations drawn uniformly from those that can launch every shape."""
    space = families.space(family)
    good = np.ones(len(space), bool)
    for m, n, k in SHAPES[family]:
        good &= predict(m, n, k, gpu=gpu, dtype=dtype, family=family, config=space).feasible
    chosen = np.random.default_rng(seed).choice(np.flatnonzero(good), count, replace=False)
    return space.take(np.sort(chosen))


def best_measured(path: str, shape: tuple[int, int, int], count: int) -> Iterator[dict[str, int]]:
    """The fastest recorded configurations of a shape."""
    rows = read_measured(path)
    p = rows.problem
    here: IntArray = np.flatnonzero((p.m == shape[0]) & (p.n == shape[1]) & (p.k == shape[2]))
    for i in here[np.argsort(rows.time_s[here])][:count]:
        yield rows.config.row(int(i))


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure."""
    random = drawn(args.family, args.dtype, args.gpu, args.random, args.seed)
    rows: list[Row] = []
    for m, n, k in SHAPES[args.family]:
        asked = {"gpu": args.gpu, "dtype": args.dtype, "family": args.family, "calibrated": args.calibration}
        found: list[tuple[str, dict[str, int]]] = []
        for name, top, distinct in (("rank", 10, False), ("distinct", 5, True)):
            picks = gemmsim.rank(m, n, k, top=top, distinct=distinct, **asked).entries
            found += [(f"{name}{i + 1}", dict(e.config)) for i, e in enumerate(picks)]
        for path in args.rows:
            found += [("campaign", c) for c in best_measured(path, (m, n, k), args.best)]
        found += [("random", random.row(i)) for i in range(len(random))]
        rows += [
            {"source": s, "family": args.family, "dtype": args.dtype, "m": m, "n": n, "k": k} | c for s, c in found
        ]
    write_csv(args.out, {name: [str(row[name]) for row in rows] for name in rows[0]})
    print(f"{args.out}: {len(rows)} rows, {load_gpu(args.gpu).name}, seed {args.seed}")


def score(args: argparse.Namespace) -> None:
    """Print the table."""
    table = read_csv(args.rows)
    source, status = np.asarray(table.text("source")), np.asarray(table.text("status"))
    time_s = np.where(status == "ok", table.number("time_s", blank_ok=True), np.inf)
    time_s = np.where(np.isnan(time_s), np.inf, time_s)
    sizes = np.stack([table.whole(d) for d in "mnk"], 1)
    lists = {"first pick": ("rank", 1), "best of five": ("rank", 5), "of five distinct": ("distinct", 5)}
    shares: dict[str, list[float]] = {name: [] for name in lists}
    print(f"| shape | best found by | TFLOP/s | {' | '.join(lists)} |\n|---|---|---|{'---|' * len(lists)}")
    for shape in dict.fromkeys(map(tuple, sizes.tolist())):
        here = (sizes == shape).all(1)
        best = int(np.flatnonzero(here)[np.argmin(time_s[here])])
        for name, (kind, count) in lists.items():
            of = np.isin(source, [f"{kind}{i + 1}" for i in range(count)])
            shares[name].append(time_s[best] / time_s[here & of].min(initial=np.inf))
        rate = 2.0 * np.prod(shape) / time_s[best] / 1e12
        cells = " | ".join(f"{share[-1]:.3f}" for share in shares.values())
        print(f"| {'x'.join(map(str, shape))} | {source[best]} | {rate:.1f} | {cells} |")
    means = " | ".join(f"{np.exp(np.log(share).mean()):.3f}" for share in shares.values())
    print(f"| geomean | | | {means} |")


def _drawing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--family", choices=list(SHAPES), default="simt")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--gpu", default="h200_sxm")
    parser.add_argument("--rows", action="append", default=[], help="measured rows whose best are timed too")
    parser.add_argument("--calibration", default="auto", help="a file fitted without these shapes, say")
    parser.add_argument("--best", type=int, default=5)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--seed", type=int, default=4)


if __name__ == "__main__":
    run(__doc__, draw, score, drawing=_drawing, shown="score")
