"""The page of a study's outcome: which sections, in which order, and what the sentences between them say."""

from __future__ import annotations

from collections.abc import Iterator

from gemmsim.explanation import MEANING
from gemmsim.report import charts, errors
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.picks import numbers
from gemmsim.report.table import slug, table
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Outcome

_L2_WORDS = {
    "cold_clean": "nothing of the operands is in the L2, and no dirty lines",
    "cold_dirty": "nothing of the operands is in the L2, which is full of dirty lines",
    "warm": "the L2 holds what the same kernel left one launch ago",
}


def page(outcome: Outcome) -> Page:
    """The page of a study of picks."""
    study = outcome.study
    return Page(study.title, study.question, list(_lines(outcome)), list(_sections(outcome)), _words(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    study = outcome.study
    searched = max(c.searched for c in outcome.candidates)
    yield (
        f"{len(study.works)} GEMMs of {study.subject}, {', '.join(study.dtypes)}, kernels: {', '.join(study.spaces)}; "
        f"up to {searched:,} configurations that fit are predicted for each GEMM and GPU, and the fastest is picked."
    )
    yield from numbers.all_picks(outcome).notes


def _sections(outcome: Outcome) -> Iterator[Section]:
    study = outcome.study
    compared = [numbers.speedups(outcome)] if outcome.speedups else []
    yield Section("In short", tables=[numbers.totals(outcome), *compared])
    for variant in study.variants:
        picked = numbers.picks(outcome, variant)
        chart = Chart(f"time_{slug(variant)}", "Predicted time of one launch", charts.time_bars(picked))
        yield Section(f"Tiles: {numbers.label(study, variant)}", charts=[chart], tables=[picked])
    yield _roofline(outcome)
    if outcome.recorded:
        yield _evidence(outcome)
    yield Section("All candidates", folded=[numbers.shortlist(outcome), numbers.plan(study)])


def _roofline(outcome: Outcome) -> Section:
    roofs = numbers.roofs(outcome)
    first = table("picks", "Picks", (), [r for r in numbers.shortlist(outcome).rows() if r["rank"] == 1])
    chart = Chart("roofline", "Picks under each GPU's roof", charts.roofline(first, roofs))
    return Section("Roofline", charts=[chart], tables=[roofs])


def _evidence(outcome: Outcome) -> Section:
    points = errors.points(outcome.recorded)
    hand = numbers.at_hand(outcome)
    rows = f"{len(points):,} recorded rows (of many of a kernel a part is drawn), shaded: within 10 %"
    drawn = [
        Chart("predicted_against_measured", rows, charts.predicted_against_measured(points)),
        Chart("ratio_against_time", "The same, as a ratio", charts.ratio_against_time(points)),
    ]
    tables = [errors.errors(outcome.recorded), *([hand] if len(hand) else [])]
    return Section("Predicted against measured", charts=drawn, tables=tables)


def _words(outcome: Outcome) -> list[tuple[str, str]]:
    study = outcome.study
    bounds = dict.fromkeys(c.bound_by for c in outcome.candidates)
    return [
        ("time", f"one launch on a busy stream, launch included; L2 {study.l2}: {_L2_WORDS[study.l2]}"),
        ("tile", "bm x bn x bk, then " + _tile_words(study)),
        ("TFLOP/s, of peak", "2 M N K over the time; share of the dense peak at the datasheet's clock"),
        ("basis", "fitted: coefficients from rows measured on that GPU; extrapolated: the same, asked outside the "
         "range of those rows; defaults: physical defaults scaled from the chip's own figures"),
        ("regret", "how much slower the model's first choice is than the best tile timed, mean over shapes"),
        ("MAPE, median, p90", "mean, median and 90th percentile of |predicted / measured - 1|"),
        ("Spearman", "rank correlation of predicted and measured over the tiles of a shape, mean over shapes"),
        *((f"bound: {name}", MEANING.get(name, "")) for name in sorted(b for b in bounds if b)),
    ]  # fmt: skip


def _tile_words(study: PicksStudy) -> str:
    words = {
        "triton": "w num_warps, s num_stages, g group_m",
        "wgmma": "s stages, c consumers, m and n cluster, g group_m, h hilbert, k split_k",
        "register_tile": "t and x: rows and columns a thread",
    }
    return "; ".join(f"{words.get(name, 'its other parameters')} ({name})" for name in study.spaces)
