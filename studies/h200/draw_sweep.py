"""Launches to time for a study of a sweep: `draw_sweep.py STUDY OUT.csv [--curves NAME,...]`, then
`gemmsim measure --batch OUT.csv --out ROWS.csv`, gzipped beside this file and named in the study's `rows`.

Of a curve of one configuration sizes spread evenly over its range, and both sides of every wave edge; of others the
model's first few configurations at each size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from gemmsim.config import Config
from gemmsim.model.predict import predict
from gemmsim.rows import write_csv
from gemmsim.study import open_study
from gemmsim.study.sweep import SweepStudy
from gemmsim.study.sweep.curves import Curve
from gemmsim.study.sweep.plan import Fixed

GPU = "h200_sxm"
#: sizes of a curve, beside those at wave edges
SIZES = 60
#: configurations a size
FIRST = 4


def sizes(study: SweepStudy) -> list[int]:
    """Sizes of the sweep that are timed."""
    evenly = study.sizes[:: -(-len(study.sizes) // SIZES)]
    edges = [point.size for edge in study.run().edges for point in (edge.before, edge.after)]
    return sorted({*evenly, *edges})


def first(study: SweepStudy, curve: Curve, product: Fixed, size: int) -> Iterator[Config]:
    """The curve's configurations, or the few that are predicted fastest at this size."""
    p = product.sized(study.vary, [size], curve.dtype)
    every = [kernel.config for kernel in curve.kernels]
    found = [predict(p.m, p.n, p.k, gpu=GPU, dtype=p.dtype, family=c.family, config=c, l2=study.l2) for c in every]
    times = np.concatenate([np.where(f.feasible, f.time_s, np.inf) for f in found])
    ones = [config.take(np.asarray([i])) for config in every for i in range(len(config))]
    yield from (ones[i] for i in np.argsort(times)[:FIRST].tolist() if np.isfinite(times[i]))


def launches(study: SweepStudy, curves: list[Curve]) -> Iterator[dict[str, object]]:
    """A row a launch: the kernel, the product, the configuration."""
    for curve in curves:
        for product in study.products:
            for size in sizes(study):
                sides = {**dict(product.sides), study.vary: size}
                for config in first(study, curve, product, size):
                    what = {"gpu": GPU, "family": config.family, "dtype": curve.dtype, "l2": study.l2, "layout": "NN"}
                    yield {**what, **{side: sides[side] for side in "mnk"}, **config.row(0)}


def main() -> None:
    """Read the command line and write the batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("out")
    parser.add_argument("--curves", help="these alone")
    args = parser.parse_args()
    study = open_study(args.study)
    assert isinstance(study, SweepStudy)
    study = study.with_gpus([GPU])
    curves = [study.curve(name) for name in args.curves.split(",")] if args.curves else list(study.curves)
    rows = list({tuple(row.items()): row for row in launches(study, curves)}.values())
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_csv(args.out, {name: [str(row.get(name, "")) for row in rows] for name in names})
    print(f"{args.out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
