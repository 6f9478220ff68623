"""DirectoryLock: one broker per data directory.

An advisory lock that the system drops when the process ends, however it ends; so there is no
stale lock to clean up after a kill. The file holds the owner's process id, for people.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from covey.core.errors import StoreError

LOCK_FILE: Final = "lock"


class DirectoryLock:
    """The right to use a data directory."""

    def __init__(self, directory: Path) -> None:
        try:
            self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"data directory {directory} cannot be written to: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StoreError(
                f"data directory {directory} is in use by another broker (process {owner})"
            ) from error
        with suppress(OSError):  # a full disk takes no number, but the lock is ours
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode("ascii"))

    def release(self) -> None:
        """Give the directory up."""
        os.close(self._descriptor)
