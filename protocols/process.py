"""Process: what the system says of this process, as proc(5) and cgroups(7) write it down.

A control group may leave its processes fewer cores and less memory than the machine has. A group
has no more than those that it is in. Version 2 has one tree of groups, version 1 one for each kind
of thing. A container's own group is the root of what it sees, though its path may be the host's.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# "size resident shared ...", in pages.
STATM: Final = Path("/proc/self/statm")
RESIDENT: Final = 1
FILES: Final = Path("/proc/self/fd")
# "hierarchy:controllers:path", a line for each tree; that of version 2 names no controllers.
OWN_GROUPS: Final = Path("/proc/self/cgroup")
GROUPS: Final = Path("/sys/fs/cgroup")

# By controller: the files of version 1, which lie in a folder of that name, and of version 2. The
# cores: microseconds of them, and in how many microseconds these may be used.
LIMITS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "cpu": (("cpu.cfs_quota_us", "cpu.cfs_period_us"), ("cpu.max",)),
    "memory": (("memory.limit_in_bytes",), ("memory.max",)),
}


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


def memory_bytes() -> int:
    """Return the bytes of memory that this process may have: the machine's, or its group's."""
    machine = max(0, os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    limits = [numbers[0] for numbers in _limits("memory") if numbers[0] > 0]
    return min([machine, *limits]) if machine else min(limits, default=0)


def cores() -> float:
    """Return how many cores this process may use at once: those it may run on, or its quota."""
    try:
        allowed: float = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not every system has it
        allowed = os.cpu_count() or 1
    for numbers in _limits("cpu"):
        if len(numbers) == len(("quota", "period")) and min(numbers) > 0:
            allowed = min(allowed, numbers[0] / numbers[1])
    return allowed


def _limits(controller: str) -> Iterator[list[int]]:
    """Read what each group around this process says of a controller; what is no number is left."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        files = LIMITS[controller][0 if controllers else 1]
        root = GROUPS / controller if controllers else GROUPS
        group = root / path.strip("/")
        for each in (group, *group.parents):
            if each == root or root in each.parents:
                try:
                    words = " ".join([(each / name).read_text() for name in files]).split()
                    yield [int(word) for word in words] or [0]
                except (OSError, ValueError):
                    continue  # there is no such group here, or it has no limit ("max")
