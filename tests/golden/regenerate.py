"""Write predictions.csv anew: `python tests/golden/regenerate.py`. Review its change as one reviews code.

Questions that the file holds stay; a family, GPU or condition that has none yet gets some. Without calibration
(physical defaults), so that new fits do not move it: what moves it is the model, a family's estimates or a GPU's
figures.
"""

from __future__ import annotations

import csv
import sys
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from gemmsim import families, load_gpu, predict
from gemmsim.conditions import L2_CONDITIONS

FILE = Path(__file__).parent / "predictions.csv"
#: products that have rows; add others as wanted
GPUS = (
    "a100_pcie_40gb", "a100_pcie_80gb", "a100_sxm_40gb", "a100_sxm_80gb", "h100_nvl", "h100_pcie", "h100_sxm",
    "h200_sxm",
)  # fmt: skip
SHAPES = (
    (4096, 4096, 4096), (1, 4096, 4096), (16, 11008, 4096), (2048, 11008, 4096), (512, 512, 512), (1000, 1000, 1000),
    (4096, 4097, 4096), (8192, 8192, 1024), (256, 256, 16384), (50, 70, 90),
)  # fmt: skip
ROWS_EACH = 5  # configurations of each GPU, family and L2 condition
PARAMETERS = tuple(dict.fromkeys(p.name for name in families.FAMILIES for p in families.family(name).PARAMETERS))
NUMBERS = ("time_s", "waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes", "blocks_per_sm")
ASKED = ("gpu", "family", "dtype", "l2", "m", "n", "k", *PARAMETERS)


def recorded() -> list[dict[str, str]]:
    """Rows of the file, as text."""
    if not FILE.is_file():
        return []
    with open(FILE, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def asked() -> Iterator[dict[str, Any]]:
    """Questions, sorted by GPU, family and condition: those of the file, and drawn ones where it has none."""
    known: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in recorded():
        question = {name: row.get(name, "") for name in ASKED}
        known.setdefault((row["gpu"], row["family"], row["l2"]), []).append(question)
    for place in product(GPUS, families.FAMILIES, L2_CONDITIONS):
        yield from known.get(place) or drawn(*place)


def drawn(gpu: str, name: str, l2: str) -> Iterator[dict[str, Any]]:
    """Questions of one GPU, family and condition: the same each time."""
    generator = np.random.default_rng(zlib.crc32(f"{gpu} {name} {l2}".encode()))
    space, rates = families.space(name), load_gpu(gpu).arch.fma_per_clk_per_sm
    dtypes = [d for d in families.family(name).DTYPES if d in rates and "NN" in families.layouts(name, d)]
    for pick, shape in zip(generator.integers(0, len(space), ROWS_EACH), generator.permutation(SHAPES), strict=False):
        sizes = dict(zip("mnk", shape.tolist(), strict=True))
        dtype = dtypes[int(generator.integers(len(dtypes)))]
        yield {"gpu": gpu, "family": name, "dtype": dtype, "l2": l2, **sizes, **space.row(int(pick))}


def answer(row: dict[str, Any]) -> dict[str, Any]:
    """The prediction of one question, as numbers; NaN where it cannot launch."""
    config = {p.name: int(row[p.name]) for p in families.family(row["family"]).PARAMETERS}
    sizes = [int(row[d]) for d in "mnk"]
    p = predict(
        *sizes, gpu=load_gpu(row["gpu"]), dtype=row["dtype"], family=row["family"], config=config, l2=row["l2"],
        calibrated="none", terms=True,
    )  # fmt: skip
    found = {name: float(getattr(p, name)[0]) for name in NUMBERS}
    return found | {"bound_by": p.bound_by[0], "reason": p.reasons[0]}


def main() -> None:
    """Write the file."""
    rows = [row | answer(row) for row in asked()]
    with open(FILE, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, [*ASKED, *NUMBERS, "bound_by", "reason"], restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    sys.stdout.write(f"{FILE}: {len(rows)} rows\n")


if __name__ == "__main__":
    main()
