"""Time rows for studies/h200: `python record.py PAIRS.csv OUT.csv` on a machine with PyTorch, Triton, CuPy and nvcc.

PAIRS.csv holds family, m, n, k and the family's parameters, a row a pair; one family a file: triton, or one of CUDA,
whose kernel is kernels/<family>.cu; a column dtype where Triton is not to do bf16. OUT.csv holds the same rows with the
compiler's facts and the times: median of `repeats` launches between two events on a busy stream, inputs standard
normal, the L2 cold_dirty (256 MiB written before), cold_clean (another buffer read after that) and warm.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent.parent / "kernels"
FLUSH_BYTES = 256 << 20
TRITON = ("bm", "bn", "bk", "num_warps", "num_stages", "group_m")


@dataclass(frozen=True)
class Kernel:
    """How a family's parameters become macros and a launch; the grid is ceil(n / bn) x ceil(m / bm) for all."""

    parameters: tuple[str, ...]
    macros: Mapping[str, str]  # macro -> parameter
    threads: Callable[[Mapping[str, int]], int]  # of a block


CUDA = {
    "register_tile": Kernel(
        ("bm", "bn", "bk", "tm", "tn"),
        {"BM": "bm", "BN": "bn", "BK": "bk", "TM": "tm", "TN": "tn"},
        lambda c: c["bm"] // c["tm"] * (c["bn"] // c["tn"]),
    ),
    "naive": Kernel(
        ("bm", "bn", "bk", "coalesced"),
        {"BM": "bm", "BN": "bn", "BK": "bk", "COALESCED": "coalesced"},
        lambda c: c["bm"] * c["bn"],
    ),
    "smem_tile": Kernel(("bm", "bn", "bk", "pad"), {"TILE": "bm", "PAD": "pad"}, lambda c: c["bm"] * c["bn"]),
}


def _types(dtype: str) -> tuple[object, object]:
    """PyTorch types of operands and result."""
    import torch

    return {
        "bf16": (torch.bfloat16, torch.bfloat16),
        "fp16": (torch.float16, torch.float16),
        "tf32": (torch.float32, torch.float32),
        "fp32": (torch.float32, torch.float32),
        "fp8": (torch.float8_e4m3fn, torch.bfloat16),
    }[dtype]


def _compile_triton(key: tuple[tuple[int, ...], tuple[int, int, int], str]) -> str:
    sys.path.insert(0, str(KERNELS))
    from triton_gemm import mm

    (bm, bn, bk, warps, stages, group), (m, n, k), dtype = key
    t, out = _types(dtype)
    try:
        mm.warmup(
            t, t, out, m, n, k, k, n, n, BM=bm, BN=bn, BK=bk, G=group, num_warps=warps, num_stages=stages, grid=(1,)
        )
    except Exception as error:
        return type(error).__name__
    return ""


def _compile_cuda(family: str, key: tuple[int, ...]) -> None:
    chosen = dict(zip(CUDA[family].parameters, key, strict=True))
    macros = [f"-D{macro}={chosen[name]}" for macro, name in CUDA[family].macros.items()]
    source = KERNELS / f"{family}.cu"
    subprocess.run(["nvcc", "-arch=sm_90", "-cubin", *macros, "-o", _cubin(family, key), str(source)], check=True)


def _cubin(family: str, key: tuple[int, ...]) -> str:
    return f"/tmp/{family}_{'_'.join(map(str, key))}.cubin"


class Timer:
    """Times launches in the three L2 conditions."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.dirty = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        self.other = torch.ones(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def __call__(self, launch: object, condition: str, repeats: int) -> list[float]:
        """Seconds of each launch."""
        torch = self.torch
        torch.cuda._sleep(3_000_000)  # the host queues everything behind this
        pairs = []
        for _ in range(repeats):
            if condition != "warm":
                self.dirty.zero_()
            if condition == "cold_clean":
                self.other.sum()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch()  # type: ignore[operator]
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        return [b.elapsed_time(e) * 1e-3 for b, e in pairs]


def _triton_launcher(row: dict[str, str], data: tuple) -> tuple[object, dict[str, int]]:
    from triton_gemm import mm

    a, b, c = data
    m, n, k = (int(row[d]) for d in "mnk")
    bm, bn, bk, warps, stages, group = (int(row[p]) for p in TRITON)
    grid = (-(-m // bm) * -(-n // bn),)
    settings = {"BM": bm, "BN": bn, "BK": bk, "G": group, "num_warps": warps, "num_stages": stages}
    made = mm[grid](a, b, c, m, n, k, k, n, n, **settings)
    facts = {"regs": made.n_regs, "spills": made.n_spills, "smem_bytes": made.metadata.shared}
    return (lambda: mm[grid](a, b, c, m, n, k, k, n, n, **settings)), facts


def _cuda_launcher(row: dict[str, str], data: tuple) -> tuple[object, dict[str, int]]:
    import cupy as cp
    import torch

    a, b, c = (cp.from_dlpack(x) for x in data)
    m, n, k = (int(row[d]) for d in "mnk")
    family = row["family"]
    chosen = {p: int(row[p]) for p in CUDA[family].parameters}
    kernel = cp.RawModule(path=_cubin(family, tuple(chosen.values()))).get_function("gemm")
    grid, block = (-(-n // chosen["bn"]), -(-m // chosen["bm"])), (CUDA[family].threads(chosen),)
    arguments = (cp.int32(m), cp.int32(n), cp.int32(k), a, b, c)
    stream = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def launch() -> None:
        with stream:
            kernel(grid, block, arguments)

    launch()
    facts = {"regs": kernel.num_regs, "spill_bytes": kernel.local_size_bytes, "smem_bytes": kernel.shared_size_bytes}
    return launch, facts


def main() -> None:
    """Compile in parallel, then time every pair; rows are written as they come."""
    with open(sys.argv[1]) as file:
        rows = list(csv.DictReader(file))
    family = rows[0]["family"]
    dtype = rows[0].get("dtype", "bf16" if family == "triton" else "fp32")
    names = TRITON if family == "triton" else CUDA[family].parameters
    keys = {tuple(int(r[p]) for p in names) for r in rows}
    with ProcessPoolExecutor(min(14, os.cpu_count() or 1)) as pool:
        if family == "triton":
            shapes = {tuple(int(d) % 16 == 0 for d in (r["m"], r["n"], r["k"])): r for r in rows}
            kinds = [tuple(int(r[d]) for d in "mnk") for r in shapes.values()]
            failed = list(pool.map(_compile_triton, [(k, s, dtype) for k in keys for s in kinds], chunksize=4))
            print("compiled", len(failed), "failed", sum(map(bool, failed)), flush=True)
        else:
            list(pool.map(partial(_compile_cuda, family), keys))
    sys.path.insert(0, str(KERNELS))
    _time(rows, family, dtype)


def _time(rows: list[dict[str, str]], family: str, name: str) -> None:
    import torch

    timer, data, shape = Timer(), (), None
    dtype, result = _types(name)
    facts = ("regs", "spills" if family == "triton" else "spill_bytes", "smem_bytes")
    columns = [*rows[0], *facts, "median_s", "min_s", "cold_clean_s", "warm_s", "repeats", "error", "status"]
    with open(sys.argv[2], "w", newline="", buffering=1) as file:
        out = csv.DictWriter(file, columns, restval="")
        out.writeheader()
        for row in sorted(rows, key=lambda r: (int(r["m"]), int(r["n"]), int(r["k"]))):
            m, n, k = (int(row[d]) for d in "mnk")
            if shape != (m, n, k):
                shape = (m, n, k)
                a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype)
                data = (a, b, torch.empty(m, n, dtype=result, device="cuda"))
                want = a.float().double() @ b.float().double() if m * n * k < 2**36 else None
            out.writerow(row | _one(row, family, data, timer, want))


def _one(row: dict[str, str], family: str, data: tuple, timer: Timer, want: object) -> dict[str, object]:
    import torch

    make = _triton_launcher if family == "triton" else _cuda_launcher
    data[2].fill_(float("nan"))
    try:
        launch, facts = make(row, data)
        torch.cuda.synchronize()
    except Exception as error:
        return {"status": type(error).__name__}
    wrong = float((data[2].double() - want).norm() / want.norm()) if want is not None else float("nan")  # type: ignore
    first = timer(launch, "cold_dirty", 1)[0]
    repeats = 7 if first < 2e-3 else 3
    dirty = timer(launch, "cold_dirty", repeats)
    clean, warm = timer(launch, "cold_clean", max(3, repeats - 2)), timer(launch, "warm", max(3, repeats - 2))
    status = "wrong" if wrong > (5e-3 if family == "triton" else 1e-5) else "ok"
    return facts | {
        "median_s": statistics.median(dirty), "min_s": min(dirty), "cold_clean_s": statistics.median(clean),
        "warm_s": statistics.median(warm), "repeats": repeats, "error": wrong, "status": status,
    }  # fmt: skip


if __name__ == "__main__":
    main()
