"""What is asked of the device and what it answers, as the two processes of a campaign tell each other: JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2
from gemmsim.problem import Form

#: the vendor's library, a family without parameters that only this room knows
CUBLAS = "cublas"
#: `against` of rows that were timed in turn with others
TURNS = "turns"
#: kernels that take less are worth a graph, s: above it the launch is hidden anyway
GRAPH_BELOW_S = 20e-6


class Refused(Exception):
    """The configuration cannot launch on this GPU; the message is the reason."""


@dataclass(frozen=True)
class Conditions:
    """How a row is timed.

    samples: exactly so many; None: as many as budget_s of kernel and flush time hold, from LEAST to MOST (timing.py).
    graph: kernels under GRAPH_BELOW_S as CUDA graphs, with a warm L2. against: "cublas", timed sample by sample, or "";
    TURNS where the row is one of several that were timed in turn.
    """

    l2: str = DEFAULT_L2
    graph: bool = False
    against: str = ""
    samples: int | None = None
    budget_s: float = 0.015


@dataclass(frozen=True)
class Ask:
    """One row to be measured: a problem in its canonical Form, a family, its configuration, the conditions."""

    m: int
    n: int
    k: int
    form: Form
    family: str
    config: tuple[tuple[str, int], ...]
    conditions: Conditions = Conditions()

    @property
    def flops(self) -> float:
        """Multiplications and additions of the product, the whole batch's."""
        return 2.0 * self.m * self.n * self.k * self.form.batch

    @property
    def kernel(self) -> tuple[object, ...]:
        """What the compiler is asked for. Triton's code hangs on which sizes are 1 and which multiples of 16, too."""
        sizes = (self.m, self.n, self.k) if self.family == "triton" else ()
        return self.family, self.form, self.fitted, *("one" if size == 1 else size % 16 == 0 for size in sizes)

    @property
    def fitted(self) -> tuple[tuple[str, int], ...]:
        """The configuration that is compiled: the family may adapt it to the sizes."""
        if self.family == CUBLAS:
            return self.config
        return tuple(families.fitted(self.family, self.m, self.n, self.k, dict(self.config), self.form).items())

    def identity(self, campaign: str, gpu: str, kernel_hash: str) -> dict[str, Any]:
        """The columns that make the row the one it is (see store.IDENTITY), and its configuration."""
        form, how = self.form, self.conditions
        return {
            "campaign": campaign, "gpu": gpu, "family": self.family, "dtype": form.dtype, "dtype_b": form.dtype_b,
            "dtype_c": form.dtype_c, "layout": form.layout, "batch": form.batch, "beta": int(form.beta),
            "epilogue": ",".join(form.epilogue), "m": self.m, "n": self.n, "k": self.k, "kernel_hash": kernel_hash,
            "l2": how.l2, "timing": "graph" if how.graph else "event", "against": how.against,
            "config": dict(self.config),
        }  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """What the compiler made of a request, as a row holds it. path: the cubin, "" for a library's kernel."""

    path: str = ""
    key: str = ""
    compiler: str = ""
    regs_per_thread: int | None = None
    spill_bytes: int | None = None
    smem_bytes: int | None = None  # static
    stack_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)  # what a family's launcher needs beside it


@dataclass(frozen=True)
class Task:
    """An Ask with its kernel, numbered."""

    number: int
    ask: Ask
    kernel: Kernel

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


@dataclass(frozen=True)
class Turns:
    """Kernels of one problem to be timed in turn.

    rounds of one sample each at most, fewer where budget_s of kernel and flush time ends before, see timing.py.
    """

    tasks: tuple[Task, ...]
    rounds: int
    budget_s: float

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


#: what a child is handed
Job = Task | Turns


def job_from(plain: Mapping[str, Any]) -> Job:
    """The Job that `plain` described."""
    if "tasks" not in plain:
        return task_from(plain)
    return Turns(tuple(task_from(t) for t in plain["tasks"]), int(plain["rounds"]), float(plain["budget_s"]))


def task_from(plain: Mapping[str, Any]) -> Task:
    """The Task that `plain` described."""
    ask = dict(plain["ask"])
    form = Form(**ask.pop("form") | {"epilogue": tuple(plain["ask"]["form"]["epilogue"])})
    config = tuple((str(name), int(value)) for name, value in ask.pop("config"))
    conditions = Conditions(**ask.pop("conditions"))
    kernel = Kernel(**plain["kernel"])
    return Task(
        int(plain["number"]),
        Ask(**ask, form=form, config=config, conditions=conditions),
        replace(kernel, warnings=tuple(kernel.warnings)),
    )


@dataclass(frozen=True)
class Place:
    """The device a campaign runs on, as the child finds it."""

    product: str
    uuid: str
    compute_capability: str
    sm_count: int
    driver: str
    cuda: str

    def columns(self) -> dict[str, Any]:
        """The columns of a row that say where it was measured."""
        return {"product": self.product, "uuid": self.uuid, "sm_count": self.sm_count, "driver": self.driver,
                "cuda": self.cuda}  # fmt: skip
