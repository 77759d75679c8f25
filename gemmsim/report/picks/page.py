"""The page of a study's outcome: which sections, in which order, and what the sentences between them say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gemmsim.explanation import MEANING
from gemmsim.report import hardware
from gemmsim.report.charts import predicted_against_measured, ratio_against_time, roofline, term_stack, time_bars
from gemmsim.report.page import Chart, Page, Section
from gemmsim.report.picks import numbers, verdict
from gemmsim.report.table import Table, slug, table
from gemmsim.study.picks import PicksStudy
from gemmsim.study.picks.outcome import Outcome

_L2_WORDS = {
    "cold_clean": "nothing of the operands is in the L2, and no dirty lines",
    "cold_dirty": "nothing of the operands is in the L2, which is full of dirty lines",
    "warm": "the L2 holds what the same kernel left one launch ago",
}
NONE = table("none", "", (), [])


def page(outcome: Outcome, tables: Mapping[str, Table]) -> Page:
    """The page of a study of picks; tables: those of `numbers.tables`."""
    study = outcome.study
    return Page(
        study.title, study.question, list(_lines(outcome, tables)), list(_sections(outcome, tables)), _words(outcome)
    )


def _lines(outcome: Outcome, tables: Mapping[str, Table]) -> Iterator[str]:
    study = outcome.study
    yield from verdict.verdict(outcome, tables["totals"])
    searched = max(c.searched for c in outcome.candidates)
    yield (
        f"{len(study.works)} GEMMs of {study.subject}, {', '.join(study.dtypes)}, kernels: {', '.join(study.spaces)}; "
        f"up to {searched:,} configurations that fit are predicted for each GEMM and GPU, and the fastest is picked."
    )
    yield from tables["picks"].notes
    yield from verdict.timed(outcome, tables.get("timed", NONE))


def _sections(outcome: Outcome, tables: Mapping[str, Table]) -> Iterator[Section]:
    study = outcome.study
    yield Section("In short", tables=[tables[name] for name in ("totals", "speedups") if name in tables])
    for variant in study.variants:
        picked = numbers.picks(outcome, variant)
        charts = [
            Chart(f"time_{slug(variant)}", "Predicted time of one launch", time_bars(picked)),
            Chart(f"terms_{slug(variant)}", "What the predicted time is made of",
                  term_stack(numbers.of_variant(tables["terms"], variant))),
        ]  # fmt: skip
        yield Section(f"Tiles: {numbers.label(study, variant)}", charts=charts, tables=[picked])
    yield _roofline(outcome, tables["candidates"])
    if "points" in tables:
        yield _evidence(tables)
    yield Section("All candidates", folded=[tables["candidates"], tables["terms"], numbers.plan(study)])


def _roofline(outcome: Outcome, candidates: Table) -> Section:
    roofs = hardware.roofs(outcome.study.gpus, outcome.study.dtypes)
    first = table("picks", "Picks", (), [r for r in candidates.rows() if r["rank"] == 1])
    chart = Chart("roofline", "Picks under each GPU's roof", roofline(first, roofs))
    return Section("Roofline", charts=[chart], tables=[roofs])


def _evidence(tables: Mapping[str, Table]) -> Section:
    points = tables["points"]
    rows = f"{len(points):,} measured rows, of many a part; shaded: within 10 %"
    drawn = [
        Chart("predicted_against_measured", rows, predicted_against_measured(points)),
        Chart("ratio_against_time", "The same, as a ratio", ratio_against_time(points)),
    ]
    beside = [tables[name] for name in ("timed", "errors") if name in tables]
    return Section("Predicted against measured", charts=drawn, tables=beside)


def _words(outcome: Outcome) -> list[tuple[str, str]]:
    study = outcome.study
    bounds = dict.fromkeys(c.bound_by for c in outcome.candidates)
    return [
        ("time", f"one launch on a busy stream, launch included; L2 {study.l2}: {_L2_WORDS[study.l2]}"),
        ("tile", "bm x bn x bk, then " + _tile_words(study)),
        ("TFLOP/s, of peak", "2 M N K over the time; share of the dense peak at the datasheet's clock"),
        ("what a time is made of", "a term's part is what freeing it gains, averaged over the orders of freeing terms: "
         "parts add up to the time; other: what no term with a part accounts for"),
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
