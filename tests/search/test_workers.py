"""Workers on one study: who lives, whose turn it is, what becomes of the trials of the dead and of those stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from spaces import replay, small

from gemmsim.errors import GemmsimError
from gemmsim.search import turns, workers
from gemmsim.search.loop import Outcome, search
from gemmsim.search.sampler import ModelGuidedSampler
from gemmsim.search.space import Candidate, Space
from gemmsim.search.storage import open_storage
from gemmsim.search.trials import INTERRUPTED, PLACE, REASON, STATUS, UNFINISHED, UNNEEDED, distributions
from gemmsim.search.turns import CRASH, RETRIES
from gemmsim.search.workers import BEAT, GRACE_S, WORKER, Beats, Watch, Worker

pytestmark = [pytest.mark.usefixtures("let_go"), pytest.mark.filterwarnings("ignore::ResourceWarning")]
HAMMER = Path(__file__).parent / "hammer.py"


def dead() -> str:
    """A worker of this machine that is no more."""
    return str(replace(Worker.this(), started="1"))


def away() -> str:
    """A worker of another machine."""
    return str(replace(Worker.this(), host="elsewhere", machine="00000000"))


def begun(study: optuna.Study, worker: str | None, place: int | None = None) -> int:
    """A trial that runs, and its number."""
    attributes = {} if worker is None else {WORKER: worker, STATUS: UNFINISHED}
    study.add_trial(create_trial(state=TrialState.RUNNING, user_attrs=attributes))
    trial = study.get_trials()[-1]
    if place is not None:
        study._storage.set_trial_user_attr(trial._trial_id, PLACE, place)
    return trial.number


def new_study(space: Space) -> optuna.Study:
    """A study that is the space's and holds no trial."""
    study = optuna.create_study()
    study.set_user_attr("gemmsim_space", space.described)
    return study


def statuses(study: optuna.Study) -> list[str]:
    return [trial.user_attrs[STATUS] for trial in study.trials]


class Several:
    """An objective with three under way, the newest done first."""

    ahead = 3

    def __init__(self, space: Space) -> None:
        self.replay, self.most = replay(space), 0
        self.asked: list[tuple[int, Candidate]] = []

    def submit(self, ticket: int, candidate: Candidate) -> None:
        self.asked.append((ticket, candidate))
        self.most = max(self.most, len(self.asked))

    def next(self) -> tuple[int, Outcome]:
        ticket, candidate = self.asked.pop()
        return ticket, Outcome(float(self.replay(candidate)), facts={"regs": 7, "how": "fast"})


def test_several_are_under_way_and_each_is_told_as_it_comes() -> None:
    space, told = small(), list[FrozenTrial]()
    objective = Several(space)
    study = search(space, objective, trials=10, seed=0, progress=told.append)
    assert objective.most == 3
    assert [trial.number for trial in told][:3] == [2, 3, 4]
    assert len({tuple(trial.params.values()) for trial in study.trials}) == len(told) == len(study.trials) == 10
    for trial in study.trials:
        place = space.place(trial.params)
        assert place == trial.user_attrs[PLACE]
        assert place is not None
        assert trial.value == objective.replay.time_s[place]
        assert (trial.user_attrs["regs"], trial.user_attrs["how"]) == (7, "fast")


def test_what_is_under_way_when_it_is_stopped_is_free_again() -> None:
    space, objective = small(6), Several(small(6))
    study = new_study(space)

    def stop(trial: FrozenTrial) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(space, objective, trials=6, study=study, seed=0, progress=stop)
    assert sorted(statuses(study)) == [INTERRUPTED, INTERRUPTED, "ok"]
    search(space, Several(space), trials=6, study=study, seed=0)
    good = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len({trial.user_attrs[PLACE] for trial in good}) == len(good) == 6


def test_no_trial_is_begun_after_the_budget_and_those_under_way_are_waited_for() -> None:
    space, ended = small(), list[FrozenTrial]()

    class Slow(Several):
        def next(self) -> tuple[int, Outcome]:
            time.sleep(0.3)
            return super().next()

    study = search(space, Slow(space), trials=20, budget_s=0.2, seed=0, progress=ended.append)
    assert statuses(study) == ["ok"] * 3
    assert len(ended) == 3
    assert not search(space, replay(space), trials=20, budget_s=0, seed=0).trials


def test_an_outcome_that_failed_says_why() -> None:
    study = search(small(), lambda candidate: Outcome(None, "timeout", "not done after 5 s"), trials=1, seed=0)
    (trial,) = study.trials
    assert trial.state == TrialState.FAIL
    assert (trial.user_attrs[STATUS], trial.user_attrs[REASON]) == ("timeout", "not done after 5 s")
    both = search(small(), lambda candidate: Outcome(1e-3, "wrong"), trials=1, seed=0).trials[0]
    assert (both.state, both.user_attrs[STATUS]) == (TrialState.FAIL, "wrong")


def test_a_killed_process_is_gone_even_before_it_is_buried() -> None:
    here = Worker.this()
    assert not here.gone(here)
    assert replace(here, started="1").gone(here)  # its number was given anew
    assert not replace(here, machine="00000000", pid=2**30).gone(here)
    assert not replace(here, machine="", pid=2**30).gone(replace(here, machine=""))
    say = "from gemmsim.search.workers import Worker; print(Worker.this(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", say], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    name = child.stdout.readline().strip()
    other = Worker.of(create_trial(state=TrialState.RUNNING, user_attrs={WORKER: name}))
    assert other is not None
    assert str(other) == name
    assert not other.gone(here)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert other.gone(here)
    child.wait()
    child.stdout.close()
    child.stdin.close()
    assert other.gone(here)


def test_a_worker_elsewhere_is_dead_when_its_beat_stands_still() -> None:
    study, now = optuna.create_study(), [0.0]
    watch = Watch(clock=lambda: now[0])
    begun(study, away())

    def seen(at: float) -> bool:
        now[0] = at
        return watch.dead(study.trials[0])

    assert not seen(0)
    assert not seen(GRACE_S)
    study._storage.set_trial_user_attr(study.trials[0]._trial_id, BEAT, 1)
    assert not seen(GRACE_S + 1)
    assert not seen(2 * GRACE_S)
    assert seen(2 * GRACE_S + 2)


def test_beats_are_shown_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BEAT_S", 0.01)
    study = optuna.create_study()
    trial = study.ask()
    ended = study.ask()
    study.tell(ended, 1.0)
    beats = Beats(study._storage, lambda: [ended._trial_id, trial._trial_id])
    beats.start()
    until = time.monotonic() + 10
    while study.trials[0].user_attrs.get(BEAT, 0) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    beats.stop()
    last = study.trials[0].user_attrs[BEAT]
    assert last >= 3
    assert BEAT not in study.trials[1].user_attrs


def test_choices_wait_for_those_with_lower_numbers() -> None:
    space = small()
    study = new_study(space)
    begun(study, str(Worker.this()))
    search(space, replay(space), trials=5, study=study, seed=0, budget_s=0.2)
    assert (study.trials[1].state, statuses(study)[1]) == (TrialState.FAIL, UNNEEDED)
    other = threading.Timer(0.3, lambda: study._storage.set_trial_user_attr(study.trials[0]._trial_id, PLACE, 3))
    other.start()
    search(space, replay(space), trials=2, study=study, seed=0, budget_s=1.5)
    assert study.trials[2].user_attrs[PLACE] != 3
    assert study.trials[2].datetime_complete is not None
    other.join()


@pytest.mark.parametrize("chosen", [None, 5])
def test_what_a_dead_worker_had_comes_first(chosen: int | None) -> None:
    space = small(8)
    study = new_study(space)
    begun(study, dead(), chosen)
    study = search(space, replay(space), trials=8, study=study, seed=0)
    first, *others = study.trials
    assert (first.state, first.user_attrs[STATUS]) == (TrialState.FAIL, UNFINISHED)
    assert len({trial.user_attrs[PLACE] for trial in others}) == len(others) == 8
    assert all(trial.state == TrialState.COMPLETE for trial in others)
    assert chosen in (None, others[0].user_attrs[PLACE])


def test_a_configuration_that_kills_its_workers_is_given_up() -> None:
    space = small(8)
    study = new_study(space)
    for attempt in range(RETRIES + 1):
        _killed(space, study)
        assert study.trials[attempt].user_attrs[PLACE] == study.trials[0].user_attrs[PLACE]
    search(space, replay(space), trials=8, study=study, seed=0)
    assert statuses(study) == [*[UNFINISHED] * RETRIES, CRASH, *["ok"] * 7]
    assert study.trials[RETRIES].state == TrialState.FAIL
    assert len({trial.user_attrs[PLACE] for trial in study.trials}) == 8


def _killed(space: Space, study: optuna.Study) -> None:
    """A search whose worker dies in its first trial."""

    def objective(candidate: Candidate) -> float:
        study._storage.set_trial_user_attr(study.trials[-1]._trial_id, WORKER, dead())
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns.Turns, "end", lambda self, number, value, attributes: None)
        with pytest.raises(SystemExit):
            search(space, objective, trials=8, study=study, seed=0)


def test_a_worker_that_was_thought_dead_and_comes_back_counts_once() -> None:
    space = small(8)
    study, told, calls = new_study(space), list[FrozenTrial](), list[Candidate]()

    def objective(candidate: Candidate) -> float:
        calls.append(candidate)
        if len(calls) == 2:  # others end it meanwhile
            study._storage.set_trial_state_values(study.trials[-1]._trial_id, TrialState.FAIL)
        return float(replay(space)(candidate))

    search(space, objective, trials=8, study=study, seed=0, progress=told.append)
    assert statuses(study) == ["ok", UNFINISHED, *["ok"] * 7]
    assert calls[1] == calls[2]
    assert len(told) == 8
    assert len({trial.user_attrs[PLACE] for trial in study.trials}) == 8


@pytest.mark.parametrize("status", ["ok", UNFINISHED])
def test_the_last_worker_waits_for_others_and_takes_over_from_the_dead(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "IDLE_S", 0.02)
    space = small(4)
    study = new_study(space)
    number = begun(study, str(Worker.this()), 2)

    def dies() -> None:
        for name, value in {STATUS: status, WORKER: dead()}.items():
            study._storage.set_trial_user_attr(study.trials[number]._trial_id, name, value)

    death = threading.Timer(0.3, dies)
    death.start()
    search(space, replay(space), trials=4, study=study, seed=0)
    death.join()
    assert statuses(study) == [UNFINISHED, *["ok"] * 4]
    assert study.trials[-1].user_attrs[PLACE] == 2


def test_trials_of_other_programs_are_left_alone_and_not_waited_for() -> None:
    space = small(6)
    study = new_study(space)
    study.sampler = ModelGuidedSampler(space, seed=0)
    theirs = study.ask(distributions(space))
    study.ask({"bm": distributions(space)["bm"], "x": CategoricalDistribution([1])})
    search(space, replay(space), trials=6, study=study, seed=0)
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING] * 2 + [TrialState.COMPLETE] * 5
    assert space.place(theirs.params) not in [trial.user_attrs[PLACE] for trial in study.trials[2:]]


def test_a_trial_without_a_name_or_parameters_is_dead_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GRACE_S", 0.1)
    space = small(6)
    study = new_study(space)
    study.enqueue_trial(space.params(4))
    study._storage.set_trial_state_values(study.trials[0]._trial_id, TrialState.RUNNING)  # and killed here
    begun(study, None)
    search(space, replay(space), trials=6, study=study, seed=0)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 6
    assert study.trials[2].user_attrs[PLACE] == 4


def test_what_is_enqueued_twice_is_measured_once() -> None:
    space = small(6)
    study = new_study(space)
    for place in (3, 3, 1):
        study.enqueue_trial(space.params(place))
    search(space, replay(space), trials=6, study=study, seed=0)
    assert statuses(study) == ["ok", UNNEEDED, *["ok"] * 5]
    assert study.trials[1].user_attrs[REASON] == "trial 0 is of the same configuration"
    study.enqueue_trial(space.params(2))
    search(space, replay(space), trials=6, study=study, seed=0)
    assert study.trials[-1].state == TrialState.WAITING


def test_the_proposals_of_two_workers_in_threads_differ(tmp_path: Path) -> None:
    space, url = small(12), str(tmp_path / "study.journal")
    optuna.create_study(study_name="s", storage=open_storage(url))
    failed: list[BaseException] = []

    def work() -> None:
        try:
            study = optuna.load_study(study_name="s", storage=open_storage(url))
            search(space, replay(space), trials=12, study=study, seed=0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    trials = optuna.load_study(study_name="s", storage=open_storage(url)).trials
    good = [trial for trial in trials if trial.user_attrs[STATUS] != UNNEEDED]
    assert len({trial.user_attrs[PLACE] for trial in good}) == len(good) == 12
    assert {trial.state for trial in good} == {TrialState.COMPLETE}


def test_a_storage_that_goes_away_is_said(server: str) -> None:
    space, study = small(), optuna.create_study(study_name="s", storage=open_storage(server))

    def objective(candidate: Candidate) -> float:
        from sqlalchemy import text

        with study._storage._backend.engine.begin() as connection:  # type: ignore[attr-defined]
            connection.execute(text("DROP TABLE trial_values CASCADE"))
        return 1.0

    with pytest.raises(GemmsimError, match=r"study s: its storage no longer answers: relation .trial_values. does not"):
        search(space, objective, trials=3, study=study)
    study._storage._backend.engine.dispose()  # type: ignore[attr-defined]


@pytest.fixture
def urls(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Kind of storage -> URL of an empty one."""
    made = {
        "journal": lambda: str(tmp_path / "study.journal"),
        "SQLite": lambda: f"sqlite:///{tmp_path}/study.db",
        "PostgreSQL": lambda: str(request.getfixturevalue("server")),
    }
    return lambda kind: made[kind]()  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["journal", "SQLite", "PostgreSQL"])
def test_workers_killed_at_any_moment_lose_nothing_and_measure_nothing_twice(
    kind: str, urls: Callable[[str], str]
) -> None:
    size = ["--workers", "3", "--trials", "14", "--sleep", "0.05"]
    done = subprocess.run([sys.executable, str(HAMMER), urls(kind), *size], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'configurations': 14" in done.stdout
    assert "'running': 0" in done.stdout
