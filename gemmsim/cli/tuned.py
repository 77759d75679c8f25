"""What `gemmsim tune` and `gemmsim worker` print: the plan and how far they are to stderr, the report to stdout."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.held import CAMPAIGN
from gemmsim.cli.tables import Column, emit, emit_record, human, said_format, send
from gemmsim.store import default_name
from gemmsim.tuning.job import MEASURED, RECORDED, Job
from gemmsim.tuning.result import DEFAULT, FIRST_PICK, LIBRARY, Entry, Tuned
from gemmsim.tuning.tuner import Watcher

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from gemmsim.search.space import Space

#: s between lines of progress where stderr is no terminal
EVERY_S = 10.0
_ROLES = {DEFAULT: "the kernel's default", FIRST_PICK: "the model's first pick", LIBRARY: "cuBLAS"}
_SHORT_ROLES = {DEFAULT: "default", FIRST_PICK: "first pick", LIBRARY: "cuBLAS"}


def problem(job: Job) -> str:
    """A job's problem and GPU in words."""
    return f"{job.m} x {job.n} x {job.k} {job.form.dtype} on {job.gpu}"


class Screen(Watcher):
    """A bar before a person, a line now and then elsewhere; both on stderr."""

    def __init__(self, shapes: int) -> None:
        self._shapes, self._best, self._said = shapes, math.inf, time.monotonic()
        self._done, self._last = 0, ""
        self._bar: Any = None
        #: trials that this process ended, by how they did
        self.own: Counter[str] = Counter()

    def begins(self, job: Job, space: Space, name: str, done: int, stored: int) -> None:
        """The plan of a shape in one line, then its bar."""
        self._done, self._best, self._last = done, math.inf, ""
        which = f"[{job.number + 1}/{self._shapes}] " if self._shapes > 1 else ""
        click.echo(f"{which}{f'{name}: ' if name else ''}{_plan(job, space, done, stored)}", err=True)
        if sys.stderr.isatty():
            self._bar = click.progressbar(
                length=min(job.trials, len(space)), label="Trials", file=sys.stderr, show_pos=True,
                item_show_func=lambda item: self._last,
            )  # fmt: skip
            self._bar.__enter__()
            self._bar.update(done)

    def trial(self, job: Job, trial: FrozenTrial) -> None:
        """One more is over."""
        self._done += 1
        self.own[str(trial.user_attrs.get("status"))] += 1
        self._best = min(self._best, math.inf if trial.value is None else trial.value)
        self._last = _last(trial, self._best)
        if self._bar is not None:
            self._bar.update(1)
        elif time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            click.echo(f"{self._done} of {job.trials} trials, {self._last}", err=True)

    def over(self) -> None:
        """The bar goes."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def finals(self) -> None:
        """The last part."""
        click.echo("finalists are timed in turn", err=True)

    def ends(self, tuned: Tuned) -> None:
        """One line a shape, where several are tuned."""
        best = tuned.best
        if self._shapes > 1 and best is not None:
            click.echo(f"  best {best.family} {best.key}: {human(best.time_s, 's')}, {tuned.tflops(best):.1f} TFLOP/s; "
                       f"{_ended(tuned)}, {tuned.wall_s:.1f} s", err=True)  # fmt: skip

    def worked(self) -> str:
        """What this process did, for a worker."""
        ended = ", ".join(f"{count} {status}" for status, count in self.own.most_common())
        return f"{self.own.total()} trials by this worker{f': {ended}' if ended else ''}"


_KINDS = {RECORDED: "recorded configurations"}


def _plan(job: Job, space: Space, done: int, stored: int) -> str:
    trials = f"{job.trials} trials" if job.trials < len(space) else "all"
    kind = _KINDS.get(job.objective, "configurations")
    known = [f"; {count} are {where}" for count, where in ((done, "done"), (stored, "in the store")) if count]
    return f"{problem(job)}: {trials} of {len(space)} {kind} ({', '.join(job.families)}){''.join(known)}"


def _last(trial: FrozenTrial, best: float) -> str:
    """Best so far, and the last trial's time beside the model's."""
    found = "best none yet" if best == math.inf else f"best {human(best, 's')}"
    predicted = human(trial.user_attrs.get("predicted_s"), "s")
    last = human(trial.value, "s") if trial.value is not None else str(trial.user_attrs.get("status"))
    return f"{found}, last {last} (predicted {predicted})"


def _ended(tuned: Tuned) -> str:
    return ", ".join(f"{ended.count} {status}" for status, ended in tuned.trials.items()) or "none done"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lines(tuned: Tuned) -> Iterator[str]:
    """What a person reads of one shape."""
    job = tuned.job
    yield f"{problem(job)}, L2 {job.l2}, {_listed(job.families)}"
    kind = _KINDS.get(job.objective, "configurations that can launch")
    yield f"{tuned.count} trials of {tuned.configurations} {kind}: {_ended(tuned)}; {tuned.wall_s:.1f} s"
    best = tuned.best
    if best is None:
        yield from _failures(tuned)
        return
    yield from _entries(tuned)
    yield f"best: {best.family} {' '.join(f'{name}={value}' for name, value in best.config.items())}"
    yield from (f"gain over {_ROLES[role]}: {_gain(tuned, role)}" for role in _ROLES if _gain(tuned, role))
    yield from _notes(tuned)


def _entries(tuned: Tuned) -> Iterator[str]:
    several = len({e.family for e in tuned.entries} - {LIBRARY}) > 1
    shown = [e for e in tuned.entries if e.time_s is not None]
    labels = [_label(e, several) for e in shown]
    width = max(len(label) for label in ("configuration", *labels))
    yield f"  {'configuration':{width}}  {'time':>9}  {'speed':>6}  {'TFLOP/s':>7}  {'predicted':>9}"
    best = tuned.best
    assert best is not None
    for label, e in zip(labels, shown, strict=True):
        mark = "=" if e.tied or (e is best and tuned.ties) else " "
        roles = ", ".join(_SHORT_ROLES[role] for role in e.roles if role != LIBRARY)
        yield (f"{mark} {label:{width}}  {human(e.time_s, 's'):>9}  {1 / e.over:6.1%}  {tuned.tflops(e):7.1f}  "
               f"{human(e.predicted_s, 's'):>9}  {roles}").rstrip()  # fmt: skip


def _label(entry: Entry, several: bool) -> str:
    if LIBRARY in entry.roles:
        return "cuBLAS"
    return f"{entry.family} {entry.key}" if several else entry.key


def _gain(tuned: Tuned, role: str) -> str:
    """How much longer the other takes than the best, with its interval; empty where it was not timed."""
    entry, best = tuned.entry(role), tuned.best
    if entry is None or entry.time_s is None:
        return ""
    if entry is best:
        return "none, it is the best"
    said = _percent(entry.over - 1)
    low, high = 100 * (entry.low - 1), 100 * (entry.high - 1)
    interval = f" (95 % interval {low:.1f} to {high:.1f} %)" if tuned.in_turn else ""
    return f"{said}{interval}{', a tie' if entry.tied else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _notes(tuned: Tuned) -> Iterator[str]:
    """Ties, what was not timed in turn, not measured, or failed."""
    if tuned.ties:
        yield f"= a tie: timed in turn, {len(tuned.ties) + 1} configurations cannot be told apart"
    if not tuned.in_turn:
        yield _not_in_turn(tuned)
    if tuned.regret is not None and tuned.job.objective == RECORDED:
        yield f"regret: {_percent(tuned.regret)}, the fastest recorded takes {human(tuned.least_s, 's')}"
    left = min(tuned.job.trials, tuned.configurations) - tuned.count
    if left > 0:
        yield f"not measured: {left} of {min(tuned.job.trials, tuned.configurations)} trials"
    for entry in tuned.entries:
        if entry.time_s is None:
            yield f"not compared: {_named(entry)}: {entry.status}{f', {entry.reason}' if entry.reason else ''}"
        elif entry.unstable:
            yield f"unstable: {_named(entry)}: {entry.unstable}"
    if tuned.job.objective == MEASURED:
        yield f"rows: {default_name()}, campaign {CAMPAIGN}; gemmsim best answers from them"


_NOT_IN_TURN = {
    "recorded": "no finalists: recorded rows cannot be timed in turn, the times are those of the rows",
    "predicted": "no finalists: the times are the model's own",
    "stopped": "no finalists: the search was stopped, each time was measured once",
    "measured": "no finalists: none of them ran a second time, in turn; each time was measured once",
}


def _not_in_turn(tuned: Tuned) -> str:
    return _NOT_IN_TURN["stopped" if tuned.stopped else tuned.job.objective]


def _named(entry: Entry) -> str:
    roles = [_ROLES[role] for role in entry.roles]
    return roles[0] if LIBRARY in entry.roles else " and ".join(roles) or f"{entry.family} {entry.key}"


def _failures(tuned: Tuned) -> Iterator[str]:
    yield "no configuration ran" if tuned.count else "no trial was begun"
    for status, ended in tuned.trials.items():
        yield f"  {ended.count} {status}{f': {ended.reason}' if ended.reason else ''}"


def record(tuned: Tuned) -> dict[str, Any]:
    """A shape's result as programs read it: a line that `gemmsim measure --batch` and `predict --batch` take, too."""
    job, best = tuned.job, tuned.best
    form = job.form
    found: dict[str, Any] = {
        "name": tuned.name, "m": job.m, "n": job.n, "k": job.k, "gpu": job.gpu,
        "family": best.family if best else None, "dtype": form.dtype, "dtype_b": form.dtype_b, "dtype_c": form.dtype_c,
        "layout": form.layout, "batch": form.batch, "beta": int(form.beta), "epilogue": ",".join(form.epilogue),
        "l2": job.l2, **(best.config if best else {}), "key": best.key if best else None,
        "status": "ok" if best else "failed", "time_s": best and best.time_s, "predicted_s": best and best.predicted_s,
        "tflops": best and tuned.tflops(best), "in_turn": tuned.in_turn, "ties": [e.key for e in tuned.ties],
    }  # fmt: skip
    for role in _ROLES:
        found |= _beside(tuned, role)
    ok = tuned.trials["ok"].count if "ok" in tuned.trials else 0
    return found | {
        "trials": tuned.count, "ok": ok, "failed": tuned.count - ok, "statuses": _ended(tuned),
        "configurations": tuned.configurations,
        "objective": job.objective, "regret": tuned.regret, "wall_s": tuned.wall_s, "stopped": tuned.stopped,
    }  # fmt: skip


def _beside(tuned: Tuned, role: str) -> dict[str, Any]:
    """An entry's time, and the gain over it with its interval: a share, 0.06 for 6 %."""
    entry = tuned.entry(role) or Entry("")
    gain = {"": entry.over - 1, "_low": entry.low - 1, "_high": entry.high - 1}
    return {f"{role}_time_s": entry.time_s, **{f"gain_over_{role}{end}": value for end, value in gain.items()}}


def show(found: Sequence[Tuned], format: str | None, out: str | None, *, several: bool) -> None:
    """The report of one shape, or a line a shape of several; as `format` says, else as the name of `out` does."""
    kind = said_format(format, out)
    if kind == "table" and not several:
        send("".join(f"{line}\n" for line in lines(found[0])), out)
    elif kind == "table":
        emit([_line(tuned) for tuned in found], _LINE, kind, out, notes=list(_common(found)))
    else:
        rows = [record(tuned) for tuned in found]
        if kind == "json":
            rows = [row | {"compared": _compared(tuned)} for row, tuned in zip(rows, found, strict=True)]
        columns = [Column(key) for key in _keys(rows)]
        if several:
            emit(rows, columns, kind, out)
        else:
            emit_record(rows[0], columns, kind, out)


_LINE = (
    Column("name"), Column("m", "M"), Column("n", "N"), Column("k", "K"), Column("time_s", "time", "s"),
    Column("tflops", "TFLOP/s"), Column("predicted_s", "predicted", "s"),
    Column("gain_over_default", "over default", "1"), Column("gain_over_first_pick", "over first pick", "1"),
    Column("gain_over_cublas", "over cuBLAS", "1"),
    Column("statuses", "trials"), Column("label", "best"),
)  # fmt: skip


def _line(tuned: Tuned) -> dict[str, Any]:
    """A shape as a line of a table for people."""
    best = tuned.best
    return record(tuned) | {"label": f"{best.family} {best.key}" if best else "no one ran"}


def _common(found: Sequence[Tuned]) -> Iterator[str]:
    """What holds for all shapes, and what a table has no room for."""
    job = found[0].job
    yield f"{job.form.dtype} on {job.gpu}, L2 {job.l2}, {_listed(job.families)}; {sum(t.wall_s for t in found):.1f} s"
    yield "over X: how much longer X takes; intervals, ties and all parameters are in --format csv and json"
    if not all(tuned.in_turn for tuned in found):
        yield _not_in_turn(next(tuned for tuned in found if not tuned.in_turn))


def _keys(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _compared(tuned: Tuned) -> list[dict[str, Any]]:
    """Every entry as JSON has it: numbers that are none are null."""
    return [
        {
            "family": e.family, "key": e.key, "config": dict(e.config), "roles": list(e.roles), "status": e.status,
            "reason": e.reason, "time_s": e.time_s, "predicted_s": e.predicted_s, "tied": e.tied,
            **{n: v if math.isfinite(v) else None for n, v in (("over", e.over), ("low", e.low), ("high", e.high))},
        }
        for e in tuned.entries
    ]  # fmt: skip
