"""What campaigns of tensor-core families on an H200 measure: `studies/h200/draw_tensor.py FAMILY DTYPE OUT.csv`.

The same rows each time. Half of the configurations are drawn uniformly from what can run of the family's space at 4096
x 4096 x 4096 (column `drawn` = uniform); the others (`drawn` = picked) are what the prediction without fitted
coefficients puts first, shape by shape in turn, none twice. Every configuration goes with every shape that it can run
on, but for pairs predicted several times slower than the best of their shape. Shapes: the bars, then skinny, deep, odd
ones and edges of waves; those that the family refuses (TMA's strides) are left out for the next.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gemmsim import families, predict
from gemmsim.config import Config
from gemmsim.model.predict import Prediction
from gemmsim.problem import Form
from gemmsim.rows import write_csv

SEED = 20261207
GPU = "h200_sxm"
#: samples of a row, and the flush of the L2 before each
SAMPLES, FLUSH_S = 8, 0.13e-3
#: a pair predicted slower than so many times the best of its shape is left out
SLOWEST = 6.0
Shape = tuple[int, int, int]
BARS: tuple[Shape, ...] = (
    (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 4096, 4096), (2048, 11008, 4096),
    (2048, 4096, 11008), (4096, 14336, 4096), (4096, 4096, 14336), (1536, 1536, 4096), (4097, 4096, 4096),
    (512, 6144, 4096), (1024, 1024, 1024), (256, 4096, 14336), (128, 11008, 4096), (64, 4096, 4096), (16, 11008, 4096),
)  # fmt: skip
OTHERS: tuple[Shape, ...] = (
    (1, 4096, 4096), (8, 14336, 4096), (256, 256, 16384), (384, 384, 384), (1023, 1025, 1027), (777, 3333, 555),
    (1000, 1000, 1000), (127, 4095, 2049), (3001, 1004, 2002), (32, 11008, 4096), (1023, 1032, 1032),
    (3001, 1000, 2008), (777, 3336, 552), (64, 14336, 4096), (4, 4096, 11008), (128, 128, 65536), (64, 512, 32768),
    (2112, 2048, 1024), (2176, 2048, 1024), (1056, 4096, 2048), (8192, 512, 2048), (512, 8192, 2048),
    (16384, 256, 1024), (6144, 6144, 1536), (2048, 6144, 4096), (2048, 18944, 3584), (1024, 3584, 18944),
    (192, 4096, 4096), (320, 5120, 5120), (4096, 4096, 512), (48, 7168, 2048), (640, 640, 8192), (1, 8192, 8192),
)  # fmt: skip


def predicted(shape: Shape, config: Config, form: Form) -> Prediction:
    """Times without fitted coefficients, which a later calibration would change."""
    m, n, k = shape
    return predict(m, n, k, gpu=GPU, dtype=form, family=config.family, config=config, calibrated="none")


def shapes_of(space: Config, form: Form, count: int) -> list[Shape]:
    """The first shapes that the family can run at all."""
    able = (s for s in (*BARS, *OTHERS) if predicted(s, space.take(np.arange(0, len(space), 7)), form).feasible.any())
    return [shape for shape, _ in zip(able, range(count), strict=False)]


def uniform(space: Config, form: Form, count: int, generator: np.random.Generator) -> list[int]:
    """Positions drawn from all that can run."""
    able = np.flatnonzero(predicted((4096, 4096, 4096), space, form).feasible)
    return sorted(generator.choice(able, min(count, len(able)), replace=False).tolist())


def picked(space: Config, form: Form, shapes: Sequence[Shape], count: int, taken: set[int]) -> list[int]:
    """Positions that the prediction puts first, shape by shape in turn."""
    times = [predicted(shape, space, form) for shape in shapes]
    orders = [iter(np.argsort(np.where(p.feasible, p.time_s, np.inf), kind="stable").tolist()) for p in times]
    found: list[int] = []
    for turn in range(count * len(shapes)):
        if len(found) == count:
            break
        best = next((i for i in orders[turn % len(shapes)] if i not in taken), None)
        if best is not None:
            taken.add(best)
            found.append(best)
    return found


def pairs(config: Config, form: Form, shapes: Sequence[Shape]) -> Iterator[tuple[int, int, float]]:
    """Shape, configuration and predicted time of the pairs that stay, shape by shape."""
    for number, shape in enumerate(shapes):
        p = predicted(shape, config, form)
        stay = p.feasible & (p.time_s <= SLOWEST * np.nanmin(np.where(p.feasible, p.time_s, np.nan)))
        yield from ((number, int(i), float(p.time_s[i])) for i in np.flatnonzero(stay))


def table(family: str, form: Form, configs: int, count: int) -> dict[str, npt.NDArray[np.int64] | list[str]]:
    """The columns of a campaign of so many configurations and shapes."""
    space = families.space(family)
    shapes = shapes_of(space, form, count)
    half = uniform(space, form, configs // 2, np.random.default_rng(SEED))
    chosen = [*half, *picked(space, form, shapes, configs - len(half), set(half))]
    config = space.take(np.asarray(chosen))
    rows = list(pairs(config, form, shapes))
    total = sum(SAMPLES * (time_s + FLUSH_S) for _, _, time_s in rows)
    sys.stderr.write(f"{len(rows)} rows, {len(shapes)} shapes, {len(chosen)} configurations, {total:.0f} s predicted\n")
    index, sizes = np.asarray([i for _, i, _ in rows]), np.asarray([shapes[number] for number, _, _ in rows], np.int64)
    fixed = {"gpu": GPU, "family": family, "dtype": form.dtype, "layout": form.layout, "l2": "cold_clean"}
    out: dict[str, npt.NDArray[np.int64] | list[str]] = {name: [value] * len(rows) for name, value in fixed.items()}
    out |= {name: sizes[:, i] for i, name in enumerate("mnk")}
    out |= dict(config.take(index).values)
    return out | {"drawn": ["uniform" if i < len(half) else "picked" for i in index.tolist()]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("dtype")
    parser.add_argument("out")
    parser.add_argument("--layout", default="NN")
    parser.add_argument("--configs", type=int, default=120)
    parser.add_argument("--shapes", type=int, default=25)
    args = parser.parse_args()
    write_csv(args.out, table(args.family, Form(args.dtype, layout=args.layout), args.configs, args.shapes))
