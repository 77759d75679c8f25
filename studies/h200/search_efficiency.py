"""How many trials a search needs: `search_efficiency.py record ROWS`, `search_efficiency.py show ROWS [--chart FILE]`.

record: searches replayed over recorded rows. The space of a shape is what was recorded of it, and regret is against the
best of that. Predictions are held out: by coefficients fitted on other shapes than the one searched (five parts, dealt
anew each seed), from tile parameters alone. Shapes with fewer configurations than a search has trials are left out.
TPE, random and GP are Optuna's, their proposals mapped to the nearest configuration that is free; GP needs PyTorch, is
slow, and is replayed with the first seed on every few shapes only. "Others' rows": the sampler is given the rows that
the coefficients were fitted on. "In turn": shapes are searched one after another, in an order drawn anew each seed,
each search given the trials of those before it. "8 under way": eight are asked for before the first is told.

show: the table; `--chart` draws it; `--overhead` measures what the search itself costs, over simt's whole space with an
objective that costs nothing. `OPENBLAS_NUM_THREADS=1` is faster where cores are shared.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from verbs import run

from gemmsim.measured import joined, read_measured
from gemmsim.problem import FloatArray
from gemmsim.rows import read_csv, write_csv
from gemmsim.search.learnt import NOTHING, learnt
from gemmsim.search.loop import search
from gemmsim.search.replay import Replay, replays
from gemmsim.search.sampler import FreeSampler, ModelGuidedSampler
from gemmsim.search.space import Space, space_of
from gemmsim.search.trials import distributions
from gemmsim.study.search import DONE, Curve, read_curves

HERE = Path(__file__).resolve().parent
ROWS = {("simt", "fp32"): ("simt_fp32",), ("triton", "bf16"): ("triton_bf16", "triton_bf16_uniform")}
FOLDS = 5
OTHERS, IN_TURN, GP, TOP_K = "model-guided, others' rows", "model-guided, in turn", "GP", "top k"
AHEAD = {"model-guided, 4 under way": 4, "model-guided, 8 under way": 8}
SAMPLERS: dict[str, Callable[[Space, int], BaseSampler]] = {
    "model-guided": lambda space, seed: ModelGuidedSampler(space, seed=seed),
    "TPE": lambda space, seed: FreeSampler(TPESampler(seed=seed), space, seed),
    "random": lambda space, seed: FreeSampler(RandomSampler(seed=seed), space, seed),
    GP: lambda space, seed: FreeSampler(GPSampler(seed=seed), space, seed),
}
#: trials after which the mean regret is printed
SHOWN = (1, 5, 10, 20)
COLUMNS = ("rows", "sampler", "searches", "trials to 1 %", "90th percentile", *(f"regret after {n}" for n in SHOWN))


def searched(replay: Replay, sampler: BaseSampler, trials: int, ahead: int = 1) -> optuna.Study:
    """A search with `ahead` trials under way, which end in the order in which they began."""
    study, under_way = optuna.create_study(sampler=sampler), deque[optuna.Trial]()
    asked = 0
    while asked < trials or under_way:
        while asked < trials and len(under_way) < ahead:
            under_way.append(study.ask(distributions(replay.space)))
            asked += 1
        trial = under_way.popleft()
        place = replay.space.place(trial.params)
        assert place is not None
        study.tell(trial, float(replay.time_s[place]))
    return study


def regret(replay: Replay, study: optuna.Study) -> FloatArray:
    """Regret after each trial."""
    return replay.regret(np.asarray([trial.value for trial in study.trials], np.float64))


def replayed(replay: Replay, seed: int, trials: int, gp: bool) -> Iterator[tuple[str, FloatArray]]:
    """Regret of each sampler on one shape by itself."""
    space = replay.space
    for name, make in SAMPLERS.items():
        if name != GP or gp:
            yield name, regret(replay, searched(replay, make(space, seed), trials))
    given = ModelGuidedSampler(space, seed=seed, learnt=replay.learnt)
    yield OTHERS, regret(replay, searched(replay, given, trials))
    for name, ahead in AHEAD.items():
        yield name, regret(replay, searched(replay, ModelGuidedSampler(space, seed=seed), trials, ahead))
    yield TOP_K, replay.regret(replay.time_s[np.argsort(space.predicted_s, kind="stable")[:trials]])


def in_turn(shapes: Sequence[Replay], seed: int, trials: int) -> Iterator[FloatArray]:
    """Regret of searches one after another, each given the trials of those before it."""
    known = NOTHING
    for i in np.random.default_rng(seed).permutation(len(shapes)):
        study = searched(shapes[i], ModelGuidedSampler(shapes[i].space, seed=seed, learnt=known), trials)
        known += learnt([(shapes[i].space, study.trials)])
        yield regret(shapes[i], study)


def regrets(names: tuple[str, ...], args: argparse.Namespace) -> dict[str, FloatArray]:
    """Sampler -> regret, a row a search (shapes x seeds), a column a trial."""
    rows = joined([read_measured(str(HERE / f"{name}.csv.gz")) for name in names])
    found: dict[str, list[FloatArray]] = {}
    for seed in range(args.seeds):
        shapes = [r for r in replays(rows, folds=FOLDS, seed=seed) if len(r.space) >= args.trials]
        for i, replay in enumerate(shapes):
            gp = seed == 0 and args.gp_every > 0 and i % args.gp_every == 0
            for name, curve in replayed(replay, seed, args.trials, gp):
                found.setdefault(name, []).append(curve)
        found.setdefault(IN_TURN, []).extend(in_turn(shapes, seed, args.trials))
    return {name: np.stack(curves) for name, curves in found.items()}


def record(args: argparse.Namespace) -> None:
    """Replay all searches and write their curves, a line a trial."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if args.gp_every and not find_spec("torch"):
        print("GP is left out: Optuna's GPSampler needs PyTorch, which is not installed.")
        args.gp_every = 0
    lines = [
        ("h200_sxm", *what, name, len(found), n + 1, at.mean(), np.median(at), np.mean(at <= DONE))
        for what, names in ROWS.items() for name, found in regrets(names, args).items() for n, at in enumerate(found.T)
    ]  # fmt: skip
    titles = ("gpu", "family", "dtype", "sampler", "searches", "trial", "mean_regret", "median_regret", "done_share")
    columns = dict(zip(titles, zip(*lines, strict=True), strict=True))
    write_csv(args.out, {name: np.asarray(c) if name in titles[4:] else list(c) for name, c in columns.items()})
    print(f"{args.out}: {len(lines)} lines, {args.seeds} seeds")


def line(curve: Curve) -> str:
    """A line of the table."""
    counts = ["> " * (n is None) + str(n or len(curve.mean)) for n in (curve.trials_to(0.5), curve.trials_to(0.9))]
    means = [f"{curve.mean[n - 1]:.2%}" for n in SHOWN]
    return f"| {' | '.join([curve.rows, curve.sampler, str(curve.searches), *counts, *means])} |"


def show(args: argparse.Namespace) -> None:
    """Print the table, draw it and measure the overhead, as asked."""
    curves = read_curves(read_csv(args.rows))
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for curve in curves:
        print(line(curve))
    if args.chart:
        chart(curves).save(args.chart)
    if args.overhead:
        overhead()


def chart(curves: Sequence[Curve]) -> Any:
    """Mean regret against trials, a panel a kernel; with one trial under way at a time."""
    import altair as alt

    from gemmsim.report.search.charts import regret_lines
    from gemmsim.report.search.numbers import points

    kernels = dict.fromkeys(curve.rows for curve in curves)
    panels = [
        regret_lines(points([c for c in curves if c.rows == rows and c.sampler not in AHEAD])).properties(
            width=320, height=240, title=rows
        )
        for rows in kernels
    ]
    return alt.hconcat(*panels).properties(background="white")


def overhead(trials: int = 1000) -> None:
    """Print what a trial costs beside its measurement."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = space_of(4096, 4096, 4096, gpu="h200_sxm", family="simt", dtype="fp32")
    truth = space.predicted_s * np.exp(0.1 * np.random.default_rng(0).normal(size=len(space)))
    replay = Replay((4096, 4096, 4096), space, truth)
    for name, make in SAMPLERS.items():
        if name != GP:
            start = time.perf_counter()
            search(space, replay, trials=trials, sampler=make(space, 0), seed=0)
            print(f"{name}: {(time.perf_counter() - start) / trials * 1e3:.1f} ms a trial, {len(space)} configurations")


def _recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--gp-every", type=int, default=4, help="GP on every N-th shape; 0: not at all")
    parser.add_argument("--trials", type=int, default=40)


def _showing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chart", metavar="FILE", help="draw regret against trials: .html, .json, .png, .svg")
    parser.add_argument("--overhead", action="store_true")


if __name__ == "__main__":
    run(__doc__, record, show, drawing=_recording, showing=_showing, drawn="record")
