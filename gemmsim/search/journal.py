"""Optuna's journal in a file, such that workers may be killed at any moment.

Two things of Optuna's own backend do not survive that. A record that was cut off in the middle stays, the next one is
written behind it on the same line, and from the one after that on the file cannot be read any more: here whoever is
about to write cuts off what follows the last line feed first. And the lock of a killed worker is waited for 30 s; here
it is the system's lock on the journal itself, which dies with its holder. Programs that write with Optuna's own lock at
the same time (optuna-dashboard, where somebody edits a note) append whole records, too.
"""

from __future__ import annotations

import os
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

from gemmsim.errors import GemmsimError
from gemmsim.rows import check_out

#: how every record begins
_RECORD = b'{"op_code":'
_SQLITE = b"SQLite format 3"
_BLOCK = 1 << 16


def open_journal(path: str, *, create: bool = True) -> JournalStorage:
    """A journal, made where there is none. Raises GemmsimError for what is none, with create=False if there is none."""
    where = os.path.abspath(path)
    if not os.path.exists(where) and not create:
        raise GemmsimError(f"storage {path}: there is no such file: expected the journal of a study")
    check_out(path, "storage")
    _check(path)
    try:
        return JournalStorage(_Backend(where, lock_obj=_Lock(where)))
    except OSError as error:
        raise GemmsimError(f"storage {path}: cannot be used: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AssertionError):
        raise GemmsimError(f"storage {path}: a record in it is broken: expected a journal of Optuna's") from None


def _check(path: str) -> None:
    """Refuse a file that is no journal: what is cut off must have been one's record."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(_SQLITE))
    except FileNotFoundError:
        return
    except OSError as error:
        raise GemmsimError(f"storage {path}: cannot be read: {error.strerror}") from None
    if head == _SQLITE:
        raise GemmsimError(f"storage {path}: is an SQLite database: expected a journal, or sqlite:///{path}")
    if not _RECORD.startswith(head[: len(_RECORD)]):
        raise GemmsimError(f"storage {path}: is no journal of Optuna's: expected one, or no such file")
    if not os.access(path, os.W_OK):
        raise GemmsimError(f"storage {path}: cannot be written: expected a file that can")


class _Backend(JournalFileBackend):
    """Optuna's, errors of the disk in one sentence."""

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        try:
            super().append_logs(logs)
        except OSError as error:
            raise GemmsimError(f"storage {self._file_path}: cannot be written: {error.strerror}") from None


class _Lock(JournalFileOpenLock):
    """The system's lock on the journal, which ends with a whole record when it is held."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path, self._descriptor = path, -1

    def acquire(self) -> bool:
        """Wait for it."""
        import fcntl

        self._descriptor = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            _cut(self._descriptor)
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


def _cut(descriptor: int) -> None:
    """Cut off what follows a file's last line feed."""
    end = start = os.fstat(descriptor).st_size
    if not end or os.pread(descriptor, 1, end - 1) == b"\n":
        return
    while start > 0:
        before = max(start - _BLOCK, 0)
        line_feed = os.pread(descriptor, start - before, before).rfind(b"\n")
        if line_feed >= 0:
            os.ftruncate(descriptor, before + line_feed + 1)
            return
        start = before
    os.ftruncate(descriptor, 0)
