"""`gemmsim compare`: the same GEMMs on several GPUs, and on GPUs with other figures: time, bound, energy, tile, why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from gemmsim.cli.charted import chart_option, check_chart, draw
from gemmsim.cli.options import (
    Command,
    condition,
    dimensions,
    family_and_dtype,
    form_options,
    problem_argument,
    refuse_beside,
)
from gemmsim.cli.tables import Column, emit, human, output_options, progress, said_format, send, table_lines
from gemmsim.cli.workload import Asked, model_passes, pass_options, said_weights
from gemmsim.errors import GemmsimError, unknown
from gemmsim.families import FAMILIES
from gemmsim.problem import DTYPE_BYTES, Form

if TYPE_CHECKING:
    from gemmsim.comparison import Comparison, Speedup
    from gemmsim.report.table import Table
    from gemmsim.workload import Product

#: an elasticity under this is nothing to speak of; a factor nearer to 1 is no reason
_LEAST_ELASTICITY, _LEAST_FACTOR = 0.005, 0.01
_CARDS = (
    Column("gpu", "GPU"), Column("time_s", "time", "s"), Column("interval", "80 % interval"),
    Column("flops_per_s", "speed", "FLOP/s"), Column("speedup", "speed-up", "x"), Column("bound", "bound by"),
    Column("energy_j", "energy, at most", "J"), Column("reason", "why"),
)  # fmt: skip
_PICKS = (
    Column("gemm", "GEMM"), Column("size", "M x N x K"), Column("batch", "batch"), Column("count", "count"),
    Column("gpu", "GPU"), Column("time_s", "a launch", "s"), Column("flops_per_s", "speed", "FLOP/s"),
    Column("bound_by", "bound by"), Column("family", "kernel"), Column("config", "best tile"),
)  # fmt: skip


@click.command(cls=Command)
@problem_argument
@click.option("--gpus", metavar="A,B,...", help="GPUs by name or file; one is enough with --set or --sensitivity.")
@click.option("--workload", metavar="CONFIG_JSON", help="In place of M N K: the GEMMs of a model's pass (gemmsim "
              "workload), with --tokens.")  # fmt: skip
@pass_options
@click.option("--shapes", metavar="FILE", help="In place of M N K: a CSV with m, n, k, and if they differ name, count, "
              "batch, dtype, dtype_b, layout, beta, epilogue.")  # fmt: skip
@click.option("--baseline", metavar="G", help="The GPU that speed-ups are over.  [default: the first]")
@click.option("--set", "changes", metavar="[G:]FIGURE=VALUE", multiple=True, help="What if: the GPU (the baseline) "
              "once more, with a star, a figure of its file changed; in the file's unit; repeatable.")  # fmt: skip
@click.option("--sensitivity", is_flag=True, help="By how many per cent the time changes with one per cent more of "
              "each figure.")  # fmt: skip
@click.option("--dtype", metavar="T", help=f"{', '.join(DTYPE_BYTES)}.  [default: the family's first]")
@click.option("--family", metavar="F", help=f"{', '.join(FAMILIES)}, or all.  [default: the dtype's first]")
@click.option("--l2", metavar="C", help="What the L2 holds at the start, as in rank.  [default: cold_clean]")
@click.option("--calibration", metavar="FILE|none", default="auto", help="Coefficients for all GPUs.  [default: fitted "
              "ones, where each GPU and family has its own]")  # fmt: skip
@form_options
@chart_option("a launch's time of each GEMM, a bar a GPU,")
@output_options(default=None)
def command(
    mnk: Sequence[str], gpus: str | None, workload: str | None, shapes: str | None, baseline: str | None,
    changes: Sequence[str], sensitivity: bool, dtype: str | None, family: str | None, l2: str | None, calibration: str,
    weights: str | None, shape: Form, chart: str | None, format: str | None, out: str | None, **given: str | None,
) -> None:  # fmt: skip
    """The same GEMMs on several GPUs, the best configuration of each on each: time, bound, energy, tile, and why.

    Why: the speed-up falls to groups of figures (memory bandwidth, SMs, ...) whose factors multiply to it, each as its
    change gains on average over all orders of changing them (Shapley's value). Energy is an estimate from above: the
    power limit of the board times the time. No GPU is needed.
    """
    check_chart(chart)
    names = _names(gpus)
    what_if = _changes(changes, baseline or names[0])
    if family is not None and family not in (*FAMILIES, "all"):
        raise unknown("family", family, (*FAMILIES, "all"), where="--family")
    _, kind = family_and_dtype(None if family == "all" else family, dtype, gpu=names[0])
    products = _products(mnk, workload, shapes, replace(shape, dtype=kind), Asked(**given), weights)
    from gemmsim.comparison import compare
    from gemmsim.comparison.compare import steps

    with progress(steps(len(products), len(names) + len(what_if), sensitivity), "Comparing") as update:
        found = compare(products, gpus=names, family=family, l2=condition(l2), calibrated=calibration,
                        baseline=baseline, what_if=what_if, sensitivity=sensitivity, progress=update)  # fmt: skip
    if chart is not None:
        _draw(found, chart)
    _show(found, said_format(format, out), out)


def _names(gpus: str | None) -> list[str]:
    names = [name.strip() for name in (gpus or "").split(",")]
    if not all(names):
        what = "is missing" if gpus is None else f"is {gpus!r}"
        raise GemmsimError(f"--gpus {what}: expected names of GPUs, A,B,... (gemmsim specs list shows them)")
    return names


def _changes(texts: Sequence[str], first: str) -> dict[str, dict[str, float]]:
    """GPU -> figures to change. Raises GemmsimError for what is no FIGURE=VALUE, and for a figure twice."""
    from gemmsim.hardware import load_gpu

    found: dict[str, dict[str, float]] = {}
    for text in texts:
        left, _, number = text.partition("=")
        gpu, colon, figure = left.strip().rpartition(":")
        odd = GemmsimError(f"--set is {text!r}: expected FIGURE=VALUE, such as dram_bytes_per_s=4.8e12")
        try:
            value = float(number if number.isascii() and "_" not in number else "")
        except ValueError:
            raise odd from None
        if not figure or (colon and not gpu):
            raise odd
        mine = found.setdefault(load_gpu(gpu or first).name, {})
        if figure in mine:
            raise GemmsimError(f"--set {text}: {figure} is given twice, expected it once")
        mine[figure] = value
    return found


def _products(
    mnk: Sequence[str], workload: str | None, shapes: str | None, form: Form, asked: Asked, weights: str | None
) -> list[Product]:
    """The GEMMs that are asked for. Raises GemmsimError unless exactly one of the three ways says them."""
    given = [name for name, value in (("M N K", mnk), ("--workload", workload), ("--shapes", shapes)) if value]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise GemmsimError(f"{found} of M N K, --workload and --shapes: expected exactly one of them")
    if workload:
        if form != Form(dtype=form.dtype):
            raise GemmsimError("--workload is given with options of one GEMM (--dtype-b, --layout, --batch-size, "
                               "--beta, --epilogue): expected them without it")  # fmt: skip
        _, passes = model_passes(workload, asked, (form.dtype, said_weights(weights, form.dtype)))
        return [product for _, listed in passes for product in listed]
    refuse_beside(asked.of_model | {"--weights": weights}, given[0], "expected it with --workload")
    if shapes:
        return list(_rows(shapes, form))
    from gemmsim.comparison.cost import alone

    return [alone(dimensions(mnk), form)]


def _rows(path: str, form: Form) -> Iterator[Product]:
    """The GEMMs of a CSV, a line each. Raises GemmsimError, with the place, for a malformed one."""
    from gemmsim.cli.batch import dimensions_of, form_at, placed, shapes_table
    from gemmsim.cli.options import said_dtype
    from gemmsim.workload import Product

    table = shapes_table(path)
    sizes = zip(*(column.tolist() for column in dimensions_of(table).values()), strict=True)
    counts = table.whole("count", None, blank=1).tolist() if "count" in table else [1] * len(table)
    texts = {name: table.columns.get(name, [""] * len(table)) for name in ("phase", "name", "dtype")}
    for i, (m, n, k) in enumerate(sizes):
        dtype = said_dtype(texts["dtype"][i].strip() or None, table.place(i, "dtype")) or form.dtype
        found = Product(texts["phase"][i], texts["name"][i], m, n, k, counts[i], form_at(table, i, form, dtype), False)
        with placed(table, i):
            found.gemm  # noqa: B018 - refuses what is none
        yield found


def _show(found: Comparison, format: str, out: str | None) -> None:
    cards = _cards(found)
    if format == "json":
        import json

        send(json.dumps(_document(found, cards), indent=2) + "\n", out)
    elif format == "csv":
        emit(cards, [Column(key) for key in cards[0]], "csv", out)
    else:
        send("\n".join(_lines(found, cards, wrap=out is None)) + "\n", out)


def _cards(found: Comparison) -> list[dict[str, Any]]:
    """A row a GPU."""
    from gemmsim.comparison import GROUPS

    speedups = {s.label: s for s in found.speedups}
    rows = []
    for card in found.cards:
        gain, (low, high) = speedups.get(card.label), card.interval_s
        factors = {r.group: r.factor for r in gain.reasons} if gain else {}
        rows.append({
            "gpu": card.label, "changed": found.changes.get(card.label, ""), "time_s": card.time_s, "time_lo_s": low,
            "time_hi_s": high, "flops_per_s": card.flops_per_s, "speedup": gain.ratio if gain else 1.0,
            "bound_by": card.bound_by, "bound_share": card.bounds[card.bound_by], "energy_j": card.energy_j,
            "tdp_w": card.gpu.tdp_w, "calibration": " ".join(card.calibrations), "extrapolated": card.extrapolated,
            **{f"{group.lower().replace(' ', '_')}_factor": factors.get(group, 1.0) for group in GROUPS},
        })  # fmt: skip
    return rows


def _picks(found: Comparison) -> list[dict[str, Any]]:
    """A row a GEMM and GPU."""
    named, several = len({p.phase for p in found.products}) > 1, len(found.products) > 1
    return [
        {
            "gemm": f"{p.phase} {p.name}" if named else p.name or (f"GEMM {i + 1}" if several else "GEMM"),
            "size": f"{p.m} x {p.n} x {p.k}", "m": p.m,
            "n": p.n, "k": p.k, "types": _types(p), "batch": p.form.batch, "count": p.count,
            "layout": p.form.layout, "gpu": card.label,
            "family": entry.family, "config": entry.key, "time_s": entry.time_s, "time_lo_s": entry.time_lo_s,
            "time_hi_s": entry.time_hi_s, "flops_per_s": 1e12 * entry.tflops, "bound_by": entry.bound_by,
            "calibration": entry.calibration, "extrapolated": entry.extrapolated,
        }
        for i, p in enumerate(found.products) for card in found.cards for entry in [card.picks[i].entry]
    ]  # fmt: skip


def _document(found: Comparison, cards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "baseline": found.baseline, "l2": found.l2, "calibrated": found.calibrated, "notes": _notes(found),
        "gpus": [dict(row) for row in cards], "picks": _picks(found), "speedups": [asdict(s) for s in found.speedups],
        "elasticities": [asdict(e) for e in found.elasticities],
    }  # fmt: skip


def _lines(found: Comparison, cards: Sequence[Mapping[str, Any]], *, wrap: bool) -> Iterator[str]:
    """What a person reads: the GPUs, the best tiles, the elasticities, notes."""
    why = {s.label: _why(s) for s in found.speedups}
    shown = [
        {
            **row, "interval": f"{human(row['time_lo_s'], 's')} to {human(row['time_hi_s'], 's')}",
            "bound": f"{row['bound_by']} ({row['bound_share']:.0%})", "reason": why.get(row["gpu"], "baseline"),
        }
        for row in cards
    ]  # fmt: skip
    yield from table_lines(shown, _CARDS, wrap=wrap)
    yield ""
    picks = _picks(found)
    columns = [c for c in _PICKS if c.key not in ("batch", "count") or any(row[c.key] != 1 for row in picks)]
    yield from table_lines(picks, columns, wrap=False)
    if found.elasticities:
        yield ""
        yield from _sensitivity(found)
    yield ""
    yield from _notes(found)


def _why(gain: Speedup) -> str:
    """The groups that matter with their factors, largest first."""
    parts = [f"{r.group} {r.factor:.2f}x" for r in gain.reasons if abs(r.factor - 1) >= _LEAST_FACTOR]
    return ", ".join(parts) or "no figure that matters here differs"


def _sensitivity(found: Comparison) -> Iterator[str]:
    """A row a figure, a column a GPU: elasticities, and which figures have none to speak of."""
    slopes = {(e.figure, e.label): e.elasticity for e in found.elasticities}
    figures = list(dict.fromkeys(figure for figure, _ in slopes))
    labels = [card.label for card in found.cards]
    largest = {f: max(abs(slopes.get((f, label), 0.0)) for label in labels) for f in figures}
    rows = [
        {"figure": f, **{label: f"{slopes[f, label]:+.2f}" if (f, label) in slopes else None for label in labels}}
        for f in sorted(figures, key=lambda f: -largest[f]) if largest[f] >= _LEAST_ELASTICITY
    ]  # fmt: skip
    yield from table_lines(rows, [Column("figure", "% of time by 1 % more of"), *map(Column, labels)], wrap=False)
    small = [f for f in figures if largest[f] < _LEAST_ELASTICITY]
    yield f"under {_LEAST_ELASTICITY} everywhere: {', '.join(small) or 'none'}"


def _notes(found: Comparison) -> list[str]:
    """What the numbers are."""
    plain = "uncalibrated: physical defaults scaled from each GPU's own figures"
    names = dict.fromkeys(name for card in found.cards for name in card.calibrations)
    odd = [card.label for card in found.cards if card.extrapolated]
    types = dict.fromkeys(_types(p) for p in found.products)
    return [
        f"{' and '.join(types)}, L2 {found.l2}",
        *(
            f"{label} is {label.rstrip('*')} with {what}: no such chip was measured"
            for label, what in found.changes.items()
        ),
        f"calibration: {', '.join(plain if name == 'uncalibrated' else name for name in names)}",
        *([f"extrapolated: on {', '.join(odd)} GEMMs or tiles lie outside the fitted rows"] if odd else []),
        *found.notes,
        "energy is an estimate from above: the board's power limit (tdp_w) x time",
    ]


def _types(p: Product) -> str:
    """The types of A and B, as one where they are."""
    b = p.form.dtype_b or p.form.dtype
    return p.form.dtype if b == p.form.dtype else f"{p.form.dtype} x {b}"


def _draw(found: Comparison, path: str) -> None:
    from gemmsim.report import charts

    table = _table(found)
    draw(
        path, charts.time_bars(table), [table], _notes(found), caption="Predicted time of one launch",
        section="Best configurations", title=" against ".join(card.label for card in found.cards),
        question="How long do the same GEMMs take on each GPU?",
    )  # fmt: skip


def _table(found: Comparison) -> Table:
    """The table that the chart draws: a row a GEMM and GPU."""
    from gemmsim.report.table import Column as Shown
    from gemmsim.report.table import table

    shown = [
        Shown("gemm", "GEMM"), Shown("size", "M x N x K"), Shown("count", "count"), Shown("gpu", "GPU"),
        Shown("config", "tile"), Shown("time_s", "time", "s"), Shown("flops_per_s", "TFLOP/s", "tera"),
        Shown("bound_by", "bound"),
    ]  # fmt: skip
    return table("picks", "Picks", shown, _picks(found))
