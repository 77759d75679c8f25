"""A study of evidence: every recorded row of some GPUs beside its prediction, and what the model's picks lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from gemmsim import families
from gemmsim.errors import GemmsimError
from gemmsim.hardware import Gpu
from gemmsim.measured import Measured, read_measured
from gemmsim.problem import dtype_name
from gemmsim.study import document
from gemmsim.study.base import Progress, Study, quiet
from gemmsim.study.beside import check_gpu
from gemmsim.study.document import Texts
from gemmsim.study.recorded import Recorded, predicted, recorded_rows
from gemmsim.study.workload import at, once, read_gpus

if TYPE_CHECKING:
    from gemmsim.study.evidence.judged import Evidence


class Document(document.Document):
    """A study of evidence, as written.

    families, dtypes: only rows of these; all if left out. rows: files of one's own beside the study's, in the columns
    of `gemmsim measure --out`; the rows that ship with gemmsim are always taken.
    """

    gpus: Texts
    families: Texts | None = None
    dtypes: Texts | None = None
    rows: Texts | None = None


@dataclass(frozen=True)
class EvidenceStudy(Study):
    """A checked study of evidence. families, dtypes: empty for all; own: rows of one's own, by their file's name."""

    kind: ClassVar[str] = "evidence"
    gpus: tuple[Gpu, ...]
    families: tuple[str, ...]
    dtypes: tuple[str, ...]
    own: tuple[tuple[str, Measured], ...]

    def with_gpus(self, names: Sequence[str]) -> Self:
        """The same study on other GPUs. Raises GemmsimError for an unknown GPU, or one twice."""
        return replace(self, gpus=read_gpus(names, "--gpus", self.dtypes))

    def steps(self) -> int:
        """Two: rows are read and predicted, and judged."""
        return 2

    def recorded(self) -> list[Recorded]:
        """The rows asked for, predicted. Raises GemmsimError where none of a GPU is recorded."""
        gpus = {gpu.name: gpu for gpu in self.gpus}
        mine = [predicted(name, rows, gpus[rows.gpu.name]) for name, rows in self.own if rows.gpu.name in gpus]
        found = [*recorded_rows(self.gpus, self.asks), *(r for r in mine if self.asks(*r.kernel.split()))]
        for name in gpus:
            if not any(r.rows.gpu.name == name for r in found):
                raise GemmsimError(f"{self.path}: no rows{self.filter} are recorded on {name}: expected a GPU that "
                                   "studies/ has rows of, or rows of your own under the key rows")  # fmt: skip
        return found

    def asks(self, family: str, dtype: str) -> bool:
        """Whether rows of a family and dtype are asked for."""
        return (not self.families or family in self.families) and (not self.dtypes or dtype in self.dtypes)

    @property
    def filter(self) -> str:
        """What rows are asked for, as it stands after that word: of mma or wmma bf16."""
        words = [" or ".join(names) for names in (self.families, self.dtypes) if names]
        return f" of {' '.join(words)}" if words else ""

    def run(self, progress: Progress = quiet) -> Evidence:
        """Every row predicted and judged. Raises GemmsimError where none of a GPU is recorded."""
        from gemmsim.study.evidence.judged import judged

        recorded = self.recorded()
        progress(1)
        found = judged(recorded)
        progress(1)
        return found


def read(path: Path, asked: Document) -> EvidenceStudy:
    """The study. Raises GemmsimError for an unknown GPU, family or dtype, and for rows that cannot be read."""
    dtypes = [at(f"dtypes[{i}]", dtype_name, text) for i, text in enumerate(asked.dtypes or ())]
    names = once("families", asked.families or ())
    for i, name in enumerate(names):
        have = at(f"families[{i}]", families.family, name).DTYPES
        if dtypes and not set(have) & set(dtypes):
            raise GemmsimError(f"families[{i}]: {name} has no {' or '.join(dtypes)} kernel: it has {', '.join(have)}")
    gpus = read_gpus(asked.gpus, "gpus", once("dtypes", dtypes))
    own = tuple(_own(path, i, name, gpus) for i, name in enumerate(once("rows", asked.rows or ())))
    study = EvidenceStudy(path.stem, str(path), asked.title, asked.question, gpus, tuple(names), tuple(dtypes), own)
    for i, (name, rows) in enumerate(own):
        if not study.asks(rows.config.family, rows.problem.dtype):
            found = f"{rows.config.family} {rows.problem.dtype}"
            raise GemmsimError(f"rows[{i}]: {name} is of {found}: expected rows{study.filter}, "
                               "as the keys families and dtypes say")  # fmt: skip
    return study


def _own(path: Path, i: int, name: str, gpus: Sequence[Gpu]) -> tuple[str, Measured]:
    """Rows of one's own. Raises GemmsimError where they cannot be read, or are of a GPU that is not asked for."""
    rows: Measured = at(f"rows[{i}]", read_measured, str(path.parent / name))
    check_gpu(f"rows[{i}]", name, rows, gpus)
    return Path(name).name, rows
