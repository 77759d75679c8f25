"""What studies of every kind have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gemmsim.errors import GemmsimError

#: told how many steps have been done
Progress = Callable[[int], object]


def quiet(step: int) -> None:
    """Progress that nobody watches."""


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
