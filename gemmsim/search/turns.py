"""Who measures what: workers on one study, in any of Optuna's storages, choose one after another.

A trial is a ticket. It is created, its worker's name in it, before its configuration is chosen, and its worker chooses
when every running trial with a lower number has chosen or is dead (Lamport's bakery). So each choice knows all earlier
ones, and no two are the same. All it takes of a storage is that trials get their numbers in the order in which they
appear, and that one trial ends once.

A dead worker's trial becomes a failed one with the status `unfinished`, which it was created with; its configuration
comes next, at most RETRIES times, and the last time with the status `crash` for the case that it kills its worker
again. A worker that was thought dead and comes back finds its trial ended and lets go of it.

Of Optuna's private names it uses a study's `_storage` and `_study_id` and a trial's `_trial_id`: `study.ask` cannot
create a trial with attributes, and one that a killed worker has left without a name would hold up all others.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from gemmsim.errors import GemmsimError
from gemmsim.search.space import Space
from gemmsim.search.trials import INTERRUPTED, OK, PLACE, REASON, STATUS, UNFINISHED, UNNEEDED, Trials, distributions
from gemmsim.search.workers import WORKER, Beats, Watch, Worker

#: how often a configuration is tried again whose worker died
RETRIES = 2
#: status of a configuration whose worker died every time
CRASH = "crash"
#: s between two looks at the storage: while others choose, one of them at the least, and while others measure
TURN_S, IDLE_S = 0.002, 0.2
#: and so many times what a look takes, for each of the others: looks are what slows those down that choose
LOOKS = 3

Value = str | int | float


class Begun(NamedTuple):
    """A trial under way, and the position of its configuration in the space."""

    number: int
    place: int


class Turns:
    """This worker's trials of a study. until: on the monotonic clock, s, after which none is begun.

    A context manager: trials under way when it is left by an exception become failed ones, their configurations free.
    """

    def __init__(self, study: optuna.Study, space: Space, trials: int, until: float) -> None:
        self._study, self._space, self._trials, self._until = study, space, trials, until
        self._storage, self._places, self._watch = study._storage, Trials(space), Watch()
        self._distributions = distributions(space)
        self._born: dict[str, Value] = {WORKER: str(Worker.this()), STATUS: UNFINISHED}
        #: number -> Optuna's id of this worker's trials that have not ended
        self.under_way: dict[int, int] = {}
        self._beats = Beats(self._storage, lambda: list(self.under_way.values()))

    def __enter__(self) -> Self:
        self._beats.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._beats.stop()
        for number in list(self.under_way):
            with contextlib.suppress(Exception):  # what ends the search is said, not what follows from it
                self.end(number, None, {STATUS: INTERRUPTED})

    def begin(self) -> Begun | None:
        """Choose a configuration, a trial of it under way; None if there is none to begin now.

        Raises GemmsimError for an enqueued one that cannot launch.
        """
        trials = self._look()
        if time.monotonic() > self._until or not self._room(trials):
            return None
        number = self._popped(trials)
        enqueued = number is not None
        if number is None:
            if not self._left(trials):
                return None
            number = self._created()
        try:
            place = self._chosen(number, enqueued)
            return None if place is None else self._begun(number, place)
        except UpdateFinishedTrialError:  # this worker was thought dead
            self.under_way.pop(number, None)
            return None

    def wait(self) -> bool:
        """Wait a little for other workers' trials, to take over those of the dead; False if nothing can come of it."""
        trials = self._look()
        if time.monotonic() > self._until:
            return False
        if self._room(trials) and (self._left(trials) or self._in(trials, TrialState.WAITING)):
            return True
        if not any(WORKER in trial.user_attrs for trial in self._in(trials, TrialState.RUNNING)):
            return False
        time.sleep(IDLE_S)
        return True

    def note(self, number: int, attributes: Mapping[str, Value]) -> None:
        """Set user attributes of a trial; nothing if it was ended by others."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self._set(number, attributes)

    def end(self, number: int, value: float | None, attributes: Mapping[str, Value]) -> FrozenTrial | None:
        """End a trial, failed without a value; None if others thought this worker dead and ended it before."""
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        try:
            self._set(number, attributes)
            ended = self._study.tell(number, value, state, skip_if_finished=True)
        except UpdateFinishedTrialError:
            return None
        finally:
            self.under_way.pop(number, None)
        return ended if ended.state == state else None

    def _set(self, number: int, attributes: Mapping[str, Value]) -> None:
        for name, value in attributes.items():
            self._storage.set_trial_user_attr(self.under_way[number], name, value)

    def _in(self, trials: Sequence[FrozenTrial], state: TrialState) -> list[FrozenTrial]:
        """Those of a state, which is not the end of one."""
        return [trial for trial in self._places.open(trials) if trial.state == state]

    def _look(self) -> Sequence[FrozenTrial]:
        """The study's trials, those of dead workers ended."""
        trials = self._places.of(self._study)
        running = [t for t in self._in(trials, TrialState.RUNNING) if t.number not in self.under_way]
        dead = [trial for trial in running if self._watch.dead(trial)]
        for trial in dead:
            with contextlib.suppress(UpdateFinishedTrialError):
                if trial.user_attrs.get(STATUS) == OK:  # it died before it could say its time
                    self._storage.set_trial_user_attr(trial._trial_id, STATUS, UNFINISHED)
                self._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        return self._places.of(self._study) if dead else trials

    def _choosing(self, trials: Sequence[FrozenTrial], before: float = math.inf) -> int:
        """How many have not chosen, of those with lower numbers; what other programs measure is their affair."""
        running = [trial for trial in self._in(trials, TrialState.RUNNING) if trial.number < before]
        own = [trial for trial in running if WORKER in trial.user_attrs or not trial.params]
        return sum(self._places.place(trial) is None for trial in own)

    def _room(self, trials: Sequence[FrozenTrial]) -> bool:
        """Whether one more is to be begun: those that are choosing count."""
        begun = int(self._places.taken(trials, waiting=False).sum())
        return begun + self._choosing(trials) < self._trials

    def _left(self, trials: Sequence[FrozenTrial]) -> bool:
        """Whether a configuration is free, those that are choosing served."""
        return int(self._places.free(trials).sum()) > self._choosing(trials)

    def _popped(self, trials: Sequence[FrozenTrial]) -> int | None:
        """A trial that somebody enqueued."""
        for trial in self._in(trials, TrialState.WAITING):
            with contextlib.suppress(UpdateFinishedTrialError):
                if self._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                    self.under_way[trial.number] = trial._trial_id
                    self._set(trial.number, self._born)
                    return trial.number
        return None

    def _created(self) -> int:
        """A new trial, the worker's name in it from the start."""
        template = create_trial(state=TrialState.RUNNING, user_attrs=self._born)
        trial_id = self._storage.create_new_trial(self._study._study_id, template)
        number = self._storage.get_trial_number_from_id(trial_id)
        self.under_way[number] = trial_id
        return number

    def _chosen(self, number: int, enqueued: bool) -> int | None:
        """The configuration of a trial, once it is its turn; None if there is none for it, and the trial has ended."""
        trials = self._turn(number)
        if trials is None:
            return self._unneeded(number, "no time is left")
        return self._enqueued(number, trials) if enqueued else self._proposed(number, trials)

    def _unneeded(self, number: int, reason: str) -> int | None:
        self.end(number, None, {STATUS: UNNEEDED, REASON: reason})
        return None

    def _turn(self, number: int) -> Sequence[FrozenTrial] | None:
        """The trials when all with lower numbers have chosen; None if that takes beyond the end of time."""
        while True:
            start = time.monotonic()
            trials = self._look()
            choosing = self._choosing(trials, number)
            if not choosing:
                return trials
            now = time.monotonic()
            if now > self._until:
                return None
            time.sleep(choosing * max(TURN_S, LOOKS * (now - start)))

    def _enqueued(self, number: int, trials: Sequence[FrozenTrial]) -> int | None:
        trial = trials[number]
        place = self._places.place(trial)
        if place is None:
            raise GemmsimError(f"trial {number} is {trial.system_attrs.get('fixed_params', {})}: expected a "
                               "configuration that can launch")  # fmt: skip
        first = [t for t in trials if t.state.is_finished() or (t.state == TrialState.RUNNING and t.number < number)]
        same = next((other for other in first if self._places.place(other) == place), None)
        if same is not None:
            return self._unneeded(number, f"trial {same.number} is of the same configuration")
        self._set(number, {PLACE: place})
        return place

    def _proposed(self, number: int, trials: Sequence[FrozenTrial]) -> int | None:
        """A configuration whose worker died, or else the sampler's."""
        free = self._places.free(trials)
        if int(self._places.taken(trials, waiting=False).sum()) >= self._trials or not free.any():
            return self._unneeded(number, "other workers have begun all trials")
        deaths = self._places.lost(trials)
        lost = next((place for place in deaths if free[place]), None)
        place = self._sampled(trials[number]) if lost is None else lost
        self._set(number, {PLACE: place})
        if deaths.get(place, 0) >= RETRIES:
            self._set(number, {STATUS: CRASH, REASON: f"its worker died, {RETRIES + 1} times"})
        return place

    def _sampled(self, trial: FrozenTrial) -> int:
        """The sampler's choice. Raises GemmsimError for one that is none."""
        study, sampler = self._study, self._study.sampler
        sampler.before_trial(study, trial)
        params = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
        place = self._space.place(params)
        if place is None:
            raise GemmsimError(f"trial {trial.number} is {params}: expected a configuration that can launch")
        return place

    def _begun(self, number: int, place: int) -> Begun:
        """Its parameters written, which takes long and holds up nobody."""
        for name, value in self._space.params(place).items():
            kind = self._distributions[name]
            self._storage.set_trial_param(self.under_way[number], name, kind.to_internal_repr(value), kind)
        return Begun(number, place)
