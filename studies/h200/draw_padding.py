"""Sizes around those of studies/padding.yaml to time on an H200: `draw_padding.py FAMILY OUT.csv`, then
`gemmsim measure --batch OUT.csv --out ROWS.csv`, and ROWS.csv under key rows of the study.

Of each curve the size as asked and the nearest size of each alignment on both sides, each with the model's first
configurations: what the study draws as measured points beside its lines, and compares as recorded neighbours.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.model.predict import predict
from gemmsim.ranking import rank
from gemmsim.rows import write_csv
from gemmsim.study import open_study
from gemmsim.study.padding import PaddingStudy
from gemmsim.study.padding.outcome import aligned_bytes
from gemmsim.study.padding.plan import Asked

GPU, DTYPE = "h200_sxm", "bf16"
#: configurations a size
FIRST = 2


def sizes(asked: Asked) -> list[int]:
    """The size as asked, and of each alignment the nearest below and above."""
    here = asked.at(0).index(0)
    middle = (asked.m, asked.n, asked.k)[here]
    nearest: dict[tuple[int, bool], int] = {}
    for size in sorted(asked.sizes, key=lambda size: abs(size - middle)):
        nearest.setdefault((aligned_bytes(asked, DTYPE, size), size < middle), size)
    return sorted({middle, *nearest.values()})


def drawn(family: str) -> Iterator[dict[str, int]]:
    """Sizes and configurations; those that cannot launch are left out."""
    for asked in problems():
        every: dict[str, dict[str, int]] = {}
        for size in sizes(asked):
            m, n, k = asked.at(size)
            with suppress(GemmsimError):
                found = rank(m, n, k, gpu=GPU, dtype=DTYPE, family=family, top=FIRST, distinct=True).entries
                every |= {e.key: dict(e.config) for e in found}
        # every size with all of them: neighbours are compared on the same configurations
        for size in sizes(asked):
            m, n, k = asked.at(size)
            config = Config(family, {name: np.asarray([c[name] for c in every.values()]) for name in names(family)})
            p = predict(m, n, k, gpu=GPU, dtype=DTYPE, family=family, config=config)
            yield from ({"m": m, "n": n, "k": k, **config.row(int(i))} for i in np.flatnonzero(p.feasible))


def problems() -> list[Asked]:
    """Those of the study that have a curve along a row stride."""
    study = open_study("padding")
    assert isinstance(study, PaddingStudy)
    return [p for p in study.problems if p.sizes and aligned_bytes(p, DTYPE, 1)]


def names(family: str) -> list[str]:
    """The family's parameters."""
    return [p.name for p in families.family(family).PARAMETERS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=families.families_for(DTYPE))
    parser.add_argument("out")
    args = parser.parse_args()
    rows = list(drawn(args.family))
    same = {"gpu": GPU, "family": args.family, "dtype": DTYPE}
    write_csv(args.out, {name: [str({**same, **row}[name]) for row in rows] for name in (*same, *rows[0])})
    print(f"{len(rows)} rows, {len({tuple(row.items())[3:] for row in rows})} configurations")
