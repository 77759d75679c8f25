"""A process that compiles what it is asked, one request a line, until its input ends.

NVRTC compiles one source at a time in a process, and a fault in it takes the process along: so there are several.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from gemmsim.bench.parent import die_with


def main() -> None:
    """Answer each line of JSON (the arguments of compile_cubin) with one, see `answer`."""
    serve(answer, _load)


def _load() -> None:
    from gemmsim.bench.nvrtc import version

    version()


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], load: Callable[[], object] = lambda: None) -> None:
    """Answer each line of JSON on the input with one on the output; what is printed meanwhile goes to stderr.

    load: what takes its time and can be done before the first line comes; if it fails, the answers say so. The process
    goes with the one whose number is its argument.
    """
    die_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.suppress(Exception):
        load()
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """`cubin` in base64, `log`, `ptx`. `cubin` is null for a source that does not compile, or with `fault` for another
    failure, which says nothing of the source."""
    from gemmsim.bench.nvrtc import Refused, compile_cubin

    try:
        cubin, log, ptx = compile_cubin(**question)
    except Refused as verdict:
        return {"cubin": None, "log": str(verdict), "ptx": None}
    except Exception as error:
        return {"cubin": None, "log": f"{type(error).__name__}: {error}", "ptx": None, "fault": True}
    return {"cubin": base64.b64encode(cubin).decode(), "log": log, "ptx": ptx}


if __name__ == "__main__":
    main()
