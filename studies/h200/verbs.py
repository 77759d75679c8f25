"""The command line that these scripts share: `SCRIPT.py draw BATCH`, `gemmsim measure`, `SCRIPT.py show ROWS`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

Verb = Callable[[argparse.Namespace], None]
Options = Callable[[argparse.ArgumentParser], object]


def run(
    doc: str | None, draw: Verb, show: Verb, *, drawing: Options | None = None, showing: Options | None = None,
    drawn: str = "draw", shown: str = "show",
) -> None:  # fmt: skip
    """Read the command line and do what it says; drawing, showing: add a verb's own options."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, verb, file, options in ((drawn, draw, "out", drawing), (shown, show, "rows", showing)):
        own = verbs.add_parser(name)
        own.add_argument(file)
        own.set_defaults(run=verb)
        if options is not None:
            options(own)
    args = parser.parse_args()
    args.run(args)
