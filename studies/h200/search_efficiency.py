"""How many trials a search needs, replayed over recorded rows: `search_efficiency.py [--seeds N] [--chart FILE]`.

The space of a shape is what was recorded of it, and regret is against the best of that. Predictions are held out: by
coefficients fitted on other shapes than the one searched (five parts, dealt anew each seed), from tile parameters
alone. Shapes with fewer configurations than a search has trials are left out. Then what the search itself costs, over
simt's whole space with an objective that costs nothing. `OPENBLAS_NUM_THREADS=1` is faster where cores are shared.
TPE and random are Optuna's, their proposals mapped to the nearest configuration that is free; its GPSampler needs
PyTorch and is not among them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from gemmsim.measured import joined, read_measured
from gemmsim.problem import FloatArray
from gemmsim.search.loop import search
from gemmsim.search.replay import Replay, replays
from gemmsim.search.sampler import ModelGuidedSampler
from gemmsim.search.space import Space, space_of

HERE = Path(__file__).resolve().parent
ROWS = {"simt fp32": ("simt_fp32",), "Triton bf16": ("triton_bf16", "triton_bf16_uniform")}
FOLDS = 5
#: a search is done when it is within this of the best
DONE = 0.01
SAMPLERS: dict[str, Callable[[Space, int], BaseSampler]] = {
    "model-guided": lambda space, seed: ModelGuidedSampler(space, seed=seed),
    "TPE": lambda space, seed: TPESampler(seed=seed),
    "random": lambda space, seed: RandomSampler(seed=seed),
}
TOP_K = "top k"
#: trials after which the mean regret is printed
SHOWN = (1, 5, 10, 20)
COLUMNS = ("rows", "sampler", "searches", "trials to 1 %", "90th percentile", *(f"regret after {n}" for n in SHOWN))


def top_k(replay: Replay, trials: int) -> FloatArray:
    """Regret of measuring in the model's order, after each trial."""
    order = np.argsort(replay.space.predicted_s, kind="stable")[:trials]
    return replay.regret(replay.time_s[order])


def searched(replay: Replay, sampler: str, seed: int, trials: int) -> FloatArray:
    """Regret of a search after each trial."""
    study = search(replay.space, replay, trials=trials, sampler=SAMPLERS[sampler](replay.space, seed), seed=seed)
    return replay.regret(np.asarray([np.inf if t.value is None else t.value for t in study.trials]))


def regrets(names: tuple[str, ...], seeds: int, trials: int) -> dict[str, FloatArray]:
    """Sampler -> regret, a row a search (shapes x seeds), a column a trial."""
    rows = joined([read_measured(str(HERE / f"{name}.csv.gz")) for name in names])
    found: dict[str, list[FloatArray]] = {name: [] for name in (*SAMPLERS, TOP_K)}
    for seed in range(seeds):
        for replay in replays(rows, folds=FOLDS, seed=seed):
            if len(replay.space) >= trials:
                for name in SAMPLERS:
                    found[name].append(searched(replay, name, seed, trials))
                found[TOP_K].append(top_k(replay, trials))
    return {name: np.stack(curves) for name, curves in found.items()}


def line(what: str, sampler: str, regret: FloatArray) -> str:
    """A line of the table; searches that never came near are beyond the last trial."""
    done, trials = regret <= DONE, regret.shape[1]
    first = np.where(done.any(1), done.argmax(1) + 1, np.inf)
    counts = [f"{n:.0f}" if n <= trials else f"> {trials}" for n in np.quantile(first, (0.5, 0.9), method="higher")]
    means = [f"{regret[:, n - 1].mean():.2%}" for n in SHOWN]
    return f"| {' | '.join([what, sampler, str(len(regret)), *counts, *means])} |"


def chart(found: dict[str, dict[str, FloatArray]], path: str) -> None:
    """Mean regret against trials."""
    import altair as alt

    rows = [
        {"rows": what, "sampler": name, "trials": n + 1, "regret": float(value)}
        for what, curves in found.items() for name, regret in curves.items() for n, value in enumerate(regret.mean(0))
    ]  # fmt: skip
    lines = alt.Chart(alt.Data(values=rows)).mark_line().encode(
        x=alt.X("trials:Q", scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("regret:Q", title="mean regret", axis=alt.Axis(format="%"),
                scale=alt.Scale(type="symlog", constant=0.01)),
        color="sampler:N",
    )  # fmt: skip
    lines.properties(width=320, height=240).facet(column=alt.Column("rows:N", title=None)).save(path)


def overhead(trials: int = 1000) -> None:
    """Print what a trial costs beside its measurement."""
    space = space_of(4096, 4096, 4096, gpu="h200_sxm", family="simt", dtype="fp32")
    truth = space.predicted_s * np.exp(0.1 * np.random.default_rng(0).normal(size=len(space)))
    replay = Replay((4096, 4096, 4096), space, truth)
    for name, make in SAMPLERS.items():
        start = time.perf_counter()
        search(space, replay, trials=trials, sampler=make(space, 0), seed=0)
        print(f"{name}: {(time.perf_counter() - start) / trials * 1e3:.1f} ms a trial, {len(space)} configurations")


def main() -> None:
    """Print the table and the overhead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--chart", metavar="FILE", help="draw regret against trials: .html, .json, .png, .svg")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    overhead()
    found = {what: regrets(names, args.seeds, args.trials) for what, names in ROWS.items()}
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for what, curves in found.items():
        for name, regret in curves.items():
            print(line(what, name, regret), flush=True)
    if args.chart:
        chart(found, args.chart)


if __name__ == "__main__":
    main()
