"""Launches to time for `gemmsim study run wave_quantization`: `draw_waves.py OUT.csv`, then `gemmsim measure --batch
OUT.csv --out waves.csv`, gzipped beside this file and named in the study's `rows`.

Each curve of one configuration in studies/wave_quantization.yaml, at sizes spread evenly over its range and at both
sides of every wave edge.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gemmsim.rows import write_csv
from gemmsim.study import open_study
from gemmsim.study.sweep import SweepStudy

#: sizes of a curve, beside those at wave edges
SIZES = 60


def sizes(study: SweepStudy) -> list[int]:
    """Sizes of the sweep that are timed."""
    evenly = study.sizes[:: max(1, len(study.sizes) // SIZES)]
    edges = [point.size for edge in study.run().edges for point in (edge.before, edge.after)]
    return sorted({*evenly, *edges})


def launches(study: SweepStudy) -> Iterator[dict[str, object]]:
    """A row a launch: the kernel, the product, the configuration."""
    for curve in (curve for curve in study.curves if curve.alone):
        config = curve.kernels[0].config
        for product in study.products:
            for size in sizes(study):
                sides = {**dict(product.sides), study.vary: size}
                what = {"gpu": study.gpus[0].name, "family": config.family, "dtype": curve.dtype, "l2": study.l2}
                yield {**what, "layout": "NN", **{side: sides[side] for side in "mnk"}, **config.row(0)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    args = parser.parse_args()
    asked = open_study("wave_quantization")
    assert isinstance(asked, SweepStudy)
    rows = list(launches(asked))
    write_csv(args.out, {name: [str(row[name]) for row in rows] for name in rows[0]})
