"""The command line: one module a verb, loaded when it is called. Wrong input: one sentence and exit code 2."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Any, NoReturn

import click

from gemmsim import __version__
from gemmsim.errors import GemmsimError

#: verb -> what its line in --help says; module gemmsim.cli.<verb> holds a click command named `command`
VERBS = {
    "predict": "Time of one configuration, or of a CSV of them.",
    "rank": "Every feasible configuration of a problem, best first.",
    "best": "The best measured configuration of a problem, or a near one's.",
    "export": "Picks for a list of problems as a file that Triton, CUTLASS or a script reads.",
    "explain": "Where the time goes, what bounds it, and the one change that helps most.",
    "compare": "The same GEMMs on several GPUs, and what if: time, bound, energy, tiles, why.",
    "pad": "Sizes padded to multiples: predicted gain, waste and cause, or that there is none.",
    "simulate": "DRAM and L2 traffic and the schedule of a launch, block by block, beside the closed form.",
    "raster": "Orders of the tiles side by side: DRAM bytes, time, and whether it matters.",
    "split": "Whole tiles, split-K and stream-K of a problem side by side: which wins, and why.",
    "workload": "The GEMMs of a model, from its Hugging Face config.json, or of a convolution.",
    "occupancy": "Blocks per SM from threads, registers and shared memory.",
    "specs": "The GPUs gemmsim knows, and a check of your own file.",
    "compile": "Configurations to cubins: registers, spills, shared memory, warnings. No GPU is needed.",
    "validate": "Predicted against measured rows.",
    "calibrate": "Measured rows -> the coefficients of a family on a GPU.",
    "probe": "Measure a GPU and write its hardware file.",
    "counters": "Nsight Compute's counters of a CSV of configurations.",
    "measure": "Rows timed and checked on the GPU of this machine.",
    "tune": "Search the best configuration of a shape by measuring, led by the model.",
    "worker": "One more GPU or host for a study that tune has begun.",
    "rows": "The rows measured so far: list, export, import, merge.",
    "doctor": "What measuring needs, what is missing, and how to install it.",
    "study": "Answer questions that are written in YAML: tables, CSV files and a page each.",
}


class _Lazy(click.Group):
    """A group that imports a verb's module only when that verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"gemmsim.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gemmsim")
def root() -> None:
    """Which GEMM tile, how fast, why, and how you know, on a GPU that is described by a YAML file."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every wrong input ends with one sentence on stderr and exit code 2."""
    _escape_what_streams_cannot_say()
    try:
        code: Any = root.main(args=arguments, prog_name="gemmsim", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except GemmsimError as error:
        _stop(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.UsageError as error:
        _stop(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        _drop_output()
        _stop(f"{error.filename or 'standard output'}: {error.strerror or error}")


def _escape_what_streams_cannot_say() -> None:
    """A letter that an output's encoding lacks is shown as Python writes it, \\u6f22, and stops nothing.

    What is written to a stream that was closed from the start (`>&-`) goes nowhere.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is still buffered for stdout go nowhere: the interpreter would try it again on its way out."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file, or closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _stop(sentence: str) -> NoReturn:
    """One line on stderr, whatever the wrong value held: control characters are shown as Python writes them."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
    click.echo(f"gemmsim: {shown}", err=True)
    sys.exit(2)
