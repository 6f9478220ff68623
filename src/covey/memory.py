"""Memory: how much of it the process uses, as the system counts it."""

from __future__ import annotations

import os
from pathlib import Path

# "size resident shared ...", in pages (proc(5)).
STATM = Path("/proc/self/statm")
RESIDENT = 1


def resident_bytes() -> int:
    """Return the bytes of memory this process has; 0 where the system does not tell."""
    try:
        pages = STATM.read_text().split()[RESIDENT]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
