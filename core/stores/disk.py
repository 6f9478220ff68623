"""Disk: whether there is room for more, told before there is none.

Acknowledgements need room as well: they are written before anything becomes free. So producers
are held back while there still is some, and what remains is the consumers'. What is free:

    what the file system says
    - what is in the write-ahead log alone: at the next checkpoint it needs a place in the file, too
    + pages of the file that hold nothing any more: it does not shrink, they are used again
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path


class Disk:
    """The file system under a database."""

    def __init__(self, path: Path, free_min: Callable[[int], int]) -> None:
        self._path = path
        self._free_min = free_min  # of a disk of that many bytes

    def shortage(self, connection: sqlite3.Connection, logged: int) -> str:
        """Say what is short, "" if nothing is; `logged` bytes are in the log alone."""
        try:
            disk = os.statvfs(self._path)
        except OSError as error:
            return f"the disk cannot be asked for its free space: {error}"
        free = disk.f_bavail * disk.f_frsize - logged
        least = self._free_min(disk.f_blocks * disk.f_frsize)
        if free < least:
            free += _reusable(connection)
        return f"the disk has {max(0, free)} bytes free, less than {least}" if free < least else ""


def _reusable(connection: sqlite3.Connection) -> int:
    try:
        (pages,) = connection.execute("pragma freelist_count").fetchone()
        (page_size,) = connection.execute("pragma page_size").fetchone()
    except sqlite3.Error:
        return 0  # whoever writes next will say what is wrong
    return int(pages) * int(page_size)
