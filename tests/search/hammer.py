"""Many workers on one study, each killed with -9 once at a random moment and started anew: `hammer.py [URL ...]`.

Without URLs: a journal, an SQLite file and a PostgreSQL server, all made for it. Each worker searches the recorded rows
of one shape and sleeps a little in each trial. Printed is what became of the trials; a study that does not hold every
configuration that was asked for exactly once, or a trial that still runs, is an error. Given up is a configuration
whose workers happened to be killed three times. Then `--overhead N`: what N
trials of an objective that costs nothing take, of simt's whole space.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.trial import TrialState

sys.path.insert(0, str(Path(__file__).parents[1]))

import postgres

from gemmsim.errors import GemmsimError
from gemmsim.measured import read_measured
from gemmsim.search.loop import Outcome, search
from gemmsim.search.replay import Replay, replays
from gemmsim.search.space import Candidate, space_of
from gemmsim.search.storage import open_storage
from gemmsim.search.trials import OK, PLACE, STATUS, UNFINISHED, UNNEEDED
from gemmsim.search.turns import CRASH
from gemmsim.search.workers import WORKER

ROWS = Path(__file__).parents[2] / "studies" / "h200" / "register_tile_fp32.csv.gz"
NAME = "hammer"


def replay() -> Replay:
    """The recorded rows of one shape."""
    return next(replays(read_measured(str(ROWS)), folds=2))


def study(url: str) -> optuna.Study:
    """The study, made where there is none."""
    return optuna.create_study(study_name=NAME, storage=open_storage(url), load_if_exists=True)


def worker(url: str, one: Replay, trials: int, sleep_s: float, pipe: int) -> None:
    """A process that searches and says in the pipe when a trial has ended; never returns."""
    code = 1
    try:

        def objective(candidate: Candidate) -> float | str:
            time.sleep(random.uniform(0.5, 1.5) * sleep_s)
            return one(candidate)

        search(one.space, objective, trials=trials, study=study(url), seed=0, progress=lambda t: os.write(pipe, b"."))
        code = 0
    except GemmsimError as error:
        print(error, file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


class Crew:
    """The workers, and how many trials they have ended."""

    def __init__(self, url: str, one: Replay, trials: int, sleep_s: float) -> None:
        self.arguments = url, one, trials, sleep_s
        self.reader, self.pipe = os.pipe()
        self.pids: list[int] = []
        self.ended = 0

    def start(self) -> int:
        """One more worker."""
        pid = os.fork()
        if pid == 0:
            random.seed(os.getpid())
            worker(*self.arguments, self.pipe)
        self.pids.append(pid)
        return pid

    def wait_for(self, ended: int, until: float) -> None:
        """Until so many trials have ended in all."""
        while self.ended < ended and time.monotonic() < until:
            if select.select([self.reader], [], [], 0.1)[0]:
                self.ended += len(os.read(self.reader, 4096))

    def kill(self, pid: int) -> bool:
        """Whether it still lived."""
        self.pids.remove(pid)
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

    def join(self) -> list[int]:
        """Wait for all: their exit codes."""
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in self.pids]


def hammered(url: str, *, workers: int = 8, trials: int = 60, sleep_s: float = 0.1, seed: int = 0) -> dict[str, float]:
    """Run it: counts of what became of the trials. Raises AssertionError for a study that is not as it should be."""
    one, drawn, start = replay(), random.Random(seed), time.monotonic()
    crew = Crew(url, one, trials, sleep_s)
    victims = [crew.start() for _ in range(workers)]
    killed = 0
    for ended in sorted(drawn.sample(range(1, trials - 2 * workers), workers)):
        crew.wait_for(ended, start + 300)
        time.sleep(drawn.uniform(0, sleep_s))
        killed += crew.kill(victims.pop(drawn.randrange(len(victims))))
        crew.start()
    codes = crew.join()
    found = counts(url, one)
    asserted = {**found, "killed": killed, "seconds": round(time.monotonic() - start, 1)}
    assert set(codes) == {0}, (codes, asserted)
    assert killed == workers, asserted
    assert found["running"] == found["failed"] == 0, asserted
    assert found["configurations"] == found["ok"] + found["given up"] == min(trials, len(one.space)), asserted
    return asserted


def counts(url: str, one: Replay) -> dict[str, float]:
    """What became of a study's trials; each that is ok must hold the recorded time of its configuration."""
    trials = study(url).trials
    good = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    places = [one.space.place(trial.params) for trial in good]
    for trial, place in zip(good, places, strict=True):
        assert place is not None
        assert trial.value == one.time_s[place]
    places += [int(t.user_attrs[PLACE]) for t in trials if t.state == TrialState.FAIL and t.user_attrs[STATUS] == CRASH]
    failed = Counter(str(trial.user_attrs.get(STATUS)) for trial in trials if trial.state == TrialState.FAIL)
    return {
        "ok": len(good), "configurations": len(set(places)), "lost": failed.pop(UNFINISHED, 0) + failed.pop(OK, 0),
        "unneeded": failed.pop(UNNEEDED, 0), "given up": failed.pop(CRASH, 0), "failed": sum(failed.values()),
        "running": sum(trial.state == TrialState.RUNNING for trial in trials),
        "workers": len({trial.user_attrs[WORKER] for trial in good}),
    }  # fmt: skip


def overhead(url: str | None, trials: int) -> float:
    """Seconds a trial of an objective that costs nothing; in memory for None."""
    space = space_of(4096, 4096, 4096, gpu="h200_sxm", family="simt", dtype="fp32")
    one = Replay((4096, 4096, 4096), space, space.predicted_s)
    kept = None if url is None else optuna.create_study(study_name="overhead", storage=open_storage(url))
    start = time.perf_counter()
    search(space, one, trials=trials, study=kept, seed=0)
    return (time.perf_counter() - start) / trials


class Device:
    """An objective as a GPU is: one configuration after another, sleep_s each, whatever the worker does meanwhile."""

    ahead = 8

    def __init__(self, one: Replay, sleep_s: float) -> None:
        self._one, self._sleep_s, self._free_s = one, sleep_s, 0.0
        self._held: list[tuple[int, Candidate, float]] = []

    def submit(self, ticket: int, candidate: Candidate) -> None:
        """Put it in line."""
        self._free_s = max(self._free_s, time.monotonic()) + self._sleep_s
        self._held.append((ticket, candidate, self._free_s))

    def next(self) -> tuple[int, Outcome]:
        """Wait for the one that is measured."""
        ticket, candidate, done_s = self._held.pop(0)
        time.sleep(max(0.0, done_s - time.monotonic()))
        found = self._one(candidate)
        return ticket, Outcome(found) if isinstance(found, float) else Outcome(None, found)


def rate(url: str, workers: int, trials: int, sleep_s: float) -> float:
    """Trials a second of so many workers with a device each, from the first choice to the last answer."""
    one, name = replay(), f"rate {workers}"
    optuna.create_study(study_name=name, storage=open_storage(url))
    pids = []
    for _ in range(workers):
        pids.append(os.fork())
        if pids[-1] == 0:
            own = optuna.load_study(study_name=name, storage=open_storage(url))
            search(one.space, Device(one, sleep_s), trials=trials, study=own, seed=0)
            os._exit(0)
    assert {os.waitpid(pid, 0)[1] for pid in pids} == {0}
    done = [
        t
        for t in optuna.load_study(study_name=name, storage=open_storage(url)).trials
        if t.state == TrialState.COMPLETE
    ]
    assert len({str(t.params) for t in done}) == len(done) == trials, len(done)
    first = min(t.datetime_start for t in done if t.datetime_start)
    last = max(t.datetime_complete for t in done if t.datetime_complete)
    return trials / (last - first).total_seconds()


@contextlib.contextmanager
def storages(urls: list[str]) -> Iterator[dict[str, str]]:
    """Kind -> URL: those given, or one of each kind made anew."""
    if urls:
        yield {url.partition(":")[0]: url for url in urls}
        return
    with tempfile.TemporaryDirectory() as folder, postgres.server() as server:
        yield {"journal": f"{folder}/study.journal", "SQLite": f"sqlite:///{folder}/study.db", "PostgreSQL": server}


def options() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--sleep", type=float, default=0.1, help="s a trial takes, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scaling", action="store_true", help="trials/s of one worker and of two, none killed")
    parser.add_argument("--overhead", type=int, metavar="N", help="trials of an objective that costs nothing")
    return parser.parse_args()


def main() -> None:
    """Print a line a storage."""
    args = options()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with storages(args.urls) as found:
        for kind, url in found.items():
            sizes = {"workers": args.workers, "trials": args.trials, "sleep_s": args.sleep, "seed": args.seed}
            if args.scaling:
                alone, both = (rate(url, workers, args.trials, args.sleep) for workers in (1, 2))
                print(f"{kind}: {alone:.2f} trials/s, two workers {both:.2f}, {both / alone:.2f} x", flush=True)
            else:
                print(f"{kind}: {hammered(url, **sizes)}", flush=True)
        if args.overhead:
            for kind, where in {"memory": None, **found}.items():
                print(
                    f"{kind}: {overhead(where, args.overhead) * 1e3:.1f} ms a trial, {args.overhead} trials", flush=True
                )


if __name__ == "__main__":
    main()
