"""Process: what the system says of this process, as proc(5) writes it down."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

# "size resident shared ...", in pages.
STATM: Final = Path("/proc/self/statm")
RESIDENT: Final = 1
FILES: Final = Path("/proc/self/fd")


class Process:
    """This process; made when it starts."""

    def __init__(self) -> None:
        self.started_s = time.time()

    def cpu_s(self) -> float:
        """Return the seconds of processor time that all its threads have used."""
        return time.process_time()

    def open_files(self) -> int:
        """Return how many files and sockets are open; 0 where the system does not tell."""
        try:
            return len(os.listdir(FILES))
        except OSError:
            return 0

    def open_files_max(self) -> int:
        """Return how many files and sockets may be open."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def resident_bytes() -> int:
    """Return the bytes of memory this process has; 0 where the system does not tell."""
    try:
        pages = STATM.read_text().split()[RESIDENT]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
