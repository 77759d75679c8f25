"""The tables of a study that compares GPUs: times, why one is faster, best tiles, elasticities, hardware figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Any

from gemmsim.comparison import Card, Comparison, Speedup
from gemmsim.comparison.figures import side_by_side
from gemmsim.hardware import load_figures
from gemmsim.report.hardware import ratios
from gemmsim.report.table import Column, Table, table
from gemmsim.report.units import human, sizes
from gemmsim.study.comparison import ComparisonStudy, Pass
from gemmsim.study.recorded import DEFAULTS, FITTED

#: a factor nearer to 1, and an elasticity nearer to 0, are not worth telling
LEAST_FACTOR, LEAST_ELASTICITY = 0.015, 0.02
#: units that gemmsim.report.units has not: unit -> what it is divided by, and what stands behind
_UNITS = {"Hz": (1e6, "MHz"), "clk": (1, "clk"), "W": (1, "W"), "FLOP/B": (1, "FLOP/B")}
UNKNOWN = "unknown"


def times(passes: Sequence[Pass]) -> Table:
    """A row a variant, type and GPU: time and interval, rate, bound, energy, speed-up and what it is due to."""
    shown = (
        Column("variant", "variant"), Column("dtype", "type"), Column("gpu", "GPU"), Column("time_s", "time", "s"),
        Column("time_lo_s", "80 %: from", "s"), Column("time_hi_s", "to", "s"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("peak_share", "of peak", "1"), Column("bound", "bound"),
        Column("energy_j", "J, at most"), Column("ratio", "speed-up", "x"), Column("reason", "because of"),
        Column("basis", "basis"),
    )  # fmt: skip
    rows = [_time(p, card) for p in passes for card in p.found.cards]
    notes = (
        "Predicted: every GEMM of a pass with the configuration that is fastest on that GPU, one after the other. "
        "80 %: the sums of the low and of the high ends of the launches' intervals.",
        "J, at most: the board's power limit times the time; a kernel that waits for memory draws less.",
        "Because of: factors that multiply to the speed-up, each what a group of figures is due on average over the "
        "orders of changing the baseline's to this GPU's (Shapley's value).",
    )
    return table("times", "The workload on each GPU", shown, rows, *notes)


def _time(p: Pass, card: Card) -> dict[str, Any]:
    found, peak = p.found, card.gpu.peak_flops(p.dtype)
    gain = _speedup(found, card.label)
    bound, share = next(iter(card.bounds.items()))
    low, high = card.interval_s
    return {
        "variant": p.variant, "dtype": p.dtype, "gpu": card.label, "time_s": card.time_s, "time_lo_s": low,
        "time_hi_s": high, "flops_per_s": card.flops_per_s, "peak_share": card.flops_per_s / peak if peak else None,
        "bound": f"{bound} {100 * share:.0f} %", "energy_j": card.energy_j, "ratio": gain.ratio if gain else 1.0,
        "reason": because(gain) if gain else "baseline", "basis": FITTED if found.calibrated else DEFAULTS,
    }  # fmt: skip


def _speedup(found: Comparison, label: str) -> Speedup | None:
    return next((s for s in found.speedups if s.label == label), None)


def because(gain: Speedup) -> str:
    """The groups of figures that matter, largest first."""
    said = [f"{r.group} {r.factor:.2f}x" for r in gain.reasons if abs(r.factor - 1) >= LEAST_FACTOR]
    return ", ".join(said) or "no figure that matters here differs"


def reasons(passes: Sequence[Pass]) -> Table:
    """A row a variant, GPU and group of figures: its factor of the speed-up over the baseline."""
    shown = (
        Column("variant", "variant"), Column("dtype", "type"), Column("gpu", "GPU"), Column("group", "figures"),
        Column("factor", "factor", "x"), Column("share", "share of it", "1"), Column("ratio", "speed-up", "x"),
    )  # fmt: skip
    rows = [
        {"variant": p.variant, "dtype": p.dtype, "gpu": s.label, "group": r.group, "factor": r.factor,
         "share": r.share, "ratio": s.ratio}
        for p in passes for s in p.found.speedups for r in s.reasons
    ]  # fmt: skip
    return table("reasons", "What the speed-ups are due to", shown, rows)


def picks(passes: Sequence[Pass]) -> Table:
    """A row a GEMM and GPU: its best configuration."""
    shown = (
        Column("variant", "variant"), Column("gemm", "GEMM"), Column("size", "M x N x K"), Column("count", "launches"),
        Column("gpu", "GPU"), Column("family", "kernel"), Column("config", "tile"), Column("time_s", "a launch", "s"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("bound_by", "bound"),
    )  # fmt: skip
    rows = []
    for p in passes:
        for card in p.found.cards:
            for pick in card.picks:
                q, e = pick.product, pick.entry
                rows.append({
                    "variant": p.variant, "dtype": p.dtype, "gemm": q.name, "size": f"{q.m} x {q.n} x {q.k}",
                    "count": q.count, "gpu": card.label, "family": e.family, "config": e.key, "time_s": e.time_s,
                    "flops_per_s": 1e12 * e.tflops, "bound_by": e.bound_by,
                    "dram_bytes": e.dram_read_bytes + e.dram_write_bytes, "calibration": e.calibration,
                })  # fmt: skip
    return table("picks", "Best tiles", shown, rows)


def hardware(study: ComparisonStudy) -> Table:
    """A row a figure, a column a GPU; what a GPU's file does not know is `unknown`. The CSV has their kinds too."""
    named = zip(study.gpus, study.names, strict=True)
    kinds = {gpu.name: {f.key: f.kind for f in load_figures(name)} for gpu, name in named}
    rows = []
    for row in side_by_side(study.gpus):
        shown = {g.name: say(row[g.name], row["unit"]) if row[g.name] is not None else UNKNOWN for g in study.gpus}
        kind = {f"{name}_kind": kinds[name].get(row["figure"], "derived" if shown[name] != UNKNOWN else UNKNOWN)
                for name in shown}  # fmt: skip
        rows.append({"figure": row["figure"], **shown, **kind})
    columns = (Column("figure", "figure"), *(Column(gpu.name, gpu.name) for gpu in study.gpus))
    notes = [f"{gpu.name}: {note}" for gpu in study.gpus for note in gpu.notes]
    return table("hardware", "Figures side by side", columns, rows, "Peaks and ridges are of dense matrices.", *notes)


def sources(study: ComparisonStudy) -> Table:
    """Each figure of each GPU with its kind and source."""
    compared = {row["figure"] for row in side_by_side(study.gpus)}
    rows = [
        {"gpu": gpu.name, "figure": f.key, "shown": say(f.value, f.unit), "kind": f.kind, "source": f.source}
        for gpu, name in zip(study.gpus, study.names, strict=True) for f in load_figures(name) if f.key in compared
    ]  # fmt: skip
    shown = (Column("gpu", "GPU"), Column("figure", "figure"), Column("shown", "value"), Column("kind", "kind"),
             Column("source", "source"))  # fmt: skip
    return table("sources", "Kinds and sources of the figures", shown, rows)


def charted(study: ComparisonStudy) -> Table:
    """The figures that the hardware chart draws, as ratios to the baseline: peaks and ridges of the study's types."""
    chips = sorted(study.gpus, key=lambda gpu: gpu.name != study.baseline)
    rows = side_by_side(chips)
    kept = [r for r in rows if "." not in r["figure"] or r["figure"].partition(".")[2] in study.dtypes]
    return ratios(chips, kept, say)


def say(value: Any, unit: str) -> str:
    """A figure with its unit."""
    if unit in _UNITS and isinstance(value, int | float):
        factor, shown = _UNITS[unit]
        return f"{value / factor:,.0f} {shown}"
    return human(value, unit)


def elasticities(passes: Sequence[Pass]) -> Table:
    """A row a variant, GPU and figure: by how many per cent the time changes with 1 % more of the figure."""
    shown = (
        Column("variant", "variant"), Column("dtype", "type"), Column("figure", "figure"), Column("gpu", "GPU"),
        Column("elasticity", "% of time by 1 % more"),
    )  # fmt: skip
    rows = [
        {"variant": p.variant, "dtype": p.dtype, "figure": e.figure, "gpu": e.label, "elasticity": e.elasticity}
        for p in passes for e in p.found.elasticities
    ]  # fmt: skip
    note = "Central differences over 5 % to each side, tiles picked again; what hangs on a figure follows it."
    return table("elasticities", "What the time hangs on", shown, rows, note)


def matter(slopes: Table) -> Table:
    """The elasticities of figures that matter on some GPU, the largest first."""
    rows = slopes.rows()
    largest: dict[str, float] = {}
    for r in rows:
        largest[r["figure"]] = max(largest.get(r["figure"], 0.0), abs(r["elasticity"]))
    kept = [f for f in sorted(largest, key=lambda f: -largest[f]) if largest[f] >= LEAST_ELASTICITY]
    ordered = [r for figure in kept for r in rows if r["figure"] == figure]
    return table(slopes.name, slopes.title, slopes.shown, ordered, *slopes.notes)


def wide(slopes: Table) -> Table:
    """The same with a row a figure and a column a GPU."""
    rows: dict[str, dict[str, Any]] = {}
    gpus = list(dict.fromkeys(slopes.data["gpu"]))
    for r in slopes.rows():
        mine = rows.setdefault(r["figure"], {"figure": r["figure"], **dict.fromkeys(gpus)})
        mine[r["gpu"]] = round(r["elasticity"], 2)
    shown = (Column("figure", "% of time by 1 % more of"), *(Column(gpu, gpu) for gpu in gpus))
    return table(f"wide_{slopes.name}", slopes.title, shown, list(rows.values()), *slopes.notes)


def verdict(study: ComparisonStudy, passes: Sequence[Pass]) -> Iterator[str]:
    """The answer in sentences: the fastest GPU of each pass and why, what if, what the time hangs on, and the basis."""
    for p in passes:
        yield _fastest(p)
    yield _basis(passes)
    yield from _what_if(passes)
    if study.sensitivity:
        yield from (_hangs(p) for p in passes)
    yield from _low(passes)
    yield from dict.fromkeys(f"{note}." for p in passes for note in p.found.notes if note.startswith("the weights"))


def _fastest(p: Pass) -> str:
    cards = [card for card in p.found.cards if card.label not in p.found.changes]
    best, *rest = sorted(cards, key=lambda card: card.time_s)
    gain = _speedup(p.found, best.label)
    lead = f", {rest[0].time_s / best.time_s:.2f} times as fast as the next, {rest[0].label}" if rest else ""
    head = f"{_pass(p)}: {best.label} is predicted to be fastest, {human(best.time_s, 's')}{lead}"
    if gain is None:
        return f"{head}; it is the baseline."
    return f"{head}, and {gain.ratio:.2f} times as fast as {p.found.baseline}, because of {because(gain)}."


def _pass(p: Pass) -> str:
    size = sizes("M", (product.m for product in p.found.products))
    return f"{p.variant[0].upper()}{p.variant[1:]} ({size}, {p.dtype})"


def _basis(passes: Sequence[Pass]) -> str:
    if all(p.found.calibrated for p in passes):
        return "Predicted with coefficients that were fitted to measured rows of every GPU here."
    aside = dict.fromkeys(note for p in passes for note in p.found.notes if "left aside" in note)
    known = " ".join(f"{note[0].upper()}{note[1:]}." for note in aside)
    return (
        "Nothing here is measured, and no GPU's time is calibrated: all coefficients are physical defaults scaled from "
        f"each chip's own figures, so that ratios compare defaults with defaults. {known}"
    ).strip()


def _what_if(passes: Sequence[Pass]) -> Iterator[str]:
    for label, what in (passes[0].found.changes if passes else {}).items():
        said = []
        for p in passes:
            time_s = {card.label: card.time_s for card in p.found.cards}
            said.append(f"{p.variant} {time_s[label.rstrip('*')] / time_s[label]:.2f} times as fast ({p.dtype})")
        yield f"What if {label.rstrip('*')} had {what} ({label}; no such chip was measured): {', '.join(said)}."


def _hangs(p: Pass) -> str:
    """The figures that most GPUs' time hangs on most."""
    first: dict[str, list[str]] = {}
    for card in p.found.cards:
        mine = [e for e in p.found.elasticities if e.label == card.label]
        top = max(mine, key=lambda e: abs(e.elasticity), default=None)
        if top is not None:
            first.setdefault(top.figure, []).append(f"{card.label} {top.elasticity:+.2f}")
    said = [f"{figure} ({', '.join(labels)})" for figure, labels in sorted(first.items(), key=lambda x: -len(x[1]))]
    return f"{_pass(p)}: 1 % more of one figure changes the time most, in %, for {'; '.join(said)}."


def _low(passes: Sequence[Pass]) -> Iterator[str]:
    """GPUs whose file says that something of theirs is not modelled."""
    for gpu in dict.fromkeys(card.gpu.name for p in passes for card in p.found.cards):
        card = next(card for p in passes for card in p.found.cards if card.gpu.name == gpu)
        for note in card.gpu.notes:
            if "not modelled" in note:
                yield f"Beware: {gpu}: {note}."


def asked(study: ComparisonStudy) -> Table:
    """The GEMMs."""
    shown = (Column("variant", "variant"), Column("gemm", "GEMM"), Column("size", "M x N x K"),
             Column("count", "launches"), Column("flops", "a launch", "FLOP"))  # fmt: skip
    rows = [
        {"variant": w.variant, "gemm": w.name, "size": f"{w.m} x {w.n} x {w.k}", "count": w.count, "flops": w.flops}
        for w in study.works
    ]  # fmt: skip
    return table("gemms", f"GEMMs of {study.subject}", shown, rows)


def stacked(mine: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The factors of one GPU laid end to end on a log axis: gains to the right of 1, losses to the left."""
    pieces, up, down = [], 1.0, 1.0
    for r in sorted(mine, key=lambda r: -abs(log(r["factor"]))):
        gains = r["factor"] >= 1
        start = up if gains else down
        pieces.append({**r, "from": start, "to": start * r["factor"]})
        up, down = (up * r["factor"], down) if gains else (up, down * r["factor"])
    return pieces
