"""Choices and consequences: a Config is what one may choose, a Launch is what follows from it on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmsim.problem import FloatArray, IntArray


@dataclass(frozen=True)
class Config:
    """Free choices of one family: parameter name -> int64 array, all of one length."""

    family: str
    values: Mapping[str, IntArray]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def __getitem__(self, name: str) -> IntArray:
        return self.values[name]

    def take(self, index: npt.NDArray[np.intp]) -> Config:
        """The configurations at these positions."""
        return Config(self.family, {k: v[index] for k, v in self.values.items()})

    def row(self, i: int) -> dict[str, int]:
        """One configuration as plain numbers."""
        return {k: int(v[i]) for k, v in self.values.items()}


#: compiler facts that replace a family's estimates -> the least that each is
FACTS: Mapping[str, int] = {"regs_per_thread": 1, "spill_bytes": 0, "smem_bytes": 0}
_SHORT = {
    "num_warps": "w", "num_stages": "s", "group_m": "g", "tm": "t", "tn": "x", "split_k": "k", "stages": "s",
    "async_copy": "a", "vec": "v", "blocks": "b", "regs": "r", "order": "o", "split_tail": "tail", "stream_k": "stream",
    "copy_a": "ca", "copy_b": "cb", "copy_c": "cc", "consumers": "c", "pingpong": "p", "cluster_m": "m",
    "cluster_n": "n", "hilbert": "h",
}  # fmt: skip


def config_key(values: Mapping[str, int]) -> str:
    """The one name of a configuration, the same in files, rows and plots: 128x256x64_w8s3g8, 128x128x16_t8x8."""
    tile = "x".join(str(values[p]) for p in ("bm", "bn", "bk"))
    rest = "".join(f"{_SHORT.get(p, p)}{v}" for p, v in values.items() if p not in ("bm", "bn", "bk"))
    return f"{tile}_{rest}" if rest else tile


@dataclass(frozen=True)
class Launch:
    """What one block takes, an array entry a row. Compiler facts where known, the family's estimates elsewhere."""

    threads: IntArray
    regs_per_thread: IntArray
    spill_bytes: FloatArray  # local memory a thread
    smem_bytes: IntArray  # static + dynamic, a block
    from_facts: npt.NDArray[np.bool_]  # true where registers, spills and shared memory come from a compiler

    def part(self, rows: slice | IntArray) -> Launch:
        """Some of the rows."""
        columns = (self.threads, self.regs_per_thread, self.spill_bytes, self.smem_bytes, self.from_facts)
        threads, regs, spills, smem, facts = (x[rows] for x in columns)
        return Launch(threads, regs, spills, smem, facts)  # type: ignore[arg-type]
