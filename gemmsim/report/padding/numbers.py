"""The tables of a study of padding: gains, every padded size, curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gemmsim.padding import GAIN, UNCERTAIN, Candidate
from gemmsim.report.table import Column, Table, table
from gemmsim.study.padding import PaddingStudy
from gemmsim.study.padding.outcome import Case, Outcome
from gemmsim.study.recorded import basis_of

#: what a gain comes from, by how the cause begins (gemmsim.padding), and what else there is
ALIGNMENT, WAVE, OTHER, NOTHING = "alignment", "wave edge", "other", "no gain predicted"


def plan(study: PaddingStudy) -> Table:
    """The problems, and the sizes of their curves."""
    shown = (Column("problem", "problem"), Column("size", "M x N x K"), Column("curve", "time against"))
    rows = [
        {"problem": p.name, "size": p.size,
         "curve": f"{p.dimension} {p.sizes[0]} to {p.sizes[-1]}, {len(p.sizes)} sizes" if p.sizes else ""}
        for p in study.problems
    ]  # fmt: skip
    return table("problems", "Problems", shown, rows)


def kind_of(best: Candidate | None) -> str:
    """What a gain comes from, in one or two words."""
    if best is None:
        return NOTHING
    return next((kind for kind in (ALIGNMENT, WAVE) if best.cause.startswith(kind)), OTHER)


def basis(case: Case) -> str:
    """Where the coefficients come from: fitted, extrapolated or defaults."""
    base = case.padding.base
    return basis_of(base.calibration, base.extrapolated)


def _why(case: Case) -> str:
    """Why families cannot launch as asked; a reason that opens with the family's name says it once."""
    return "; ".join(f"{name}: {reason.removeprefix(f'{name}: ')}" for name, reason in case.refused.items())


def _of(case: Case) -> dict[str, Any]:
    """What every row says of its case."""
    a = case.asked
    return {"problem": a.name, "size": a.size, "m": a.m, "n": a.n, "k": a.k, "gpu": case.gpu, "kernel": case.kernel,
            "dtype": case.dtype}  # fmt: skip


def gains(outcome: Outcome) -> Table:
    """A row a problem, GPU and kernel: the padding to take and what it gains and wastes, or that there is none."""
    shown = (
        Column("problem", "problem"), Column("gpu", "GPU"), Column("kernel", "kernel"), *_dtype(outcome),
        Column("time_s", "as asked", "s"), Column("family", "by"), Column("pad", "pad"),
        Column("padded_s", "padded", "s"), Column("padded_family", "by"), Column("gain_share", "less time", "1"),
        Column("verdict", "verdict"), Column("cause", "cause"), Column("more_flops_share", "more FLOPs", "1"),
        Column("more_bytes", "more bytes", "B"), Column("basis", "basis"),
    )  # fmt: skip
    rows = [_gain(case) for case in outcome.cases]
    notes = [
        "Gain: the 80 % intervals of both times do not meet; uncertain: they overlap, so measure before you change "
        "anything. No gain: no padded size is faster by more than 1 %.",
        *_refused(outcome.cases),
    ]  # fmt: skip
    plain = dict.fromkeys(case.gpu for case in outcome.cases if basis(case) == "defaults")
    if plain:
        notes.append(f"Basis defaults: {', '.join(plain)}: no rows were measured there; physical defaults are scaled "
                     "from the chip's own figures.")  # fmt: skip
    return table("gains", "What padding gains, predicted", shown, rows, *notes)


def _refused(cases: Sequence[Case]) -> Iterator[str]:
    """What cannot launch as asked, and what is taken instead: problems and GPUs of one reason together."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        taken = case.padding.base.family
        for family, reason in case.refused.items():
            found.setdefault((family, reason, taken), []).append(case)
    for (family, reason, taken), some in found.items():
        where = ", ".join(dict.fromkeys(case.asked.name for case in some))
        gpus = ", ".join(dict.fromkeys(case.gpu for case in some))
        yield f"{family} cannot launch as asked ({reason}), {taken} is taken: {where} on {gpus}."


def _dtype(outcome: Outcome) -> list[Column]:
    """Only where there is more than one."""
    return [Column("dtype", "dtype")] if len(outcome.study.dtypes) > 1 else []


def _gain(case: Case) -> dict[str, Any]:
    base, best = case.padding.base, case.padding.best
    return {
        **_of(case), "time_s": base.time_s, "family": base.family, "config": base.key,
        "dimension": best.dimension if best else "", "padded": best.padded if best else "",
        "pad": f"{best.dimension} {best.found} to {best.padded}" if best else NOTHING,
        "padded_s": best.time_s if best else None, "padded_family": best.family if best else "",
        "padded_config": best.key if best else "", "gain_share": best.gain_share if best else None,
        "gain_lo_share": best.gain_lo_share if best else None, "gain_hi_share": best.gain_hi_share if best else None,
        "verdict": best.verdict if best else "no gain", "cause": kind_of(best), "why": best.cause if best else "",
        "more_flops_share": best.more_flops_share if best else None, "more_bytes": best.more_bytes if best else None,
        "refused": _why(case), "basis": basis(case),
    }  # fmt: skip


def candidates(outcome: Outcome, problem: str | None = None) -> Table:
    """Every size that was tried, of one problem or of all."""
    shown = (
        *([] if problem else [Column("problem", "problem")]), Column("gpu", "GPU"), Column("kernel", "kernel"),
        Column("what", "pad"), Column("found", "from"), Column("padded", "to"), Column("time_s", "time", "s"),
        Column("gain_share", "less time", "1"), Column("verdict", "verdict"), Column("family", "by"),
        Column("more_flops_share", "more FLOPs", "1"), Column("more_bytes", "more bytes", "B"), Column("cause", "why"),
    )  # fmt: skip
    rows = [
        {**_of(case), "what": c.dimension if c.kind == "multiple" else f"{c.dimension}, {c.kind}", "kind": c.kind,
         "found": c.found, "padded": c.padded, "time_s": c.time_s, "gain_share": c.gain_share, "verdict": c.verdict,
         "family": c.family, "config": c.key, "more_flops_share": c.more_flops_share, "more_bytes": c.more_bytes,
         "cause": c.cause}
        for case in outcome.cases if problem in (None, case.asked.name) for c in case.padding.candidates
    ]  # fmt: skip
    note = (
        "Room: the largest size that takes no longer, since the last wave is not full. Smaller: needs one wave less; "
        "no padding, but what fewer rows or columns would gain."
    )
    return table("candidates", "Every size tried, predicted", shown, rows, note)


def curves(outcome: Outcome) -> Table:
    """A row a size of each curve, predicted, and a row a size that was measured."""
    shown = (
        Column("problem", "problem"), Column("gpu", "GPU"), Column("kernel", "kernel"), Column("who", "who"),
        Column("dimension", "of"), Column("value", "size"), Column("aligned_bytes", "multiple of, B"),
        Column("time_s", "time", "s"), Column("family", "by"), Column("config", "configuration"),
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"problem": c.asked.name, "gpu": c.gpu, "kernel": c.kernel, "dtype": c.dtype, "who": "predicted",
         "dimension": c.asked.dimension, "value": p.size, "asked": c.asked.size_asked,
         "aligned_bytes": p.aligned_bytes, "time_s": p.time_s, "family": p.family, "config": p.key}
        for c in outcome.curves for p in c.points
    ]  # fmt: skip
    rows += [
        {"problem": h.asked.name, "gpu": h.gpu, "kernel": h.kernel, "dtype": h.dtype, "who": "measured",
         "dimension": h.asked.dimension, "value": h.size, "asked": h.asked.size_asked,
         "aligned_bytes": None, "time_s": h.time_s, "family": h.family, "config": h.key}
        for h in outcome.held
    ]  # fmt: skip
    return table("curves", "Time against a size", shown, rows)


def worth(row: dict[str, Any]) -> bool:
    """Whether a row of `gains` has a padding to take."""
    return row["verdict"] in (GAIN, UNCERTAIN)
