"""The inverse of occupancy, and clusters: what so many blocks an SM leave each, what SMs a cluster can reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsim.errors import GemmsimError
from gemmsim.hardware import Arch, Gpu
from gemmsim.model.occupancy import LIMITERS, blocks_per_sm
from gemmsim.problem import FloatArray


@dataclass(frozen=True)
class Room:
    """The most that each block may take so that `blocks` of `threads` threads are resident on an SM together."""

    blocks: int
    threads: int
    regs_per_thread: int
    smem_bytes: int  # static + dynamic


def room(arch: Arch, blocks: int, threads: int) -> Room:
    """The most registers a thread and shared memory a block with which an SM holds `blocks` blocks or more.

    Exact: each is the largest value for which the forward function says so. Both may be used at once, since each
    resource limits by itself. Raises GemmsimError where no registers and no shared memory are few enough.
    """
    least = blocks_per_sm(arch, threads, 1, 0)
    most = int(least.blocks_per_sm[0])
    if most < blocks:
        why = LIMITERS[int(least.limited_by[0])].replace("_", " ")
        raise GemmsimError(
            f"{blocks} blocks of {threads} threads: an SM of {arch.name} holds at most {most}, limited by {why}"
        )
    regs = np.arange(1, arch.regs_per_thread + 1)
    smem = np.arange(arch.smem_per_block_bytes + 1)
    fits_regs = blocks_per_sm(arch, threads, regs, 0).blocks_per_sm >= blocks
    fits_smem = blocks_per_sm(arch, threads, 1, smem).blocks_per_sm >= blocks
    return Room(blocks, threads, int(regs[fits_regs].max()), int(smem[fits_smem].max()))


def usable_sms(gpu: Gpu, cluster_size: int) -> int:
    """SMs that clusters of `cluster_size` blocks, one block an SM, reach at once.

    A cluster lies within one GPC, and the GPCs of a chip have lost different SMs: of an H100's 132, clusters of 8
    reach 120. Source: the GPU's file (cluster_sizes, cluster_sms). Raises GemmsimError where it does not say.
    """
    if cluster_size == 1:
        return gpu.sm_count
    if not gpu.cluster_sizes:
        cc = tuple(int(part) for part in gpu.arch.compute_capability.split("."))
        why = "its file gives no cluster_sms" if cc >= (9, 0) else f"{gpu.arch.name} has no clusters: sm90 and later do"
        raise GemmsimError(f"GPU {gpu.name}, clusters of {cluster_size}: {why}")
    if cluster_size not in gpu.cluster_sizes:
        known = ", ".join(map(str, gpu.cluster_sizes))
        raise GemmsimError(f"GPU {gpu.name}, clusters of {cluster_size}: its file knows sizes {known}")
    reached = gpu.cluster_sms[gpu.cluster_sizes.index(cluster_size)]
    return min(reached, gpu.sm_count // cluster_size * cluster_size)


def reached_sms(gpu: Gpu, cluster_size: FloatArray) -> FloatArray:
    """SMs that clusters of these sizes reach at once: as `usable_sms`; whole clusters of all SMs if no file says.

    Clusters of 2 reach all of an H200's 132 SMs, those of 4 120: whole waves take 10 % longer.
    """
    reached = np.floor(gpu.sm_count / cluster_size) * cluster_size
    for size, sms in zip(gpu.cluster_sizes, gpu.cluster_sms, strict=True):
        reached = np.where((cluster_size == size) & (size > 1), np.minimum(reached, sms), reached)
    return np.maximum(reached, 1)
