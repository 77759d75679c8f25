"""Launches to count on an H200: `draw_counters.py ROWS COUNT OUT.csv`, then `gemmsim counters --batch OUT.csv`.

Drawn from measured rows with a seed, half of them from configurations drawn uniformly: a shape, then one of its rows,
so that no shape stands for all.
"""

from __future__ import annotations

import argparse

import numpy as np

from gemmsim import families
from gemmsim.rows import read_csv, write_csv

SEED = 20261208
#: launches that take longer are left out: each is run some ten times over
LONGEST_S = 1e-3

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("count", type=int)
    parser.add_argument("out")
    args = parser.parse_args()
    table, generator = read_csv(args.rows), np.random.default_rng(SEED)
    shapes, at = np.unique(np.stack([table.whole(d) for d in "mnk"], 1), axis=0, return_inverse=True)
    short, drawn = table.number("time_s") < LONGEST_S, np.asarray(table.text("drawn"))
    chosen: list[int] = []
    for turn in range(100 * args.count):
        if len(chosen) == args.count:
            break
        here = (at == generator.integers(len(shapes))) & short & (drawn == ("uniform", "picked")[turn % 2])
        left = np.setdiff1d(np.flatnonzero(here), chosen)
        if len(left):
            chosen.append(int(generator.choice(left)))
    family = table.text("family")[0]
    names = ["gpu", "family", "dtype", "layout", "m", "n", "k", *(p.name for p in families.family(family).PARAMETERS)]
    write_csv(args.out, {name: [table.text(name)[i] for i in sorted(chosen)] for name in names})
