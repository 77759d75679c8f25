"""Triton's autotuner pruned by the model: `triton_prune.py record CSV`, `triton_prune.py show CSV`, `... replay`.

record, on a GPU: the kernel of kernels/triton_gemm.py is tuned by triton.autotune over 180 configurations and, a second
copy of it with a folder of compiled kernels of its own, over the first five that `prune` leaves, ten shapes one after
another; the two winners are then timed in turn. The file is written anew after each shape. show: the table.

replay, no GPU needed: the same of recorded rows. The list of a shape is what was recorded there, 180 drawn from it
where there is more, with what an earlier model chose and without; coefficients are fitted on other shapes (five parts);
regret is that of the best of five against the best of the list.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gemmsim.calibrate import document, fit, to_yaml
from gemmsim.integrations.triton import META, perf_model, prune
from gemmsim.measured import Measured, joined, read_measured
from gemmsim.rows import read_csv, write_csv

HERE = Path(__file__).resolve().parent
KERNEL = HERE.parents[1] / "kernels" / "triton_gemm.py"
FITTED = ("triton_bf16", "triton_bf16_uniform", "triton_bf16_more")
FOLDS = 5
LIST = 180
TOP = 5
ROUNDS = 7  # of the two winners in turn
TILES = (
    (64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128), (32, 64), (16, 128),
)  # fmt: skip
SHAPES = (
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (2048, 11008, 4096), (512, 6144, 4096),
    (1536, 1536, 4096), (4096, 14336, 4096), (128, 11008, 4096), (64, 4096, 4096), (3072, 5120, 2048),
)  # fmt: skip
#: what kernels/triton_gemm.py calls the model's terms
NAMES = {"bm": "BM", "bn": "BN", "bk": "BK", "group_m": "G", "stride_am": "sam", "stride_bk": "sbk"}


@dataclass(frozen=True)
class Config:
    """As much of triton.Config as prune reads. place: of the recorded row."""

    kwargs: dict[str, int]
    num_warps: int
    num_stages: int
    place: int = field(default=0)


def configurations(make: Any) -> list[Any]:
    """The list that is tuned over: 10 tiles x 3 depths x 2 counts of warps x 3 of stages."""
    return [
        make({"BM": bm, "BN": bn, "BK": bk, "G": 8}, num_warps=warps, num_stages=stages)
        for (bm, bn), bk, warps, stages in itertools.product(TILES, (32, 64, 128), (4, 8), (3, 4, 5))
    ]


class Tuner:
    """A copy of the kernel behind triton.autotune, and its own folder of compiled kernels."""

    def __init__(self, configs: Sequence[Any], folder: Path, pruner: Any = None) -> None:
        import triton

        spec = importlib.util.spec_from_file_location(f"kernel_{folder.name}", KERNEL)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        by = {"early_config_prune": pruner} if pruner else None
        self.folder, self.fn = folder, module.mm
        self.tuned = triton.autotune(configs=list(configs), key=["M", "N", "K"], prune_configs_by=by)(module.mm)

    def tune(self, arguments: tuple[Any, ...]) -> float:
        """Wall seconds of the first launch of a shape, which tunes it."""
        import torch

        os.environ["TRITON_CACHE_DIR"] = str(self.folder)
        torch.cuda.synchronize()
        began = time.perf_counter()
        self.tuned[grid(arguments)](*arguments)
        torch.cuda.synchronize()
        return time.perf_counter() - began

    def time_s(self, config: Any, arguments: tuple[Any, ...]) -> float:
        """Median seconds of one configuration by Triton's do_bench."""
        from triton.testing import do_bench

        os.environ["TRITON_CACHE_DIR"] = str(self.folder)
        launch = self.fn[grid(arguments)]
        return 1e-3 * float(do_bench(lambda: launch(*arguments, **config.all_kwargs()), return_mode="median"))


def grid(arguments: tuple[Any, ...]) -> Any:
    """The grid of a launch, by its meta-parameters."""
    m, n = arguments[3:5]
    return lambda meta: (-(-m // meta["BM"]) * -(-n // meta["BN"]),)


def operands(m: int, n: int, k: int, dtype: str) -> tuple[Any, ...]:
    """The arguments of the kernel."""
    import torch

    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    a, b = (torch.randn(size, device="cuda", dtype=kind) for size in ((m, k), (k, n)))
    c = torch.empty((m, n), device="cuda", dtype=kind)
    return a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0)


def record(args: argparse.Namespace) -> None:
    """Tune every shape both ways."""
    import torch
    import triton

    rows: list[dict[str, Any]] = []
    configs, pruner = configurations(triton.Config), prune(top=TOP, names=NAMES)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("warm", "all", "pruned")]
        # CUDA, Triton and ptxas are loaded before the first clock starts
        Tuner([triton.Config({"BM": 32, "BN": 32, "BK": 32, "G": 1}, num_stages=n) for n in (1, 2)], folders[0]).tune(
            operands(128, 128, 128, args.dtype)
        )
        every, few = Tuner(configs, folders[1]), Tuner(configs, folders[2], pruner)
        for m, n, k in SHAPES[: args.shapes]:
            arguments = operands(m, n, k, args.dtype)
            row = {"product": torch.cuda.get_device_name(), "triton": triton.__version__, "dtype": args.dtype,
                   "m": m, "n": n, "k": k, "configurations": len(configs)}  # fmt: skip
            row |= {"all_tuning_s": every.tune(arguments), "pruned_tuning_s": few.tune(arguments)}
            row |= compared(every, few, arguments)
            times = every.tuned.configs_timings
            row |= {"dropped": len(pruner.dropped),
                    "dropped_and_launched": sum(times[c][0] < float("inf") for c, _ in pruner.dropped)}  # fmt: skip
            rows.append(row)
            write_csv(args.rows, {name: [str(r[name]) for r in rows] for name in rows[0]})
            print(f"{m}x{n}x{k}: {rows[-1]}", flush=True)


def compared(every: Tuner, few: Tuner, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The two winners timed in turn, and both by the times of tuning over all."""
    best, picked = every.tuned.best_config, few.tuned.best_config
    listed = {config: 1e-3 * times[0] for config, times in every.tuned.configs_timings.items()}
    rounds = [(every.time_s(best, arguments), few.time_s(picked, arguments)) for _ in range(ROUNDS)]
    turns = np.median(np.asarray(rounds), axis=0)
    return {
        "best": str(best), "pruned_best": str(picked), "best_s": float(turns[0]), "pruned_best_s": float(turns[1]),
        "listed_best_s": min(listed.values()),
        "listed_pruned_best_s": min(listed[config] for config in few.tuned.configs_timings),
        "launched": sum(time_s < float("inf") for time_s in listed.values()), "tried": len(few.tuned.configs_timings),
    }  # fmt: skip


def show(args: argparse.Namespace) -> None:
    """Print the table."""
    table = read_csv(args.rows)
    found = {name: table.number(name) for name in table.columns if name.endswith("_s")}
    turns = found["pruned_best_s"] / found["best_s"] - 1
    listed = found["listed_pruned_best_s"] / found["listed_best_s"] - 1
    every, few = found["all_tuning_s"], found["pruned_tuning_s"]
    print("| shape | best, us | of five, us | in turn | by the times of tuning | tuning, s | pruned, s |")
    print("|---|---|---|---|---|---|---|")
    for i, size in enumerate(zip(*(table.text(d) for d in "mnk"), strict=True)):
        times = f"{1e6 * found['best_s'][i]:.1f} | {1e6 * found['pruned_best_s'][i]:.1f}"
        print(f"| {'x'.join(size)} | {times} | {turns[i]:+.1%} | {listed[i]:.1%} | {every[i]:.1f} | {few[i]:.2f} |")
    print(f"| all {len(table)} | | | mean {turns.mean():+.2%} | mean {listed.mean():.2%} | {every.sum():.1f} "
          f"| {few.sum():.2f} |")  # fmt: skip
    print(f"\ntuning takes 1/{every.sum() / few.sum():.1f} of the time, of the first shape, whose kernels are all "
          f"compiled anew, 1/{every[0] / few[0]:.1f}; of {table.text('configurations')[0]} configurations "
          f"{table.text('launched')[0]} launched, and {table.text('dropped_and_launched')[0]} of the "
          f"{table.text('dropped')[0]} that the model dropped")  # fmt: skip


def lists() -> Iterator[tuple[str, Measured]]:
    """Recorded rows by file: what is tuned over at each shape."""
    for name, column, chosen in (
        ("triton_pick", "", ()), ("triton_pick", "source", ("random",)), ("triton_bf16_more", "", ()),
        ("triton_bf16_more", "set", ("uniform", "sensible")), ("triton_bf16_uniform", "", ()), ("triton_bf16", "", ()),
    ):  # fmt: skip
        path = str(HERE / f"{name}.csv.gz")
        rows = read_measured(path)
        if column:
            table = read_csv(path)
            timed = np.asarray([s == "ok" for s in table.text("status")])
            rows = rows.take(np.isin(table.text(column), chosen)[timed])
        yield ", ".join([name, *chosen]), rows


def replay(args: argparse.Namespace) -> None:
    """Print the regret of the best of five."""
    fitted = joined([read_measured(str(HERE / f"{name}.csv.gz")) for name in FITTED])
    sizes = np.stack([fitted.problem.m, fitted.problem.n, fitted.problem.k], 1)
    shapes = list(dict.fromkeys(map(tuple, sizes.tolist())))
    order = np.random.default_rng(args.seed).permutation(len(shapes))
    part = {shapes[i]: place % FOLDS for place, i in enumerate(order)}
    print("| rows | shapes | configurations | mean regret of five | median | most | within 2 % | of top_k's five, mean "
          "| most | of the first, mean |\n|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        calibrations = []
        for fold in range(FOLDS):
            rows = fitted.take(np.asarray([part[tuple(s)] != fold for s in sizes.tolist()]))
            path = Path(scratch) / f"without_{fold}.yaml"
            path.write_text(to_yaml(document(rows, fit(rows), None, {})))
            calibrations.append(str(path))
        for name, rows in lists():
            counts, regrets = [], []
            for shape in dict.fromkeys(zip(*(getattr(rows.problem, d).tolist() for d in "mnk"), strict=True)):
                # a shape that no coefficient was fitted on may take any part
                tried, count = regret(rows, shape, calibrations[part.get(shape, 0)], args.seed)
                counts.append(count)
                regrets.append(tried)
            of, plain, first = 100 * np.asarray(regrets).T
            print(f"| {name} | {len(of)} | {min(counts)} to {max(counts)} | {of.mean():.2f} % | {np.median(of):.2f} % "
                  f"| {of.max():.1f} % | {(of <= 2).sum()} | {plain.mean():.2f} % | {plain.max():.1f} % "
                  f"| {first.mean():.2f} % |")  # fmt: skip


def regret(rows: Measured, shape: tuple[int, int, int], calibration: str, seed: int) -> tuple[list[float], int]:
    """Regret of the best of prune's five, of perf_model's and of the first; how many configurations the list had."""
    p = rows.problem
    here = np.flatnonzero((p.m == shape[0]) & (p.n == shape[1]) & (p.k == shape[2]))
    here = np.random.default_rng(seed).permutation(here)[:LIST]
    configs = []
    for i in here.tolist():
        c = rows.config.row(i)
        configs.append(Config({META[term]: c[term] for term in META}, c["num_warps"], c["num_stages"], i))
    asked: dict[str, Any] = {
        "gpu": rows.gpu.name, "dtype": p.dtype, "layout": "NN", "l2": rows.l2, "calibrated": calibration,
    }  # fmt: skip
    sizes, model = dict(zip("MNK", shape, strict=True)), perf_model(**asked)
    plain = sorted(configs, key=lambda c: model(**sizes, **c.kwargs, num_warps=c.num_warps, num_stages=c.num_stages))
    lists = [prune(top=TOP, **asked)(configs, sizes), plain[:TOP], plain[:1]]
    best = rows.time_s[here].min()
    return [float(rows.time_s[[c.place for c in left]].min() / best - 1) for left in lists], len(here)


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (record, show, replay):
        own = verbs.add_parser(verb.__name__)
        own.set_defaults(run=verb)
        if verb is replay:
            own.add_argument("--seed", type=int, default=0)
        else:
            own.add_argument("rows")
        if verb is record:
            own.add_argument("--dtype", choices=["bf16", "fp16"], default="bf16")
            own.add_argument("--shapes", type=int, default=len(SHAPES), help="the first so many")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
