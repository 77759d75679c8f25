"""Predictions: problems and configurations in, time and its reasons out. Pure, deterministic, vectorised over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gemmsim import families
from gemmsim.conditions import DEFAULT_L2, l2_condition
from gemmsim.config import FACTS, Config, Launch
from gemmsim.errors import GemmsimError, unknown
from gemmsim.families.refuse import Refusals
from gemmsim.hardware import Gpu, load_gpu
from gemmsim.model import calibration, effects, geometry, solver
from gemmsim.model.case import make_case
from gemmsim.model.demand import TERMS, Case, Demand
from gemmsim.model.intervals import EXTRAPOLATED, classify
from gemmsim.model.occupancy import LIMITERS, blocks_per_sm
from gemmsim.problem import MAX_DIMENSION, FloatArray, Form, Gemm, IntArray, gemm

#: rows computed at once: what they need stays in a core's cache
CHUNK = 8192
#: terms that can bound a kernel
BOUNDS = tuple(term for term in TERMS if term not in ("waves", "edge", "alignment", "power"))


@dataclass(frozen=True)
class Prediction:
    """Predictions of a batch, one entry a row. Where a row cannot launch its numbers are NaN and `reasons` says why.

    time_s, tflops: of the whole launch, TFLOP/s from 2 m n k. demand[X] is the time of term X if it were alone,
    saved[X] what would be gained with X free, both in seconds; empty unless asked for.
    """

    problem: Gemm
    config: Config
    launch: Launch
    gpu: Gpu
    calibration: calibration.Calibration
    l2: str
    refusals: Refusals
    time_s: FloatArray
    kind: IntArray  # positions in intervals.CLASSES
    blocks_per_sm: IntArray
    limited_by: IntArray  # positions in LIMITERS
    waves: FloatArray
    dram_read_bytes: FloatArray
    dram_write_bytes: FloatArray
    l2_read_bytes: FloatArray
    demand: Mapping[str, FloatArray]
    saved: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Rows that can launch."""
        return self.refusals.feasible

    @property
    def reasons(self) -> list[str]:
        """Why a row cannot launch: code, number, limit and unit; empty where it can."""
        return self.refusals.reasons()

    @property
    def tflops(self) -> FloatArray:
        """2 m n k over the time, in TFLOP/s; NaN where every effect that takes time was left out."""
        return np.asarray(self.problem.flops / np.where(self.time_s > 0, self.time_s, np.nan) / 1e12)

    @property
    def bound_by(self) -> list[str]:
        """The term that would take longest alone; needs `terms`."""
        if not self.demand:
            return [""] * len(self)
        stack = np.stack([self.demand[t] for t in BOUNDS])
        names = [BOUNDS[i] for i in np.argmax(np.nan_to_num(stack, nan=-1), axis=0)]
        return [name if ok else "" for name, ok in zip(names, self.feasible, strict=True)]

    @property
    def limited_by_names(self) -> list[str]:
        """What limits blocks per SM."""
        return [LIMITERS[i] if ok else "" for i, ok in zip(self.limited_by, self.feasible, strict=True)]

    @property
    def interval_s(self) -> tuple[FloatArray, FloatArray]:
        """10th and 90th percentile of the time that would be measured, s: wider if extrapolated or uncalibrated.

        time_s always lies between them, also where more than nine in ten of the fitted rows were off to one side.
        """
        low, high = self.calibration.spread.factors(self.kind, self.launch.from_facts)
        further = np.where(self.extrapolated, EXTRAPOLATED, 1.0)
        return np.asarray(self.time_s * low**further), np.asarray(self.time_s * high**further)

    @property
    def extrapolated(self) -> npt.NDArray[np.bool_]:
        """Rows of another GPU, dtype, form or range than the coefficients were fitted on; false if uncalibrated."""
        columns = {"m": self.problem.m, "n": self.problem.n, "k": self.problem.k, **self.config.values}
        fit = self.calibration
        elsewhere = self.problem.dtype not in fit.dtypes or self.gpu.name.partition(":")[0] != fit.gpu
        elsewhere = elsewhere or bool(self.problem.beyond_plain)
        outside = np.full(len(self), fit.fitted and elsewhere)
        for name, (low, high) in self.calibration.ranges.items():
            if name in columns:
                outside |= (columns[name] < low) | (columns[name] > high)
        return outside


def predict(
    m: object,
    n: object,
    k: object,
    *,
    gpu: str | Gpu,
    dtype: str | Form = "bf16",
    family: str = "triton",
    config: Mapping[str, object] | Config | None = None,
    facts: Mapping[str, npt.ArrayLike] | None = None,
    l2: str = DEFAULT_L2,
    without: Iterable[str] = (),
    calibrated: str | calibration.Calibration = "auto",
    num_sms: int | None = None,
    terms: bool = False,
) -> Prediction:
    """Time of GEMM launches, no GPU needed.

    m, n, k: whole numbers or arrays; dtype: its name, or a Form that says more (batch, layout, types of B and C, beta,
    epilogue). config: parameter -> number or array, the rest are the family's defaults. All broadcast to one length.
    facts: regs_per_thread, spill_bytes (a thread), smem_bytes (a block) from a compiler, NaN where unknown. l2:
    cold_clean, cold_dirty or warm (gemmsim.conditions). without: terms that cost nothing. calibrated: 'auto', 'none', a
    calibration file or a Calibration. num_sms: SMs to use, of those the GPU has. terms: fill `demand` and `saved`.
    Raises GemmsimError for input that is none.
    """
    chip = _chip(gpu, num_sms)
    problem = gemm(m, n, k, dtype)
    families.check(family, problem)
    if chip.arch.fma_per_clk_per_sm.get(problem.dtype) is None:
        have = ", ".join(chip.arch.fma_per_clk_per_sm)
        raise GemmsimError(f"GPU {chip.name} has no {problem.dtype} path: it has {have}")
    cfg = config if isinstance(config, Config) else families.config(family, config or {})
    problem, cfg = _broadcast(problem, cfg)
    free = _terms(without)
    fit = (
        calibrated
        if isinstance(calibrated, calibration.Calibration)
        else calibration.find(chip, family, calibrated, problem.dtype)
    )
    return _predict(problem, cfg, chip, fit, l2_condition(l2), facts or {}, free, terms)


def freed(p: Prediction, rows: IntArray) -> Callable[[Set[str]], FloatArray]:
    """The time of some rows of a prediction with terms free, s: a function of the terms, quick to ask again and again.

    rows: their positions, at most CHUNK; of a row that cannot launch the time is none.
    """
    batch = _Rows(p.problem, p.config, p.launch, p.blocks_per_sm, p.gpu, p.calibration.values, p.l2)
    return _Chunk.of(batch, rows).time_s


def _chip(gpu: str | Gpu, num_sms: int | None) -> Gpu:
    chip = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    if num_sms is None:
        return chip
    if not isinstance(num_sms, int | np.integer) or not 1 <= num_sms <= chip.sm_count:
        raise GemmsimError(f"num_sms = {num_sms}: expected 1 to {chip.sm_count}, the SMs of {chip.name}")
    return replace(chip, sm_count=int(num_sms))


def check_time(time_s: FloatArray, without: Iterable[str]) -> None:
    """Raise GemmsimError if a row takes no time at all, since all that would take it is left out."""
    if (time_s == 0).any():
        raise GemmsimError(f"without {', '.join(without)} nothing is left that takes time: expected fewer of them")


def _terms(without: Iterable[str]) -> frozenset[str]:
    free = frozenset([without] if isinstance(without, str) else without)
    for term in sorted(free):
        if term not in TERMS:
            raise unknown("effect", term, TERMS)
    return free


def _broadcast(problem: Gemm, config: Config) -> tuple[Gemm, Config]:
    rows = {len(problem), len(config)} - {1}
    if len(rows) > 1 or 0 in rows:
        raise GemmsimError(
            f"{len(problem)} problems and {len(config)} configurations: expected the same number, or one"
        )
    size = max(len(problem), len(config))
    if len(problem) < size:
        m, n, k, batch = (np.broadcast_to(x, size) for x in (problem.m, problem.n, problem.k, problem.batch))
        problem = replace(problem, m=m, n=n, k=k, batch=batch)
    if len(config) < size:
        config = Config(config.family, {p: np.broadcast_to(v, size) for p, v in config.values.items()})
    return problem, config


def with_facts(launch: Launch, facts: Mapping[str, npt.ArrayLike]) -> Launch:
    """The launch with compiler facts in place of estimates, where they are given and not NaN.

    Raises GemmsimError for an unknown fact, for values that are no whole number or too small, and for another count.
    """
    values: dict[str, npt.NDArray[np.generic]] = {}
    known = np.zeros(len(launch.threads), bool)
    for name, column in facts.items():
        given = _fact(name, column, len(known))
        have = np.isfinite(given)
        estimate = getattr(launch, name)
        values[name] = np.where(have, np.where(have, given, 0), estimate).astype(estimate.dtype)
        known = known | have
    return replace(launch, **values, from_facts=known)  # type: ignore[arg-type]


def _fact(name: str, column: npt.ArrayLike, rows: int) -> FloatArray:
    """A compiler fact for each row, NaN where it is unknown."""
    if name not in FACTS:
        raise unknown("compiler fact", name, FACTS)
    expected = f"whole numbers from {FACTS[name]} to {MAX_DIMENSION}, NaN where unknown"
    try:
        given = np.asarray(column, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise GemmsimError(f"fact {name} = {column!r:.60}: expected {expected}") from None
    bad = ~((given >= FACTS[name]) & (given <= MAX_DIMENSION) & (given == np.floor(given)) | np.isnan(given))
    if bad.any():
        raise GemmsimError(f"fact {name} = {given[bad].flat[0]:g}: expected {expected}")
    if given.ndim > 1 or given.size not in (1, rows):
        raise GemmsimError(f"fact {name} has {given.size} values: expected one, or one for each of the {rows} rows")
    return np.broadcast_to(given, rows)


def _predict(
    problem: Gemm,
    config: Config,
    gpu: Gpu,
    fit: calibration.Calibration,
    l2: str,
    facts: Mapping[str, npt.ArrayLike],
    free: Set[str],
    terms: bool,
) -> Prediction:
    module, rows = families.family(config.family), len(problem)
    launch = with_facts(module.launch(problem, config, gpu.arch), facts)
    refusals = module.refusals(problem, config, launch, gpu.arch)
    occupancy = blocks_per_sm(gpu.arch, launch.threads, launch.regs_per_thread, launch.smem_bytes)
    refusals.when("blocks_per_sm", occupancy.blocks_per_sm < 1, "no block fits an SM")
    out = {name: np.empty(rows) for name in ("time_s", "waves", "dram_read_bytes", "dram_write_bytes", "l2_read_bytes")}
    kind = np.zeros(rows, np.int64)
    demand = {t: np.empty(rows) for t in TERMS} if terms else {}
    saved = {t: np.empty(rows) for t in TERMS} if terms else {}
    batch = _Rows(problem, config, launch, occupancy.blocks_per_sm, gpu, fit.values, l2)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(rows, start + CHUNK))
        chunk = _Chunk.of(batch, part)
        chunk.solve(free, out, part)
        kind[part] = classify(chunk.case, chunk.demand)
        if terms:
            chunk.explain(free, out["time_s"][part], demand, saved, part)
    refused = ~refusals.feasible
    for column in (*out.values(), *demand.values(), *saved.values()):
        column[refused] = np.nan
    return Prediction(
        problem,
        config,
        launch,
        gpu,
        fit,
        l2,
        refusals,
        blocks_per_sm=occupancy.blocks_per_sm,
        limited_by=occupancy.limited_by,
        kind=kind,
        demand=demand,
        saved=saved,
        **out,
    )


@dataclass(frozen=True)
class _Rows:
    """A batch of one GPU, family, dtype and condition."""

    problem: Gemm
    config: Config
    launch: Launch
    blocks: IntArray
    gpu: Gpu
    coefficients: Mapping[str, float]
    l2: str


@dataclass(frozen=True)
class _Chunk:
    """Rows that are computed together, and the same rows with every stride aligned (made when asked for)."""

    problem: Gemm
    config: Config
    case: Case
    demand: Demand

    @staticmethod
    def of(rows: _Rows, part: slice | IntArray) -> _Chunk:
        """The rows of `part`."""
        p, c = rows.problem, rows.config
        p = p.take(part)
        c = Config(c.family, {name: v[part] for name, v in c.values.items()})
        case = make_case(p, c, rows.launch.part(part), rows.blocks[part], rows.gpu, rows.coefficients, rows.l2)
        return _Chunk(p, c, case, effects.fill(case))

    def solve(self, free: Set[str], out: Mapping[str, FloatArray], part: slice) -> None:
        """Write time and traffic of these rows into `out`."""
        d, x = self.demand, self.case
        out["time_s"][part] = self.time_s(free)
        out["waves"][part] = geometry.waves(d.units.blocks, x.gpu.sm_count, x.blocks_per_sm)
        out["l2_read_bytes"][part] = d.l2_read_bytes
        out["dram_read_bytes"][part] = d.dram_read_bytes + d.second_read_bytes
        out["dram_write_bytes"][part] = d.dram_write_bytes + d.second_write_bytes

    def explain(
        self,
        free: Set[str],
        time_s: FloatArray,
        demand: Mapping[str, FloatArray],
        saved: Mapping[str, FloatArray],
        part: slice,
    ) -> None:
        """Write each term's time alone, and what it being free would save, into `demand` and `saved`."""
        alone = solver.alone_s(self.case, self.demand)
        for term in TERMS:
            gain = np.zeros(1) if term in free else np.maximum(time_s - self.time_s(free | {term}), 0)
            saved[term][part] = gain
            demand[term][part] = 0 if term in free else alone.get(term, gain)

    def time_s(self, free: Set[str]) -> FloatArray:
        """Seconds with these terms free."""
        given, scalar = solver.time_s(self.case, self.demand, free), self.case.traits.scalar_loads > 0
        if "alignment" not in free or not scalar.any():
            return given
        aligned = solver.time_s(*self._aligned(), free)
        # the aligned kernel may spill more: then nothing would be gained
        return np.where(scalar, np.minimum(given, aligned), given)

    def _aligned(self) -> tuple[Case, Demand]:
        """The same rows as if their row strides were aligned: with the resources of the kernel compiled for that."""
        m, n, k = (-(-x // 16) * 16 for x in (self.problem.m, self.problem.n, self.problem.k))
        up = replace(self.problem, m=m, n=n, k=k)
        gpu, module = self.case.gpu, families.family(self.config.family)
        launch = module.launch(up, self.config, gpu.arch)
        blocks = blocks_per_sm(gpu.arch, launch.threads, launch.regs_per_thread, launch.smem_bytes).blocks_per_sm
        case = make_case(self.problem, self.config, launch, blocks, gpu, self.case.c, self.case.l2, align=True)
        return case, effects.fill(case)
