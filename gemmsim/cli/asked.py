"""What `gemmsim measure` is asked for: rows of a CSV, a study's whole plan, or one configuration, as Asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gemmsim import families
from gemmsim.bench.task import CUBLAS, Ask, Conditions
from gemmsim.cli.batch import (
    Options,
    configuration_at,
    dimensions_of,
    form_at,
    placed,
    row_groups,
    said_at,
    sources_of,
)
from gemmsim.cli.options import configuration, configuration_given, family_and_dtype, refuse_beside, said_dtype
from gemmsim.conditions import DEFAULT_L2, l2_condition
from gemmsim.errors import GemmsimError, unknown
from gemmsim.problem import Form, form_of
from gemmsim.rows import Index, Table

if TYPE_CHECKING:
    from gemmsim.study.base import Launch

#: what may stand behind --against, a dtype after a colon aside
LIBRARIES = (CUBLAS,)


@dataclass(frozen=True)
class Said:
    """What holds for rows that do not say otherwise; against_dtype: cuBLAS's math, None: the row's own."""

    gpu: str | None = None
    family: str | None = None
    dtype: str | None = None
    l2: str | None = None
    shape: Form = field(default_factory=Form)
    conditions: Conditions = field(default_factory=Conditions)
    against_dtype: str | None = None

    def under(self, l2: str, form: Form, where: str) -> Conditions:
        """The conditions of rows of a Form. Raises GemmsimError where they do not go together."""
        how = replace(self.conditions, l2=l2)
        if how.graph and l2 != "warm":
            raise GemmsimError(f"--graph times launches one after another, which leaves the L2 warm, and {where} says "
                               f"{l2}: expected --l2 warm beside --graph")  # fmt: skip
        if how.against and self.against_dtype is not None:
            from gemmsim.bench.cublas import refusal

            reason = refusal(form.dtype, self.against_dtype)
            if reason:
                raise GemmsimError(f"--against {how.against}:{self.against_dtype}: {reason}")
        return how


def against(text: str | None) -> tuple[str, str | None]:
    """The library and the dtype of --against. Raises GemmsimError for an unknown one."""
    if text is None:
        return "", None
    name, colon, dtype = text.partition(":")
    if name not in LIBRARIES:
        raise unknown("library", name, LIBRARIES, where="--against")
    return name, said_dtype(dtype, "--against") if colon else None


@dataclass(frozen=True)
class Asked:
    """Asks without repetition, and for each row of the input which one it is; gpu: what the rows' columns name."""

    asks: tuple[Ask, ...]
    of_row: tuple[int, ...]
    gpu: str | None = None


def distinct(asks: Sequence[Ask], gpu: str | None = None) -> Asked:
    """The asks, each once."""
    places: dict[Ask, int] = {}
    of_row = tuple(places.setdefault(ask, len(places)) for ask in asks)
    return Asked(tuple(places), of_row, gpu)


def of_batch(table: Table, said: Said) -> Asked:
    """The rows of a CSV in the batch contract. Raises GemmsimError for a malformed cell or column, naming it."""
    sizes = dimensions_of(table)
    asks: list[Ask | None] = [None] * len(table)
    gpus: dict[str, str] = {}
    for where in row_groups(table):
        rows = range(len(table)) if where is None else where.tolist()
        gpu, found = _group(table, where, sizes, said)
        if gpu is not None:
            gpus.setdefault(gpu, table.place(rows[0], "gpu"))
        for i, ask in zip(rows, found, strict=True):
            asks[i] = ask
    if len(gpus) > 1:
        (first, _), (other, place), *_ = gpus.items()
        raise GemmsimError(f"{place} is {other!r}, and rows before it say {first!r}: expected one GPU a batch")
    return distinct([ask for ask in asks if ask is not None], next(iter(gpus), None))


def _group(table: Table, where: Index | None, sizes: Any, said: Said) -> tuple[str | None, list[Ask]]:
    """GPU as named, and Asks of rows that share GPU, family, form and L2 condition."""
    first = 0 if where is None else int(where[0])
    words, places = said_at(table, first, Options(said.gpu, said.family, said.dtype, said.l2))
    family, dtype = _kernel(words["family"], words["dtype"], places)
    with placed(table, first):
        form = form_of(form_at(table, first, said.shape, dtype))
    l2 = DEFAULT_L2 if words["l2"] is None else l2_condition(words["l2"], where=places["l2"])
    how = said.under(l2, form, places["l2"])
    m, n, k = ((x if where is None else x[where]).tolist() for x in sizes.values())
    configs = _configs(table, where, family, len(m))
    rows = zip(m, n, k, configs, strict=True)
    return words["gpu"], [Ask(x, y, z, form, family, config, how) for x, y, z, config in rows]


def _kernel(family: str | None, dtype: str | None, places: dict[str, str]) -> tuple[str, str]:
    """Family and dtype; cuBLAS is a family here, in fp32 where nothing says."""
    if family == CUBLAS:
        return CUBLAS, said_dtype(dtype, places["dtype"]) or "fp32"
    return family_and_dtype(family, dtype, family_at=places["family"], dtype_at=places["dtype"])


def _configs(table: Table, where: Index | None, family: str, rows: int) -> list[tuple[tuple[str, int], ...]]:
    if family == CUBLAS:
        return [()] * rows
    config = families.config(family, configuration_at(table, sources_of(table), family, where), rows)
    return [tuple(config.row(i).items()) for i in range(rows)]


def of_one(
    size: tuple[int, int, int], tile: str | None, parameters: Sequence[str], said: Said
) -> Ask:  # fmt: skip
    """One configuration from options. Raises GemmsimError for a wrong one."""
    family, dtype = _kernel(said.family, said.dtype, {"family": "--family", "dtype": "--dtype"})
    form = form_of(replace(said.shape, dtype=dtype))
    how = said.under(DEFAULT_L2 if said.l2 is None else l2_condition(said.l2, where="--l2"), form, "--l2")
    if family == CUBLAS:
        refuse_beside(configuration_given(tile, parameters), f"--family {CUBLAS}", "it has no parameters")
        return Ask(*size, form, family, (), how)
    return Ask(*size, form, family, tuple(configuration(family, tile, parameters).items()), how)


def of_study(name: str, said: Said) -> Asked:
    """Every configuration of every GEMM of a study, under its L2 condition unless --l2 says another.

    Raises GemmsimError for a wrong study, or a --family or --dtype that is not in it.
    """
    from gemmsim.study import load_picks

    study = load_picks(name)
    kernels = [
        (f, d) for f, d in study.kernels if said.family in (None, f) and said_dtype(said.dtype, "--dtype") in (None, d)
    ]
    if not kernels:
        have = ", ".join(f"{f} {d}" for f, d in study.kernels)
        asked = ", ".join(f"--{name} {text}" for name, text in (("family", said.family), ("dtype", said.dtype)) if text)
        raise GemmsimError(f"{asked}: study {study.name} has {have}")
    l2 = study.l2 if said.l2 is None else l2_condition(said.l2, where="--l2")
    asks: list[Ask] = []
    for family, dtype in kernels:
        form = form_of(replace(said.shape, dtype=dtype))
        how, space = said.under(l2, form, "the study's l2"), study.spaces[family]
        configs = [tuple(space.row(i).items()) for i in range(len(space))]
        for m, n, k in dict.fromkeys((w.m, w.n, w.k) for w in study.works):
            asks += [Ask(m, n, k, form, family, config, how) for config in configs]
    return distinct(asks)


def of_launches(launches: Sequence[Launch], said: Said) -> Asked:
    """The launches of a study, each once."""
    asks = []
    for x in launches:
        form = form_of(x.dtype)
        how = said.under(x.l2, form, "the study's l2")
        asks.append(Ask(x.m, x.n, x.k, form, x.family, tuple(x.config.items()), how))
    return distinct(asks)
