"""Wavefronts of a warp's cp.async, fitted to counters: `python studies/h200/wavefronts.py` (docs/shared_memory.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from gemmsim import families, predict
from gemmsim.families import simt
from gemmsim.model import effects, shared_memory
from gemmsim.rows import read_csv
from gemmsim.simulate.launched import case_of

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Print the passes a request that fit best, where all other requests are counted from their addresses."""
    table = read_csv(str(HERE / "simt_counters.csv.gz"))
    config = families.config("simt", {p.name: table.whole(p.name, low=0) for p in simt.PARAMETERS})
    facts = {name: table.number(name) for name in ("regs_per_thread", "spill_bytes", "smem_bytes")}
    sizes = [table.whole(d) for d in "mnk"]
    p = predict(*sizes, gpu="h200_sxm", dtype="fp32", family="simt", config=config, facts=facts)
    d = effects.fill(case_of(p))
    steps, walks = d.tiles * d.k_steps, d.units.whole + d.units.parts * d.units.begun
    accesses = simt.access_patterns(p.problem, config)
    counted, copies = table.number("shared_wavefronts"), [a for a in accesses if "cp.async" in a.name]
    rest = shared_memory.wavefronts([a for a in accesses if a not in copies], steps, walks)
    a, b = (sum(x.steps for x in copies if x.name.startswith(name)) * steps for name in "AB")
    kept = (config["async_copy"] == 1) & (facts["spill_bytes"] == 0) & (sizes[2] % 4 == 0) & (sizes[1] % 4 == 0)
    shallow = config["bk"] == 8
    kinds = {"A, words, bk 8": a * shallow, "A, words, bk 16 and 32": a * ~shallow, "B, 16 bytes": b}
    columns = np.stack(list(kinds.values()), 1) / counted[:, None]
    best, _ = nnls(columns[kept], (1 - rest / counted)[kept])
    off = np.abs(columns @ best + rest / counted - 1)[kept]
    for name, passes in zip(kinds, best, strict=True):
        print(f"{name}: {passes:.1f} wavefronts a request")
    print(f"{kept.sum()} launches, {off.mean():.1%} off on average")


if __name__ == "__main__":
    main()
