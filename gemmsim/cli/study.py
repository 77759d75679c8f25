"""`gemmsim study run`: questions in YAML -> their answers: tables, CSV files, a page each. `list`: those that ship."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gemmsim.cli.answers import REPORTS, said_pictures
from gemmsim.cli.options import HELP
from gemmsim.cli.study_timing import TIMED, Asked
from gemmsim.cli.tables import FORMATS, Column, emit, output_options
from gemmsim.errors import GemmsimError

_LIST = (Column("name"), Column("kind"), Column("title"), Column("question"))


@click.group(context_settings=HELP)
def command() -> None:
    """A question about tiles, written down in YAML, and its answer."""


@command.command("list", context_settings=HELP)
@output_options()
def list_(format: str, out: str | None) -> None:
    """The studies that ship with gemmsim: name, kind, title, question."""
    from gemmsim.study import study_document, study_names

    found = {name: study_document(name) for name in study_names()}
    rows = [{"name": name, "kind": d.kind, "title": d.title, "question": d.question} for name, d in found.items()]
    shown = [c for c in _LIST if format != "table" or c.key != "title"]
    emit(rows, shown, format, out)


@command.command(context_settings=HELP)
@click.argument("studies", metavar="NAME|FILE...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every study that ships, and a page that links their reports.")
@click.option(
    "--out",
    metavar="FOLDER",
    help=f"Page and CSV go there; of several studies into a folder each in it.  [default: {REPORTS}, a folder each]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--gpus", metavar="A,B,...", help="These GPUs instead of the study's.")
@click.option("--pictures", metavar="svg|png", multiple=True, help="Every chart as a file too, in the folder charts.")
@click.option(
    "--measure/--no-measure",
    default=None,
    help=f"Time the study's launches on this machine's GPU, or do not; rows go to the store and to {TIMED}.  "
    "[default: as the study says]",
)
@click.option("--against", metavar="cublas", help="With --measure: time cuBLAS too, sample by sample in turn.")
@click.option(
    "--gpu", metavar="G", default="auto", show_default=True, help="With --measure: the device's hardware file."
)
@click.option("--device", metavar="N", default="0", show_default=True, help="With --measure: which of the GPUs.")
def run(
    studies: Sequence[str], every: bool, out: str | None, dry_run: bool, format: str, gpus: str | None,
    pictures: Sequence[str], measure: bool | None, against: str | None, gpu: str, device: str,
) -> int:  # fmt: skip
    """Answer studies: predict what they ask for, compare with recorded rows, write a page and CSV files.

    NAME is a study that ships with gemmsim, FILE one of your own. Needs no GPU, but for --measure.
    """
    from gemmsim.cli.studies import Wanted, opened, plan, run_one, run_several, said_lost, shipped

    if every == bool(studies):
        given = f"--all is given with {' '.join(studies)}" if every else "found no study"
        raise GemmsimError(f"{given}: expected NAME|FILE, or --all")
    asked = Asked(measure, against, gpu, device)
    wanted = Wanted(gpus, said_pictures(pictures), asked)
    found, lost = shipped(wanted) if every else (opened(studies, wanted), {})
    several = every or len(found) > 1
    if dry_run:
        plan(found, out, format, apart=several)
        return said_lost(lost)
    if not several:
        run_one(found[0], wanted, out, format)
        return 0
    return run_several(found, lost, wanted, out, format, index=every)
