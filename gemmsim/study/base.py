"""What studies of every kind have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from gemmsim.errors import GemmsimError

if TYPE_CHECKING:
    from gemmsim.study.timed import Timings

#: whose rows a study shows beside its predictions: none, those that ship with gemmsim, or its own launches timed too
Measure = Literal["none", "recorded", "run"]

#: told how many steps have been done
Progress = Callable[[int], object]


def quiet(step: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Launch:
    """A launch to be timed, as a row of a batch has it. gpu: a hardware file's name; config: every parameter."""

    gpu: str
    m: int
    n: int
    k: int
    family: str
    dtype: str
    l2: str
    config: Mapping[str, int]


@dataclass(frozen=True)
class Study:
    """A checked study. Its kind's module gives `read`; `run` gives the answer that the kind's report is made of."""

    kind: ClassVar[str]
    #: what the progress bar says
    doing: ClassVar[str] = "Predicting"
    name: str
    path: str
    title: str
    question: str

    def steps(self) -> int:
        """How many steps `run` tells its progress function of, all together."""
        raise NotImplementedError

    def run(self, progress: Progress = quiet) -> Any:
        """The answer; needs no GPU. Raises GemmsimError where there is none."""
        raise NotImplementedError

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError where it is not asked of GPUs by name."""
        raise GemmsimError(f"--gpus {','.join(names)}: study {self.name} is of recorded rows, expected none")

    @property
    def measures(self) -> bool:
        """Whether its file asks for its launches to be timed."""
        return False

    @property
    def timed_on(self) -> tuple[str, ...]:
        """Names of the GPUs that its launches are for."""
        return ()

    def timing(self) -> str:
        """What a measuring run times, in words; "" where there is nothing to time."""
        return ""

    def launches(self, answer: Any) -> tuple[Launch, ...]:
        """What a measuring run times of what `run` gave, on all GPUs of the study. None where `timing` is ""."""
        return ()

    def with_timings(self, answer: Any, timings: Timings) -> Any:
        """The answer with rows that were timed for it, `launches` or others of its problems."""
        return answer
