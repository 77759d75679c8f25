"""The page of a study of padding: gains, recorded neighbours, then a section a problem with its curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmsim.report.padding import charts, measured, numbers
from gemmsim.report.padding.words import section, verdict
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.table import Table, slug
from gemmsim.study.padding.outcome import Outcome
from gemmsim.study.padding.plan import Asked
from gemmsim.study.recorded import DEFAULTS, EXTRAPOLATED, FITTED

#: pixels that a chart takes at least, beside others
NARROW, WIDE = 360, 520
_WORDS = (
    ("alignment", "rows of an operand lie no multiple of 16 B (Triton: of 16 elements) apart, so that they are loaded "
     "in smaller pieces, or TMA cannot load them at all"),
    ("wave edge", "the last wave of blocks is nearly empty, or has room for more tiles"),
    ("colours, ruler", "bytes that the row stride is a multiple of, 16 elements at most: the more, the longer a "
     "size's tick"),
    ("more FLOPs, more bytes", "what is computed, and what A, B and C hold, beyond what was asked: all of it waste"),
    ("verdict", "gain: the 80 % intervals of both times do not meet; uncertain: they overlap, so measure; no gain: no "
     "more than 1 % predicted"),
    ("basis", "fitted: coefficients from rows measured on that GPU; extrapolated: the same, asked outside the range of "
     "those rows; defaults: physical defaults scaled from the chip's own figures"),
)  # fmt: skip


def page(outcome: Outcome) -> Page:
    """The page of a study of padding."""
    study, every = outcome.study, numbers.gains(outcome)
    bars = [
        Chart(f"gains_{slug(kernel)}", f"{kernel}: less time by padding, predicted",
              charts.gain_bars(_rows(every, kernel=kernel)))
        for kernel in study.kernels
    ]  # fmt: skip
    short = Section("What padding gains", charts=bars, beside=WIDE)
    sections = [section for asked in study.problems for section in _problem(outcome, asked)]
    lines = [*verdict(outcome), *_trust(outcome)]
    table = Section("Every case", tables=[every])
    return Page(
        study.title, study.question, lines, [short, table, *_recorded(outcome), *sections], list(_words(outcome))
    )


def _rows(table: Table, **wanted: str) -> Table:
    """The rows of a table with these values."""
    keep = [i for i in range(len(table)) if all(table.data[key][i] == value for key, value in wanted.items())]
    return table.take(keep)


def _recorded(outcome: Outcome) -> Iterator[Section]:
    if outcome.held:
        yield Section("Measured on the curves", tables=[measured.padded(outcome)])
    if outcome.neighbours:
        found = measured.recorded(outcome)
        some = found.brief
        of = f"; {found.told.which}, {len(some)} of {len(found)} pairs" if len(some) < len(found) else ""
        title = f"The same configurations on neighbouring sizes: bars predicted, points measured{of}"
        drawn = Chart("recorded_gains", title, charts.recorded_gains(some))
        yield Section("Measured: recorded neighbours", charts=[drawn], folded=[found])


def _problem(outcome: Outcome, asked: Asked) -> Iterator[Section]:
    """Curves of one problem, a chart a GPU, and every size that was tried."""
    every, name = numbers.curves(outcome), slug(asked.name)
    drawn = [
        Chart(f"curve_{name}_{slug(gpu.name)}", f"{gpu.name}: lines predicted{_points(outcome, asked, gpu.name)}",
              charts.time_against_size(_rows(every, problem=asked.name, gpu=gpu.name)))
        for gpu in outcome.study.gpus if asked.sizes
    ]  # fmt: skip
    rows = [r for r in numbers.gains(outcome).rows() if r["problem"] == asked.name]
    tried = replace(numbers.candidates(outcome, asked.name), name=f"candidates_{name}")
    title = f"{asked.name}: {asked.size}"
    folded = [tried] if len(tried) else []
    if drawn:
        points = replace(_rows(every, problem=asked.name), name=f"points_{name}", shown=every.shown[1:])
        folded.append(points)
    yield Section(title, lines=list(section(rows)), charts=drawn, folded=folded, beside=NARROW)


def _points(outcome: Outcome, asked: Asked, gpu: str) -> str:
    rows = _rows(numbers.curves(outcome), problem=asked.name, gpu=gpu).rows()
    kernels = dict.fromkeys(r["kernel"] for r in rows if r["who"] == "measured")
    said = ", ".join(f"{shape} {kernel}" for shape, kernel in zip(charts.SHAPES, kernels, strict=False))
    return f", points measured ({said})".replace("-up", "") if said else ""


def _trust(outcome: Outcome) -> Iterator[str]:
    """What the coefficients are, and what no measured row says."""
    bases = {b: list(dict.fromkeys(c.gpu for c in outcome.cases if numbers.basis(c) == b)) for b in
             (FITTED, EXTRAPOLATED, DEFAULTS)}  # fmt: skip
    yield "Coefficients: " + "; ".join(f"{name} on {', '.join(gpus)}" for name, gpus in bases.items() if gpus) + "."
    bare = [p.name for p in outcome.study.problems if p.sizes and not any(h.asked == p for h in outcome.held)]
    if bare:
        yield f"No size of these curves was measured: {'; '.join(bare)}."


def _words(outcome: Outcome) -> Iterator[tuple[str, str]]:
    yield "less time", "share of the time as asked that the padded problem saves, each with its own best configuration"
    yield (
        "kernel",
        "; ".join(
            f"{name}: the fastest of {', '.join(of)}" if len(of) > 1 else f"{name}: family {of[0]}"
            for name, of in outcome.study.kernels.items()
        ),
    )
    yield from _WORDS
    yield (
        "shortlist",
        (
            "predicted are the configurations that are fastest at the sizes as asked and padded, not all: past the "
            "edge of a wave another may win"
        ),
    )
    yield "time", f"one launch on a busy stream, launch included; L2 {outcome.study.l2}"
