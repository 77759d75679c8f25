"""The closed form of traffic against the simulator, and the speed of both: `python studies/h200/traffic.py [CASES]`.

Random cases: a family, a configuration of its whole space, M, N and K log-uniform. Against hardware counters:
`gemmsim validate --counters studies/h200/simt_counters.csv.gz`, and so on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

from gemmsim import families, predict
from gemmsim.errors import GemmsimError
from gemmsim.model import traffic as closed_form
from gemmsim.model.predict import Prediction
from gemmsim.problem import FloatArray
from gemmsim.simulate.cache import traffic
from gemmsim.simulate.launched import Launched, launched

GPU, SEED, AT_ONCE = "h200_sxm", 20261130, 64
FAMILIES = {"triton": "bf16", "simt": "fp32", "register_tile": "fp32"}
#: M, N, K from 2**low to 2**high
SIZES = {"m": (4, 13.5), "n": (6, 13.8), "k": (5, 13.5)}
#: operands are read again where reads are more than this many times A and B
READ_AGAIN = 1.1


def cases(count: int) -> Iterator[tuple[Prediction, int, Launched]]:
    """So many launches, drawn the same each time."""
    rng = np.random.default_rng(SEED)
    while count > 0:
        family = list(FAMILIES)[rng.integers(len(FAMILIES))]
        space = families.space(family)
        config = space.take(rng.integers(0, len(space), AT_ONCE))
        m, n, k = (np.exp2(rng.uniform(*SIZES[d], AT_ONCE)).astype(np.int64) for d in "mnk")
        p = predict(m, n, k, gpu=GPU, dtype=FAMILIES[family], family=family, config=config)
        for row in np.flatnonzero(p.feasible)[: min(4, count)]:
            try:
                yield p, int(row), launched(p, int(row))
            except GemmsimError:  # too many tiles to walk
                continue
            count -= 1


def compare(count: int) -> None:
    """Print how far the closed form's DRAM reads, and reads from L2, are from the simulator's."""
    off, asked, again, streams, lost = [], [], [], [], 0
    for p, row, x in cases(count):
        try:
            t = traffic(x)
        except GemmsimError:
            lost += 1
            continue
        off.append(abs(p.dram_read_bytes[row] / t.dram_read_bytes - 1))
        asked.append(abs(p.l2_read_bytes[row] / (t.a.l2_read_bytes + t.b.l2_read_bytes) - 1))
        again.append(t.a.dram_read_bytes + t.b.dram_read_bytes > READ_AGAIN * (x.m * x.a_bytes + x.n * x.b_bytes) * x.k)
        streams.append(x.streams > 0)
    error, reread, streamed = 100 * np.asarray(off), np.asarray(again), np.asarray(streams)
    print(f"closed form against simulator, DRAM reads, {len(error)} random cases ({lost} too large to walk)")
    for what, mask in {
        "all": np.ones(len(error), bool),
        "that read operands again": reread,
        "the same without stream-K": reread & ~streamed,
        "stream-K": streamed,
    }.items():
        _print(what, error[mask])
    print("closed form against simulator, A and B from L2")
    _print("all", 100 * np.asarray(asked))


def _print(what: str, e: FloatArray) -> None:
    if len(e):
        print(f"  {what:27} {len(e):5}  mean {e.mean():6.2f} %  median {np.median(e):6.2f} %  "
              f"p90 {np.quantile(e, 0.9):6.2f} %  worst {e.max():6.1f} %")  # fmt: skip


def speed() -> None:
    """Print the simulator's time at 4096^3 with 128 x 128 tiles, and rows a second of the closed form."""
    one = {"bm": 128, "bn": 128, "bk": 64, "num_warps": 4, "num_stages": 4}
    for group_m in (1, 8):
        x = launched(predict(4096, 4096, 4096, gpu=GPU, config=one | {"group_m": group_m}))
        print(f"simulator, 4096^3, 128 x 128, group_m {group_m}: {1e3 * _least(lambda x=x: traffic(x)):.1f} ms")
    rows = 8192
    rng = np.random.default_rng(0)
    m, n, k = (rng.integers(64, 8193, rows).astype(np.float64) for _ in range(3))
    tile = np.exp2(rng.integers(4, 9, rows))
    tiles_m, tiles_n = np.ceil(m / tile), np.ceil(n / tile)
    group, slots = np.minimum(8.0, tiles_m), 132 * np.exp2(rng.integers(0, 3, rows))
    sizes = (2.0, 2.0, 2.0, 30 * 2.0**20, 2)
    g = closed_form.Grid(m, n, k, np.ones(rows), tiles_m, tiles_n, group, slots, 2 * m * n, 132, *sizes)
    print(f"closed form: {rows / _least(lambda: closed_form.dram_traffic(g)) / 1e6:.1f} M rows/s")


def _least(run: object) -> float:
    """The shortest of ten runs, in seconds."""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 3000)
    speed()
