"""What gemmsim says when it cannot go on: one sentence, exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class GemmsimError(Exception):
    """A wrong input. Its message is a sentence: what was found, where (file and key, or option), what was expected."""


def unknown(what: str, found: str, known: Iterable[str], *, where: str = "") -> GemmsimError:
    """The error for a name that is not among the known ones, nearest name first if one is near."""
    names = list(known)
    near = get_close_matches(str(found), names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    if any("," in name for name in names):
        names = [repr(name) for name in names]
    place = f" in {where}" if where else ""
    return GemmsimError(f"unknown {what} {found!r}{place}: {hint}known are {', '.join(names) or 'none'}")
