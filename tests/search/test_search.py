"""The search loop and its samplers: every configuration once, failures kept, resumable, a bad model unlearnt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState
from spaces import replay, small, whole

from gemmsim import families
from gemmsim.config import Config
from gemmsim.errors import GemmsimError
from gemmsim.search.loop import NO_TIME, PREDICTED, search
from gemmsim.search.residual import Corrected, corrected
from gemmsim.search.sampler import FreeSampler, ModelGuidedSampler, _improvement
from gemmsim.search.space import Candidate, Space, space_of
from gemmsim.search.trials import INTERRUPTED, PLACE, STATUS, distributions
from gemmsim.search.workers import WORKER, Worker

Make = Callable[[Space, int], BaseSampler]
SAMPLERS: dict[str, Make] = {
    "model-guided": lambda space, seed: ModelGuidedSampler(space, seed=seed),
    "TPE": lambda space, seed: TPESampler(seed=seed, n_startup_trials=4),
    "random": lambda space, seed: RandomSampler(seed=seed),
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)


def proposed(study: optuna.Study) -> list[tuple[int, ...]]:
    return [tuple(trial.params.values()) for trial in study.trials]


@every_sampler
def test_no_configuration_twice_and_every_one_is_of_the_space(make: Make) -> None:
    space = whole()
    study = search(space, replay(space), trials=40, sampler=make(space, 0), seed=0)
    assert len(set(proposed(study))) == len(study.trials) == 40
    for trial in study.trials:
        place = space.place(trial.params)
        assert place is not None
        assert trial.user_attrs == {
            STATUS: "ok", PREDICTED: space.predicted_s[place], WORKER: str(Worker.this()), PLACE: place
        }  # fmt: skip
        assert trial.value == replay(space).time_s[place]


@every_sampler
def test_a_space_smaller_than_the_budget_is_searched_through(make: Make) -> None:
    space = small(9)
    study = search(space, replay(space), trials=500, sampler=make(space, 0), seed=0)
    assert sorted(proposed(study)) == sorted(tuple(space.params(i).values()) for i in range(9))
    assert study.best_value == replay(space).time_s.min()
    assert len(search(space, replay(space), trials=500, sampler=make(space, 0), study=study).trials) == 9


@every_sampler
def test_the_same_seed_proposes_the_same_and_goes_on_so(make: Make) -> None:
    space = whole()
    first, second = (search(space, replay(space), trials=15, sampler=make(space, 3), seed=3) for _ in range(2))
    assert proposed(first) == proposed(second)


@every_sampler
def test_failed_trials_are_failed_with_their_status(make: Make) -> None:
    space = small()
    answers: tuple[float | str, ...] = ("compile", float("nan"), float("inf"), 0.0, -1.0, 1e-3)
    calls: list[Candidate] = []

    def objective(config: Candidate) -> float | str:
        calls.append(config)
        return answers[(len(calls) - 1) % len(answers)]

    study = search(space, objective, trials=12, sampler=make(space, 0), seed=0)
    assert [t.user_attrs[STATUS] for t in study.trials] == ["compile", *[NO_TIME] * 4, "ok"] * 2
    assert [t.state for t in study.trials] == [*[TrialState.FAIL] * 5, TrialState.COMPLETE] * 2
    assert len(set(proposed(study))) == 12
    assert [call.config for call in calls] == [t.params for t in study.trials]


def test_a_search_in_which_all_fails_ends() -> None:
    space = small(12)
    study = search(space, lambda config: "launch", trials=20, seed=0)
    assert [t.state for t in study.trials] == [TrialState.FAIL] * 12


@every_sampler
def test_a_search_goes_on_in_another_process(make: Make, tmp_path: Path) -> None:
    space, url = small(), f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(study_name="s", storage=url)
    search(space, replay(space), trials=7, sampler=make(space, 0), study=study, seed=0)
    again = optuna.load_study(study_name="s", storage=url)
    search(space, replay(space), trials=11, sampler=make(space, 0), study=again, seed=0)
    assert len(set(proposed(again))) == len(again.trials) == 11


def test_a_resumed_search_proposes_what_an_uninterrupted_one_does() -> None:
    space = whole()
    straight = search(space, replay(space), trials=14, seed=5)
    resumed = search(space, replay(space), trials=6, seed=5)
    search(space, replay(space), trials=14, study=resumed, seed=5)
    assert proposed(resumed) == proposed(straight)


@every_sampler
def test_what_was_stopped_is_free_again(make: Make) -> None:
    space = small(5)
    study = optuna.create_study()

    def stopped(candidate: Candidate) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(space, stopped, trials=5, sampler=make(space, 0), study=study, seed=0)
    search(space, replay(space), trials=5, sampler=make(space, 0), study=study, seed=0)
    assert [t.user_attrs[STATUS] for t in study.trials] == [INTERRUPTED, *["ok"] * 5]
    assert len(set(proposed(study)[1:])) == 5


def test_a_running_trial_of_another_worker_is_not_proposed() -> None:
    space = small(6)
    study = optuna.create_study(sampler=ModelGuidedSampler(space, seed=0))
    asked = [study.ask(distributions(space)).params for _ in range(6)]
    assert len({tuple(params.values()) for params in asked}) == 6
    with pytest.raises(GemmsimError, match="all 6 configurations of the space have been tried"):
        study.ask(distributions(space))


@pytest.mark.parametrize("inner", [None, RandomSampler(seed=0)], ids=["model-guided", "random"])
def test_optimize_of_optuna_works_too(inner: BaseSampler | None) -> None:
    space = small(10)
    sampler = ModelGuidedSampler(space, seed=0) if inner is None else FreeSampler(inner, space, 0)

    def objective(trial: optuna.Trial) -> float:
        config = {name: trial.suggest_categorical(name, values) for name, values in space.choices.items()}
        return float(replay(space)(Candidate("triton", config)))

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=10)
    assert study.best_value == replay(space).time_s.min()


def test_a_parameter_that_the_model_knows_nothing_of_is_refused() -> None:
    study = optuna.create_study(sampler=ModelGuidedSampler(small(), seed=0))
    with pytest.raises(GemmsimError, match="x is suggested, which is no parameter of the space"):
        study.ask().suggest_float("x", 0, 1)


def test_a_study_of_another_space_is_refused_and_says_what_differs() -> None:
    space = small()
    study = search(space, replay(space), trials=2, seed=0)
    other = Space(space.parts, space.predicted_s, {**space.identity, "gpu": "a100_sxm_80gb"})
    with pytest.raises(GemmsimError, match=r"is of gpu h200_sxm, not a100_sxm_80gb: expected a new study"):
        search(other, replay(other), trials=4, study=study)
    with pytest.raises(GemmsimError, match=r"is of configurations 24, sha256 \w+, not 23, sha256"):
        search(small(23), replay(small(23)), trials=4, study=study)
    foreign = optuna.create_study()
    foreign.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(GemmsimError, match="has trials that are not gemmsim's"):
        search(space, replay(space), trials=4, study=foreign)
    assert len(study.trials) == 2


def test_a_study_that_maximises_is_refused() -> None:
    for directions in (["maximize"], ["minimize", "minimize"]):
        with pytest.raises(GemmsimError, match="does not minimise one value"):
            search(small(), replay(small()), trials=1, study=optuna.create_study(directions=directions))


def test_what_is_enqueued_is_measured_first_if_it_can_launch() -> None:
    space = small()
    study = optuna.create_study()
    study.enqueue_trial(space.params(17))
    search(space, replay(space), trials=3, study=study, seed=0)
    assert study.trials[0].params == space.params(17)
    study.enqueue_trial({**space.params(0), "bm": 256, "bn": 256, "bk": 256, "num_warps": 1, "num_stages": 6})
    with pytest.raises(GemmsimError, match=r"trial 3 is \{.*\}: expected a configuration that can launch"):
        search(space, replay(space), trials=9, study=study, seed=0)


def test_improvement_beyond_five_deviations_joins_the_tail_and_still_orders() -> None:
    z = np.asarray([3.0, 0.0, -4.999, -5.001, -8.0, -40.0, -400.0])
    score = _improvement(Corrected(-z, np.ones(len(z))), 0.0)
    assert (np.diff(score) < 0).all()
    assert score[1] == pytest.approx(np.log(1 / np.sqrt(2 * np.pi)))
    assert score[2] - score[3] < 0.03


@pytest.mark.parametrize("wrong", [0, -3])
def test_counts_that_are_none(wrong: int) -> None:
    with pytest.raises(GemmsimError, match=f"trials = {wrong}: expected"):
        search(small(), replay(small()), trials=wrong)
    with pytest.raises(GemmsimError, match=f"shortlist = {wrong}: expected"):
        ModelGuidedSampler(small(), shortlist=wrong)


def with_default_at(factor: float) -> Space:
    """The whole space, its default predicted this factor as slow as the fastest."""
    space = whole()
    predicted_s = space.predicted_s.copy()
    predicted_s[space.default] = factor * predicted_s.min()
    return Space(space.parts, predicted_s, space.identity)


def test_the_first_trials_are_the_fastest_predicted_of_different_tiles_and_the_default() -> None:
    space = whole()
    study = search(space, replay(space), trials=4, seed=0)
    places = [space.place(trial.params) for trial in study.trials]
    assert places[0] == np.argmin(space.predicted_s)
    assert len({int(space.tiles[place]) for place in places[:3] if place is not None}) == 3
    default = {p.name: p.default for p in families.family("triton").PARAMETERS}
    assert study.trials[3].params == default


def test_the_default_is_tried_whatever_the_model_says_and_where_it_stands_if_the_model_likes_it() -> None:
    slow, best = with_default_at(9.0), with_default_at(0.9)
    assert slow.shortlist(4)[3] == slow.default
    assert len({int(slow.tiles[place]) for place in slow.shortlist(4)}) == 4
    assert best.shortlist(4)[0] == best.default
    assert len(set(best.shortlist(4))) == 4


def test_trials_under_way_are_taken_for_measured_and_their_like_left_alone() -> None:
    space = whole()
    sampler = ModelGuidedSampler(space, shortlist=1, seed=0)
    study = optuna.create_study(sampler=sampler)
    for _ in range(6):
        trial = study.ask(distributions(space))
        study.tell(trial, replay(space)(Candidate("triton", trial.params)))
    waiting = [study.ask(distributions(space)) for _ in range(4)]
    places, time_s = sampler._believed(study.get_trials())
    assert [space.place(trial.params) for trial in waiting] == places[6:].tolist()
    expected = corrected(space, places[:6], time_s[:6], places[6:7])
    assert time_s[6] == pytest.approx(np.exp(expected.mean[0]), rel=0.2)
    alone = corrected(space, places[:6], time_s[:6], np.arange(len(space)))
    with_them = corrected(space, places, time_s, np.arange(len(space)))
    near = space.tiles == space.tiles[places[6]]
    assert np.median(with_them.deviation[near] / alone.deviation[near]) < 0.95


def test_a_model_whose_order_is_the_wrong_way_round_is_unlearnt() -> None:
    space = whole()
    wrong = Space(space.parts, 1e-9 / space.predicted_s, space.identity)
    truth = replay(wrong, space.predicted_s)
    for seed in range(3):
        study = search(wrong, truth, trials=30, seed=seed)
        rank = (space.predicted_s < study.best_value).sum()
        assert rank < 0.02 * len(space)  # 30 at random: 45 % have one of them


def test_a_model_that_is_three_times_off_on_one_tile_is_corrected() -> None:
    space = whole()
    tile = space.tiles[np.argmin(space.predicted_s)]
    truth = np.where(space.tiles == tile, 3.0, 1.0) * space.predicted_s
    study = search(space, replay(space, truth), trials=12, seed=0)
    tried = [int(space.tiles[place]) == tile for t in study.trials[4:] if (place := space.place(t.params)) is not None]
    assert sum(tried) == 0
    assert study.best_value == truth.min()


def test_what_fails_is_not_taken_for_fast_where_the_model_is_far_off() -> None:
    space = small(24)
    slow = replay(space, 50 * space.predicted_s)
    study = search(space, lambda c: "compile" if c.config["bm"] == 16 else slow(c), trials=24, seed=0)
    good = space.parts[0]["bm"] != 16
    assert study.best_value == slow.time_s[good].min()


def test_the_nearest_configuration_is_free_and_the_fewest_steps_away() -> None:
    values = {"bm": [16, 16, 32, 64], "bn": [16, 64, 64, 16], "bk": [16] * 4}
    config = Config("triton", {name: np.asarray(column, np.int64) for name, column in values.items()})
    space = Space([config], np.ones(4), {})
    every, generator = np.ones(4, bool), np.random.default_rng(0)
    assert space.nearest({"bm": 16, "bn": 64, "bk": 16}, every, generator) == 1
    assert space.nearest({"bm": 16, "bn": 64, "bk": 16}, ~np.eye(4, dtype=bool)[1], generator) == 2
    ties = {space.nearest({"bm": 64, "bn": 64, "bk": 16}, np.asarray([1, 0, 1, 0], bool), generator) for _ in range(9)}
    assert ties == {2}
    drawn = {space.nearest({"bm": 16, "bn": 64, "bk": 16}, np.asarray([1, 0, 0, 1], bool), generator) for _ in range(9)}
    assert drawn == {0}


def test_a_space_of_several_families_is_searched_as_one() -> None:
    both = space_of(128, 256, 64, gpu="h200_sxm", family=["simt", "register_tile"], dtype="fp32")
    place = len(both) - 1
    assert both.candidate(place).family == "register_tile"
    assert both.place_of(both.candidate(place)) == both.place(both.params(place)) == place
    assert both.params(0)["family"] == "simt"
    assert {name for name, value in both.params(place).items() if value is None} >= {"stages", "split_k"}
    study = search(both, lambda candidate: 1.0 if candidate.family == "simt" else 0.5, trials=25, seed=0)
    assert {trial.params["family"] for trial in study.trials[-10:]} == {"register_tile"}
    assert both.place_of(Candidate("triton", {})) is None


def test_a_space_holds_what_can_launch_and_nothing_twice() -> None:
    space = whole()
    assert 0 < len(space) < len(families.space("triton"))
    assert np.isfinite(space.predicted_s).all()
    twice = space.parts[0].take(np.asarray([0, 1, 0], np.intp))
    with pytest.raises(GemmsimError, match="3 configurations, 2 different"):
        Space([twice], np.ones(3), {})
    with pytest.raises(GemmsimError, match="each with a predicted time > 0"):
        Space([twice], np.asarray([1, np.nan, 1]), {})
    with pytest.raises(GemmsimError, match="has no fp64 kernel"):
        space_of(64, 64, 64, gpu="h200_sxm", family="triton", dtype="fp64")
