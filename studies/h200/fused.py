"""What a fused bias and GELU costs: `fused.py draw BATCH`, `gemmsim measure --against cublas`, `fused.py show ROWS`.

draw: fast simt configurations, each plain and with the epilogue. show: of each shape the configuration that is fastest
fused, what it adds to its own plain time and to the fastest plain one, and cuBLAS with a kernel for the epilogue.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
from verbs import run

from gemmsim import families
from gemmsim.config import config_key
from gemmsim.rows import read_csv, write_csv

SHAPES = ((4096, 4096, 4096), (128, 11008, 4096))
EPILOGUE = "bias,gelu"
NAMES = ("bm", "bn", "bk", "wm", "wn", "tm", "tn", "stages", "blocks", "regs")
TILES = (
    (64, 256, 8, 32, 128, 8, 16, 3, 1, 232), (64, 256, 8, 32, 128, 8, 16, 3, 1, 224),
    (64, 256, 8, 32, 128, 8, 16, 3, 1, 240), (64, 256, 16, 32, 128, 8, 16, 4, 1, 224),
    (64, 128, 16, 64, 32, 8, 8, 2, 3, 0), (64, 128, 16, 32, 64, 8, 8, 2, 3, 0), (64, 128, 16, 64, 32, 8, 8, 3, 3, 0),
    (64, 128, 16, 64, 32, 8, 8, 3, 4, 0), (128, 256, 16, 64, 64, 8, 16, 4, 1, 232),
    (128, 256, 16, 32, 128, 8, 16, 4, 1, 240), (128, 96, 16, 32, 96, 8, 12, 2, 2, 0),
    (96, 128, 16, 48, 64, 12, 8, 3, 3, 0), (64, 128, 8, 32, 64, 8, 8, 3, 4, 0),
)  # fmt: skip
#: split_k, split_tail, stream_k, for a large and for a flat result
WAYS = {SHAPES[0]: ((1, 0, 0), (1, 0, 1), (3, 1, 0)), SHAPES[1]: ((1, 0, 0), (1, 0, 1), (3, 0, 0))}


def draw(args: argparse.Namespace) -> None:
    """Write the batch to measure."""
    rows = [
        {"family": "simt", "dtype": "fp32", "m": m, "n": n, "k": k, "epilogue": epilogue}
        | dict(zip(NAMES, tile, strict=True))
        | {"async_copy": 1, "vec": 4, "order": order, "group_m": 8}
        | dict(zip(("split_k", "split_tail", "stream_k"), way, strict=True))
        for m, n, k in SHAPES for tile in TILES for way in WAYS[m, n, k] for order in (1, 0)
        for epilogue in ("", EPILOGUE)
    ]  # fmt: skip
    write_csv(args.out, {name: [str(row[name]) for row in rows] for name in rows[0]})
    print(f"{args.out}: {len(rows)} rows")


def show(args: argparse.Namespace) -> None:
    """Print a line a shape."""
    table = read_csv(args.rows)
    columns = {p.name: table.whole(p.name, low=0) for p in families.family("simt").PARAMETERS}
    sizes = np.stack([table.whole(d) for d in "mnk"], 1).tolist()
    time_s, other_s = table.number("time_s"), table.number("cublas_time_s")
    found: dict[tuple[int, ...], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for i, epilogue in enumerate(table.text("epilogue")):
        key = config_key({name: int(column[i]) for name, column in columns.items()})
        found[tuple(sizes[i])][key][epilogue] = i
    print("| shape | fused | over its own plain | over the fastest plain | cuBLAS and a kernel | cuBLAS alone | by |")
    print("|---|---|---|---|---|---|---|")
    for shape, pairs in found.items():
        key = min(pairs, key=lambda name: time_s[pairs[name][EPILOGUE]])
        fused, plain = pairs[key][EPILOGUE], pairs[key][""]
        fastest = min(time_s[pair[""]] for pair in pairs.values())
        over = f"{time_s[fused] / time_s[plain] - 1:+.1%} | {time_s[fused] / fastest - 1:+.1%}"
        others = f"{other_s[fused] * 1e3:.3f} ms | {other_s[plain] * 1e3:.3f} ms"
        print(f"| {'x'.join(map(str, shape))} | {time_s[fused] * 1e3:.3f} ms | {over} | {others} | {key} |")


if __name__ == "__main__":
    run(__doc__, draw, show)
