"""One campaign a GPU at a time: a lock on a file that the system lets go of when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gemmsim.errors import GemmsimError

#: a holder that was killed is gone by then, its child with it
WAIT_S = 5.0


def lock_path(uuid: str) -> Path:
    """The lock's file for a GPU, the same for every user of the machine."""
    safe = "".join(c if c.isalnum() or c == "-" else "_" for c in uuid)
    return Path(tempfile.gettempdir()) / f"gemmsim-{safe}.lock"


@contextlib.contextmanager
def gpu_lock(uuid: str) -> Iterator[None]:
    """Hold the GPU; one that is held is waited for WAIT_S. Raises GemmsimError where another campaign holds it."""
    import fcntl

    path = lock_path(uuid)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be the GPU's lock: {error.strerror}") from None
    try:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise GemmsimError(
                        f"GPU {uuid} is in use by another campaign ({path}): expected one at a time"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)
