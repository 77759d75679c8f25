"""What a study is for: written into it by `gemmsim tune`, read by whoever carries it on or joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from gemmsim.errors import GemmsimError
from gemmsim.problem import Form

#: user attribute of a study that holds its Job
ATTRIBUTE = "gemmsim_tune"
#: where times come from: the GPU, recorded rows, the model itself
MEASURED, RECORDED, PREDICTED = "measured", "recorded", "predicted"
#: what may change from one run of a study to the next
_FREE = ("trials", "seed", "rows", "number")


@dataclass(frozen=True)
class Job:
    """One problem, where its configurations come from and where their times.

    digests: what a time hangs on beside all that, a family's kernel or the recorded rows -> a digest of it. rows: the
    files of recorded rows. number: place among the shapes that are tuned together.
    """

    m: int
    n: int
    k: int
    form: Form
    gpu: str
    families: tuple[str, ...]
    l2: str
    objective: str = MEASURED
    digests: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    trials: int = 30
    seed: int = 0
    number: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.m, self.n, self.k

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        form = {**asdict(self.form), "epilogue": list(self.form.epilogue)}
        lists = {"families": list(self.families), "rows": list(self.rows), "digests": dict(self.digests)}
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, **lists, "form": form}

    def differs(self, asked: Job) -> list[str]:
        """What this one has and another that is asked for has not: `gpu h100_sxm, not h200_sxm`."""
        held, new = self.plain(), asked.plain()
        return [f"{name} {_said(held[name])}, not {_said(new[name])}"
                for name in held if name not in _FREE and held[name] != new[name]]  # fmt: skip


def job_from(plain: Mapping[str, Any], where: str) -> Job:
    """The Job that `plain` described. Raises GemmsimError, naming `where`, for what is none."""
    try:
        form = Form(**{**plain["form"], "epilogue": tuple(plain["form"]["epilogue"])})
        return replace(Job(**{**plain, "form": form}), families=tuple(plain["families"]), rows=tuple(plain["rows"]))
    except (KeyError, TypeError):
        raise GemmsimError(f"{where}: {ATTRIBUTE} is not of this version of gemmsim: expected a study that it has "
                           "begun") from None  # fmt: skip


def refuse_other(name: str, held: Job, asked: Job, expected: str = "expected a new study by another name") -> None:
    """Raise GemmsimError where a study of that name is for something else than what is asked for."""
    differ = held.differs(asked)
    if differ:
        raise GemmsimError(f"study {name} is for {'; '.join(differ)}: {expected}")


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_said(part)}" for name, part in value.items() if part not in (None, [], False))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)
