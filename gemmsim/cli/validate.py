"""`gemmsim validate`: predicted against measured rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from gemmsim.cli.options import Command, known_effects, rows_options
from gemmsim.cli.tables import Column, emit, output_options
from gemmsim.conditions import NOISE_FLOOR
from gemmsim.errors import GemmsimError, unknown

SPLITS = ("config", "shape")
INTERVAL_SPLITS = 3
COLUMNS = (
    Column("slice", "rows of"),
    Column("rows", "rows"),
    Column("shapes", "shapes"),
    Column("mape_pct", "MAPE %"),
    Column("mape_within", "90 % interval"),
    Column("median_pct", "median %"),
    Column("p90_pct", "p90 %"),
    Column("bias_pct", "bias %"),
    Column("spearman", "Spearman"),
    Column("top1_regret_pct", "top-1 regret %"),
    Column("top1_within", "90 % interval"),
    Column("top5_regret_pct", "top-5 %"),
    Column("top10_regret_pct", "top-10 %"),
    Column("worst_top1_regret_pct", "worst top-1 %"),
    Column("coverage_pct", "inside 80 % interval"),
    Column("width", "its width"),
)


@click.command(cls=Command)
@partial(rows_options, required=False)
@click.option(
    "--counters",
    metavar="FILE",
    multiple=True,
    help="CSV that `gemmsim counters` wrote: traffic of the "
    "simulator and of the closed form against what was counted; repeatable.",
)
@click.option(
    "--each", metavar="FILE", help="With --counters: a CSV of what was counted and predicted, a launch a row."
)
@click.option("--calibration", metavar="FILE|none", default="auto", help="Fitted coefficients.  [default: shipped]")
@click.option("--no-facts", is_flag=True, help="Tile parameters alone: ignore the rows' compiler facts.")
@click.option("--plain", is_flag=True, help="Only rows without spills whose N and K are multiples of 16.")
@click.option(
    "--split",
    metavar="config,shape",
    help="Fit one half of the configurations, of the shapes, or of both, "
    "and score the other; without it the rows are scored with the calibration.",
)
@click.option(
    "--sample", metavar="N", type=click.IntRange(1, 10**6), help="Fit N rows drawn at random, score all others."
)
@click.option(
    "--fit-with", metavar="FILE", multiple=True, help="With --split: rows that are always fitted, not scored."
)
@click.option("--without", metavar="X", multiple=True, help="Let this effect cost nothing, in the fit too; repeatable.")
@click.option("--seeds", metavar="N", type=click.IntRange(1, 1000), default=10, show_default=True, help="Splits.")
@output_options()
def command(
    rows: Sequence[str],
    counters: Sequence[str],
    each: str | None,
    gpu: str | None,
    family: str | None,
    dtype: str | None,
    l2: str | None,
    calibration: str,
    no_facts: bool,
    plain: bool,
    split: str | None,
    sample: int | None,
    fit_with: Sequence[str],
    without: Sequence[str],
    seeds: int,
    format: str,
    out: str | None,
) -> None:
    """Errors, rank correlation and regret of the model on measured rows, under the rows' own L2 condition.

    Regret: how much slower the model's first pick (the best of its first 5, 10) is than the best measured
    configuration of the same problem, mean over problems. Shipped rows are those the shipped calibration was fitted
    on: `--split config,shape` scores configurations and problems that were not fitted on.

    With --counters: errors of DRAM bytes read and written, of bytes between L2 and SMs and of the hit rate, of the
    simulator (gemmsim.simulate) and the closed form (gemmsim.model.traffic) side by side, and of shared-memory
    wavefronts, bank conflicts and instructions. docs/traffic.md and docs/shared_memory.md say more.
    """
    if counters:
        given = {"--rows": rows, "--split": split, "--sample": sample, "--fit-with": fit_with, "--without": without,
                 "--plain": plain, "--l2": l2}  # fmt: skip
        _refuse_beside_counters(given)
        from gemmsim.cli.batch import Options
        from gemmsim.cli.counted import validate

        options = Options(gpu, family, dtype, calibration=calibration, facts=not no_facts)
        validate(counters, options, each, format, out)
        return
    if not rows:
        raise GemmsimError("--rows and --counters are missing: expected a file of measured rows, or of counters")
    if each is not None:
        raise GemmsimError(f"--each {each} is given without --counters: expected it with a file of counters")
    by, free = _split(split), frozenset(known_effects(without))
    if by and sample:
        raise GemmsimError(f"--sample {sample} is given with --split {split}: expected one of them")
    if fit_with and not by and not sample:
        raise GemmsimError("--fit-with says what is fitted, and nothing is: expected --split or --sample beside it")
    from gemmsim.measured import joined, read_measured

    said: dict[str, Any] = {"gpu": gpu, "family": family, "dtype": dtype, "l2": l2}
    measured = joined([read_measured(f, **said) for f in rows])
    if plain:
        measured = _plain(measured)
    extra = joined([read_measured(f, **said) for f in fit_with]) if fit_with else None
    if by or sample:
        settings = {"by": by, "sample": sample, "fit_with": extra, "seeds": seeds}
        found = _held_out(measured, facts=not no_facts, without=free, **settings)
    else:
        found = _shipped(measured, calibration, not no_facts, free)
    table = [{"slice": name, **_within(_rounded(e.columns()))} for name, e in found.items()]
    emit(table, COLUMNS, format, out)
    if format == "table" and not out:
        click.echo(_footnote(measured, no_facts))


def _refuse_beside_counters(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise GemmsimError(f"{option} is given with --counters: expected one of them, counters are not fitted on")


def _plain(measured: Any) -> Any:
    """The rows without spills and with aligned row strides."""
    from gemmsim.validate import ALIGNED

    p = measured.problem
    kept = measured.take(~measured.spills & (p.n % ALIGNED == 0) & (p.k % ALIGNED == 0))
    if not len(kept):
        raise GemmsimError(f"--plain leaves none of the {len(p)} rows: all spill, or N or K is no multiple of 16")
    return kept


def _footnote(measured: Any, no_facts: bool) -> str:
    """What the rows are, what was known of them, and the noise below which nothing can be said."""
    dtype = measured.problem.dtype
    known = "tile parameters alone" if no_facts else "with compiler facts"
    text = f"\n{measured.gpu.name}, {measured.config.family} {dtype}, {measured.l2}, {known}."
    noise = NOISE_FLOOR.get(dtype)
    if noise:
        text += f" Noise floor: {noise:.1%} from machine to machine; a regret inside it counts as 0."
    return text


def _split(text: str | None) -> tuple[str, ...]:
    parts = tuple(p for p in (text or "").split(",") if p)
    for part in parts:
        if part not in SPLITS:
            raise unknown("split", part, SPLITS, where="--split")
    if text is not None and not parts:
        raise GemmsimError(f"--split is {text!r}: expected config, shape or config,shape")
    return parts


def _shipped(measured: Any, calibration: str, facts: bool, without: frozenset[str]) -> Any:
    from gemmsim.model.calibration import find
    from gemmsim.validate import score

    fit = find(measured.gpu, measured.config.family, calibration, measured.problem.dtype)
    return score(measured, fit, facts=facts, without=without)


def _held_out(measured: Any, **settings: Any) -> Any:
    from gemmsim.validate import held_out

    def progress(steps: Iterable[int]) -> Iterable[int]:
        if not sys.stderr.isatty():
            yield from steps
            return
        with click.progressbar(list(steps), label="fitting", file=sys.stderr) as bar:
            yield from bar

    splits = 0 if settings["sample"] else INTERVAL_SPLITS
    return held_out(measured, intervals=splits, progress=progress, **settings)


def _within(columns: dict[str, Any]) -> dict[str, Any]:
    """The bootstrap intervals as text beside their numbers, for the table."""
    for name in ("mape", "top1"):
        low, high = columns[f"{name}_low_pct"], columns[f"{name}_high_pct"]
        columns[f"{name}_within"] = f"{low:.1f} to {high:.1f}" if low == low else "-"
    return columns


def _rounded(columns: dict[str, float]) -> dict[str, Any]:
    return {name: v if isinstance(v, int) else round(float(v), 3) for name, v in columns.items()}
