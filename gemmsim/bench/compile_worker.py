"""A process that compiles what it is asked, one request a line, until its input ends.

NVRTC compiles one source at a time in a process, and a fault in it takes the process along: so there are several.
"""

from __future__ import annotations

import base64
import json
import os
import sys


def main() -> None:
    """Answer each line of JSON (the arguments of compile_cubin) with one: `cubin` in base64 or null, and `log`."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the compiler prints itself is no answer
    from gemmsim.bench.nvrtc import compile_cubin

    for line in sys.stdin:
        cubin, log = compile_cubin(**json.loads(line))
        packed = None if cubin is None else base64.b64encode(cubin).decode()
        answers.write(json.dumps({"cubin": packed, "log": log}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
