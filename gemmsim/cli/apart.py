"""No verb writes over a file that it was told to read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import click

from gemmsim.errors import GemmsimError

#: options that name a file to write
OUTPUTS = ("out", "trace", "each", "chart")
#: metavars of options and arguments that name a file
_FILE = re.compile(r"FILE|JSON|\.csv|\.sqlite")
_HARDWARE = (".yaml", ".yml")


def check_apart(ctx: click.Context) -> None:
    """Raise GemmsimError where one file is to be read and written, or written twice; a device may be both."""
    files = list(_files(ctx))
    for output, option, path in files:
        for name, other, there in files:
            apart = name == output or os.path.realpath(path) != os.path.realpath(there)
            if output in OUTPUTS and not apart and _is_file(path):
                raise GemmsimError(f"{option} {path}: expected another file than {other}'s")


def _files(ctx: click.Context) -> Iterator[tuple[str, str, str]]:
    """Parameter, option as it is typed, and file, of each file that the command line names."""
    for parameter in ctx.command.params:
        name, value = str(parameter.name), ctx.params.get(str(parameter.name))
        if name == "store" and value is None:
            from gemmsim.store import default_name

            value = default_name()
        for text in value if isinstance(value, tuple | list) else (value,):
            if isinstance(text, str) and text and _names_file(parameter, text):
                yield name, parameter.opts[-1] if isinstance(parameter, click.Option) else str(parameter.metavar), text


def _names_file(parameter: click.Parameter, text: str) -> bool:
    if parameter.name in ("gpu", "gpus"):
        return text.endswith(_HARDWARE)
    return bool(_FILE.search(str(parameter.metavar)))


def _is_file(path: str) -> bool:
    """Whether it is a regular file, or would be one."""
    return os.path.isfile(path) or not os.path.exists(path)
