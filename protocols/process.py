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
# Where this process stands among the control groups, a line "0::/path" in version 2, and the file
# of a group that bounds its memory: a number, or "max". A container's own group is the root.
GROUP: Final = Path("/proc/self/cgroup")
GROUPS: Final = Path("/sys/fs/cgroup")
GROUP_LIMIT: Final = "memory.max"
OLD_GROUP_LIMIT: Final = GROUPS / "memory" / "memory.limit_in_bytes"  # version 1


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


def memory_bytes() -> int:
    """Return the bytes of memory that this process may have: the machine's, or its container's."""
    pages = os.sysconf("SC_PHYS_PAGES")
    machine = pages * os.sysconf("SC_PAGE_SIZE") if pages > 0 else 0
    limits = [limit for limit in map(_number, _limit_files()) if limit > 0]
    return min([machine, *limits]) if machine else min(limits, default=0)


def _limit_files() -> list[Path]:
    """Return the files that may bound the memory of this process."""
    files = [OLD_GROUP_LIMIT, GROUPS / GROUP_LIMIT]
    try:
        lines = GROUP.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        if line.startswith("0::/"):
            place = GROUPS / line[len("0::/") :]
            groups = [place, *place.parents]
            files += [group / GROUP_LIMIT for group in groups if GROUPS in group.parents]
    return files


def _number(file: Path) -> int:
    """Return the number that a file has; 0 if there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def resident_bytes() -> int:
    """Return the bytes of memory this process has; 0 where the system does not tell."""
    try:
        pages = STATM.read_text().split()[RESIDENT]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
