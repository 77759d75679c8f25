"""The tables of a study of heat maps: every cell, the tops, the safest tile, moves between GPUs, errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gemmsim.report.table import Column, Table, table
from gemmsim.study.heatmap import HeatmapStudy
from gemmsim.study.heatmap.outcome import NEAR, Cell, Heatmap, MeasuredMap, Outcome, Place
from gemmsim.study.recorded import EXTRAPOLATED
from gemmsim.study.workload import AS_GIVEN, Work

#: tiles of a kernel that the table of the safest has
SAFEST = 3
#: GEMMs that have a column each in that table; more are in its file alone
MOST_SHOWN = 6
Losses = dict[Place, list[float]]
WHOLE = "predicted, one configuration"


def gemm_name(work: Work) -> str:
    """What a GEMM is called: its own name, led by its variant."""
    return work.name if work.variant == AS_GIVEN else f"{work.variant}, {work.name}"


def size(work: Work) -> str:
    """M x N x K."""
    return f"{work.m} x {work.n} x {work.k}"


def _of(found: Heatmap | MeasuredMap) -> dict[str, Any]:
    """What every row says of its map."""
    w = found.work
    return {"gpu": found.gpu, "kernel": f"{found.family} {found.dtype}", "family": found.family, "dtype": found.dtype,
            "gemm": gemm_name(w), "size": size(w), "m": w.m, "n": w.n, "k": w.k}  # fmt: skip


def plan(study: HeatmapStudy) -> Table:
    """The GEMMs of a study."""
    shown = (Column("gemm", "GEMM"), Column("size", "M x N x K"))
    return table("gemms", "GEMMs", shown, [{"gemm": gemm_name(w), "size": size(w)} for w in study.works])


def cells(study: HeatmapStudy, maps: Sequence[Heatmap]) -> Table:
    """Every cell of the maps, those that cannot launch with the reason."""
    shown = (
        Column("gpu", "GPU"), Column("tile", "tile"), Column("time_s", "time", "s"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("share", "of the best", "1"), Column("bound_by", "bound"),
        Column("configurations", "can launch"), Column("config", "configuration"), Column("reason", "why not"),
    )  # fmt: skip
    rows = [{**_of(m), **_cell(study, m, c)} for m in maps for c in m.cells]
    return table("cells", "Every cell, predicted", shown, rows)


def _cell(study: HeatmapStudy, m: Heatmap, c: Cell) -> dict[str, Any]:
    rate = m.work.flops / c.time_s
    best = m.best
    return {
        "x": c.x, "y": c.y, "tile": study.tile(c.x, c.y), "configurations": c.configurations, "time_s": c.time_s,
        "flops_per_s": rate, "share": best.time_s / c.time_s if best else float("nan"),
        "peak_share": rate / m.peak_flops if m.peak_flops else float("nan"), "best": c is best, "config": c.key,
        "bound_by": c.bound_by, "basis": m.basis, "reason": c.reason,
    }  # fmt: skip


def timed(study: HeatmapStudy, found: Sequence[MeasuredMap]) -> Table:
    """Every cell with measured rows: the fastest, and of the same rows the fastest predicted."""
    shown = (
        Column("gpu", "GPU"), Column("tile", "tile"), Column("rows", "rows"), Column("measured_s", "measured", "s"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("share", "of the best", "1"),
        Column("predicted_s", "predicted", "s"), Column("error", "error", "1"), Column("config", "configuration"),
    )  # fmt: skip
    rows = []
    for m in found:
        least = min(c.measured_s for c in m.cells)
        for c in m.cells:
            rows.append({
                **_of(m), "x": c.x, "y": c.y, "tile": study.tile(c.x, c.y), "rows": c.rows, "measured_s": c.measured_s,
                "flops_per_s": m.work.flops / c.measured_s, "share": least / c.measured_s,
                "best": c.measured_s == least, "config": c.key, "predicted_s": c.predicted_s,
                "error": c.predicted_s / c.measured_s - 1, "predicted_config": c.picked_key,
            })  # fmt: skip
    note = "Predicted: the fastest predicted of the same rows, under their own conditions; error: against the fastest."
    return table("measured_cells", "Every cell, measured", shown, rows, note)


def tops(outcome: Outcome) -> Table:
    """A row a map: its best cell, and how many are as good."""
    shown = (
        Column("gpu", "GPU"), Column("kernel", "kernel"), Column("gemm", "GEMM"), Column("size", "M x N x K"),
        Column("tile", "best tile"), Column("flops_per_s", "TFLOP/s", "tera"), Column("peak_share", "of peak", "1"),
        Column("near", f"tiles within {100 * NEAR:.0f} %"), Column("tiles", "of"), Column("bound_by", "bound"),
        Column("basis", "basis"), Column("config", "configuration"),
    )  # fmt: skip
    rows = [
        {**_of(m), **_cell(outcome.study, m, m.best), "near": m.near, "tiles": len(m.launching)}
        for m in outcome.maps if m.best
    ]  # fmt: skip
    return table("tops", "The best tile of each map, predicted", shown, rows, *_bases(outcome))


def _bases(outcome: Outcome) -> Iterator[str]:
    """Which GPUs are not fitted, and which kernels a GPU cannot run at all."""
    plain = dict.fromkeys(m.gpu for m in outcome.maps if m.best and m.basis == "defaults")
    if plain:
        yield f"Basis defaults: {', '.join(plain)}: no rows were measured there; physical defaults are scaled from " \
              "the chip's own figures."  # fmt: skip
    if any(m.basis == EXTRAPOLATED for m in outcome.maps):
        yield "Basis extrapolated: fitted coefficients, asked outside the range of the rows they were fitted on."
    for m in {m.kernel: m for m in outcome.maps if not m.best}.values():
        yield f"{m.family} {m.dtype} on {m.gpu} has no map: {m.cells[0].reason.partition(': ')[2]}."


def safest(outcome: Outcome) -> Table:
    """Of each GPU and kernel the tiles that lose least in their worst GEMM; then one configuration for all GEMMs."""
    rows = [row for kernel in dict.fromkeys(m.kernel for m in outcome.maps) for row in _safest(outcome, kernel)]
    works = [gemm_name(w) for w in outcome.study.works]
    each = [Column(f"loss_{i}", name, "1") for i, name in enumerate(works)] if len(works) <= MOST_SHOWN else []
    measured = [Column("measured_worst", "measured", "1")] if outcome.measured else []
    shown = (
        Column("gpu", "GPU"), Column("kernel", "kernel"), Column("who", "by"), Column("tile", "tile"),
        Column("worst", "loses at most", "1"), Column("worst_gemm", "in"), *measured, *each,
        Column("config", "configuration"),
    )  # fmt: skip
    notes = (
        "Loses: how much longer the best configuration of the tile takes than the best of all tiles. Its other "
        "parameters may differ from GEMM to GEMM; one configuration: the same for all of them.",
        "Measured: what the same tile loses at most by the rows at hand, of tiles that have rows of every GEMM. They "
        "are a sample: a tile's best configuration need not be among them.",
    )
    return table("safest", "One tile for all GEMMs", shown, rows, *notes[: 1 + len(measured)])


def _safest(outcome: Outcome, kernel: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
    """The rows of one GPU and kernel; none of where a GEMM has no map."""
    said = [m for m in outcome.maps if m.kernel == kernel]
    held = [m for m in outcome.measured if m.kernel == kernel]
    timed = _losses(held) if len(held) == len(said) else {}
    if all(m.best for m in said):
        yield from _first(outcome, "predicted", _losses(said), timed, said[0])
    for fixed in outcome.fixed:
        if (fixed.gpu, fixed.family, fixed.dtype) == kernel:
            yield _lost(outcome, WHOLE, fixed.place, fixed.losses, {}, said[0]) | {"config": fixed.key}
    yield from _first(outcome, "measured", timed, timed, said[0])


def _first(outcome: Outcome, who: str, losses: Losses, timed: Losses, m: Heatmap) -> Iterator[dict[str, Any]]:
    """The SAFEST places with the least worst loss."""
    for place in sorted(losses, key=lambda place: max(losses[place]))[:SAFEST]:
        yield _lost(outcome, who, place, losses[place], timed, m)


def _losses(maps: Sequence[Heatmap] | Sequence[MeasuredMap]) -> Losses:
    """Place -> what it loses in each GEMM, of places that have a time in all of them."""
    each = [_loss(m) for m in maps]
    common = [place for place in each[0] if all(place in losses for losses in each)]
    return {place: [losses[place] for losses in each] for place in common}


def _loss(m: Heatmap | MeasuredMap) -> dict[Place, float]:
    if isinstance(m, Heatmap):
        return {place: m.loss(place) for place in m.launching}
    least = min(c.measured_s for c in m.cells)
    return {(c.x, c.y): c.measured_s / least - 1 for c in m.cells}


def _lost(
    outcome: Outcome, who: str, place: Place, losses: Sequence[float], timed: Losses, m: Heatmap
) -> dict[str, Any]:
    worst = int(np.argmax(losses))
    said = {key: value for key, value in _of(m).items() if key in ("gpu", "kernel", "family", "dtype")}
    return {**said, "who": who, "tile": outcome.study.tile(*place), "config": "", "worst": losses[worst],
            "worst_gemm": gemm_name(outcome.study.works[worst]), "mean": float(np.mean(losses)),
            "measured_worst": max(timed[place]) if place in timed else None,
            **{f"loss_{i}": loss for i, loss in enumerate(losses)}}  # fmt: skip


def moves(outcome: Outcome) -> Table:
    """A row a kernel and GEMM: its best tile on each GPU, and what another GPU's best tile loses at most."""
    gpus = [g.name for g in outcome.study.gpus]
    rows = []
    for move in outcome.moves:
        (source, target), loss = max(move.losses.items(), key=lambda item: item[1])
        tiles = {f"tile_{gpu}": outcome.study.tile(*move.best[gpu]) if gpu in move.best else None for gpu in gpus}
        rows.append({
            "kernel": f"{move.family} {move.dtype}", "gemm": gemm_name(move.work), "size": size(move.work), **tiles,
            "same": len(set(move.best.values())) == 1, "loss": loss, "pair": f"{source} on {target}" if loss else "",
            "basis": move.basis,
        })  # fmt: skip
    shown = (
        Column("kernel", "kernel"), Column("gemm", "GEMM"), *(Column(f"tile_{gpu}", gpu) for gpu in gpus),
        Column("loss", "another's loses", "1"), Column("pair", "at most, of"), Column("basis", "basis"),
    )  # fmt: skip
    note = (
        "Coefficients of the same kind on every GPU: where not all are fitted, physical defaults on all of them, so "
        "that chips are compared and not fits; the best tile may then differ from the map's, which uses the fit."
    )
    return table("moves", "The best tile from GPU to GPU, predicted", shown, rows, note)


def errors(outcome: Outcome) -> Table:
    """A row a map with measured rows: how far the best of its cells are off, and what the model's choice loses."""
    shown = (
        Column("gpu", "GPU"), Column("kernel", "kernel"), Column("gemm", "GEMM"), Column("rows", "rows"),
        Column("cells", "tiles"), Column("mape", "MAPE", "1"), Column("worst", "worst", "1"),
        Column("spearman", "Spearman", "rho"), Column("best_tile", "best measured"),
        Column("flops_per_s", "TFLOP/s", "tera"), Column("picked_tile", "predicted best"),
        Column("regret", "loses", "1"), Column("near", f"within {100 * NEAR:.0f} %"), Column("said_near", "predicted"),
    )  # fmt: skip
    rows = [{**_of(m), **_errors(outcome.study, m)} for m in outcome.measured]
    note = (
        "Of the measured rows alone: the fastest of each tile, measured, beside the fastest predicted. Loses: what the "
        "row that is predicted to be the fastest took, against the fastest measured."
    )
    return table("errors", "Measured beside predicted, tile by tile", shown, rows, note)


def _errors(study: HeatmapStudy, m: MeasuredMap) -> dict[str, Any]:
    from scipy.stats import spearmanr

    held, said = (np.asarray([getattr(c, key) for c in m.cells]) for key in ("measured_s", "predicted_s"))
    off = np.abs(said / held - 1)
    best, pick = m.cells[int(np.argmin(held))], m.cells[int(np.argmin(said))]
    ranked = len(set(held)) > 2 and len(set(said)) > 2
    return {
        "rows": m.rows, "cells": len(m.cells), "mape": float(off.mean()), "worst": float(off.max()),
        "spearman": float(spearmanr(held, said).statistic) if ranked else float("nan"),
        "best_tile": study.tile(best.x, best.y), "flops_per_s": m.work.flops / best.measured_s,
        "picked_tile": study.tile(pick.x, pick.y), "regret": pick.picked_s / best.measured_s - 1,
        "near": int((held <= (1 + NEAR) * held.min()).sum()), "said_near": int((said <= (1 + NEAR) * said.min()).sum()),
    }  # fmt: skip
